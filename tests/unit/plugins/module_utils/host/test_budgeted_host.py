# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where pages go once zram is full. tests/local brings real groups to their budget."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.budgeted_host import overflows
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

ZRAM, DRIVE, FILE = "/dev/zram0 partition 1020 0 {}", "/dev/nvme0n1p1 partition 1020 0 {}", "/swap file 1020 0 {}"


@pytest.mark.parametrize(
    ("areas", "expected"),
    [
        ([], False),
        ([ZRAM.format(11)], False),
        ([DRIVE.format(10)], False),
        ([ZRAM.format(11), DRIVE.format(10)], True),
        ([FILE.format(10), ZRAM.format(11)], True),
        ([ZRAM.format(5), DRIVE.format(10)], False),
    ],
)
def test_only_a_drive_or_a_file_behind_zram_takes_what_zram_has_no_room_for(tmp_path, areas, expected):
    (tmp_path / "proc").mkdir()
    lines = ["Filename\tType\tSize\tUsed\tPriority", *areas]
    (tmp_path / "proc" / "swaps").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert overflows(HostFiles(str(tmp_path))) is expected
