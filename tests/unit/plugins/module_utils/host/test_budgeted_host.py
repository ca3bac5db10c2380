# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where pages go once zram is full, and the record of a fit. tests/local brings real groups to their budget."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.budgeted_host import BudgetedHost, overflows
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord

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


ASKED = {"mechanism": "hugepages", "size_bytes": 2**40, "reserve_bytes": 0, "group": None}


@pytest.fixture
def record(tmp_path):
    record = HostRecord("dram_budget", str(tmp_path / "records"))
    record.write({"asked": ASKED, "original": {"huge pages": 0}})
    return record


def test_what_was_found_is_added_to_the_record_as_it_is_by_then(record):
    host = BudgetedHost.find(record)
    record.write({"asked": ASKED, "original": {"huge pages": 5}})
    assert host.set_limit("released", False) is False
    assert record.read()["original"] == {"huge pages": 5}
    assert record.read()["fitted"]["baseline"]["charged_bytes"] > 0


def test_a_budget_that_was_restored_meanwhile_gets_no_record(record):
    host = BudgetedHost.find(record)
    record.remove()
    host.set_limit("released", False)
    assert record.read() is None


def test_another_budget_that_was_set_meanwhile_keeps_its_record(record):
    host = BudgetedHost.find(record)
    other = {"asked": {**ASKED, "size_bytes": 2**41}, "original": {"huge pages": 0}}
    record.write(other)
    host.set_limit("released", False)
    assert record.read() == {**other, "schema": 1}
