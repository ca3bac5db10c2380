# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happened on the machines second by second, on the page of a run."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import charts

STARTED = 1_000_000.0


def recorded(*rows: list[float | None], late: float = -0.2) -> dict[str, t.Any]:
    return {"started_at": STARTED + late, "rows": list(rows)}


def document(**more: t.Any) -> dict[str, t.Any]:
    return {"started_at": STARTED, "pressure": {"first": {}, "second": {}}, **more}


def row(second: float, page_ins: float | None, memory: float | None, charged: int | None) -> list[float | None]:
    return [second, page_ins, memory, 0.01, 0.5, 0.0, charged]


def test_rows_of_machines_are_added_and_the_worst_stall_counts():
    first = recorded(row(1.0, 100.0, 0.5, 200_000_000), row(2.0, 0.0, 0.0, 210_000_000))
    second = recorded(row(1.01, 20.0, 0.25, 100_000_000), row(2.01, 5.0, 0.125, None))
    found = charts._over_time(document(over_time={"first": first, "second": second}))
    assert found == {
        "ends": [0.8, 1.8],
        "page_ins": [120.0, 5.0],
        "psi_memory": [50.0, 12.5],
        "psi_io": [1.0, 1.0],
        "charged_mb": [300.0, None],
    }


def test_a_machine_that_was_not_recorded_leaves_the_series_out():
    assert charts._over_time(document(over_time={"first": recorded(row(1.0, 1.0, 0.0, None))})) is None
    assert charts._over_time(document()) is None


def test_with_hypervisors_only_their_series_count():
    hypervisors = {"kv1": {"machine": "second"}}
    series = {"first": recorded(row(1.0, 7.0, 0.0, None)), "second": recorded(row(1.0, 3.0, None, None))}
    found = charts._over_time(document(over_time=series, hypervisors=hypervisors))
    assert found and found["page_ins"] == [3.0] and found["psi_memory"] == [None]
