# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease of the clients, which is renewed while the conductor computes, and not when it hangs."""

from __future__ import annotations

import os
import time

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.ramp import clients_lease
from ansible_collections.memstretch.density.tests.unit.fixtures.waiting import wait_until


def renewed_within(path, seconds):
    """Check whether the file is touched within this time."""
    before, until = os.stat(path).st_mtime_ns, time.monotonic() + seconds
    while time.monotonic() < until:
        if os.stat(path).st_mtime_ns != before:
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A function that starts a lease with the seconds that its conductor and its clients wait."""
    monkeypatch.setattr(clients_lease, "RENEW_S", 0.05)
    leases = []

    def start(conductor, clients):
        monkeypatch.setattr(clients_lease, "CLIENTS_WAIT_S", clients)
        leases.append(clients_lease.ClientsLease(str(tmp_path / "lease"), conductor))
        leases[0].start()
        return leases[0]

    yield start
    leases[0].stop()


def test_a_busy_conductor_keeps_its_clients_and_a_hanging_one_does_not(kept):
    lease = kept(conductor=1.5, clients=600)
    assert "no CPU time" in lease.why_lapsed()
    assert renewed_within(lease.path, 1), "although it shows no life"
    time.sleep(1.6)
    assert not renewed_within(lease.path, 0.5), "silent for too long"
    assert "done nothing for 2 s" in lease.why_lapsed() and "(test_clients_lease.py:" in lease.why_lapsed()
    lease.show_life()
    assert renewed_within(lease.path, 2)
    assert "no CPU time" in lease.why_lapsed(), "the clients have outlived that"
    lease.stop()
    lease.show_life()
    assert not renewed_within(lease.path, 0.5), "nobody renews what was stopped"


def test_a_hang_that_the_clients_did_not_outlive_is_remembered(kept):
    lease = kept(conductor=0.5, clients=0)
    wait_until(lambda: "done nothing for" in lease.why_lapsed())
    lease.show_life()
    assert renewed_within(lease.path, 2)
    assert "done nothing for" in lease.why_lapsed()
