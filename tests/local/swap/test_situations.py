# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every disk that must be refused, on loop devices."""

from __future__ import annotations

import pytest
from situations import RACES, SITUATIONS, CannotMakeError, try_race, try_situation


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation_is_refused_and_leaves_the_disk_as_it_was(disks, name):
    try:
        try_situation(disks(), name)
    except CannotMakeError as error:
        pytest.skip(f"{error}; the lane host tries it in a virtual machine")


@pytest.mark.parametrize("name", RACES)
def test_disk_that_changes_between_check_and_write_is_refused(disks, name):
    try_race(disks(), name)
