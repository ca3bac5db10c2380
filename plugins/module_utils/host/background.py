# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that outlives the module that began it."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles


def detach(work: t.Callable[[], None]) -> int:
    """Do work in a process without a terminal that outlives this one, and return its pid."""
    receive, send = os.pipe()
    child = os.fork()
    if child:
        os.close(send)
        os.waitpid(child, 0)
        with os.fdopen(receive, "rb") as stream:
            return int(stream.read())
    try:
        os.setsid()  # the work must not end when the connection ends
        pid = os.fork()
        if pid:
            os.write(send, str(pid).encode())
        else:
            os.close(send)
            nowhere = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nowhere, descriptor)
            work()
    finally:
        os._exit(0)


def is_running(pid: int) -> bool:
    """Return whether a process of that number exists and has not ended."""
    stat = HostFiles().text(f"/proc/{pid}/stat")
    return stat is not None and stat.rpartition(")")[2].split()[0] not in ("Z", "X")
