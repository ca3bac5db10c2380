# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from synthetic_densities import empty, entry

from ansible_collections.memstretch.density.plugins.plugin_utils.report import density_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.density_page import density_page
from ansible_collections.memstretch.density.plugins.plugin_utils.study import density_result
from ansible_collections.memstretch.density.tests.unit.fixtures.sites import NOISY_SITE


def concluded(*runs, arms=("dram",), **changes):
    document = empty(arms, **{"maximum": 8, **changes})
    document["runs"] = list(runs)
    density_result.conclude(document)
    return document


def test_a_site_that_was_too_noisy_is_named_with_the_result():
    document = empty(("dram",))
    document.update(runs=[entry("dram", 2, "pass")], site_checks=[NOISY_SITE])
    density_result.conclude(document)
    assert document["labels"] == ["the site was too noisy: kvm01: 7.0% of its CPU time was stolen"]
    assert "  note: the site was too noisy: kvm01: 7.0% of its CPU time was stolen" in density_text.lines(document)
    page = density_page({**document, "id": "d", "cost": None, "attempts_summary": {"groups": []}})
    assert (
        "<strong>Note:</strong> the site was too noisy: kvm01: 7.0%" in page and "Site check of kvm01: avg 40" in page
    )
    assert concluded(entry("dram", 2, "pass"))["labels"] == []


def test_the_figures_of_an_invalid_probe_are_no_figures():
    probes = [entry("dram", 2, "pass", p99_us=100, worst_host_p99_us=200)]
    probes += [entry("dram", 3, "invalid", p99_us=900000, hosts_within_slo=0)]
    found = concluded(*probes)["density"][0]
    assert found["curve"][-1] == {
        "size": 3,
        "passed": 0,
        "undecided": 0,
        "failed": 0,
        "invalid": 1,
        "hosts_within_slo": 0,
        "avg_us": None,
        "p99_us": None,
        "worst_host_avg_us": None,
        "worst_host_p99_us": None,
        "cpu_us": None,
        "lost": [],
    }
    probes.append(entry("dram", 3, "pass", p99_us=160, worst_host_p99_us=320))
    last = concluded(*probes)["density"][0]["curve"][-1]
    assert (last["p99_us"], last["worst_host_p99_us"], last["hosts_within_slo"], last["invalid"]) == (160, 320, 3, 1)


def test_a_sick_host_is_named_and_an_overloaded_fleet_is_not():
    sick = [entry("dram", size, "fail", missed=["vm0002"]) for size in (4, 5, 6)]
    assert concluded(*sick[:2])["density"][0]["sick"] == [], "it may be chance"
    document = concluded(entry("dram", 1, "pass"), *sick)
    assert document["density"][0]["sick"] == [{"name": "vm0002", "probes": 3}]
    assert "vm0002 missed the SLO in all 3 probes that held it" in "\n".join(density_text.lines(document))
    assert concluded(*sick, entry("dram", 3, "pass"))["density"][0]["sick"] == [], "it can meet the SLO"
    overload = [entry("dram", 4, "fail", missed=["vm0001", "vm0002", "vm0003"]) for _probe in range(5)]
    assert concluded(*overload)["density"][0]["sick"] == []


def test_the_text_shows_intervals_and_what_was_discarded():
    document = concluded(
        *(
            entry(arm, size, "pass" if size <= limit else "fail")
            for arm, limit in (("dram", 3), ("swap", 4))
            for size in (3, 4, 5)
        ),
        entry("swap", 4, "invalid"),
        arms=("dram", "swap"),
        probes=3,
    )
    text = "\n".join(density_text.lines(document))
    assert "indicative: " in text and "1.33" not in text
    assert "1 of 4 attempts could not be judged" in text and "if all of them had failed, the density would be" in text
    assert "the budget of 3 probes is used, and the interval is wider than a factor of 1.25" in text


def test_a_search_that_ran_out_of_time_says_so():
    document = empty(("dram",))
    document.update(runs=[entry("dram", 2, "pass")], out_of_time=True)
    density_result.conclude(document)
    assert document["density"][0]["stopped_by"] == "minutes"
    assert "the time is used after 1 probe, and" in "\n".join(density_text.lines(document))


def test_a_calibrated_slo_says_where_it_comes_from():
    document = empty(("dram",))
    found = {"factor": 1.5, "fitting": 3, "hosts": 2, "avg_us": 43, "p99_us": 1310, "run_id": "r", "budget_bytes": None}
    found["slo"] = {"avg_us": 64.5, "p99_us": 1970.0}
    document.update(runs=[], calibration=found)
    assert density_result.searches(document)["dram"].next_size() == 3, "what fits is the first guess"
    document["runs"] = [entry("dram", 2, "pass")]
    density_result.conclude(document)
    sentence = "The SLO is avg 64.5 us and p99 1,970 us: 1.5 times what DRAM alone does with 2 of 3 hosts (avg 43 us"
    assert sentence in "\n".join(density_text.lines(document))
