# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from synthetic_fleets import edit_run

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.cost.figures import PricedArm
from ansible_collections.memstretch.density.plugins.plugin_utils.report import cost_text
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import ArmRuns, compare

PAID = {"date": "2026-01-31", "currency": "EUR", "server": 4800, "dram_per_gb": 10, "months": 48}
GIB = 2**30


def priced(arms, baseline="dram", **more):
    """Return the cost of each arm, by its name."""
    return {arm["name"]: arm for arm in cost.document(cost.prices("prices", {**PAID, **more}), arms, baseline)["arms"]}


def test_cost_of_the_brief():
    """The worked example of docs/cost.md.

    31 VMs with 192 GB of DRAM, and 108 with two drives in a server that costs 1.39 times as much: 60 % less for a VM.
    """
    arms = priced(
        # 8080 + 1920 for DRAM are 10,000; 1.39 times that with the tier
        [PricedArm("dram", 31, "", 192 * GIB), PricedArm("imdt", 108, "", 192 * GIB, 1500e9)],
        server=8080,
        tier_per_gb=2.6,
    )
    dram, imdt = arms["dram"], arms["imdt"]
    assert imdt["server_ratio"] == pytest.approx(1.39, abs=0.001)
    assert imdt["saving"] == pytest.approx(0.60, abs=0.005)
    assert dram["per_vm_month"] == pytest.approx(10000 / 48 / 31, rel=0.001) and dram["saving"] is None
    # The drives could cost 6.4 times as much before a VM costs as much as with DRAM alone.
    assert imdt["break_even_tier_per_gb"] == pytest.approx((10000 * 108 / 31 - 10000) / 1500, rel=0.001)


def test_the_cost_of_a_month_is_the_sum_of_its_parts():
    arm = priced(
        [PricedArm("swap", 10, "", 100 * GIB, 1000e9)],
        tier_per_gb=0.48,
        licences=480,
        licences_per_month=5,
        power_w=400,
        price_per_kwh=0.25,
    )["swap"]
    assert arm["parts_per_month"] == {
        "server": 100,
        "dram": pytest.approx(20.83, abs=0.01),
        "tier": 10,
        "licences": 15,
        "power": pytest.approx(73.05),
    }
    assert arm["server_month"] == pytest.approx(sum(arm["parts_per_month"].values()), abs=0.02)
    assert arm["per_vm_month"] == pytest.approx(arm["server_month"] / 10, abs=0.01)


def test_at_the_break_even_price_nothing_is_saved():
    arms = [PricedArm("dram", 20, "", 128 * GIB), PricedArm("swap", 50, "", 128 * GIB, 2000e9)]
    even = priced(arms, tier_per_gb=1)["swap"]["break_even_tier_per_gb"]
    assert even > 1
    assert priced(arms, tier_per_gb=even)["swap"]["saving"] == pytest.approx(0, abs=0.001)
    worse = priced([arms[0], PricedArm("swap", 10, "", 128 * GIB, 2000e9)])["swap"]
    assert worse["saving"] < 0 and worse["break_even_tier_per_gb"] < 0


def test_the_dram_that_a_tier_replaces_and_the_price_from_which_it_pays():
    """100 VMs instead of 40 in the same server: 192 GB of DRAM would have to be bought."""
    arms = [PricedArm("dram", 40, "", 128 * GIB), PricedArm("swap", 100, "", 128 * GIB, 2000e9)]
    document = cost.document(cost.prices("prices", {**PAID, "tier_per_gb": 0.48}), arms, "dram")
    swap = document["arms"][1]
    assert swap["dram_instead_gb"] == 192
    assert swap["break_even_dram_per_gb"] == pytest.approx(2000 * 0.48 / 192, rel=1e-3)
    assert any(
        "192.0 GB more DRAM in the server, for 1,920.00; swap is cheaper, since it pays from 5.00" in each
        for each in cost_text.lines(document)
    )
    # At that price a VM costs the same with the DRAM bought.
    bought = [arms[1], PricedArm("bought", 100, "", 320 * GIB)]
    even = priced(bought, baseline="bought", tier_per_gb=0.48, dram_per_gb=swap["break_even_dram_per_gb"])
    assert even["swap"]["saving"] == pytest.approx(0, abs=1e-3)
    zram = priced([arms[0], PricedArm("zram", 60, "", 128 * GIB)])["zram"]
    assert (zram["dram_instead_gb"], zram["break_even_dram_per_gb"]) == (64, 0)
    worse = priced([arms[0], PricedArm("zram", 30, "", 128 * GIB)])["zram"]
    assert worse["dram_instead_gb"] is None and worse["break_even_dram_per_gb"] is None


def test_the_same_fleet_on_fewer_servers():
    """Each of 8 servers carries 40 VMs, with room for a failed one 280; 100 a server need 3, and 1 more."""
    arms = [PricedArm("dram", 40, "", 128 * GIB), PricedArm("swap", 100, "", 128 * GIB, 2000e9)]
    document = cost.document(cost.prices("prices", {**PAID, "servers": 8}), arms, "dram")
    dram, swap = document["arms"]
    assert dram["servers_for_same_fleet"] is None and swap["servers_for_same_fleet"] == 4
    assert swap["same_fleet_month"] == pytest.approx(4 * swap["server_month"], abs=0.01)
    assert any(
        "swap: the same fleet on 4 servers instead of 8 under dram" in each for each in cost_text.lines(document)
    )
    assert priced(arms)["swap"]["servers_for_same_fleet"] is None


def test_the_share_of_the_dram_is_that_of_the_hardware():
    arm = priced([PricedArm("dram", 40, "", 480 * GIB)], licences_per_month=100)["dram"]
    assert arm["dram_share"] == pytest.approx(4800 / 9600, abs=1e-3)


def test_the_example_of_the_page(tmp_path):
    """docs/cost.md prints what these prices give for a server of 512 GB."""
    arms = [
        PricedArm("dram", 100, "", 512 * GIB),
        PricedArm("zram", 200, "", 512 * GIB),
        PricedArm("swap", 300, "", 512 * GIB, 2000e9),
    ]
    page = (pathlib.Path(__file__).parents[5] / "docs" / "cost.md").read_text(encoding="utf-8")
    shown = cost_text.lines(cost.document(cost.prices("prices", {}, True), arms, "dram"))
    assert "\n".join(shown).strip() in page


def test_cost_with_head_room_for_one_failed_server():
    arm = priced([PricedArm("dram", 31, "", 192 * GIB)], servers=4)["dram"]
    assert arm["vms_with_head_room"] == 23
    assert arm["per_vm_month_with_head_room"] == pytest.approx(arm["server_month"] / 23, abs=0.001)
    assert priced([PricedArm("dram", 1, "", GIB)], servers=2)["dram"]["per_vm_month_with_head_room"] is None


@pytest.mark.parametrize(
    "endurance, years",
    [
        ({"tier_terabytes_written": 1000}, 1000e12 / (1e7 * cost.SECONDS_PER_YEAR)),
        ({"tier_drive_writes_per_day": 1}, 5 * 365.25 * 1e12 / (1e7 * cost.SECONDS_PER_YEAR)),
        (
            {"tier_drive_writes_per_day": 1, "tier_warranty_years": 3, "write_amplification": 2},
            3 * 365.25 * 1e12 / (2e7 * cost.SECONDS_PER_YEAR),
        ),
        ({}, None),
    ],
)
def test_drive_life_follows_from_the_warranted_writes(endurance, years):
    arm = priced([PricedArm("swap", 10, "", GIB, 1e12, 1e7)], **endurance)["swap"]
    assert arm["drive_life_years"] == (None if years is None else pytest.approx(years, rel=0.01))
    assert priced([PricedArm("dram", 10, "", GIB, 0, 1e7)], **endurance)["dram"]["drive_life_years"] is None


def test_a_fleet_that_misses_the_slo_has_no_cost_per_vm():
    run = {
        "hosts": {
            "kvm": {
                "kernel": {"boot_id": "b"},
                "memory": {"total_bytes": 64 * GIB},
                "swap": {"areas": [{"name": "/dev/nvme0n1", "size_bytes": 10**12}]},
            }
        }
    }
    writes = cost.SwapWrites(run)
    missed = cost.arm_of("swap", run, "fail", 8, writes)
    assert missed.vms is None and missed.why == "the fleet misses the SLO"
    row = cost.document(cost.prices("prices", PAID), [missed])
    assert row["arms"][0]["per_vm_month"] is None and row["arms"][0]["server_month"] > 0
    assert any("no cost per VM, the fleet misses the SLO" in line for line in cost_text.lines(row))
    assert cost.arm_of("swap", run, "pass", 8, writes) == PricedArm("swap", 8, "", 64 * GIB, 1e12, None)


def test_the_interval_of_a_density_becomes_that_of_the_cost():
    """Servers that cost the same, so a VM saves what the multiple of VMs saves."""
    base = PricedArm("dram", 20, "", 128 * GIB, vms_interval=(18, 22))
    plain = {"estimate": 2, "interval": [1.6, 2.5]}
    swap = priced([base, PricedArm("swap", 40, "", 128 * GIB, vms_interval=(36, 44), vms_ratio=plain)])["swap"]
    assert swap["vms_interval"] == [36, 44] and (swap["saving"], swap["saving_interval"]) == (0.5, [0.375, 0.6])
    cheapest, dearest = swap["per_vm_month_interval"]
    assert cheapest * 44 == pytest.approx(dearest * 36, rel=0.001) and cheapest < swap["per_vm_month"] < dearest
    vague = {"estimate": 0.2, "interval": [0, None]}
    document = cost.document(
        cost.prices("prices", PAID),
        [base, PricedArm("swap", 4, "", GIB, vms_interval=(0, None), vms_ratio=vague)],
        "dram",
    )
    row = document["arms"][1]
    assert row["saving_interval"] == [None, None]
    assert row["per_vm_month_interval"] == [None, None]
    assert any("4 (0 to ...)" in line and "% (... to ...)" in line for line in cost_text.lines(document))


def pressed(machine, pages, seconds=10.0, kind="iteration"):
    return {"phase": {"kind": kind}, "pressure": {machine: {"counters": {"clock_s": seconds, "pswpout": pages}}}}


def test_only_writes_counted_by_the_servers_are_used():
    record = {
        "kernel": {"boot_id": "b"},
        "memory": {"total_bytes": GIB, "page_bytes": 16384},
        "swap": {"areas": [{"name": "/dev/nvme0n1", "size_bytes": 10**12}]},
    }
    run = {"hosts": {"kvm": record}}
    writes = cost.SwapWrites(run)
    for phase in (pressed("b", 1000), pressed("b", 3000), pressed("b", 10**6, kind="warmup")):
        writes.add(phase)
    assert writes.bytes_per_second == 4000 * 16384 / 20
    assert cost.arm_of("swap", run, "pass", 8, writes).written_bytes_per_second == 4000 * 16384 / 20
    zram = {"hosts": {"kvm": {**record, "swap": {"areas": [{"name": "/dev/zram0", "size_bytes": 10**9}]}}}}
    assert cost.arm_of("zram", zram, "pass", 8, writes).written_bytes_per_second is None
    writes.add(pressed("guest", 5))
    assert writes.bytes_per_second is None, "the swap of a guest is not on the server's drives"


def test_a_dram_budget_replaces_the_dram_of_the_host_and_a_server_counts_once():
    record = {
        "kernel": {"boot_id": "b"},
        "memory": {"total_bytes": 64 * GIB},
        "tuning": {"dram_budget": {"size_bytes": 16 * GIB}},
    }
    arm = cost.arm_of("dram", {"hosts": {"a": record, "b": record}}, "pass", 6, cost.SwapWrites({}))
    assert (arm.vms, arm.dram_bytes) == (6, 16 * GIB)


def test_charged_dram_is_priced_where_it_was_measured():
    """The budget alone would price zram's memory at nothing, and DRAM that a fleet did not use in full."""
    run = {"hosts": {"kvm": {"tuning": {"dram_budget": {"size_bytes": 16 * GIB}}}}}
    charged = {"charged_bytes": 2 * 12 * GIB, "machines": 2}
    assert cost.arm_of("zram", run, "pass", 8, cost.SwapWrites(run), charged).dram_bytes == 12 * GIB
    unknown = {"charged_bytes": None, "machines": 1}
    assert cost.arm_of("zram", run, "pass", 8, cost.SwapWrites(run), unknown).dram_bytes == 16 * GIB


def host(boot_id, total_bytes, **more):
    return {"kvm": {"kernel": {"boot_id": boot_id}, "memory": {"total_bytes": total_bytes}, **more}}


def test_an_arm_with_imdt_or_cxl_is_priced_through_a_comparison(record):
    """The brief's two servers, as runs: IMDT shows 768 GB of memory and has no swap area."""
    node = {"memory_only": True, "total_bytes": 256 * GIB}

    def run(name, hosts):
        def change(document):
            document["hosts"] = hosts
            document["config"]["profile"] = name

        return ArmRuns(None, [edit_run(record(name=name)[0], change)])

    arms = [
        run("dram", host("a", 192 * GIB)),
        run("imdt", host("b", 768 * GIB, imdt={"detected": True})),
        run("tiering", host("c", 448 * GIB, numa={"nodes": [node, {"memory_only": False, "total_bytes": 192 * GIB}]})),
    ]

    def costs(**more):
        document = compare(arms, cost.prices("prices", {**PAID, "server": 8080, **more}))[0]
        return {arm["name"]: arm for arm in document["cost"]["arms"]}, cost_text.lines(document["cost"])

    found, lines = costs()
    assert found["imdt"]["per_vm_month"] is None and any("set arms.imdt.dram_gb" in line for line in lines)
    assert (found["tiering"]["dram_gb"], found["tiering"]["tier_gb"]) == (192, 256)
    own = {"imdt": {"dram_gb": 192, "tier_gb": 1500, "tier_per_gb": 2.6, "licences": 480}}
    found, lines = costs(arms=own, target_saving=0.6)
    imdt = found["imdt"]
    assert (imdt["dram_gb"], imdt["tier_gb"]) == (192, 1500) and imdt["parts_per_month"]["licences"] == 10
    assert found["dram"]["parts_per_month"]["licences"] == 0 and imdt["saving"] < 0  # with the same number of VMs
    assert imdt["target_server_ratio"] == 0.4 and any("60% less if the server" in line for line in lines)


def test_which_price_of_the_server_gives_the_saving_of_the_brief():
    arms = [PricedArm("dram", 31, "", 192 * GIB), PricedArm("imdt", 108, "", 768 * GIB, hidden=True)]
    own = {"imdt": {"dram_gb": 192, "tier_gb": 1500}}

    def of_imdt(**more):
        paid = cost.prices("prices", {**PAID, "server": 8080, "tier_per_gb": 2.6, "arms": own, **more})
        return cost.document(paid, arms, "dram")["arms"][1]

    imdt = of_imdt(target_saving=0.6)
    assert imdt["target_server_ratio"] == pytest.approx(1.39, abs=0.005)
    own["imdt"]["server"] = imdt["target_server_price"]
    assert of_imdt()["saving"] == pytest.approx(0.6, abs=0.001)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"arms": {"imdt": {"months": 3}}}, "prices.arms.imdt: months cannot differ by arm"),
        ({"arms": {"imdt": {"dram_gb": -1}}}, "prices.arms.imdt.dram_gb: -1 is out of range"),
        ({"arms": {"imdt": 3}}, "it must have the prices of each arm"),
        ({"server": None}, "prices: server is missing; it must have"),
        ({"drams": 3}, "drams is unknown"),
        ({"date": "yesterday"}, "prices.date: 'yesterday' is not a date"),
        ({"months": 0}, "prices.months: 0 is out of range"),
        ({"dram_per_gb": "cheap"}, "prices.dram_per_gb: 'cheap' is not allowed"),
        ({"servers": 1}, "prices.servers: 1"),
        ({"tier_terabytes_written": 1, "tier_drive_writes_per_day": 1}, "both set the endurance"),
    ],
)
def test_a_wrong_price_is_named(change, message):
    with pytest.raises(SettingError) as caught:
        cost.prices("prices", {**PAID, **change})
    assert message in str(caught.value)


def test_example_prices_are_used_only_on_request():
    assert cost.prices("prices", {}) is None and cost_text.lines(None) == []
    example = cost.prices("prices", {}, example=True)
    assert example["example"] and any(
        "EXAMPLE prices" in line for line in cost_text.lines(cost.document(example, [PricedArm("dram", 4, "", GIB)]))
    )
    with pytest.raises(SettingError, match="leave one of them out"):
        cost.prices("prices", PAID, example=True)
