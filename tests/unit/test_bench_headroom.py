# SPDX-License-Identifier: GPL-3.0-or-later
"""The bench of headroom: its sizes follow from the forecast, and each load keeps its own figures in the page."""

from __future__ import annotations

import json
import re
import sys

import pytest

from ansible_collections.memstretch.density.tests.unit.fixtures.pages import ROOT

sys.path.append(str(ROOT / "tests" / "bench"))

import headroom
import held_fleet

MIB = 2**20


@pytest.fixture
def units():
    """Four servers whose active memory grows with the square root of the age: 1 MiB in a second."""

    def age(seconds):
        active = round(MIB * seconds**0.5)
        ends = {"low_bytes": active - 1000, "high_bytes": active + 1000}
        return {"seconds": seconds, "watched_s": float(seconds), "active_bytes": active, **ends}

    server = {"name": "redis", "stretchable_bytes": 12 * MIB, "pinned_bytes": 0, "given_bytes": None}
    return [{**server, "ages": [age(seconds) for seconds in headroom.AGES]} for _number in range(4)]


@pytest.mark.parametrize("age", headroom.REUSE_AGES)
def test_the_size_of_a_reuse_age(units, age):
    forecasts = headroom.Forecasts(units)
    dram = forecasts.dram_at(lambda found: not found.thrashes and (found.age is None or found.age >= age))

    assert dram / 4 == pytest.approx(MIB * age**0.5, rel=0.01)
    # Denning's relation: the derivative of 256 pages times the root of the age.
    assert forecasts.at(dram).total == pytest.approx(4 * 256 / 2 / age**0.5, rel=0.03)


def test_the_size_that_has_as_many_page_ins(units):
    """Half as many page-ins belong to four times the age, so to twice the DRAM: half as many servers are forecast."""
    few, many = (4 * 256 / 2 / age**0.5 for age in (16, 4))
    forecasts = headroom.Forecasts(units)
    sizes = [forecasts.least_dram(counted) for counted in (few, many)]
    assert sizes[0] / sizes[1] == pytest.approx(2, rel=0.03)


def test_a_load_replaces_its_own_figures_only():
    old = "What it is.\n\n### Influence 0\n\n1\n\n### Influence 25\n\n2\n\n### Influence 25, idle\n\n3\n"
    assert (
        headroom.merged(old, "### Influence 25\n\n4")
        == "### Influence 0\n\n1\n\n### Influence 25\n\n4\n\n### Influence 25, idle\n\n3"
    )
    assert headroom.merged("No figures yet.", "### Influence 0\n\n4") == "### Influence 0\n\n4"


@pytest.mark.parametrize(("hot", "clients"), [(0.0, [(10_000, 50)]), (0.2, [(2000, 45), (10_000, 5)])])
def test_a_hot_set_gets_requests_of_its_own(hot, clients):
    found = held_fleet.requests(held_fleet.Load(hot=hot, rate=50))
    assert found == [(keys, pytest.approx(rate)) for keys, rate in clients]


def test_what_was_seen_in_another_machine_becomes_figures_here(units):
    """Held with half the page-ins that were forecast: twice the forecast, and half as many servers."""
    seen = {
        "load": held_fleet.LOADS["half-idle"],
        "tier": "zram",
        "day": "2026-11-29",
        "machine": "a machine",
        "cost": {"cpu_s": 1.0, "kernel_cpu_s": 0.5, "seconds": 60.0, "pages": 500},
        "units": units,
        "held": [headroom.Held(4, 4 * 2 * MIB, 4 * 2 * MIB, 4 * 256 / 2 / 4, 1.0)],
    }
    text = "\n".join(headroom.lines(json.loads(json.dumps(seen))))

    assert text.startswith("### Influence 25, 50 requests/s, zram, 50% of the servers busy and the others idle\n")
    assert re.search(r"^\| 2\.00 \(2\.00\) \| 4 \| 1\.000 \| 25[56] \(.*\) \| 128 \| 2\.00 \| 0\.50\d \|$", text, re.M)
    assert "Page-ins within 15% at 0 of 1 sizes, servers within 10% at 0; 0 of the intervals hold" in text


def test_a_process_that_touches_pages_at_random_has_a_known_active_memory():
    """2,560 pages, 50 of which are touched each second: after 51.2 s, a share of 1 - 1/e."""
    assert held_fleet.planted_active(held_fleet.Load(rate=50), 51.2) == pytest.approx(10 * MIB * 0.63212, rel=1e-4)
