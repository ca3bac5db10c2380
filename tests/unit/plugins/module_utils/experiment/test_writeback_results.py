# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Medians, ratios, the baseline, and the values around the knee."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import writeback_results
from ansible_collections.memstretch.density.plugins.module_utils.experiment.writeback import Setting

MIB = 2**20
CELL = (16384, 1)
OWN_LIMIT = 4800 * MIB


def cell(iops, valid=True, flood=10 * MIB, seconds=5.0):
    return {
        "iops": iops,
        "seconds": seconds,
        "fsyncs": round(iops * seconds),
        "valid": valid,
        "reason": "" if valid else "no write-back ran",
        "samples": [[0.2, 1, 1, 1]],
        **dict.fromkeys(("write_avg_ms", "avg_ms", "p95_ms", "p99_ms", "max_ms"), 1.5),
        **dict.fromkeys(("writeback_per_second", "device_per_second"), flood),
        **dict.fromkeys(("dirty_max", "writeback_max"), 10 * MIB),
    }


def setting(dirty_bytes, iops, *, sequential=200e6, valid=True, queue=None):
    """Return a setting with a repetition for each of the IOPS."""
    repetitions = [
        {
            "limit": dirty_bytes or OWN_LIMIT,
            "sequential": sequential,
            "cells": {CELL: cell(each, valid)},
            "idle": {CELL: cell(1000)},
        }
        for each in iops
    ]
    return Setting(dirty_bytes, queue or {}, repetitions=repetitions)


def test_the_knee_has_its_figures_and_its_intervals():
    found = writeback_results.facts(
        [setting(0, (10, 11, 9)), setting(64 * MIB, (100, 105, 95)), setting(15 * MIB, (400, 410, 390))]
    )

    assert found["chosen"]["dirty_bytes"] == 15 * MIB and found["reason"] == ""
    assert found["baseline"]["dirty_bytes"] == 0 and found["baseline"]["limit"] == OWN_LIMIT
    assert found["knee"]["limits"] is None  # three repetitions are too few
    low, high = found["knee"]["gain"][1:]
    assert 30 < low < 40 < high < 50
    figures = found["chosen"]["cells"][0]
    assert figures["gain"] == 40 and figures["of_idle"] == 0.4
    assert figures["flood_iops"] == {"median": 400, "min": 390, "max": 410}


def test_a_setting_without_write_back_does_not_count():
    lucky = setting(256 * MIB, (900, 900, 900), valid=False)
    found = writeback_results.facts([setting(0, (10, 11, 9)), lucky, setting(15 * MIB, (100, 110, 90))])

    assert found["chosen"]["dirty_bytes"] == 15 * MIB
    assert [each["valid"] for each in found["settings_measured"]] == [True, False, True]
    assert found["settings_measured"][1]["reason"] == "1 writer of 16,384 bytes: no write-back ran"


def test_the_largest_value_is_the_baseline_if_the_own_setting_does_not_count():
    own = setting(0, (900, 900, 900), valid=False)
    found = writeback_results.facts([own, setting(1024 * MIB, (10, 11, 9)), setting(15 * MIB, (100, 110, 90))])

    assert found["baseline"]["dirty_bytes"] == 1024 * MIB
    assert found["chosen"]["cells"][0]["gain"] == 10


def test_without_two_settings_that_count_there_is_no_knee():
    found = writeback_results.facts([setting(0, (10,), valid=False), setting(15 * MIB, (100,))])

    assert found["chosen"] is None
    assert found["reason"].startswith(
        "write-back ran under 1 of 2 settings, two are needed; 1 writer of 16,384 bytes: "
    )


def test_the_worst_cell_decides():
    own, tuned = setting(0, (100,)), setting(15 * MIB, (800,))
    for each, iops in ((own, 100), (tuned, 100)):
        each.repetitions[0]["cells"][4096, 10] = cell(iops)
        each.repetitions[0]["idle"][4096, 10] = cell(1000)

    assert writeback_results.facts([own, tuned])["chosen"] is None


def test_a_cell_without_a_complete_write_counts_as_half_of_one():
    found = writeback_results.facts([setting(0, (0, 0, 0)), setting(15 * MIB, (100, 110, 90))])

    assert found["knee"]["gain"][0] == pytest.approx(1000, rel=0.05)
    assert found["chosen"]["cells"][0]["gain"] is None


def test_a_measured_rate_is_not_replaced_by_a_part_of_a_write():
    """One fsync took 9.5 s, though the cell should have taken 3 s."""
    own, tuned = setting(0, ()), setting(15 * MIB, ())
    for each, iops in ((own, 0.105), (tuned, 10.5)):
        each.repetitions.append(
            {
                "limit": each.dirty_bytes or OWN_LIMIT,
                "sequential": 200e6,
                "cells": {CELL: cell(iops, seconds=9.5)},
                "idle": {CELL: cell(1000)},
            }
        )
    found = writeback_results._trial(own).recovered

    assert found == (pytest.approx(0.105 / 1000),)
    assert writeback_results.facts([own, tuned])["chosen"]["cells"][0]["fsyncs"]["median"] == 100


def test_cells_that_met_different_floods_are_doubtful():
    def facts(rate):
        own, tuned = setting(0, (10, 11, 9)), setting(15 * MIB, (100, 110, 90))
        for each in [*own.repetitions, *tuned.repetitions]:
            each["cells"][4096, 10] = cell(100, flood=rate if each in tuned.repetitions else 10 * MIB)
            each["idle"][4096, 10] = cell(1000)
        return writeback_results.facts([own, tuned])["settings_measured"]

    assert [each["doubt"] for each in facts(20 * MIB)] == ["", ""]
    assert facts(21 * MIB)[1]["doubt"] == (
        "its cells met different floods, written back at 10 to 22 MB/s, more than 2 times apart"
    )


def test_values_are_added_on_both_sides_of_the_knee_with_its_queue():
    queue = {"scheduler": "none"}
    found = writeback_results.around_the_knee(
        [
            setting(0, (10,)),
            setting(64 * MIB, (100,)),
            setting(64 * MIB, (110,), queue=queue),
            setting(16 * MIB, (400,), queue=queue),
            setting(4 * MIB, (10,), queue=queue),
        ],
        count=1,
    )

    assert found == [(32 * MIB, queue), (8 * MIB, queue)]
    assert writeback_results.around_the_knee([setting(0, (10,)), setting(64 * MIB, (10,))], count=1) == []
