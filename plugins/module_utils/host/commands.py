# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run commands through AnsibleModule and report why one failed."""

from __future__ import annotations

import typing as t

RunCommand = t.Callable[..., "tuple[int, str, str]"]


def run_checked(run_command: RunCommand, command: list[str], error: type[Exception]) -> str:
    """Return what a command prints; one that fails raises error with what it says.

    Args:
        run_command: AnsibleModule's method.
    """
    status, output, errors = run_command(command)
    if status != 0:
        raise error(f"{' '.join(command)} ended with status {status}: {errors.strip() or output.strip()}")
    return output
