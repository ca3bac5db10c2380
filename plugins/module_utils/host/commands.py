# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run commands on a host and raise an error when one fails."""

from __future__ import annotations

import typing as t

# AnsibleModule.run_command: exit status, standard output, standard error.
RunCommand = t.Callable[..., "tuple[int, str, str]"]


def run_checked(run_command: RunCommand, command: list[str], error: type[Exception]) -> str:
    """Run a command and return its standard output.

    Args:
        run_command: AnsibleModule.run_command.
        command: program and arguments.
        error: the exception to raise if the exit status is not 0; its text has the command, the status and the output.
    """
    status, output, errors = run_command(command)
    if status != 0:
        raise error(f"{' '.join(command)} ended with status {status}: {errors.strip() or output.strip()}")
    return output
