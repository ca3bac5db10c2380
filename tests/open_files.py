# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files a process has open: a test sees by them that a run waits for a lock."""

from __future__ import annotations

import contextlib
import glob
import os


def has_open(pid: int, path: str) -> bool:
    """Check whether a process has a file open."""
    for link in glob.glob(f"/proc/{pid}/fd/*"):
        with contextlib.suppress(FileNotFoundError):  # closed since
            if os.readlink(link) == path:
                return True
    return False
