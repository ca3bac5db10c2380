# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import csv
import io

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families
from synthetic_ramps import dram, tier

from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.density import exports
from ansible_collections.memstretch.density.plugins.plugin_utils.density.priced import priced

from .judging import ROUNDS, judged


def samples(text, name, **labels):
    return [
        sample.value
        for family in open_metrics_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def test_exports_have_the_density_with_its_interval_and_what_it_needs(decided):
    paid = cost.prices("prices", {}, True)
    text = exports.open_metrics({**decided, "cost": priced(decided, paid)}, 1000.5)
    dram, zram = decided["arms"]
    assert samples(text, "memstretch_density") == [dram["density"], zram["density"]]
    assert samples(text, "memstretch_density_bound", profile="zram") == zram["interval"]
    assert samples(text, "memstretch_density_measured_timestamp_seconds", profile="dram") == [1000.5]
    (page_ins,) = samples(text, "memstretch_density_page_ins_per_second", profile="zram")
    assert page_ins == 1000 and samples(text, "memstretch_density_page_ins_per_second", profile="dram") == [0]
    (p99,) = samples(text, "memstretch_density_latency_seconds", profile="zram", figure="p99")
    assert p99 == pytest.approx(zram["latency"]["p99_us"] / 1e6)
    assert len(samples(text, "memstretch_density_charged_bytes")) == 2
    assert samples(text, "memstretch_density_memory_pressure_ratio") == [], "it was not recorded"
    assert len(samples(text, "memstretch_density_vm_cost_per_month", currency="USD", example_prices="true")) == 2


def test_the_pressure_is_that_near_the_density():
    ramps = [*dram(ROUNDS), *tier("zram", ROUNDS, 28.5, memory_some_share=0.02)]
    answer = judged(ramps)
    assert samples(exports.open_metrics(answer, 1.0), "memstretch_density_memory_pressure_ratio") == [0.02]
    last = list(csv.DictReader(io.StringIO(exports.windows_csv(answer))))[-1]
    assert (last["profile"], last["memory_some_share"]) == ("zram", "0.02")


def test_the_collector_of_node_exporter_accepts_the_file(decided):
    """It refuses a file in which a sample has a time stamp."""
    text = exports.open_metrics(decided, 1000.5)
    assert {family.name for family in open_metrics_families(text)} == {family.name for family in text_families(text)}
    assert {sample.timestamp for family in open_metrics_families(text) for sample in family.samples} == {None}


def test_a_table_has_each_window(decided):
    lines = exports.windows_csv(decided).splitlines()
    assert len(lines) == 1 + sum(len(each["points"]) for arm in decided["arms"] for each in arm["rounds"])


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\n"])
def test_no_text_of_a_host_is_a_formula(decided, start):
    """A measured host says why a window is disturbed, and a spreadsheet program runs what looks like a formula."""
    text = f"{start}HYPERLINK(A1)"
    point = decided["arms"][0]["rounds"][0]["points"][0]
    point["disturbed"] = text
    first = next(csv.DictReader(io.StringIO(exports.windows_csv(decided))))
    assert first["disturbed"] == f"'{text}" and first["settled"] in ("true", "false")
