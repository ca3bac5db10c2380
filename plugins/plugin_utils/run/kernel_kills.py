# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom the kernel killed for lack of memory during a run, by its own messages."""

from __future__ import annotations

import pathlib
import re

from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory

# mm/oom_kill.c prints "Out of memory: Killed process 71 (redis-server) total-vm:...", after "Memory cgroup" if a group
# was at its limit. A VM is a process of QEMU.
_KILLED = re.compile(r"[Oo]ut of memory: Killed process \d+ \((?:redis|valkey|qemu)")


def count(directory: RunDirectory) -> int:
    """Return how many servers and VMs the kernel killed on the machines of a run."""
    files = pathlib.Path(directory.path, "raw").glob("*/dmesg.txt")
    return sum(
        len(_KILLED.findall(file.read_text(encoding="utf-8", errors="replace"))) for file in files if file.is_file()
    )
