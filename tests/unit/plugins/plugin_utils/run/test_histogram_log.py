# SPDX-License-Identifier: GPL-3.0-or-later
"""The logs are read back with the reference library for Python."""

from __future__ import annotations

import os
import pathlib

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from synthetic_fleets import START, latencies

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_phase import LATENCIES


def intervals(path):
    """Return all intervals of a log."""
    reader = HistogramLogReader(str(path), HdrHistogram(1, 2**63 - 1, 2))
    found = []
    while (histogram := reader.get_next_interval_histogram()) is not None:
        found.append(histogram)
    reader.close()
    return found


def logs(directory):
    return {path.name: path for path in pathlib.Path(directory.file("histograms")).iterdir()}


def apart(phase, _host, result):
    """Let each phase start ten seconds after the one before."""
    at = START + 10 * phase["index"]
    return {**result, "started_at": at, "finished_at": at + 2.5}


def test_each_cell_has_a_log_with_an_interval_for_each_iteration_and_latency(record):
    directory, _printed = record(apart)
    publish(directory, lambda line: None)
    assert sorted(logs(directory)) == ["i0-r100.hlog", "i0-r70.hlog", "i10-r100.hlog", "i10-r70.hlog"]
    found = intervals(logs(directory)["i0-r100.hlog"])
    # phases 3 and 4 of the run: its first two are the fill and the warm-up
    assert [(each.tag, each.get_start_time_stamp() / 1000) for each in found] == [
        (name, START + 10 * phase) for phase in (3, 4) for name in LATENCIES
    ]
    assert {each.get_end_time_stamp() - each.get_start_time_stamp() for each in found} == {2500}


def test_the_sum_of_a_log_is_the_cell_of_the_summary(record):
    def differ(phase, host, result):
        values = latencies(1000, 20 + phase["index"] + (5000 if host == "c" else 0), seed=phase["index"])
        return apart(phase, host, result if phase["kind"] == "fill" else {**result, "latency": figures(values)})

    def figures(values):
        return {
            name: Histogram.from_values([value * (1 + place) for value in values]).figures()
            for place, name in enumerate(LATENCIES)
        }

    directory, _printed = record(differ)
    summary, _changed = publish(directory, lambda line: None)
    for cell in summary["cells"]:
        found = intervals(logs(directory)[f"i{cell['influence']:g}-r{cell['read_mix']}.hlog"])
        for name in LATENCIES:
            whole = HdrHistogram(1, 2**63 - 1, 2)
            for each in found:
                if each.tag == name:
                    whole.add(each)
            assert whole.get_total_count() == cell[name]["count"] == 6000
            for figure, percent in (("p50_us", 50), ("p95_us", 95), ("p99_us", 99), ("p999_us", 99.9)):
                assert min(whole.get_value_at_percentile(percent) / 1000, cell[name]["max_us"]) == pytest.approx(
                    cell[name][figure], abs=0.001
                )


def test_the_interval_maximum_is_in_milliseconds(record):
    directory, _printed = record(apart)
    publish(directory, lambda line: None)
    line = next(
        line
        for line in logs(directory)["i0-r70.hlog"].read_text(encoding="ascii").splitlines()
        if line.startswith("Tag=response,")
    )
    _tag, start, length, highest, _encoded = line.split(",")
    assert (start, length) == ("0.000", "2.500")
    largest = max(max(latencies(1000, seed=host)) for host in range(3))
    assert float(highest) == pytest.approx(largest / 1e6, abs=0.0005)


def test_intervals_are_in_the_order_of_time_if_a_phase_was_measured_again(record):
    def late(phase, host, result):
        at = START + (500 if phase["index"] == 3 else 10 * phase["index"])
        return {**result, "started_at": at, "finished_at": at + 1}

    directory, _printed = record(late)
    publish(directory, lambda line: None)
    starts = [each.get_start_time_stamp() / 1000 - START for each in intervals(logs(directory)["i0-r100.hlog"])]
    assert starts == [40] * 6 + [500] * 6


def test_invalid_phases_are_marked_and_phases_without_results_omitted(record):
    def faulty(phase, host, result):
        if phase["index"] == 3 and host == "b":
            return "no route to host"
        return "gone" if phase["index"] == 4 else apart(phase, host, result)

    directory, _printed = record(faulty)
    publish(directory, lambda line: None)
    text = logs(directory)["i0-r100.hlog"].read_text(encoding="ascii")
    assert "#[influence 0, 100 % GET, iteration 1: 2 hosts, INVALID" in text and "iteration 2" not in text
    assert len(intervals(logs(directory)["i0-r100.hlog"])) == 6


def test_publishing_again_changes_nothing(record):
    directory, _printed = record(apart)
    assert publish(directory, lambda line: None)[1] is True
    assert publish(directory, lambda line: None)[1] is False
    os.unlink(directory.file("histograms", "i0-r70.hlog"))
    assert publish(directory, lambda line: None)[1] is True
