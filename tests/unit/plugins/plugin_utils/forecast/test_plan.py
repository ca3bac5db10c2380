# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy

import pytest
from synthetic_fleets import SETTINGS

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.vm.admission import OVERHEAD, Capacity, Demand, admit
from ansible_collections.memstretch.density.plugins.module_utils.vm.capacity import huge_pages
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import plan
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.text import lines
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.tests.unit.fixtures.arms import ARM

GIB = 2**30
LOAD = {**SETTINGS, "key_count": 100_000, "rate": 2000, "influences": [0, 25]}
RECORD = {
    "memory": {"total_bytes": 4 * GIB},
    "cpu": {"online": 16},
    "numa": {"nodes": []},
    "sysctl": {"vm.watermark_scale_factor": 10},
    "imdt": {"detected": False},
    "swap": {"areas": []},
}
DRIVES = {**ARM, "swap": {"kind": "devices"}, "areas": [{"size_bytes": 50 * 10**9}]}
ZRAM = {**ARM, "swap": {"kind": "zram"}, "areas": [{"size_bytes": 4 * GIB}]}
ZRAM_FIRST = {
    **ARM,
    "swap": {"kind": "devices", "priority": 10, "zram_first": True},
    "areas": [{"size_bytes": 2 * GIB, "priority": 11}, {"size_bytes": 50 * 10**9, "priority": 10}],
}
ZSWAP = {
    **DRIVES,
    "sysfs": {"/sys/module/zswap/parameters/enabled": True, "/sys/module/zswap/parameters/max_pool_percent": 40},
}


def planned(arms, sizes, settings=None, record=None, **options):
    config = configuration.checked({**LOAD, **(settings or {})})
    options = {
        "fleet_sizes": sizes,
        "tiers": plan.tiers("tiers", options.pop("tiers", {})),
        "base": plan.BASE,
        "vm_memory": None,
        "server_bytes": None,
        "overhead": 3 << 20,
        "overhead_used": 1 << 20,
        "host_reserve": "5%",
        "rounds": 1,
        "phase_overhead_seconds": 4,
        "run_overhead_seconds": 30,
        **options,
    }
    names = options.pop("names", ["kvm"])
    machines = {name: {"record": {**RECORD, **(record or {})}, "arms": copy.deepcopy(arms)} for name in names}
    return plan.make(config, configuration.phases(config), machines, options)


def of(document, profile, size):
    return next(each for each in document["fleets"] if (each["profile"], each["size"]) == (profile, size))


def test_the_dram_of_a_server_is_what_a_run_measured_unless_it_is_in_a_vm():
    document = planned({"dram": ARM}, [1], server_bytes=200 << 20)
    assert document["vm_bytes"] == 200 << 20 and document["vm_bytes_measured"]
    assert any(line.startswith("Each VM: 200 MiB (measured), 100,000 keys") for line in lines(document))
    modelled = planned({"dram": ARM}, [1])
    assert modelled["vm_bytes"] < 200 << 20 and not modelled["vm_bytes_measured"]
    in_vm = planned({"dram": ARM}, [1], server_bytes=200 << 20, vm_memory=1 << 30)
    assert in_vm["vm_bytes"] > 1 << 30 and not in_vm["vm_bytes_measured"]


def test_a_fleet_in_dram_pages_nothing_in_and_one_that_is_too_large_does_not_fit():
    document = planned({"dram": ARM}, [10, 200])
    small, large = of(document, "dram", 10), of(document, "dram", 200)
    assert (
        small["verdict"] == "meets"
        and small["page_ins_per_second"] == 0
        and all(cell["hit_rate"] == 1 for cell in small["cells"])
    )
    assert large["verdict"] == "does not fit" and "no tier beyond it" in large["reasons"][0] and large["cells"] == []
    at_most = document["largest"]["dram"]
    assert at_most == int(small["dram_bytes"] / document["vm_bytes"])
    assert of(planned({"dram": ARM}, [at_most]), "dram", at_most)["verdict"] == "meets"
    assert of(planned({"dram": ARM}, [at_most + 1]), "dram", at_most + 1)["verdict"] == "does not fit"


def test_what_is_beyond_dram_pages_in_and_costs_latency():
    document = planned({"dram": ARM, "swap": DRIVES}, [50, 60])
    fifty, sixty = of(document, "swap", 50), of(document, "swap", 60)
    assert fifty["verdict"] == sixty["verdict"] == "misses"
    flat, hot = fifty["cells"][0], fifty["cells"][2]
    assert (flat["influence"], hot["influence"]) == (0, 25)
    assert flat["hit_rate"] < hot["hit_rate"] < 1 and hot["hit_rate"] <= hot["hit_rate_at_best"]
    assert flat["page_ins_per_second"] == pytest.approx(50 * 2000 * flat["page_ins_per_request"], rel=0.001)
    assert sixty["page_ins_per_second"] > fifty["page_ins_per_second"]
    assert flat["avg_us"] > hot["avg_us"] > plan.BASE["avg_us"]
    assert document["largest"]["swap"] >= document["largest"]["dram"]
    quick = planned({"swap": DRIVES}, [50], tiers={"devices": {"avg_us": 8}})
    assert of(quick, "swap", 50)["verdict"] == "meets" and quick["largest"]["swap"] > document["largest"]["swap"]


def test_a_tier_that_cannot_serve_so_many_page_ins_is_named():
    found = of(
        planned({"swap": DRIVES}, [50], tiers={"devices": {"avg_us": 8, "page_ins_per_second": 1000}}), "swap", 50
    )
    assert found["verdict"] == "misses" and "devices can do 1,000" in found["reasons"][0]


def test_compressed_memory_helps_only_with_what_compresses():
    assert of(planned({"zram": ZRAM}, [50]), "zram", 50)["verdict"] == "does not fit"
    assert "do not compress" in of(planned({"zram": ZRAM}, [50]), "zram", 50)["reasons"][0]
    half = planned({"zram": ZRAM}, [50], {"compressibility": 0.5})
    assert of(half, "zram", 50)["cells"][0]["hit_rate"] < 0.8 and half["largest"]["zram"] >= 50
    # A budget by control group means the charged DRAM: it holds what is in zram, too.
    capped = {"zram": {**ZRAM, "dram_budget": {"size": "1G", "mechanism": "cgroup"}}}
    assert "do not compress" in of(planned(capped, [20]), "zram", 20)["reasons"][0]
    most = {share: planned(capped, [20], {"compressibility": share})["largest"]["zram"] for share in (0, 0.5, 0.75)}
    assert 0 < most[0] < most[0.5] < most[0.75]


def test_zswap_is_between_dram_and_the_drives():
    half = {"compressibility": 0.6}
    zswap, swap = (
        of(planned({name: arm}, [60], half), name, 60)["cells"][0] for name, arm in (("zswap", ZSWAP), ("swap", DRIVES))
    )
    assert set(zswap["waiting_share"]) == {"zswap", "devices"} and set(swap["waiting_share"]) == {"devices"}
    assert zswap["waiting_share"]["devices"] < swap["waiting_share"]["devices"] and zswap["avg_us"] < swap["avg_us"]
    useless = planned({"zswap": ZSWAP}, [60])
    assert (
        set(of(useless, "zswap", 60)["cells"][0]["waiting_share"]) == {"devices"}
        and "do not compress" in useless["notes"][0]
    )


def test_zram_before_the_drives_is_filled_first_and_the_rest_goes_to_the_drives():
    def cells(arms, share, size):
        return {name: of(planned({name: arm}, [size], {"compressibility": share}), name, size) for name, arm in arms}

    both, packed = [("zram_swap", ZRAM_FIRST), ("swap", DRIVES)], 0.75
    found = {name: each["cells"][0] for name, each in cells(both, packed, 70).items()}
    assert set(found["zram_swap"]["waiting_share"]) == {"zram", "devices"}
    assert 0 < found["zram_swap"]["waiting_share"]["devices"] < found["swap"]["waiting_share"]["devices"]
    assert found["zram_swap"]["avg_us"] < found["swap"]["avg_us"]
    # As long as zram has room, no page goes to the drives.
    few = cells(both, packed, 45)["zram_swap"]["cells"][0]["waiting_share"]
    assert few["devices"] == 0 < few["zram"]
    # Without compression zram takes as much DRAM as it holds: the drives must take what they take without it.
    useless = {name: each["cells"][0] for name, each in cells(both, 0, 50).items()}
    assert useless["zram_swap"]["waiting_share"]["devices"] == useless["swap"]["waiting_share"]["devices"]
    assert useless["zram_swap"]["hit_rate"] < useless["swap"]["hit_rate"]
    full = {**ZRAM_FIRST, "areas": [ZRAM_FIRST["areas"][0], {"size_bytes": GIB // 8, "priority": 10}]}
    assert "128 MiB of devices" in cells([("small", full)], packed, 100)["small"]["reasons"][0]


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


def test_cpus_are_counted():
    found = of(planned({"dram": ARM}, [30], record={"cpu": {"online": 2}}), "dram", 30)
    assert found["verdict"] == "does not fit" and "CPUs, kvm has 2" in found["reasons"][0]
    assert of(planned({"dram": ARM}, [30], record={"cpu": {"online": 5}}), "dram", 30)["warnings"]


def test_a_slower_node_imdt_and_a_refusal():
    needs_node = {**ARM, "needs": ["memory_only_node"]}
    nodes = {
        "numa": {
            "nodes": [{"memory_only": True, "total_bytes": 2 * GIB}, {"memory_only": False, "total_bytes": 2 * GIB}]
        }
    }
    assert set(
        of(planned({"tiering": needs_node}, [25], record=nodes), "tiering", 25)["cells"][0]["waiting_share"]
    ) == {"memory_node"}
    assert "no NUMA node without processors" in planned({"tiering": needs_node}, [1])["notes"][0]
    imdt = {**ARM, "needs": ["imdt"]}
    assert "IMDT not detected" in planned({"imdt": imdt}, [1])["notes"][0]
    unknown = planned({"imdt": imdt}, [1], record={"imdt": {"detected": True}})
    assert of(unknown, "imdt", 1)["verdict"] == "unknown" and unknown["largest"]["imdt"] is None
    refused = of(planned({"swap": {**DRIVES, "refused": "/dev/sda holds ext4"}}, [1]), "swap", 1)
    assert refused["verdict"] == "does not fit" and "holds ext4" in refused["reasons"][0]


def test_several_servers_share_the_fleet():
    document = planned({"dram": ARM}, [61], names=["a", "b"])
    assert of(document, "dram", 61)["on_machine"] == 31
    assert document["largest"]["dram"] == 2 * planned({"dram": ARM}, [1])["largest"]["dram"]


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


@pytest.mark.parametrize(
    "given, message",
    [
        ({"tape": {"avg_us": 1}}, "tiers: 'tape' is not a tier; it must be one of devices"),
        ({"zram": 5}, "tiers.zram: 5 is not allowed"),
        ({"zram": {"speed": 5}}, "tiers.zram"),
        ({"zram": {"avg_us": "fast"}}, "tiers.zram.avg_us: 'fast'"),
        ({"zram": {"avg_us": 5, "p99_us": 1}}, "below avg_us"),
    ],
)
def test_a_wrong_tier_is_named(given, message):
    with pytest.raises(SettingError) as caught:
        plan.tiers("tiers", given)
    assert message in str(caught.value)


def test_the_text_names_every_result():
    text = "\n".join(lines(planned({"dram": ARM, "swap": DRIVES}, [50], {"rate": 20000})))
    assert "does not fit" in text and "beyond" in text and "Largest fleet" in text and "Nothing was changed." in text


# The brief's VM of 5.7 GB, and what its two hosts show as MemTotal: 192 GB of DRAM, and the 768 GB of IMDT.
VM = 5436 << 20
BRIEF = {"key_count": 3_300_000, "value_size": 1024, "requests": 1000}


def test_times_that_nobody_measured_are_called_examples():
    sizes, arms = [50], {"dram": ARM, "swap": DRIVES}
    text = "\n".join(lines(planned(arms, sizes)))
    assert "A request in DRAM takes 25.0 us on average, p99 60.0 us; these are examples" in text
    assert "A page-in from devices takes 90.0 us on average, p99 400.0 us; these are examples" in text
    assert "zram" not in text, "it is not used"
    measured = planned(arms, sizes, base={"avg_us": 40, "p99_us": 90}, tiers={"devices": {"avg_us": 14, "p99_us": 40}})
    assert "A page-in from devices takes 14.0 us on average, p99 40.0 us\n" in "\n".join(lines(measured))
    assert not measured["base"]["example"] and not measured["tiers"]["devices"]["example"]


def test_a_figure_that_was_given_does_not_make_the_others_measured():
    arms = {"dram": ARM, "swap": DRIVES}
    found = planned(arms, [50], base={**plan.BASE, "avg_us": 40}, tiers={"devices": {"page_ins_per_second": 550_000}})
    assert found["base"]["example"] and found["tiers"]["devices"]["example"]


@pytest.mark.parametrize(("total", "vms"), [(188 * GIB, 31), (700 * GIB, 126)])
def test_the_fleets_of_the_brief_fit_the_plan_and_the_admission(total, vms):
    capacity = Capacity(total, None, 0, 512 << 20, 0, 1000, 10**15, None)
    demand = Demand(vms, 0, VM, OVERHEAD, 1, 0, 0, "")
    assert admit(capacity, demand) == ([], [])
    record = {"memory": {"total_bytes": total}, "cpu": {"online": 1000}}
    options = {"settings": BRIEF, "record": record, "vm_memory": VM, "host_reserve": "512M"}
    document = planned({"dram": ARM}, [vms], **options)
    assert document["vm_bytes"] == VM + OVERHEAD and of(document, "dram", vms)["verdict"] == "meets"
    # Where one ends the other ends, too.
    largest = document["largest"]["dram"]
    assert admit(capacity, demand._replace(vms=largest))[0] == []
    assert admit(capacity, demand._replace(vms=largest + 1))[0] != []


def test_plan_and_admission_agree_under_a_budget_of_huge_pages():
    """A host of 188 GiB whose budget leaves 64 GiB: the other 124 GiB are in MemTotal, and no VM can have them."""
    total, left = 188 * GIB, 64 * GIB
    record = {"memory": {"total_bytes": total}, "cpu": {"online": 1000}}
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
    record = {"memory": {"total_bytes": 188 * GIB}, "cpu": {"online": 1000}, "imdt": {"detected": True}}
    options = {"settings": BRIEF, "record": record, "vm_memory": VM, "host_reserve": "512M"}
    document = planned({"imdt": {**ARM, "needs": ["imdt"]}}, [31, 60], **options)
    assert of(document, "imdt", 31)["verdict"] == "unknown"
    large = of(document, "imdt", 60)
    assert large["verdict"] == "does not fit" and "60 VMs of 5.309 GiB need" in large["reasons"][0]


POOL = "/sys/module/zswap/parameters/max_pool_percent"


def with_pool(value):
    return {**ZSWAP, "sysfs": {**ZSWAP["sysfs"], POOL: value}}


def test_the_pool_of_zswap_may_be_given_in_bytes():
    half = {"compressibility": 0.6}
    percent, size = (
        of(planned({"zswap": with_pool(value)}, [60], half), "zswap", 60)["cells"]
        for value in (20, f"{{percent:{RECORD['memory']['total_bytes'] // 5}}}")
    )
    assert percent == size != of(planned({"zswap": ZSWAP}, [60], half), "zswap", 60)["cells"]


def test_no_other_size_of_the_pool_serves_a_fleet_better():
    """A larger pool takes DRAM, a smaller one sends pages to the drives."""
    settings = {"compressibility": 0.75, "influences": [25], "key_count": 34_000, "rate": 75, "pacing": "sleep"}
    total = 24 * GIB
    arm = {**ZSWAP, "dram_budget": {"mechanism": "cgroup", "size": "680M", "group": "fleet"}}

    def forecast(value):
        zswap = {**arm, "sysfs": {**ZSWAP["sysfs"], POOL: value}}
        document = planned({"zswap": zswap}, [59], settings, {"memory": {"total_bytes": total}})
        cell = of(document, "zswap", 59)["cells"][0]
        return max(cell[name] / document["slo"][name] for name in ("avg_us", "p99_us")), document["pools"][0]

    (_distance, best) = forecast(40)
    assert (best["profile"], best["size"], best["machine"]) == ("zswap", 59, "kvm")
    assert best["percent"] == round(100 * best["bytes"] / total)
    small, right, large = (forecast(f"{{percent:{size}M}}")[0] for size in (245, best["bytes"] >> 20, 730))
    assert right < small and right <= large, "1, 2 and 3 % of this machine's memory: the smallest that is as good"


def test_a_fleet_that_fits_into_dram_needs_no_pool_and_other_profiles_have_none():
    document = planned({"zswap": ZSWAP, "swap": DRIVES}, [2], {"compressibility": 0.6})
    assert document["pools"] == [{"profile": "zswap", "size": 2, "machine": "kvm", "bytes": None, "percent": None}]
    assert "max_pool_percent" not in "\n".join(lines(document))
    large = planned({"zswap": ZSWAP}, [60], {"compressibility": 0.6})
    assert f'max_pool_percent: "{{percent:{large["pools"][0]["bytes"] >> 20}M}}"' in "\n".join(lines(large))
