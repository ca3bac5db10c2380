# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One line at the bottom of a terminal that shows what a quiet playbook does now, and is replaced as it goes on."""

from __future__ import annotations

import os
import re

from ansible.utils.display import Display

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_TASK = re.compile(r"(?:PLAY|TASK|RUNNING HANDLER) \[(?P<name>.*)\] \**$")
_PHASE = re.compile(r"\[ *\d+/\d+\] ")

# Back to the beginning of the line, and erase it. A carriage return also makes Python flush the line.
_ERASE = "\r\x1b[K"


def step_of(line: str) -> str | None:
    """Return the play, task or phase that a line of a playbook's output announces; None for any other line."""
    line = _COLOR.sub("", line).rstrip()
    if _PHASE.match(line):
        return line
    found = _TASK.match(line)
    return found["name"] if found else None


class StatusLine:
    """The line. It shows nothing if the output of ansible-playbook does not go to a terminal.

    Args:
        output: path of the output of ansible-playbook. Its tasks run in processes whose own output is not that.
    """

    def __init__(self, output: str) -> None:
        self._width = _width_of_terminal(output)
        self._shown = False

    def follow(self, line: str) -> None:
        """Take a line of a playbook's output, and show the step that it announces."""
        step = step_of(line)
        if step and self._width:
            self._write(_ERASE + f"   {step}"[: self._width - 1])
            self._shown = True

    def clear(self) -> None:
        """Erase the line, before anything else is shown."""
        if self._shown:
            self._write(_ERASE)
            self._shown = False

    def _write(self, text: str) -> None:
        # Through Display, so that it stays in order with all other lines. A log file does not get it.
        Display().display(text, screen_only=True, newline=False)


def _width_of_terminal(path: str) -> int:
    """Return the columns of a terminal; 0 if the path is not a terminal, or cannot be opened."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return 0
    try:
        return os.get_terminal_size(descriptor).columns if os.isatty(descriptor) else 0
    finally:
        os.close(descriptor)
