# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands on a terminal, as somebody types them: what they ask for is typed, too."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pty
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[1]


def on_a_terminal(
    command: t.Sequence[str | os.PathLike[str]],
    question: str,
    answer: str,
    environment: t.Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run a command on a terminal of its own, answer a question, and return its status and output.

    Args:
        command: a program and its arguments.
        question: what it asks, once.
        answer: what is typed then.
        environment: of the command; this one by default.
    """
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(ROOT)
        os.execvpe(command[0], command, environment or os.environ)
    output = ""
    with contextlib.suppress(OSError):  # the terminal is gone
        while found := os.read(terminal, 4096):
            output += found.decode(errors="replace")
            if question and question in output:
                os.write(terminal, f"{answer}\n".encode())
                question = ""
    _pid, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), output
