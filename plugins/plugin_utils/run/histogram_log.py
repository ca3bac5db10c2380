# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The latencies of a run as HdrHistogram logs, which the plotters of that format read.

One file for each cell, so that a reader that adds up a file gets the cell as summary.json has it; in it
one interval for each measured iteration and latency, the latency being the interval's tag.
"""

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, utc
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_phase import LATENCIES

DIRECTORY = "histograms"

# Nanoseconds in the unit of "Interval_Max": milliseconds, as HdrHistogram's own writer has it.
_MAX_VALUE_UNIT = 1_000_000

_LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'


class HistogramLogs:
    """Collects the measured phases of a run, then writes their logs.

    Of a phase it keeps the merged histograms only, about 5 KB whatever the size of the fleet.
    """

    def __init__(self) -> None:
        self._cells: dict[str, list[dict[str, t.Any]]] = {}

    def add(self, document: t.Mapping[str, t.Any]) -> None:
        """Take a phase as its file holds it. Fills and warm-ups are not for logs, nor is a phase that measured nothing."""
        phase = document["phase"]
        if phase["kind"] == "iteration" and document["hosts"]:
            self._cells.setdefault(configuration.cell_name(phase), []).append(
                {
                    "title": f"{configuration.describe(phase)}: {len(document['hosts'])} hosts"
                    + ("" if document["valid"] else ", INVALID"),
                    "started_at": document["started_at"],
                    "seconds": document["finished_at"] - document["started_at"],
                    "histograms": {
                        name: (figures["max_ns"], figures["histogram"])
                        for name, figures in document["merged"].items()
                        if figures["count"]
                    },
                }
            )

    def write(self, directory: RunDirectory) -> bool:
        """Write the logs of the phases taken, each one whole or not at all, and say whether that changed anything."""
        changed = False
        if self._cells:
            os.makedirs(directory.file(DIRECTORY), exist_ok=True)
        for name, phases in self._cells.items():
            # A phase that was measured again comes later than those that follow it in the plan; logs are in the order of time.
            changed |= directory.write_text(
                os.path.join(DIRECTORY, f"{name}.hlog"), text(sorted(phases, key=lambda each: each["started_at"]))
            )
        return changed


def text(phases: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return the log of phases, which are in the order of time.

    The format is version 1.3 of HdrHistogram's log, as written and read by the class HistogramLogWriter and HistogramLogReader of
    https://github.com/HdrHistogram/HdrHistogram; times in seconds since the start time, values in nanoseconds.
    """
    base = phases[0]["started_at"]
    lines = [
        "#[Response times of Redis in nanoseconds, logged by memstretch.density]",
        "#[Histogram log format version 1.3]",
        f"#[BaseTime: {base:.3f} (seconds since epoch)]",
        f"#[StartTime: {base:.3f} (seconds since epoch), {time.strftime('%a %b %d %H:%M:%S UTC %Y', time.gmtime(base))}]",
        _LEGEND,
    ]
    for phase in phases:
        lines.append(f"#[{phase['title']}, {utc(phase['started_at'])}]")
        for name in LATENCIES:
            if name in phase["histograms"]:
                max_ns, encoded = phase["histograms"][name]
                lines.append(
                    f"Tag={name},{phase['started_at'] - base:.3f},{phase['seconds']:.3f},{max_ns / _MAX_VALUE_UNIT:.3f},{encoded}"
                )
    return "\n".join(lines) + "\n"
