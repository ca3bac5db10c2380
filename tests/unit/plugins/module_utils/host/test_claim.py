# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which playbook may change a host."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.claim import LEASE_S, Claim, Claimant

FIRST = Claimant("laptop", "100:5", ["100:5", "1:0"], "process 100 of alice on laptop")
CHILD = Claimant("laptop", "100:5", ["120:9", "100:5", "1:0"], "process 100 of alice on laptop")
SECOND = Claimant("laptop", "200:7", ["200:7", "1:0"], "process 200 of bob on laptop")
ELSEWHERE = Claimant("desk", "100:5", ["100:5", "1:0"], "process 100 of carol on desk")


class Clock:
    now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def claim(tmp_path, clock):
    return Claim(str(tmp_path), clock)


@pytest.mark.parametrize("other", [SECOND, ELSEWHERE])
def test_a_second_playbook_gets_the_claim_of_the_first(claim, other):
    assert claim.take(FIRST, "") is None
    assert claim.take(other, "")["text"] == FIRST.text
    assert claim.read()["text"] == FIRST.text


def test_a_playbook_and_those_that_it_starts_share_a_claim(claim, clock):
    assert claim.take(FIRST, "") is None
    clock.now += 60
    assert claim.take(CHILD, "") is None
    assert claim.read()["since"] == clock.now - 60
    claim.release(CHILD)
    assert claim.read(), "the study goes on when one of its playbooks ends"
    claim.release(FIRST)
    assert claim.read() is None


def test_another_playbook_cannot_release_a_claim(claim):
    claim.take(FIRST, "")
    for other in (SECOND, ELSEWHERE):
        claim.release(other)
    assert claim.read()["process"] == FIRST.process


@pytest.mark.parametrize("replaces", [FIRST.process, "any"])
def test_a_playbook_that_has_ended_is_replaced(claim, replaces):
    claim.take(FIRST, "")
    assert claim.take(SECOND, "300:1")["process"] == FIRST.process
    assert claim.take(SECOND, replaces) is None
    assert claim.read()["process"] == SECOND.process


@pytest.mark.parametrize(("passed", "is_free"), [(LEASE_S - 1, False), (LEASE_S, True), (-10, True)])
def test_a_claim_lapses_an_hour_after_the_last_change(claim, clock, passed, is_free):
    """A clock that was set back must not keep a host claimed for days."""
    claim.take(FIRST, "")
    clock.now += 1000
    claim.take(FIRST, "")
    clock.now += passed
    assert (claim.take(ELSEWHERE, "") is None) is is_free


def test_check_mode_only_looks(claim):
    assert claim.take(FIRST, "", keep=False) is None
    assert claim.read() is None
