# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run commands on a host and raise an error when one fails."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import typing as t

from ansible.module_utils.common.text.converters import to_native

# AnsibleModule.run_command: exit status, standard output, standard error.
RunCommand = t.Callable[..., "tuple[int, str, str]"]

# How often to look whether a program has ended, where nothing reports it.
_LOOK_SECONDS = 1


def run_to_end(
    run_command: RunCommand,
    command: list[str],
    *,
    before_communicate_callback: t.Callable[[subprocess.Popen[bytes]], None] | None = None,
    **options: t.Any,
) -> tuple[int, str, str]:
    """Run a command and return all that it printed.

    run_command waits up to a second for output, and then looks whether the program has ended. It loses the output of a
    program that prints and ends between the two, which happens on busy machines to programs that work for whole
    seconds. Here the pipes are read after the program is known to have ended, before run_command looks at them. Until
    then this process sleeps: where a machine runs many clients, one for each would disturb what they measure.

    Args:
        run_command: AnsibleModule.run_command.
        command: program and arguments. The output of a program that gets C(data) can still be lost.
        before_communicate_callback: as for run_command.
        options: others of run_command.
    """
    pipes = {"stdout": bytearray(), "stderr": bytearray()}

    def read_all(process: subprocess.Popen[bytes]) -> None:
        if before_communicate_callback is not None:
            before_communicate_callback(process)
        if process.stdin is not None:
            return  # run_command writes to it only after this; what such programs print matters only if they fail
        with _end_of(process) as end, selectors.DefaultSelector() as waiting:
            for name, content in pipes.items():
                waiting.register(getattr(process, name), selectors.EVENT_READ, content)
            if end is not None:
                waiting.register(end, selectors.EVENT_READ)
            open_pipes = len(pipes)
            while open_pipes:
                ended = process.poll() is not None
                events = waiting.select(0 if ended else _LOOK_SECONDS if end is None else None)
                ready = [key for key, _events in events if key.data is not None]
                for key in ready:
                    piece = os.read(key.fd, 1 << 16)
                    key.data.extend(piece)
                    if not piece:
                        waiting.unregister(key.fileobj)
                        open_pipes -= 1
                if ended and not ready:
                    return  # a daemon keeps a pipe open

    status, output, errors = run_command(command, before_communicate_callback=read_all, **options)
    return status, to_native(bytes(pipes["stdout"])) + output, to_native(bytes(pipes["stderr"])) + errors


@contextlib.contextmanager
def _end_of(process: subprocess.Popen[bytes]) -> t.Iterator[int | None]:
    """Open a descriptor that becomes readable when the process ends; None where Python or the kernel has no pidfd."""
    descriptor = None
    with contextlib.suppress(AttributeError, OSError):  # Python 3.8, Linux 5.2, or a container that forbids it
        descriptor = os.pidfd_open(process.pid)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def run_checked(run_command: RunCommand, command: list[str], error: type[Exception]) -> str:
    """Run a command and return its standard output.

    Args:
        run_command: AnsibleModule.run_command.
        command: program and arguments.
        error: the exception to raise if the exit status is not 0; its text has the command, the status and the output.
    """
    status, output, errors = run_to_end(run_command, command)
    if status != 0:
        raise error(f"{' '.join(command)} ended with status {status}: {errors.strip() or output.strip()}")
    return output
