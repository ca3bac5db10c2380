# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from synthetic_ramps import dram, tier

from ansible_collections.memstretch.density.plugins.plugin_utils.cost.figures import prices
from ansible_collections.memstretch.density.plugins.plugin_utils.density.priced import priced

from .judging import ROUNDS, judged


def paid(**more):
    return prices(
        "prices", {"date": "2026-01-31", "currency": "EUR", "server": 9000, "dram_per_gb": 10, "months": 48, **more}
    )


def costs(areas, **more):
    found = judged([*dram(ROUNDS), *tier("zram_swap", ROUNDS, 20.5, tier=areas)], ("dram", "zram_swap"))
    return found["arms"][1], priced(found, paid(**more))["arms"][1]


def test_a_server_costs_what_the_machine_costs_divided_by_the_density():
    arm, cost = costs(["/swap"], tier_per_gb=0.3)
    assert cost["vms"] == arm["density"] and cost["vms_interval"] == arm["interval"]
    assert cost["tier_gb"] == pytest.approx(2**31 / 10**9, rel=0.001) and cost["dram_gb"] == 0.25
    assert cost["saving"] > 0.4 and cost["saving_interval"][0] < cost["saving"] < cost["saving_interval"][1]


def test_zram_is_no_drive_and_a_mix_needs_the_size_of_its_drive():
    assert costs(["/dev/zram0"])[1]["tier_gb"] == 0
    mixed = costs(["/dev/zram0", "/swap"])[1]
    assert mixed["vms"] is None and "set arms.zram_swap.tier_gb" in mixed["why"]
    given = costs(["/dev/zram0", "/swap"], arms={"zram_swap": {"tier_gb": 4}})[1]
    assert given["vms"] and given["tier_gb"] == 4


def test_without_prices_or_a_density_there_is_no_cost():
    found = judged(dram(ROUNDS), ("dram",))
    assert priced(found, None) is None
    assert priced({**found, "arms": []}, paid()) is None
