# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of swap: sizes, ranges, and messages that name the option, the value and what is allowed."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import DEFAULTS, MayLose, WantedDisk, read

GIB = 2**30
DISK = "/dev/disk/by-id/x"
TOOLS = {"cryptsetup": "/usr/sbin/cryptsetup"}


def options(tools=None, **params):
    return read({**DEFAULTS, **params}, 8 * GIB, TOOLS if tools is None else tools)


def test_a_share_of_the_memory():
    assert options(kind="zram").zram_size == 4 * GIB
    assert options(kind="zram").zram_is_share
    assert not options(kind="zram", zram_size="4G").zram_is_share
    assert options(kind="file", file_size="1G").zram_size == 0
    assert options(kind="file", file_size="1G", zram_first=True).zram_size == 4 * GIB


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"priority": -1}, "^priority: -1 is out of range; it must be a whole number from 0 to 32,767 "),
        ({"priority": 32768}, "^priority: 32768 is out of range"),
        ({"partitions": -1}, "^partitions: -1 is out of range; it must be a whole number from 0 to 128 "),
        ({"partitions": 129}, "^partitions: 129 is out of range"),
        (
            {"kind": "zram", "zram_devices": 0},
            "^zram_devices: 0 is out of range; it must be a .* from 1 to 64 ",
        ),
        ({"kind": "zram", "zram_devices": 65}, "^zram_devices: 65 is out of range"),
        ({"kind": "zram", "zram_size": "1023K"}, "^zram_size: 1023K is out of range; the minimum is 1M$"),
        ({"kind": "zram", "zram_algorithm": []}, "^zram_algorithm: "),
        ({"kind": "zram", "zram_algorithm": ["lz4; reboot"]}, "^zram_algorithm: "),
        ({"kind": "devices"}, "^devices: the list is empty; .* or take kind=file"),
        ({"kind": "devices", "devices": [{"serial": "1"}]}, "^devices: .* is neither a path nor a dictionary"),
        (
            {"kind": "devices", "devices": [{"path": DISK, "model": "1"}]},
            "^devices: .* is neither a path nor a dictionary",
        ),
        ({"kind": "devices", "devices": [7]}, "^devices: 7 is neither"),
        ({"kind": "file", "file": "", "file_size": "1G"}, "^file: '' must be an absolute path"),
        ({"kind": "file", "file": "swap", "file_size": "1G"}, "^file: 'swap' must be an absolute path"),
        ({"kind": "file", "file": "/a/../b", "file_size": "1G"}, "^file: '/a/../b' must be an absolute path"),
        ({"kind": "file", "file": "/a b", "file_size": "1G"}, "^file: '/a b' must be an absolute path"),
        ({"kind": "file", "file": "/a"}, "^file_size: a size is required"),
        ({"kind": "file", "file": "/a", "file_size": "50%"}, "^file_size: '50%' is not a size"),
        ({"kind": "zram", "encrypted": True}, "^encrypted: only disks can be encrypted"),
        (
            {"kind": "devices", "devices": [DISK], "encrypted": True, "partitions": 2},
            "^partitions is 2; with encrypted it must be 0 or 1, ",
        ),
        ({"kind": "zram", "zram_first": True}, "^zram_first: kind=zram has nothing that could follow zram; it needs "),
        ({"kind": "none", "zram_first": True}, "^zram_first: kind=none has nothing"),
        (
            {"kind": "file", "file": "/a", "file_size": "1G", "zram_first": True, "priority": 32767},
            "^priority: 32767 is out of range; it must be a .* from 0 to 32,766 .with zram_first, which needs",
        ),
        ({"kind": "file", "file": "/a", "file_size": "1G", "zram_first": True, "zram_size": "1K"}, "^zram_size: 1K is"),
        ({"reserve": "much"}, "^reserve: 'much' is not a size"),
        ({"min_size": "-1"}, "^min_size: '-1' is not a size"),
    ],
)
def test_wrong_options_are_refused_by_name(params, message):
    with pytest.raises(SettingError, match=message):
        options(**params)


def test_encryption_requires_cryptsetup():
    with pytest.raises(SettingError, match="cryptsetup is missing"):
        options(tools={"cryptsetup": None}, kind="devices", devices=[DISK], encrypted=True)
    assert options(kind="devices", devices=[DISK], encrypted=True).encrypted


def test_disks_are_paths_or_dictionaries():
    found = options(kind="devices", devices=[DISK, {"path": DISK, "serial": 123, "size": "1G"}]).devices
    assert found == [WantedDisk(DISK, None, None), WantedDisk(DISK, "123", GIB)]


def test_content_that_may_be_lost_has_a_fingerprint():
    entries = [DISK, {"path": DISK, "content": "01234567-89abcdef"}]
    found = options(kind="devices", devices=[DISK], overwrite=entries).overwrite
    assert found == [MayLose(DISK, None), MayLose(DISK, "01234567-89abcdef")]


@pytest.mark.parametrize("entry", [1, {"path": DISK}, {"path": DISK, "content": 1}, {"content": "a"}, {}])
def test_wrong_content_that_may_be_lost_is_refused(entry):
    with pytest.raises(SettingError, match="^overwrite: .* must be a dictionary with path and content"):
        options(kind="devices", devices=[DISK], overwrite=[entry])


def test_disks_are_ignored_with_another_kind():
    assert options(kind="none", devices=[DISK], overwrite=[DISK]).devices == []
