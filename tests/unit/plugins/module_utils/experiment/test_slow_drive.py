# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the limits of an emulated drive are written. tests/local makes one."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import slow_drive
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles


def mounts(tmp_path, *lines):
    (tmp_path / "proc" / "self").mkdir(parents=True)
    text = "".join(f"30 25 0:{number} / {line}\n" for number, line in enumerate(lines))
    (tmp_path / "proc" / "self" / "mountinfo").write_text(text)
    return HostFiles(str(tmp_path))


def test_the_controller_of_version_1_is_found_wherever_it_is_mounted(tmp_path):
    files = mounts(tmp_path, "/cg/memory rw - cgroup cgroup rw,memory", "/cg/io rw - cgroup cgroup rw,blkio")

    assert slow_drive.throttle_directory(files) == "/cg/io"


def test_a_host_without_it_is_refused_with_what_to_do(tmp_path):
    files = mounts(tmp_path, "/sys/fs/cgroup rw - cgroup2 cgroup2 rw")

    with pytest.raises(slow_drive.SlowDriveError, match="emulated_iops: .* version 1.* use 0 for a real drive"):
        slow_drive.throttle_directory(files)


def test_without_a_drive_there_is_nothing_to_remove(tmp_path):
    slow_drive.remove(str(tmp_path), lambda *_arguments: pytest.fail("a command ran"))
