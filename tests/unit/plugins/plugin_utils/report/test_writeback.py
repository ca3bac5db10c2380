# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section of the writeback experiment: its answer, the source's figures, the proof, and axes that can be read."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import writeback_results
from ansible_collections.memstretch.density.plugins.module_utils.experiment.writeback import Setting
from ansible_collections.memstretch.density.plugins.plugin_utils.report import experiments
from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text

MIB = 2**20
CELLS = ((16384, 10), (16384, 1), (4096, 1))


def cell(iops, valid, fsyncs=500):
    return {
        "iops": iops,
        "seconds": 5.0,
        "fsyncs": fsyncs,
        "valid": valid,
        "reason": "" if valid else "no write-back ran",
        "samples": [[each / 5, 300 * MIB, 40 * MIB, 90 * MIB] for each in range(9)],
        "write_avg_ms": 0.5,
        "avg_ms": 2.25,
        "p95_ms": 12.5,
        "p99_ms": 40.0,
        "max_ms": 145.0,
        **dict.fromkeys(("writeback_per_second", "device_per_second"), 90 * MIB),
        "dirty_max": 300 * MIB,
        "writeback_max": 40 * MIB,
    }


def setting(dirty_bytes, iops, *, valid=True, sequential=250e6, queue=None):
    repetitions = [
        {
            "limit": dirty_bytes or 4800 * MIB,
            "sequential": sequential,
            "cells": {name: cell(each, valid) for name in CELLS},
            "idle": {name: cell(1500, True) for name in CELLS},
        }
        for each in iops
    ]
    return Setting(dirty_bytes, queue or {}, repetitions=repetitions)


def section(*settings, **changed):
    options = {"flood_size": 5 * 2**30, "emulated_iops": 0, "emulated_bandwidth": 150 * 10**6, **changed}
    origin = {"date": "2026-01-02", "seconds": 611.7, "cpu_model": "A CPU", "kernel": "6.12.1", "stolen": 0.0012}
    result = {
        **writeback_results.facts(settings),
        "settings": options,
        "disk": {"name": "sda"},
        "fio": "3.33",
        "origin": origin,
    }
    return experiments.EXPERIMENTS["writeback_benchmark"]({"hosts": {"kvm01": result}})


OWN = setting(0, (10, 11, 9, 10, 10))
KNEE = setting(15 * MIB, (400, 410, 390, 400, 400), sequential=220e6)


def test_the_answer_is_one_sentence_on_top_with_its_intervals():
    found = section(OWN, setting(64 * MIB, (100, 105, 95, 100, 100)), KNEE)

    assert found.answer.startswith(
        "The knee on sda is vm.dirty_bytes 15 MiB (15 to 15 MiB): the cell that suffers most keeps 40."
    )
    assert found.answer.endswith(
        " times as much of its idle IOPS as under the host's own settings, at 88% of the sequential throughput there."
    )
    assert "To keep this setting: host_tuning_dirty_bytes: 15728640" in found.sentences
    assert report_text.section(found)[2] == found.answer


def test_a_queue_is_kept_in_another_way_than_a_dirty_limit():
    bfq = {"scheduler": "bfq", "nr_requests": 64}
    queue = (
        "To keep this queue: the module memstretch.density.host_settings with block_queue: {nr_requests: 64, "
        "scheduler: bfq} and block_devices: [the path of sda below /dev/disk/by-id]"
    )

    alone = [each for each in section(OWN, setting(0, (400,) * 5, queue=bfq)).sentences if "keep" in each]
    both = [each for each in section(OWN, setting(15 * MIB, (400,) * 5, queue=bfq)).sentences if "keep" in each]

    assert alone == [queue]
    assert both == ["To keep this setting: host_tuning_dirty_bytes: 15728640", queue]


def test_the_figures_of_the_source_are_next_to_ours():
    rows = section(OWN, KNEE).tables[0].rows

    assert ("10 writers of 16 KiB", "IOPS under the flood, baseline", "33", "10.0, range 9.0 to 11.0") in rows
    assert ("1 writer of 16 KiB", "gain", "50", "40.00") in rows
    assert ("1 writer of 4 KiB", "average / p95 / maximum ms, knee", "2.22 / 12.35 / 145", "2.25 / 12.50 / 145") in rows


def test_a_setting_without_write_back_is_a_doubt():
    found = section(OWN, setting(256 * MIB, (900,) * 5, valid=False), KNEE)

    assert found.doubts == [
        "vm.dirty_bytes 256 MiB does not count: 10 writers of 16,384 bytes: no write-back ran",
    ]
    assert [row[-1] for row in found.tables[2].rows] == ["yes"] * 3 + ["no"] * 3 + ["yes"] * 3
    assert "256" not in str(found.charts[0].series)


def test_there_may_be_no_knee():
    found = section(OWN, setting(15 * MIB, (10, 11, 9, 10, 10)))

    assert found.answer == (
        "There is no knee on sda: no other setting recovers more synchronous writes than the baseline."
    )


def test_an_emulated_drive_is_labelled_and_not_recommended():
    found = section(OWN, KNEE, emulated_iops=200)

    assert "an EMULATED slow drive (200 writes/s, 150 MB/s, not a drive of this host)" in found.answer
    assert not any("host_tuning_dirty_bytes" in text for text in found.sentences)


def test_without_enough_repetitions_there_is_no_interval():
    found = section(setting(0, (10,)), setting(15 * MIB, (400,)))

    assert "is vm.dirty_bytes 15 MiB: the cell that suffers most keeps 40.0 times" in found.answer
    assert found.answer.endswith("(indicative).")
    assert "There is no interval: that of the gain needs 3 repetitions, that of the knee 5; there is 1 repetition." in (
        found.sentences
    )


def test_with_three_repetitions_only_the_gain_has_an_interval():
    found = section(setting(0, (10, 11, 9)), setting(15 * MIB, (400, 410, 390)))

    assert "is vm.dirty_bytes 15 MiB: the cell that suffers most keeps 40." in found.answer
    assert any(text.endswith("The knee has no interval: it needs 5 repetitions.") for text in found.sentences)


@pytest.mark.parametrize(
    "fsyncs, times",
    [
        (19, ("2.25", "-", "-")),
        (20, ("2.25", "12.50", "-")),
        (99, ("2.25", "12.50", "-")),
        (100, ("2.25", "12.50", "40.00")),
    ],
)
def test_a_percentile_of_few_fsyncs_is_not_shown(fsyncs, times):
    few = setting(15 * MIB, (400,) * 5)
    few.repetitions[2]["cells"] = {name: cell(400, True, fsyncs) for name in CELLS}
    headings, rows = section(OWN, few).tables[1].headings, section(OWN, few).tables[1].rows
    first = headings.index("fsync average ms")

    assert {row[first : first + 3] for row in rows[len(CELLS) :]} == {times}
    assert {row[first - 1] for row in rows[len(CELLS) :]} == {f"500, range {fsyncs} to 500"}


def test_a_doubtful_setting_is_named():
    uneven = setting(15 * MIB, (400,) * 5)
    for each in uneven.repetitions:
        each["cells"][4096, 1]["writeback_per_second"] = 900 * MIB
    found = section(OWN, uneven)

    assert found.doubts == [
        "vm.dirty_bytes 15 MiB: its cells met different floods, written back at 94 to 944 MB/s, more than 2 times apart"
    ]
    assert [row[-1] for row in found.tables[2].rows] == ["yes"] * 3 + ["doubtful"] * 3


def test_the_text_says_where_it_comes_from():
    assert (
        "Measured on 2026-01-02 in 10 min 12 s: A CPU, Linux 6.12.1, fio 3.33; 0.12 % of the CPU time was stolen."
    ) in report_text.section(section(OWN, KNEE))


def test_axes_have_units():
    chart, flood = section(OWN, setting(64 * MIB, (100, 105, 95, 100, 100)), KNEE).charts

    assert chart.x == "dirty limit, MiB" and chart.log_x and chart.log_y
    assert chart.y == "x the baseline" and "MiB/s" in flood.y and "seconds" in flood.x
    assert {each["name"] for each in flood.series} >= {"baseline, Dirty", "knee, Writeback", "knee, disk, per second"}
