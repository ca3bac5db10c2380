# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loop devices that cannot be asked what they stand on; tests/local/swap asks real ones."""

from __future__ import annotations

import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import GuardError
from ansible_collections.memstretch.density.plugins.module_utils.swap.loops import loops_on


def show(root, name, bound=True):
    """Show a loop device in sysfs that is not on this machine."""
    directory = root / "sys/block" / name
    os.makedirs(directory / "loop" if bound else directory)
    (directory / "dev").write_text("7:4321\n", encoding="ascii")


def test_a_loop_device_that_is_not_set_up_is_not_asked(tmp_path):
    show(tmp_path, "loop4321", bound=False)
    assert loops_on(HostFiles(str(tmp_path)), {"8:0"}) == []


def test_a_loop_device_without_its_node_is_an_error(tmp_path):
    show(tmp_path, "loop4321")
    with pytest.raises(GuardError, match=r"/dev/loop4321 cannot be asked which device it stands on"):
        loops_on(HostFiles(str(tmp_path)), {"8:0"})


def test_another_node_in_the_place_of_its_own_is_an_error(tmp_path):
    show(tmp_path, "null")
    with pytest.raises(GuardError, match=r"/dev/null is not the node of null .7:4321."):
        loops_on(HostFiles(str(tmp_path)), {"8:0"})
