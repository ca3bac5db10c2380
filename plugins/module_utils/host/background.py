# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work and programs that run at the same time as the module, or outlive it."""

from __future__ import annotations

import os
import signal
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


class BackgroundProgram:
    """A program without input and output that runs next to the module until it ends or is stopped.

    Not subprocess.Popen, which Ansible forbids in modules; AnsibleModule.run_command waits for the end of a program.

    Args:
        command: name or path of the program, and its arguments.

    Raises:
        OSError: the program cannot be started.
    """

    def __init__(self, command: list[str]) -> None:
        nowhere = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1, 2)]
        self.pid = os.posix_spawnp(command[0], command, os.environ, file_actions=nowhere)
        self._ended = False

    def runs(self) -> bool:
        """Return whether the program has not ended."""
        self._ended = self._ended or os.waitpid(self.pid, os.WNOHANG)[0] != 0
        return not self._ended

    def stop(self, signal_number: int = signal.SIGKILL) -> None:
        """Send the program a signal, and wait until it has ended."""
        if self.runs():
            os.kill(self.pid, signal_number)
            os.waitpid(self.pid, 0)
            self._ended = True
