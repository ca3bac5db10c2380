# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run import guests

FINE = {"timer_resolution_ns": 1, "swap_bytes": 0, "cmdline": "BOOT_IMAGE=/vmlinuz-6.1 root=/dev/vda1 quiet"}
COARSE = {**FINE, "timer_resolution_ns": 4_000_000, "cmdline": FINE["cmdline"] + " highres=off"}


def fleet(**kernels):
    return {name: {"kernel": kernel, "machine": f"boot-{name}"} for name, kernel in kernels.items()}


def test_coarse_timers_are_found_and_the_choices_have_their_costs():
    found = guests.coarse(fleet(a=FINE, b=COARSE, c={}))
    assert found == {"b": 4.0}
    choices = guests.coarse_choices(found, "latency_benchmark_")
    for text in (
        "every 4 ms on b",
        "latency_benchmark_pacing: spin",
        "a whole CPU of each guest",
        "undecided",
        "accept",
    ):
        assert text in choices
    assert guests.coarse(fleet(a=FINE)) == {} and guests.coarse({"a": {}}) == {}


@pytest.mark.parametrize(
    ("pacing", "label"), [("sleep", "far apart"), ("hybrid", "far apart"), ("spin", "a whole CPU"), ("none", None)]
)
def test_a_run_with_coarse_timers_is_labelled(pacing, label):
    found = guests.labels(fleet(a=FINE, b=COARSE), pacing, [])
    assert [label in text for text in found] == ([True] if label else [])
    assert guests.labels(fleet(a=FINE), pacing, []) == []


def test_guests_that_swap_are_labelled_and_machines_that_are_tuned_are_not():
    swapping = fleet(**{f"vm{number}": {**FINE, "swap_bytes": 10**9} for number in range(6)})
    (label,) = guests.labels(swapping, "hybrid", list(swapping))
    assert "swap is on inside vm0, vm1, vm2, vm3 and 2 more hosts" in label
    assert guests.labels(swapping, "hybrid", []) == []


def test_command_lines_of_guests():
    run = {"fleet": fleet(a=FINE, b=COARSE), "hosts": {"hv": {"kernel": {"boot_id": "boot-hv"}}}}
    assert guests.command_lines(run) == "root=/dev/vda1 quiet, root=/dev/vda1 quiet highres=off"
    assert guests.command_lines({**run, "hosts": {"a": {"kernel": {"boot_id": "boot-a"}}}}) == (
        "root=/dev/vda1 quiet highres=off"
    )
    assert guests.command_lines({}) == ""
