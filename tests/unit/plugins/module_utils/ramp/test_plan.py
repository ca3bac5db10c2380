# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a ramp: what is refused, and how large its steps and windows are."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.ramp import plan

MIB = 2**20
LOAD = {
    "rate": 50,
    "value_size": 1000,
    "keys": 9000,
    "influence": 25,
    "read_mix": 100,
    "compressibility": 0.72,
    "arrivals": "jitter",
}
GIVEN = {
    "servers": [{"name": f"redis{number}", "port": 7000 + number} for number in range(1, 41)],
    "budget_bytes": 256 * MIB,
    "load": LOAD,
    "client": "/usr/bin/solotest",
}
VMS = [{"name": f"vm{number}", "port": 6379, "address": f"10.0.0.{number}"} for number in (1, 2)]


def test_what_is_not_given_has_its_default():
    checked = plan.checked(GIVEN)
    assert checked.servers[0] == plan.Server("redis1", 7001) and len(checked.servers) == 40
    assert (checked.window_seconds, checked.window_requests, checked.settle_seconds, checked.looks) == (4, 2000, 15, 5)
    assert (checked.references, checked.tier, checked.sizes, checked.objective) == ((), (), (), None)


@pytest.mark.parametrize("image", ["", "redis", "docker.io/library/redis:7", "localhost:5000/a/b_c@sha256:12ab"])
def test_servers_are_containers_of_an_image(image):
    assert plan.checked({**GIVEN, "image": image}).image == image


def test_vms_have_addresses_and_may_have_one_port():
    checked = plan.checked({**GIVEN, "servers": VMS, "password": "secret"})
    assert checked.servers[1] == plan.Server("vm2", 6379, "10.0.0.2") and checked.password == "secret"
    assert checked.has_vms and not plan.checked(GIVEN).has_vms


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"servers": []}, "servers: the list is empty"),
        ({"servers": [*VMS, {"name": "redis1", "port": 7001}]}, "some have an address, as VMs do, and others"),
        ({"servers": [{"name": "vm1", "port": 1, "address": "vm1"}]}, "servers.address: 'vm1' is not allowed"),
        ({"servers": VMS, "references": [{**VMS[0], "name": "vm9"}]}, "the port 10.0.0.1 6379 occurs twice"),
        ({"references": [{"name": "reference1", "port": 7001}]}, "the port 7001 occurs twice"),
        ({"references": [{"name": "redis1", "port": 8001}]}, "the name redis1 occurs twice"),
        ({"image": "--privileged"}, "image: '--privileged' is not allowed"),
        ({"image": "redis:7", "servers": VMS}, "image: is for containers, and these servers have addresses"),
        ({"sizes": [4, 41]}, "sizes: .* at most 40"),
        ({"sizes": [4, 4]}, "sizes: .* ascend"),
        ({"budget_bytes": 1}, "budget_bytes: 1 is out of range; it must be a whole number from 16,777,216"),
        ({"touch_seconds": 3601}, "touch_seconds: 3601 is out of range"),
        ({"load": {**LOAD, "rate": 0}}, "load.rate: 0 is out of range"),
        ({"load": {"rate": 50}}, "load: rate is not allowed"),
        ({"objective": {"kind": "relative", "factor": 0.5}}, "objective.factor: 0.5 is out of range"),
        (
            {"objective": {"kind": "relative", "factor": 2, "plateau": {"avg_us": 0}}},
            "objective.plateau.avg_us: 0 is out",
        ),
        (
            {"objective": {"kind": "relative", "factor": 2, "plateau": {"avg_us": 1, "p99_us": 2, "fits": 0}}},
            "objective.plateau.fits: 0 is out",
        ),
        ({"objective": {"kind": "absolute", "avg_us": 50}}, "objective.p99_us: None is not allowed"),
        ({"objective": {"kind": "fast"}}, "objective.kind"),
        ({"lease": 3}, "lease: unknown"),
    ],
)
def test_a_wrong_plan_is_refused_by_name(wrong, named):
    with pytest.raises(SettingError, match=named):
        plan.checked({**GIVEN, **wrong})


def test_a_plan_without_a_budget_is_refused():
    with pytest.raises(SettingError, match="budget_bytes: is missing"):
        plan.checked({name: value for name, value in GIVEN.items() if name != "budget_bytes"})


@pytest.mark.parametrize(
    ("charged", "filled", "most", "size"),
    [(26 * MIB, 2, 120, 10), (26 * MIB, 2, 6, 6), (200 * MIB, 2, 120, 2), (0, 2, 120, 120)],
    ids=["half of 19", "no more than there are", "no fewer than are filled", "nothing is charged"],
)
def test_the_first_step_is_half_of_what_fits(charged, filled, most, size):
    assert plan.first_size(256 * MIB, charged, filled, most) == size


def test_steps_grow_by_a_share_and_by_at_least_one_server():
    sizes = [4]
    while (larger := plan.grown(sizes[-1], 0.1, 30)) is not None:
        sizes.append(larger)
    assert sizes == [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 29, 30]


@pytest.mark.parametrize(
    ("sizes", "size", "near", "following"),
    [
        ([20, 23, 27], 20, False, 23),
        ([20, 23, 27], 27, False, 30),
        ([20, 60, 72], 60, True, 62),
        ([60, 61, 72], 60, True, 61),
        ([], 60, True, 62),
        ([], 120, True, None),
    ],
    ids=["planned", "grown", "in small steps", "planned as small", "grown in small steps", "the last"],
)
def test_the_steps_are_small_once_the_objective_is_missed(sizes, size, near, following):
    many = {"servers": [{"name": f"r{port}", "port": port} for port in range(1, 121)], "sizes": sizes, "growth": 0.1}
    assert plan.following(plan.checked({**GIVEN, **many}), size, near, leap=False) == following


def test_a_leap_is_a_step_by_half_whatever_was_planned():
    given = plan.checked({**GIVEN, "sizes": [10, 20, 22]})
    assert plan.following(given, 20, near=True, leap=True) == 30
    assert plan.following(given, 30, near=True, leap=True) == 40


@pytest.mark.parametrize(
    ("tier", "has_drive"), [([], False), (["/dev/zram0"], False), (["/swap"], True), (["/dev/zram0", "/dev/sdb"], True)]
)
def test_a_tier_with_anything_but_zram_has_a_drive(tier, has_drive):
    assert plan.checked({**GIVEN, "tier": tier}).has_drive is has_drive


@pytest.mark.parametrize(("size", "seconds"), [(4, 10), (10, 4), (39, 4)])
def test_a_window_has_enough_requests(size, seconds):
    assert plan.window_seconds(plan.checked(GIVEN), size) == seconds
