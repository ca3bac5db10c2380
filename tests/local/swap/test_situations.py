# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every disk that must be refused, on loop devices."""

from __future__ import annotations

import pytest
from situations import RACES, race, try_race, try_situation
from trial import MIB, SITUATIONS, SIZES, CannotMakeError, call_module, fingerprint, run


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation_is_refused_and_leaves_the_disk_as_it_was(disks, name):
    try:
        try_situation(disks(size=SIZES[name]), name)
    except CannotMakeError as error:
        pytest.skip(f"this machine cannot make the situation: {error}")


@pytest.mark.parametrize("name", RACES)
def test_disk_that_changes_between_check_and_write_is_refused(disks, name):
    try_race(disks(size=32 * MIB), name)


def test_named_content_that_changes_between_check_and_write_is_refused(disks):
    disk = disks()
    run("mkfs.ext4", "-q", "-F", disk.node)
    content = fingerprint(call_module(True, **disk.params()))
    answer = race(
        disk,
        lambda: run("mkfs.ext4", "-q", "-F", "-L", "backup", disk.node),
        overwrite=[{"path": disk.path, "content": content}],
    )
    assert "has changed since it was checked, it now holds ext4 (label backup)" in answer
