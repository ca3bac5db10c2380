# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives that say how worn they are, and others. The emulated Debian 13 has a drive that does."""

from __future__ import annotations

import ctypes
import socket

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom import endurance


def test_the_command_has_the_layout_of_the_kernel():
    """linux/nvme_ioctl.h; the number of the command has the size in it."""
    assert ctypes.sizeof(endurance._Command) == endurance._ADMIN_COMMAND >> 16 & 0x3FFF == 72
    assert endurance._Command.address.offset == 24 and endurance._Command.words_10_15.offset == 40


@pytest.mark.parametrize("path", ["/dev/null", "/dev/there-is-no-such-drive"])
def test_what_is_no_nvme_drive_says_nothing(path):
    assert endurance._worn(path) is None


def test_a_drive_that_must_not_be_opened_says_nothing(tmp_path):
    """As in a container, whose root the kernel keeps from drives. A socket cannot be opened by anybody."""
    with socket.socket(socket.AF_UNIX) as closed:
        closed.bind(str(tmp_path / "drive"))
        assert endurance._worn(str(tmp_path / "drive")) is None
