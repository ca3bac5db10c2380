# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a look has changed in the kernel ends with it, even if its process is killed."""

from __future__ import annotations

import os
import typing as t


class Guard:
    """A process that undoes something if this one is killed.

    Args:
        undo: what that process then does. It has this process's memory as it is now.
    """

    def __init__(self, undo: t.Callable[[], t.Any]) -> None:
        receive, self._send = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(receive)
            return
        try:
            os.setsid()  # what ends this process must not end that one
            os.close(self._send)
            if not os.read(receive, 1):  # the end of the pipe: nobody has dismissed it
                undo()
        finally:
            os._exit(0)

    def dismiss(self) -> None:
        """End it without effect."""
        os.write(self._send, b".")
        os.close(self._send)
        os.waitpid(self._pid, 0)
