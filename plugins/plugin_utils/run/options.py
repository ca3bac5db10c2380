# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranges of a run's options. The client's own ranges apply to the load."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, Ranges
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import RANGES as CLIENT

# The numbers of the client that every phase of a run has in common, apart from how long it lasts.
LOAD_NUMBERS = ("key_count", "value_size", "compressibility", "rate", "connections", "pipeline")
# The objective of a user who states none, in microseconds.
SLO_AVG_US, SLO_P99_US = 50, 300
# The factor of an SLO that comes from the machine itself.
SLO_FACTOR = Range(float, 1, 1000, "multiple of what DRAM alone does")
RANGES: Ranges = {
    **{name: CLIENT[name] for name in (*LOAD_NUMBERS, "requests", "duration")},
    "influences": CLIENT["influence"],
    "read_mixes": CLIENT["read_mix"],
    "warmups": Range(int, 0, 100, "phases per cell"),
    "iterations": Range(int, 1, 1000, "measured phases per cell"),
    "slo_avg_us": Range(float, 0.001, 1e9, "microseconds"),
    "slo_p99_us": Range(float, 0.001, 1e9, "microseconds"),
    "min_overlap": Range(float, 0, 1, "share of the phase"),
    "max_clock_offset": Range(float, 0, 86_400, "seconds"),
    "lead_seconds": Range(float, 0.5, 3600, "seconds"),
    "gap_seconds": Range(float, 0.1, 3600, "seconds"),
}
