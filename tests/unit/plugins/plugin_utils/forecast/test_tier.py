# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import plan, tier
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.text import tier_lines
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration

from .test_plan import ARM, DRIVES, LOAD, RECORD, ZSWAP, of, planned

OPTIONS = {
    "tiers": plan.tiers("tiers", {}),
    "base": plan.BASE,
    "vm_memory": None,
    "server_bytes": None,
    "overhead": 3 << 20,
    "overhead_used": 1 << 20,
    "host_reserve": "5%",
}


def needed(arm, size, settings=None, **options):
    config = configuration.checked({**LOAD, **(settings or {})})
    machines = {"kvm": {"record": RECORD, "arms": {"profile": arm}}}
    return tier.needed(plan.arms(config, machines, {**OPTIONS, **options})["profile"], size)


@pytest.mark.parametrize("tail", tier.TAILS)
def test_a_tier_at_the_limit_meets_the_slo_and_a_slower_one_misses_it(tail):
    limit = next(each for each in needed(DRIVES, 50)["all_cells"] if each["tail"] == tail)

    def verdict(factor):
        figures = {"avg_us": factor * limit["avg_us"], "p99_us": factor * limit["p99_us"]}
        return of(planned({"swap": DRIVES}, [50], tiers={"devices": figures}), "swap", 50)["verdict"]

    assert (verdict(0.98), verdict(1.03)) == ("meets", "misses")


def test_the_limit_of_all_cells_is_that_of_the_most_demanding_one():
    found = needed(DRIVES, 50)
    assert [(cell["influence"], cell["read_mix"]) for cell in found["cells"]] == [
        (0, 100),
        (0, 70),
        (25, 100),
        (25, 70),
    ]
    for number, tail in enumerate(tier.TAILS):
        limits = [cell["limits"][number]["avg_us"] for cell in found["cells"]]
        assert found["all_cells"][number]["avg_us"] == min(limits) and limits[2] > limits[0], tail
    flat, hot = found["cells"][0], found["cells"][2]
    assert flat["page_ins_per_second"] > hot["page_ins_per_second"] > 0


def test_more_vms_need_a_faster_tier():
    averages = [needed(DRIVES, size)["all_cells"][1]["avg_us"] for size in (40, 50, 60)]
    assert averages == sorted(averages, reverse=True) and averages[0] > averages[2]


@pytest.mark.parametrize(
    "slo, tail, decided_by",
    [
        ({"slo_avg_us": 50, "slo_p99_us": 1e6}, 8, "average"),
        ({"slo_avg_us": 1e5, "slo_p99_us": 300}, 8, "p99"),
        ({"slo_avg_us": 1e8, "slo_p99_us": 1e8}, 2, "rate"),
    ],
)
def test_what_decides_is_named(slo, tail, decided_by):
    limits = needed(DRIVES, 50, slo)["cells"][0]["limits"]
    assert next(each for each in limits if each["tail"] == tail)["decided_by"] == decided_by


def test_a_fleet_in_dram_needs_no_tier_and_one_that_does_not_fit_has_no_answer():
    small, large = needed(DRIVES, 5), needed(ARM, 500)
    assert all(cell["limits"] is None for cell in small["cells"]) and small["all_cells"] == []
    assert large["cells"] == [] and "no tier beyond it" in large["reasons"][0]
    assert "any" in "\n".join(tier_lines([small, large]))


def test_an_objective_that_dram_itself_misses_has_no_tier():
    found = needed(DRIVES, 50, {"slo_avg_us": 20})
    assert found["all_cells"] == [] and found["cells"][0]["limits"] == []
    assert "no tier is fast enough for every cell" in "\n".join(tier_lines([found]))


def test_the_tier_behind_compressed_memory_is_the_one_that_is_sought():
    found = needed(ZSWAP, 60, {"compressibility": 0.6})
    assert found["tier"] == "devices"
    assert found["cells"][0]["limits"][0]["avg_us"] > needed(DRIVES, 60)["cells"][0]["limits"][0]["avg_us"]


def test_the_sentence_gives_average_p99_and_page_ins():
    (sentence,) = [line for line in tier_lines([needed(DRIVES, 50)]) if "meets the SLO in every cell" in line]
    limit = needed(DRIVES, 50)["all_cells"][1]
    assert f"within {limit['avg_us']:,.1f} us on average and {limit['p99_us']:,.1f} us at p99" in sentence
