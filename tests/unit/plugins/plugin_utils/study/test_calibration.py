# SPDX-License-Identifier: GPL-3.0-or-later
"""An SLO from runs whose truth is known."""

from __future__ import annotations

import pytest
from synthetic_fleets import START, latencies

from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.study import calibration


@pytest.fixture
def dram(record, make_result):
    """A run of three hosts in DRAM; the one named c is slower, in the cells of influence 10."""

    def slow(phase, host, result):
        if host == "c" and phase.get("influence") == 10:
            return make_result(phase, 0, START, values=latencies(980, average_us=100) + latencies(20, average_us=500))
        return result

    directory = record(slow)[0]
    publish(directory, lambda line: None)
    return directory


def found(hosts, charged=None, budget=None):
    return calibration.InDram("run", hosts, 40, 130, charged, budget)


def test_the_worst_host_in_the_worst_cell_gives_the_slo(dram):
    result = calibration.calibrate(lambda size: dram, 1.5, maximum=6, first=3)
    assert 100 < result["avg_us"] < 130 and 450 < result["p99_us"] < 600, result
    assert result["slo"]["avg_us"] == pytest.approx(1.5 * result["avg_us"], rel=0.01)
    assert result["slo"]["p99_us"] == pytest.approx(1.5 * result["p99_us"], rel=0.01)
    assert (result["hosts"], result["fitting"], result["run_id"]) == (3, 6, dram.run_id)
    assert calibration.variables(result) == {
        "latency_benchmark_slo_avg_us": result["slo"]["avg_us"],
        "latency_benchmark_slo_p99_us": result["slo"]["p99_us"],
    }
    text = calibration.sentence(result)
    slo = result["slo"]
    assert text.startswith(
        f"The SLO is avg {slo['avg_us']:g} us and p99 {slo['p99_us']:g} us: 1.5 times what DRAM alone does with 3 of 6 "
        "hosts (avg 1"
    ), text


def test_half_of_what_fits_is_measured_if_the_first_fleet_is_not_half(dram):
    sizes = []

    def measure(size):
        sizes.append(size)
        return dram

    calibration.calibrate(measure, 2, maximum=20, first=3)
    calibration.calibrate(measure, 2, maximum=20)
    calibration.calibrate(measure, 2, maximum=1, first=3)
    assert sizes == [3, 10, 1, 10, 1, 1]


@pytest.mark.parametrize(
    "of, maximum, fits",
    [
        (found(2), 8, 8),
        (found(2, charged=80, budget=170), 8, 4),
        (found(2, charged=80, budget=170), 3, 3),
        (found(2, charged=400, budget=170), 8, 1),
    ],
)
def test_what_fits_is_measured_by_the_charged_dram(of, maximum, fits):
    assert calibration.fitting(of, maximum) == fits


def test_a_run_that_lost_a_host_gives_no_slo(record):
    killed = ("killed", {"error": {"kind": "lost"}, "fill": {"keys": 5}, "requests": {"sent": 5}})
    directory = record(lambda phase, host, result: killed if host == "b" else result)[0]
    with pytest.raises(RunError, match="the SLO cannot be calibrated in DRAM, because run is fail: .*b died"):
        calibration.in_dram(directory)


def test_a_budget_is_part_of_the_sentence():
    result = {
        "factor": 1.5,
        "fitting": 4,
        "slo": {"avg_us": 120.0, "p99_us": 450.0},
        **found(2, 80, 170 * 2**20)._asdict(),
    }
    assert "with 2 of the 4 hosts that fit into 170" in calibration.sentence(result)
