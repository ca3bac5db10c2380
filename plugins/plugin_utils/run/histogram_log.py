# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The latencies of a run as HdrHistogram logs, the input of the plotters for that format.

Each cell has one file, so the sum of a file is the cell in summary.json. Each measured iteration has one interval for
each latency, whose name is the tag of the interval.
"""

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, utc
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_phase import LATENCIES

DIRECTORY = "histograms"

# "Interval_Max" is in milliseconds, as HdrHistogram's own writer has it; the values are nanoseconds.
_MAX_VALUE_UNIT = 1_000_000

_LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'


class HistogramLogs:
    """Collects the measured phases of a run, then writes their logs.

    It keeps only the merged histograms of a phase, about 5 KB whatever the size of the fleet.
    """

    def __init__(self) -> None:
        self._cells: dict[str, list[dict[str, t.Any]]] = {}

    def add(self, document: t.Mapping[str, t.Any]) -> None:
        """Add the document of a phase. Fills, warm-ups and phases without results are not logged."""
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
        """Write the logs, each of them atomically, and return whether a file changed."""
        changed = False
        if self._cells:
            os.makedirs(directory.file(DIRECTORY), exist_ok=True)
        for name, phases in self._cells.items():
            # Logs are in the order of time. A phase that was measured again is later than the phases after it.
            in_order = sorted(phases, key=lambda each: each["started_at"])
            changed |= directory.write_text(os.path.join(DIRECTORY, f"{name}.hlog"), text(in_order))
        return changed


def text(phases: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return the log of phases, which are in the order of time.

    The format is version 1.3 of HdrHistogram's log, as the classes HistogramLogWriter and HistogramLogReader of
    https://github.com/HdrHistogram/HdrHistogram write and read it. Times are in seconds since the start time, values
    in nanoseconds.
    """
    base = phases[0]["started_at"]
    readable = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(base))
    lines = [
        "#[Response times of Redis in nanoseconds, logged by memstretch.density]",
        "#[Histogram log format version 1.3]",
        f"#[BaseTime: {base:.3f} (seconds since epoch)]",
        f"#[StartTime: {base:.3f} (seconds since epoch), {readable}]",
        _LEGEND,
    ]
    for phase in phases:
        lines.append(f"#[{phase['title']}, {utc(phase['started_at'])}]")
        when = f"{phase['started_at'] - base:.3f},{phase['seconds']:.3f}"
        for name in LATENCIES:
            if name in phase["histograms"]:
                max_ns, encoded = phase["histograms"][name]
                lines.append(f"Tag={name},{when},{max_ns / _MAX_VALUE_UNIT:.3f},{encoded}")
    return "\n".join(lines) + "\n"
