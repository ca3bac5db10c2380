# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import gzip
import hashlib
import json
import pathlib

import pytest
from synthetic_fleets import fleet_run

from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import ArmRuns
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import publish as publish_comparison

RUN_CHARTS = {"percentiles": None, "hosts": 2, "heat": 0, "time": None}
COMPARISON_CHARTS = {"percentiles": None, "ratios": None}


def drawn(browser, charts):
    """Count how many shapes each chart has."""
    return {
        name: browser.driver.execute_script(f"return document.querySelectorAll('#chart-{name} svg path').length")
        for name in charts
    }


def test_a_report_draws_its_charts_and_needs_no_network(browser, fleet, look):
    page = fleet / "report.html"
    browser.open(page)
    assert browser.console() == []
    assert browser.requests() == [page.resolve().as_uri()]
    assert all(count > 10 for count in drawn(browser, RUN_CHARTS).values()), drawn(browser, RUN_CHARTS)
    assert browser.driver.execute_script(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    ), "wider than its screen"
    assert browser.driver.find_element("css selector", ".verdict .word").text.endswith("FAIL")


def test_tooltips_name_what_is_under_the_pointer(browser, fleet):
    browser.emulate()
    browser.open(fleet / "report.html")
    seen = {chart: browser.hover(chart, series) for chart, series in RUN_CHARTS.items()}
    assert "influence 0, 100 % GET:" in seen["percentiles"]
    assert seen["hosts"].startswith("vm0007") and "p99" in seen["hosts"]
    assert "× the SLO" in seen["heat"] and "misses the SLO" in seen["hosts"] and "× the SLO" in seen["hosts"]
    assert "page-ins/s:" in seen["time"] and "average:" in seen["time"]
    assert browser.console() == []


def test_another_latency_can_be_chosen_by_keyboard(browser, fleet):
    browser.emulate()
    browser.open(fleet / "report.html")
    browser.driver.execute_script("document.querySelector('#chart-percentiles svg').dataset.old = 'yes'")
    choice = browser.driver.find_element("id", "latency")
    choice.send_keys("service")
    assert choice.get_attribute("value") == "service"
    assert browser.driver.execute_script("return !document.querySelector('#chart-percentiles svg').dataset.old"), (
        "not drawn again"
    )
    assert browser.console() == []


def test_pages_work_with_screen_readers_and_keyboards(browser, fleet):
    browser.emulate()
    browser.open(fleet / "report.html")
    script = browser.driver.execute_script
    assert script("return document.documentElement.lang") == "en"
    assert script("return document.querySelectorAll('h1').length") == 1
    assert script(
        "return [...document.querySelectorAll('.chart')]"
        ".every(e => e.getAttribute('role') === 'img' && e.getAttribute('aria-label'))"
    )
    assert script(
        "return [...document.querySelectorAll('.chart')].every(e => e.closest('section').querySelector('table')"
        " || document.querySelector('#figures table'))"
    ), "a chart without its table"
    assert script("return [...document.querySelectorAll('table')].every(e => e.querySelector('th[scope=col]'))")
    assert script("return [...document.querySelectorAll('select')].every(e => e.closest('label'))")
    browser.driver.find_element("tag name", "body").send_keys("\ue004")
    assert script("return document.activeElement.className") == "skip"
    assert script("return getComputedStyle(document.activeElement).left") != "-15984px"
    assert script(
        "return [...document.querySelectorAll('[aria-labelledby]')]"
        ".every(e => document.getElementById(e.getAttribute('aria-labelledby')))"
    )


def test_a_comparison_draws_its_charts(browser, comparison, look):
    browser.open(comparison)
    assert browser.console() == []
    assert browser.requests() == [comparison.resolve().as_uri()]
    assert all(count > 10 for count in drawn(browser, COMPARISON_CHARTS).values())
    if look == "desktop":
        assert "swap: " in browser.hover("ratios", 0) and "95 % interval over the runs: " in browser.hover("ratios", 0)


def test_the_throughput_has_its_answer_on_top(browser, throughput, look):
    browser.open(throughput)
    script = browser.driver.execute_script
    assert browser.console() == []
    names = script("return document.querySelector('#chart-throughput_benchmark-curve svg').textContent")
    assert "memory in use, MB" in names and "SETs per second" in names
    assert browser.driver.find_element("tag name", "h1").text.startswith(
        "Of the operations per second of dram, zram reaches "
    )
    assert script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth"), (
        "wider than its screen"
    )


PAID = {
    "date": "2026-01-31",
    "currency": "EUR",
    "server": 9000,
    "dram_per_gb": 10,
    "tier_per_gb": 0.3,
    "months": 48,
    "servers": 8,
    "power_w": 500,
    "price_per_kwh": 0.25,
    "tier_drive_writes_per_day": 3,
}


def test_the_cost_is_shown_where_prices_are_given(browser, tmp_path, look):
    run = fleet_run(tmp_path, hosts=4, profile="dram")
    summary = publish(run, lambda line: None, prices=cost.prices("prices", {**PAID, "dram_vms": 2}))[0]
    assert summary["verdict"] == "pass" and summary["cost"]["arms"][0]["vms"] == 4
    browser.open(tmp_path / run.run_id / "report.html")
    assert browser.console() == []
    section = browser.driver.find_element("id", "cost")
    assert (
        "EUR, with the prices of 2026-01-31" in section.text
        and "50.0%" in section.text
        and "xample" not in section.text
    )
    assert browser.driver.find_element("css selector", "nav a[href='#cost']").text == "Cost"
    assert browser.driver.execute_script(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    ), "wider than its screen"


def test_example_prices_are_labelled(browser, tmp_path):
    arms = [ArmRuns(None, [fleet_run(tmp_path, hosts=4, profile=profile)]) for profile in ("dram", "swap")]
    publish_comparison(RunDirectory(str(tmp_path), "plain"), arms, lambda line: None)
    assert 'id="cost"' not in (tmp_path / "plain" / "comparison.html").read_text(encoding="utf-8")
    publish_comparison(
        RunDirectory(str(tmp_path), "priced"), arms, lambda line: None, cost.prices("prices", {}, example=True)
    )
    page = tmp_path / "priced" / "comparison.html"
    browser.emulate()
    browser.open(page)
    assert browser.console() == []
    section = browser.driver.find_element("id", "cost").text
    assert (
        "Example prices, not a quotation" in section
        and "Savings are relative to dram with 4 VMs on a server" in section
    )


def test_the_report_shows_how_to_reproduce_the_run(browser, tmp_path):
    run = fleet_run(tmp_path, hosts=30)
    document = run.read_json("run.json")
    document.update(
        command="ansible-playbook site.yml -e profile=dram",
        versions={"memstretch.density": "1.0.0", "ansible-core": "2.19.4"},
        inventory={
            "sources": ["hosts.yml"],
            "groups": {"fleet": document["expected"]},
            "addresses": {"vm0001": "192.0.2.1"},
        },
    )
    run.write_json("run.json", document)
    publish(run, lambda line: None)
    browser.emulate()
    browser.open(tmp_path / run.run_id / "report.html")
    text = browser.driver.find_element("id", "reproduce").text
    assert (
        "ansible-playbook site.yml -e profile=dram" in text
        and "vm0001 ansible_host=192.0.2.1  # Redis at vm0001" in text
    )
    assert "# and 6 more" in text and "2.19.4" in text and document["config_hash"] in text


@pytest.mark.parametrize("hosts, iterations", [(1, 1), (2, 2)])
def test_the_smallest_runs_have_a_report(browser, tmp_path, hosts, iterations):
    run = fleet_run(tmp_path, hosts=hosts, iterations=iterations)
    publish(run, lambda line: None)
    browser.emulate()
    browser.open(tmp_path / run.run_id / "report.html")
    assert browser.console() == []


def test_a_lost_host_is_shown_at_the_top(browser, tmp_path):
    run = fleet_run(tmp_path, hosts=3, fails={"vm0001"})
    summary = publish(run, lambda line: None)[0]
    assert summary["verdict"] == "invalid"
    browser.emulate()
    browser.open(tmp_path / run.run_id / "report.html")
    assert browser.console() == []
    header = browser.driver.find_element("tag name", "header").text
    assert "INVALID" in header and "vm0001: Redis died" in header and "PASS" not in header


def test_text_from_a_host_is_escaped(browser, tmp_path):
    run = fleet_run(tmp_path, hosts=2, fails={"vm0001"})
    last = sorted((tmp_path / run.run_id / "phases").iterdir())[-1]
    document = json.loads(last.read_text(encoding="utf-8"))
    document["reasons"] = [
        "vm0001: </script><script>document.title = 'owned'</script><img src=https://example.com/x.png>"
    ]
    last.unlink()
    run.write_phase(document)
    publish(run, lambda line: None)
    browser.emulate()
    page = tmp_path / run.run_id / "report.html"
    browser.open(page)
    assert browser.driver.title == f"INVALID: {run.run_id}"
    assert browser.requests() == [page.resolve().as_uri()]


def test_the_report_of_a_large_fleet_is_not_large(browser, tmp_path):
    run = fleet_run(tmp_path, hosts=108, profile="swap", sick={7})
    publish(run, lambda line: None)
    page = tmp_path / run.run_id / "report.html"
    assert page.stat().st_size < 2_000_000
    browser.emulate()
    browser.open(page)
    assert browser.console() == []
    assert browser.hover("hosts", 2).startswith("vm0007")


def test_a_sick_tenth_of_the_fleet_never_passes(tmp_path):
    """The fleet's average and the mean of the p99s, as in the brief, would both pass."""
    run = fleet_run(tmp_path, hosts=100, profile="dram", sick=range(0, 100, 10))
    summary = publish(run, lambda line: None)[0]
    assert summary["verdict"] == "fail"
    assert {cell["hosts_within_slo"] for cell in summary["cells"]} == {90}
    assert all(cell["response"]["avg_us"] < 50 for cell in summary["cells"])
    page = (tmp_path / run.run_id / "report.html").read_text(encoding="utf-8")
    assert "90 of 100" in page and "✔</span> PASS" not in page


def test_the_chart_library_has_the_documented_checksum():
    place = pathlib.Path(__file__).parents[2] / "files" / "report"
    digest = hashlib.sha256(gzip.decompress((place / "echarts" / "echarts.min.js.gz").read_bytes())).hexdigest()
    assert digest in (place / "README.md").read_text(encoding="utf-8")
