# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranges of the options of studies, and of the rounds of a density."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, Ranges

RANGES: Ranges = {
    "study_rounds": Range(int, 1, 1000, "runs of each profile"),
    "study_attempts": Range(int, 1, 99, "attempts at a run"),
    "study_confirmation_rounds": Range(int, 3, 1000, "rounds of a confirmation"),
    "study_screening_rounds": Range(int, 1, 100, "rounds of screening before the slower half is dropped"),
    "study_minutes": Range(float, 1, 100_000, "minutes that all runs may take"),
    "density_rounds": Range(int, 1, 100, "ramps of each profile"),
}
