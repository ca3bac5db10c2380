# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import json
import pathlib
import statistics

import jsonschema
import pytest
from synthetic_fleets import SETTINGS

from ansible_collections.memstretch.density.plugins.module_utils.vm.admission import OVERHEAD, Capacity, Demand, admit
from ansible_collections.memstretch.density.plugins.module_utils.vm.capacity import huge_pages
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import measured, plan
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.text import lines
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.tests.unit.fixtures.arms import ARM

GIB, MIB = 2**30, 2**20
SCHEMA = json.loads((pathlib.Path(__file__).parents[5] / "docs/schemas/plan.json").read_text(encoding="utf-8"))
LOAD = {**SETTINGS, "key_count": 100_000, "rate": 2000, "influences": [0, 25]}
RECORD = {
    "memory": {"total_bytes": 4 * GIB},
    "numa": {"nodes": []},
    "sysctl": {"vm.watermark_scale_factor": 10},
    "imdt": {"detected": False},
    "swap": {"areas": []},
}
DRIVES = {**ARM, "swap": {"kind": "devices"}, "areas": [{"size_bytes": 50 * 10**9}]}


def planned(arms, sizes, settings=None, record=None, **options):
    config = configuration.checked({**LOAD, **(settings or {})})
    options = {
        "fleet_sizes": sizes,
        "vm_memory": None,
        "server_bytes": None,
        "measured_by": None,
        "watched": None,
        "overhead": int(3.5 * MIB),
        "overhead_used": MIB,
        "host_reserve": "5%",
        "rounds": 1,
        "phase_overhead_seconds": 4,
        "run_overhead_seconds": 30,
        **options,
    }
    names = options.pop("names", ["kvm"])
    machines = {name: {"record": {**RECORD, **(record or {})}, "arms": copy.deepcopy(arms)} for name in names}
    document = plan.make(config["load"], configuration.phases(config), machines, options)
    jsonschema.validate(json.loads(json.dumps(document)), SCHEMA)
    return document


def of(document, profile, size):
    return next(each for each in document["fleets"] if (each["profile"], each["size"]) == (profile, size))


def servers(document):
    return {profile: found["servers"] for profile, found in document["capacity"].items()}


# The servers of inventories/ramp in its budget, and its tiers.
ROWS = pathlib.Path(__file__).resolve().parents[5] / "docs" / "bench" / "headline"
RAMP = {"key_count": 9000, "value_size": 1000, "compressibility": 0.72}
BUDGET = {"dram_budget": {"size": "256M", "mechanism": "cgroup"}}


def ramp_arm(kind, size):
    return {**ARM, **BUDGET, "swap": {"kind": kind}, "areas": [{"size_bytes": size}] if size else []}


def test_the_capacity_is_the_one_that_ramps_have_measured():
    """DRAM held 19, zram of 1 GiB 53 to 61 and with today's values 63 (docs/plan.md), a swap file of 1 GiB 98."""
    arms = {name: ramp_arm(kind, size) for name, kind, size in TRUTH}
    found = servers(planned(arms, [1], RAMP))
    assert (found["dram"], found["swap"]) == (pytest.approx(19, rel=0.1), pytest.approx(98, rel=0.1))
    for measured_once in (56, 63):
        assert found["zram"] == pytest.approx(measured_once, rel=0.1)


TRUTH = (("dram", "none", 0), ("zram", "zram", 1023 * MIB), ("swap", "file", 1023 * MIB))


@pytest.mark.parametrize("row", sorted(ROWS.glob("*.json")), ids=lambda row: row.stem)
def test_the_capacity_is_that_of_each_measured_row_of_the_headline(row, tmp_path):
    """The plan knows the memory of a server from the row's DRAM; the rest is its own."""
    density = json.loads(row.read_text(encoding="utf-8"))["density"]
    (tmp_path / "density.json").write_text(json.dumps(density), encoding="utf-8")
    load = density["definition"]["load"]
    settings = {"key_count": load["keys"], "value_size": load["value_size"], "compressibility": load["compressibility"]}
    server = measured.of_density(RunDirectory.at(str(tmp_path)), settings)
    ended = {}
    for arm in density["arms"]:
        walls = [ramp["wall"] for ramp in arm["rounds"] if ramp["wall"]]
        kind = {(): "none", ("/dev/zram0",): "zram"}.get(tuple(arm["tier"]["areas"]))
        if kind and len(walls) > len(arm["rounds"]) / 2:
            ended[arm["name"]] = (kind, arm["tier"]["bytes"], statistics.median(walls) - 1)
    assert ended["dram"]
    arms = {name: ramp_arm(kind, size) for name, (kind, size, _fitted) in ended.items()}
    found = servers(planned(arms, [1], settings, server_bytes=server, measured_by="density"))
    assert found == {name: pytest.approx(fitted, rel=0.1) for name, (_kind, _size, fitted) in ended.items()}


def test_the_dram_of_a_server_is_what_was_measured_unless_it_is_in_a_vm():
    document = planned({"dram": ARM}, [1], server_bytes=200 << 20, measured_by="run x")
    assert document["server"] == {
        "kind": "Redis server",
        "bytes": 200 << 20,
        "resident_bytes": MIB,
        "measured_by": "run x",
        "watched": None,
        "waiting_percent": None,
    }
    assert any(
        line.startswith("Each Redis server: 200 MiB (measured by run x), of which 1 MiB") for line in lines(document)
    )
    computed = planned({"dram": ARM}, [1])
    assert computed["server"]["bytes"] < 200 << 20 and computed["server"]["measured_by"] is None
    in_vm = planned({"dram": ARM}, [1], vm_memory=1 << 30)
    assert in_vm["server"]["bytes"] == GIB + OVERHEAD and in_vm["server"]["resident_bytes"] == 128 * MIB


def test_the_answer_says_how_many_fit_where():
    arms = {name: ramp_arm(kind, size) for name, kind, size in TRUTH[:2]}
    document = planned(arms, [19, 99], RAMP)
    assert document["answer"] == (
        "Within 256 MiB of DRAM: dram 19, zram 59 of these Redis servers (12.89 MiB each) fit by capacity; whether "
        "they are fast enough is measured by density.yml."
    )
    two = planned(arms, [19], RAMP, names=["a", "b"])["answer"]
    assert two.startswith("Within 256 MiB of DRAM on each of 2 machines: dram 38, zram 118 of these")
    assert planned({"dram": ARM}, [1])["answer"].startswith("On kvm, which has 4 GiB of memory: dram ")
    vms = planned({"dram": ARM}, [1], names=["a", "b"], vm_memory=GIB)["answer"]
    assert vms.startswith(
        "On 2 machines, which have 8 GiB of memory together: dram 6 of these VMs (1.094 GiB each) fit"
    )
    assert vms.endswith("is measured by site.yml.")


def test_the_text_says_what_does_not_fit_and_why_not_more():
    arms = {name: ramp_arm(kind, size) for name, kind, size in TRUTH[:2]}
    text = "\n".join(lines(planned(arms, [19, 99], RAMP)))
    assert "dram, 99: kvm: the fleet needs 1.247 GiB, but has 256 MiB of DRAM and no tier beyond it" in text
    assert "dram, 20: kvm: the fleet needs 257.9 MiB" in text
    assert "zram, 60: kvm: with all in zram that may leave DRAM, the fleet still needs" in text
    assert "Nothing was changed." in text


def test_a_fleet_that_is_too_large_does_not_fit():
    document = planned({"dram": ARM}, [10, 200])
    small, large = of(document, "dram", 10), of(document, "dram", 200)
    assert small["verdict"] == "fits" and small["reasons"] == []
    assert large["verdict"] == "does not fit" and "no tier beyond it" in large["reasons"][0]
    at_most = servers(document)["dram"]
    assert of(planned({"dram": ARM}, [at_most]), "dram", at_most)["verdict"] == "fits"
    assert of(planned({"dram": ARM}, [at_most + 1]), "dram", at_most + 1)["verdict"] == "does not fit"


def test_better_compression_is_more_capacity():
    arms = {"zram": ramp_arm("zram", GIB)}
    most = [servers(planned(arms, [1], {**RAMP, "compressibility": share}))["zram"] for share in (0, 0.5, 0.75)]
    assert 0 < most[0] < most[1] < most[2]


def test_watermarks_a_budget_and_the_reserve_take_dram():
    free = of(planned({"dram": ARM}, [1]), "dram", 1)["dram_bytes"]
    scaled = of(planned({"dram": {**ARM, "sysctl": {"vm.watermark_scale_factor": 400}}}, [1]), "dram", 1)
    assert scaled["dram_bytes"] == pytest.approx(free - 4 * GIB * 0.0585, rel=1e-3)
    assert (
        of(planned({"dram": {**ARM, "dram_budget": {"size": "512M", "mechanism": "cgroup"}}}, [1]), "dram", 1)[
            "dram_bytes"
        ]
        == GIB / 2
    )
    assert (
        of(planned({"dram": {**ARM, "dram_budget": {"size": "1G", "mechanism": "hugepages"}}}, [1]), "dram", 1)[
            "dram_bytes"
        ]
        < GIB
    )
    assert of(planned({"dram": ARM}, [1], host_reserve="1G"), "dram", 1)["dram_bytes"] == pytest.approx(
        free + 0.05 * 4 * GIB - GIB, rel=1e-3
    )


def test_a_slower_node_imdt_and_a_refusal():
    needs_node = {**ARM, "needs": ["memory_only_node"]}
    nodes = {
        "numa": {
            "nodes": [{"memory_only": True, "total_bytes": 2 * GIB}, {"memory_only": False, "total_bytes": 2 * GIB}]
        }
    }
    assert of(planned({"tiering": needs_node}, [25], record=nodes), "tiering", 25)["tier"] == "memory_node"
    assert "no NUMA node without processors" in planned({"tiering": needs_node}, [1])["notes"][0]
    imdt = {**ARM, "needs": ["imdt"]}
    assert "IMDT not detected" in planned({"imdt": imdt}, [1])["notes"][0]
    unknown = planned({"imdt": imdt}, [1], record={"imdt": {"detected": True}})
    assert (
        of(unknown, "imdt", 1)["verdict"] == "unknown"
        and servers(unknown)["imdt"] is None
        and "imdt unknown of" in unknown["answer"]
    )
    refused = of(planned({"swap": {**DRIVES, "refused": "/dev/sda holds ext4"}}, [1]), "swap", 1)
    assert refused["verdict"] == "does not fit" and "holds ext4" in refused["reasons"][0]


def test_several_servers_share_the_fleet():
    document = planned({"dram": ARM}, [61], names=["a", "b"])
    assert of(document, "dram", 61)["on_machine"] == 31
    assert servers(document)["dram"] == 2 * servers(planned({"dram": ARM}, [1]))["dram"]


def test_a_host_that_is_not_tuned_keeps_its_swap():
    found = planned(
        {"swap": {**ARM, "tuned": False}},
        [50],
        record={"swap": {"areas": [{"name": "/dev/sda2", "size_bytes": 50 * 10**9}]}},
    )
    assert of(found, "swap", 50)["tier"] == "devices" and "not tuned" in found["notes"][0]


def test_the_time_is_that_of_all_phases_and_runs():
    document = planned(
        {"dram": ARM, "swap": DRIVES}, [10, 20], {"iterations": 1, "influences": [0], "read_mixes": [100]}, rounds=3
    )
    # a fill of 1 s, two phases of 50 s, each with 4 s more, and 30 s a run
    assert document["duration"] == {"phases": 3, "run_seconds": 1 + 100 + 12 + 30, "runs": 12, "seconds": 12 * 143}


# The brief's VM of 5.7 GB, and what its two hosts show as MemTotal: 192 GB of DRAM, and the 768 GB of IMDT.
VM = 5436 << 20
BRIEF = {"key_count": 3_300_000, "value_size": 1024, "requests": 1000}


@pytest.mark.parametrize(("total", "vms"), [(188 * GIB, 31), (700 * GIB, 126)])
def test_the_fleets_of_the_brief_fit_the_plan_and_the_admission(total, vms):
    capacity = Capacity(total, None, 0, 512 << 20, 0, 1000, 10**15, None)
    demand = Demand(vms, 0, VM, OVERHEAD, 1, 0, 0, "")
    assert admit(capacity, demand) == ([], [])
    record = {"memory": {"total_bytes": total}}
    options = {"settings": BRIEF, "record": record, "vm_memory": VM, "host_reserve": "512M"}
    document = planned({"dram": ARM}, [vms], **options)
    assert document["server"]["bytes"] == VM + OVERHEAD and of(document, "dram", vms)["verdict"] == "fits"
    # Where one ends the other ends, too.
    largest = servers(document)["dram"]
    assert admit(capacity, demand._replace(vms=largest))[0] == []
    assert admit(capacity, demand._replace(vms=largest + 1))[0] != []


def test_plan_and_admission_agree_under_a_budget_of_huge_pages():
    """A host of 188 GiB whose budget leaves 64 GiB: the other 124 GiB are in MemTotal, and no VM can have them."""
    total, left = 188 * GIB, 64 * GIB
    record = {"memory": {"total_bytes": total}}
    options = {"settings": BRIEF, "record": record, "vm_memory": VM, "host_reserve": "512M"}
    budget = {"size": str(left), "mechanism": "hugepages"}
    shown = {"MemTotal": total, "Hugepagesize": 2 << 20, "HugePages_Total": (total - left) // (2 << 20)}
    for meminfo in (shown, {**shown, "Hugetlb": total - left}):
        capacity = Capacity(total, None, 0, 512 << 20, 0, 1000, 0, None, huge_pages=huge_pages(meminfo))
        demand = Demand(0, 0, VM, OVERHEAD, 1, 0, 0, "")
        fits = max(vms for vms in range(1, 40) if not admit(capacity, demand._replace(vms=vms))[0])
        assert fits == (left - (512 << 20)) // (VM + OVERHEAD)
        document = planned({"dram": {**ARM, "dram_budget": budget}}, [fits + 1], **options)
        refused = of(document, "dram", fits + 1)
        assert refused["verdict"] == "does not fit" and "reserved as huge pages" in refused["reasons"][0], refused


def test_the_plan_refuses_what_the_admission_refuses_also_under_imdt():
    record = {"memory": {"total_bytes": 188 * GIB}, "imdt": {"detected": True}}
    options = {"settings": BRIEF, "record": record, "vm_memory": VM, "host_reserve": "512M"}
    document = planned({"imdt": {**ARM, "needs": ["imdt"]}}, [31, 60], **options)
    assert of(document, "imdt", 31)["verdict"] == "unknown"
    large = of(document, "imdt", 60)
    assert large["verdict"] == "does not fit" and "60 VMs of 5.309 GiB need" in large["reasons"][0]
