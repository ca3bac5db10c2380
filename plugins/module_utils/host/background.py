# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work and programs that run at the same time as the module, or outlive it."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand
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
    """Check whether a process of that number exists and has not ended."""
    stat = HostFiles().text(f"/proc/{pid}/stat")
    return stat is not None and stat.rpartition(")")[2].split()[0] not in ("Z", "X")


class BackgroundProgram:
    """A program without output that runs next to the module until it ends or is stopped.

    AnsibleModule.run_command starts it, the only way that Ansible allows, and waits for its end in a thread.

    Args:
        run_command: AnsibleModule's method.
        command: name or path of the program, and its arguments.

    Raises:
        OSError: the program cannot be started.
    """

    def __init__(self, run_command: RunCommand, command: list[str]) -> None:
        started: queue.SimpleQueue[subprocess.Popen[bytes] | OSError] = queue.SimpleQueue()

        def run() -> None:
            try:
                run_command(command, before_communicate_callback=started.put, handle_exceptions=False)
            except OSError as error:
                started.put(error)

        self._end = threading.Thread(target=run, daemon=True)
        self._end.start()
        first = started.get()
        if isinstance(first, OSError):
            raise first
        self._process = first
        self.pid = first.pid

    def runs(self) -> bool:
        """Check whether the program has not ended."""
        return self._process.poll() is None

    def stop(self, signal_number: int = signal.SIGKILL) -> None:
        """Send the program a signal, and wait until it has ended."""
        self._process.send_signal(signal_number)  # does nothing to a program that has ended
        self._process.wait()
        self._end.join()
