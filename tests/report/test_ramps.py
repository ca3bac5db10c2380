# SPDX-License-Identifier: GPL-3.0-or-later
"""The sliders of a density's page: the densities follow, by the rules of the collection."""

from __future__ import annotations

import math

import pytest
from synthetic_ramps import definition

from ansible_collections.memstretch.density.plugins.plugin_utils.density.answer import answer as judge


def carried(browser):
    return browser.driver.execute_script("return document.getElementById('carried').textContent")


def move(browser, average, p99):
    for name, value in (("average", average), ("p99", p99)):
        browser.driver.execute_script(
            "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
            "e.dispatchEvent(new Event('input'))",
            f"limit-{name}",
            math.log(value),
        )


def expected(answer):
    first = answer["arms"][0]
    texts = []
    for arm in answer["arms"]:
        least = "at least " if arm["passes"]["at_least"] else ""
        times = f" ({least}{arm['ratio']['ratio']:.1f}\N{NO-BREAK SPACE}×)" if arm is not first and arm["ratio"] else ""
        texts.append(f"{arm['name']} {least}{arm['fleet_density']}{times}")
    return ", ".join(texts)


def test_the_page_begins_with_the_densities_of_its_answer(browser, ramps):
    browser.emulate()
    browser.open(ramps[0])
    assert carried(browser) == expected(ramps[1])


@pytest.mark.parametrize("factor", [1.3, 1.7, 2.6])
def test_the_densities_follow_the_sliders_as_the_collection_computes_them(browser, ramps, factor):
    moved = judge(definition(["dram", "zram", "swap"], objective={"kind": "relative", "factor": factor}), ramps[2])
    browser.emulate()
    browser.open(ramps[0])
    move(browser, factor, factor)
    if not any(arm["passes"]["at_most"] for arm in moved["arms"]):
        assert carried(browser) == expected(moved)
    else:
        assert "fewer than" in carried(browser)


def test_limits_in_microseconds_move_them_too(browser, ramps):
    browser.emulate()
    browser.open(ramps[0])
    browser.driver.execute_script(
        "const e = document.getElementById('objective-kind'); e.value = 'absolute';e.dispatchEvent(new Event('change'))"
    )
    before = carried(browser)
    move(browser, 80, 1000)
    limits = {"kind": "absolute", "avg_us": 80.0, "p99_us": 1000.0}
    moved = judge(definition(["dram", "zram", "swap"], objective=limits), ramps[2])
    assert not moved["arms"][1]["at_most"]
    assert carried(browser).split(", ")[:2] == expected(moved).split(", ")[:2] and carried(browser) != before
    assert browser.console() == []
