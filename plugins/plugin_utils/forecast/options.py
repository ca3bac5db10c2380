# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranges of the options of a plan."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, Ranges

RANGES: Ranges = {
    "fleet_sizes": Range(int, 1, 100_000, "hosts of a fleet"),
    "rounds": Range(int, 1, 1000, "runs under each profile"),
    "phase_overhead_seconds": Range(float, 0, 3600, "seconds"),
    "run_overhead_seconds": Range(float, 0, 86_400, "seconds"),
}
