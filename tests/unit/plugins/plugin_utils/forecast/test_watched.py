# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan takes from a look at live hosts: VMs whose active memory grows as the root of the age."""

from __future__ import annotations

import json

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import watched
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.measured import UnknownMemory
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.memory import HostMemory
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.text import lines
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import answer
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.tests.unit.fixtures.arms import ARM
from ansible_collections.memstretch.density.tests.unit.fixtures.looks import GIB, look_at, unit

from .test_plan import RECORD, of, planned

SIZE, BUDGET = 4 * GIB, 32 * GIB
SHARE = 0.02  # of the memory of a VM, in a second
WISHES = answer.Wishes(like="", compression=None, page_in_us=None, waiting=10, reserve=5)
HOST = {"memory": {"total_bytes": 64 * GIB}}
BUDGETED = {**ARM, "dram_budget": {"size": str(BUDGET), "mechanism": "cgroup"}}
ZRAM = {**BUDGETED, "swap": {"kind": "zram"}, "areas": [{"size_bytes": 500 * GIB}]}
DRIVES = {**BUDGETED, "swap": {"kind": "devices"}, "areas": [{"size_bytes": 500 * GIB}]}
BOTH = {
    **BUDGETED,
    "swap": {"kind": "devices", "zram_first": True, "priority": 10},
    "areas": [{"size_bytes": 4 * GIB, "priority": 100}, {"size_bytes": 500 * GIB, "priority": 10}],
}


def vm(name="vm01", **changes):
    return unit(name, SIZE, {age: SHARE * age**0.5 for age in (1, 4, 16, 64, 256)}, **changes)


@pytest.fixture
def seen(tmp_path):
    """A function that writes the answer for looks at some hosts, and returns what a plan reads of it."""

    def read(wishes=WISHES, **looks):
        looks = looks or {"kv1": look_at(units=[vm("a"), vm("b")])}
        document = answer.document(looks, wishes, {"id": "look", "made_at": 1})
        (tmp_path / "headroom.json").write_text(json.dumps(document), encoding="utf-8")
        return watched.of_headroom(RunDirectory.at(str(tmp_path)))

    return read


def page_ins(resident):
    """Return the page-ins of a VM with so much of its memory resident, by Denning's relation."""
    age = (resident / SIZE / SHARE) ** 2
    return SIZE * SHARE / 2 / age**0.5 / 4096


@pytest.mark.parametrize(
    ("arm", "vms", "resident", "page_in_us"),
    [
        (DRIVES, 32, GIB, 150),
        # 14 x (resident + (4 GiB - resident) / 2) are 32 GiB
        (ZRAM, 14, 2 * (32 / 14 - 2) * GIB, 30),
        # zram is full of 4 GiB, which take two: the drives leave 30 GiB for what is resident
        (BOTH, 20, 1.5 * GIB, 150),
        # all that is evicted fits into zram
        (BOTH, 8.1, 2 * (32 / 8.1 - 2) * GIB, 30),
    ],
    ids=["drives", "zram", "both, beyond zram", "both, within zram"],
)
def test_the_page_ins_are_those_of_dennings_relation(seen, arm, vms, resident, page_in_us):
    look = seen()
    memory = HostMemory("kv2", {**RECORD, **HOST}, arm, {}, "5%", 1 / look.compression)
    found = look.misses(memory, vms)

    assert memory.dram == BUDGET
    assert found.page_ins == pytest.approx(vms * page_ins(resident), rel=0.03)
    assert found.waiting == pytest.approx(page_ins(resident) * page_in_us / 1e6, rel=0.03)


def test_what_fits_into_the_dram_misses_nothing(seen):
    look = seen()
    for arm in (ZRAM, DRIVES, BUDGETED):
        memory = HostMemory("kv2", {**RECORD, **HOST}, arm, {}, "5%", 1 / look.compression)
        assert look.misses(memory, 8) == (0, 0)


def test_a_plan_says_how_many_fit_and_how_many_of_them_do_not_wait(seen):
    look = seen()
    options = {"watched": look, "measured_by": "headroom look", "record": HOST}
    document = planned({"dram": BUDGETED, "swap": DRIVES}, [8, 60, 500], **options)
    capacity = document["capacity"]

    assert capacity["dram"]["servers"] == capacity["dram"]["within_waiting"] == 8
    # The drives hold 500 GiB.
    assert capacity["swap"]["servers"] == 133
    most = capacity["swap"]["within_waiting"]
    assert [page_ins(BUDGET / size) * 150e-6 <= 0.1 for size in (most - 1, most + 2)] == [True, False]
    assert document["answer"].endswith(
        f"dram 8, swap 133 of these VMs (4 GiB each) fit by capacity; with dram 8, swap {most} each is forecast to "
        "wait for page-ins at most 10 % of the time."
    )
    assert of(document, "swap", 8)["page_ins_per_second"] == 0 and of(document, "swap", 500)["waiting_percent"] is None
    assert of(document, "swap", 60)["page_ins_per_second"] == pytest.approx(60 * page_ins(BUDGET / 60), rel=0.03)
    text = "\n".join(lines(document))
    assert "Each VM: 4 GiB (the mean of 2 that headroom look saw), of which 81.92 MiB cannot leave DRAM" in text
    assert "page-ins/s  waiting, %" in text and "Note: kv1: a compression of 2:1 is assumed" in text


def test_a_fleet_is_a_mix_of_all_hosts(seen):
    """Half of it idles: it has the memory of both, and the page-ins of the others."""
    idle = unit("idle", SIZE, dict.fromkeys((1, 4, 16, 64, 256), 0.0), pinned_bytes=GIB)
    look = seen(kv1=look_at(units=[vm()]), kv2=look_at(units=[idle]))

    assert look.server.bytes == SIZE + GIB / 2
    assert look.server.resident == pytest.approx(GIB / 2 + SHARE * SIZE / 2, rel=0.05)


def test_what_a_host_shows_counts_and_what_the_user_says_counts_more(seen):
    shown = look_at(units=[vm()], zram={"stored_bytes": 3 * GIB, "used_bytes": GIB}, tiers=[_area("zram")])
    drive = look_at(units=[vm()], tiers=[_area("drive")])
    drive["host"]["rates"]["drive_page_in_us"] = 80.0
    look = seen(kv1=shown, kv2=drive)

    assert look.compression == 3 and look.page_in_us == {"zram": 30, "zswap": 30, "drive": 80, "file": 80}
    said = seen(answer.Wishes(**{**vars(WISHES), "page_in_us": 20.0, "compression": 4.0}), kv1=shown, kv2=drive)
    assert said.compression == 4 and set(said.page_in_us.values()) == {20}


def test_an_unknown_host_is_left_out_and_said(seen):
    unknown = {**look_at(units=[vm("c", ages=[])]), "reason": "this kernel has no DAMON"}
    look = seen(kv1=look_at(units=[vm()]), kv2=unknown)
    assert len(look.members) == 1 and any(note.startswith("kv2 is not in the plan") for note in look.notes)

    with pytest.raises(UnknownMemory, match="does not know how much memory is active .kv2: this kernel has no DAMON"):
        seen(kv2=unknown)


def _area(kind):
    return {"kind": kind, "name": f"/dev/{kind}0", "size_bytes": 100 * GIB, "used_bytes": 0, "priority": 1}


def test_the_units_of_each_host_have_the_ages_of_its_look(seen):
    short = [{**each, "ages": each["ages"][:3]} for each in (vm("c"), vm("d"))]
    look = seen(kv1=look_at(units=[vm("a"), vm("b")]), kv2=look_at(units=short))

    assert [round(each.curve.longest) for each in look.members] == [256, 256, 16, 16]
    assert [each.curve.active(9) / SIZE for each in look.members] == [pytest.approx(3 * SHARE, rel=0.02)] * 4
