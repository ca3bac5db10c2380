# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run commands on a host and raise an error when one fails."""

from __future__ import annotations

import os
import selectors
import subprocess
import typing as t

from ansible.module_utils.common.text.converters import to_native

# AnsibleModule.run_command: exit status, standard output, standard error.
RunCommand = t.Callable[..., "tuple[int, str, str]"]


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
    seconds. Here the pipes are read after the program is known to have ended, before run_command looks at them.

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
        with selectors.DefaultSelector() as open_pipes:
            for name, content in pipes.items():
                open_pipes.register(getattr(process, name), selectors.EVENT_READ, content)
            while open_pipes.get_map():
                ended = process.poll() is not None
                ready = open_pipes.select(0 if ended else 1)
                for key, _events in ready:
                    piece = os.read(key.fd, 1 << 16)
                    key.data.extend(piece)
                    if not piece:
                        open_pipes.unregister(key.fileobj)
                if ended and not ready:
                    return  # a daemon keeps a pipe open

    status, output, errors = run_command(command, before_communicate_callback=read_all, **options)
    return status, to_native(bytes(pipes["stdout"])) + output, to_native(bytes(pipes["stderr"])) + errors


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
