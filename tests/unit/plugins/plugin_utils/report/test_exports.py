# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import csv
import dataclasses
import datetime
import io
import pathlib

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families
from synthetic_fleets import fleet_run

from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.report import exports
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import evaluate
from ansible_collections.memstretch.density.tests.unit.fixtures.charged import BUDGET, charged_run, taken


def samples(text, name, **labels):
    return [
        sample.value
        for family in open_metrics_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_publishing_writes_the_exports(record):
    directory, _printed = record()
    assert publish(directory, lambda line: None)[1]
    for name in ("cells.csv", "hosts.csv", "metrics.prom", "report.html"):
        assert pathlib.Path(directory.file(name)).stat().st_size > 100
    assert not publish(directory, lambda line: None)[1], "publishing again changed a file"


def test_open_metrics_can_be_parsed_by_prometheus(record):
    summary, details = evaluate(record()[0])
    text = exports.open_metrics(summary, details)
    assert text.endswith("# EOF\n")
    assert {family.name for family in open_metrics_families(text)} == {family.name for family in text_families(text)}
    cell = summary["cells"][0]
    (p99,) = samples(
        text, "memstretch_latency_seconds", influence="0", read_mix="100", latency="intended", figure="p99"
    )
    assert p99 == pytest.approx(cell["intended"]["p99_us"] / 1e6)
    bounds = samples(text, "memstretch_intended_bound_seconds", influence="0", read_mix="100", figure="average")
    assert bounds == pytest.approx([value / 1e6 for value in cell["interval"]["avg_us"]], rel=1e-6)
    assert samples(text, "memstretch_run_verdict", verdict="pass") == [1]
    assert len(samples(text, "memstretch_host_intended_seconds", figure="p99")) == 4 * 3


def test_the_metrics_have_the_time_the_memory_and_the_cost_of_the_run(tmp_path):
    directory = fleet_run(tmp_path, hosts=3, profile="swap")
    prices = cost.prices("prices", {}, True)
    summary = publish(directory, lambda line: None, prices=prices)[0]
    text = pathlib.Path(directory.file("metrics.prom")).read_text(encoding="utf-8")
    (ended,) = samples(text, "memstretch_run_finished_timestamp_seconds")
    assert (
        datetime.datetime.fromtimestamp(ended, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") == (summary["finished_at"])
    )
    (cell,) = (each for each in summary["cells"] if (each["influence"], each["read_mix"]) == (0, 100))
    ((machine, pressure),) = cell["pressure"].items()
    labels = {"influence": "0", "read_mix": "100", "machine": machine}
    assert samples(text, "memstretch_page_ins_per_second", **labels) == [pressure["page_ins"]] and pressure["page_ins"]
    stalled = samples(text, "memstretch_pressure_stalled_ratio", resource="memory", **labels)
    assert stalled == [pytest.approx(pressure["psi_memory"] / 100)] and stalled[0] > 0
    (arm,) = summary["cost"]["arms"]
    assert arm["per_vm_month"] and samples(
        text, "memstretch_vm_cost_per_month", profile="swap", currency="USD", example_prices="true"
    ) == [arm["per_vm_month"]]
    assert {sample.timestamp for family in open_metrics_families(text) for sample in family.samples} == {None}, (
        "node_exporter refuses the file"
    )


def test_the_metrics_have_the_charged_dram_of_a_fleet_with_a_budget(tmp_path):
    summary, details = evaluate(charged_run(tmp_path / "run", taken(), taken(1.01)))
    text = exports.open_metrics(summary, details)
    assert samples(text, "memstretch_dram_bytes", kind="budget") == [BUDGET]
    assert samples(text, "memstretch_dram_bytes", kind="charged") == [summary["dram"]["charged_bytes"]] > [BUDGET]
    assert samples(text, "memstretch_compression_ratio") == [summary["dram"]["compression_ratio"]] != [None]


def test_no_export_shows_an_invalid_run_as_passed(record):
    directory, _printed = record(
        lambda phase, host, result: "Redis died" if phase["index"] == 4 and host == "c" else result
    )
    summary, details = evaluate(directory)
    text = exports.open_metrics(summary, details)
    assert samples(text, "memstretch_run_verdict", verdict="pass") == [0]
    assert samples(text, "memstretch_run_verdict", verdict="invalid") == [1]
    assert samples(text, "memstretch_cell_valid", influence="0", read_mix="100") == [0]
    assert {row["verdict"] for row in rows(exports.cells_csv(summary))} == {"invalid"}
    of_cell = [
        row
        for row in rows(exports.hosts_csv(summary, details))
        if row["influence"] == "0.0" and row["read_mix"] == "100"
    ]
    assert {row["answer"] for row in of_cell} == {"invalid"}


def test_tables_have_every_cell_and_host(record):
    summary, details = evaluate(record()[0])
    cells = rows(exports.cells_csv(summary))
    assert len(cells) == 4
    assert float(cells[0]["intended_p99_us"]) == summary["cells"][0]["intended"]["p99_us"]
    assert float(cells[0]["intended_avg_us_low"]) == summary["cells"][0]["interval"]["avg_us"][0]
    hosts = rows(exports.hosts_csv(summary, details))
    assert [row["host"] for row in hosts] == ["a", "b", "c"] * 4
    assert {row["answer"] for row in hosts} == {"pass"} and {row["iterations"] for row in hosts} == {"2"}


def test_names_that_need_quoting(record):
    summary, details = evaluate(record()[0])
    name = 'say "hi", \\ and\nmore'
    summary["profile"] = name
    assert samples(exports.open_metrics(summary, details), "memstretch_run_verdict", profile=name, verdict="pass") == [
        1
    ]
    assert {row["profile"] for row in rows(exports.cells_csv(summary))} == {name}


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\n"])
def test_no_name_is_a_formula(record, start):
    """A cloud's tenant names hosts, and a spreadsheet program runs what looks like a formula."""
    summary, details = evaluate(record()[0])
    summary["profile"] = name = f"{start}cmd|'/c calc'!A1"
    details = {
        cell: dataclasses.replace(each, hosts=[{**each.hosts[0], "name": name}]) for cell, each in details.items()
    }
    assert {row["profile"] for row in rows(exports.cells_csv(summary))} == {f"'{name}"}
    assert {row["host"] for row in rows(exports.hosts_csv(summary, details))} == {f"'{name}"}
