# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passwords that the user has typed for a playbook, or that stood in a pipe, for the playbooks that it runs.

Ansible asks for them once, and a playbook that runs unattended cannot ask again. So each child reads them as a password
file that is a pipe: they are in no file, no environment and no command line.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import threading
import typing as t

from ansible import context


class _Kind(t.NamedTuple):
    question: str  # the option that asks, as Ansible keeps it
    file: str  # the option that names a file, as Ansible keeps it
    option: str  # the same on the command line
    held: str  # where a task finds the password


_KINDS = (
    _Kind("become_ask_pass", "become_password_file", "--become-password-file", "become_pass"),
    _Kind("ask_pass", "connection_password_file", "--connection-password-file", "password"),
)
# A task runs in a process of its own, so these are those of its playbook.
_held: dict[str, str] = {}


def keep(play_context: t.Any) -> None:
    """Remember the passwords of the task that runs here."""
    _held.update({kind.question: str(getattr(play_context, kind.held, None) or "") for kind in _KINDS})


def known(question: str) -> bool:
    """Decide whether the answer to an option that asks is known."""
    return bool(_held.get(question))


def replaced() -> set[str]:
    """Return the options that name a file which a child could not read again, because it is no regular one."""
    return {kind.file for kind in _KINDS if _held.get(kind.question) and _is_gone(context.CLIARGS.get(kind.file))}


@contextlib.contextmanager
def handed_over() -> t.Iterator[list[str]]:
    """Yield the options with which one playbook gets the passwords."""
    gone = replaced()
    kinds = [kind for kind in _KINDS if known(kind.question)]
    kinds = [kind for kind in kinds if context.CLIARGS.get(kind.question) or kind.file in gone]
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="memstretch-")) if kinds else ""
        words = []
        for kind in kinds:
            path = os.path.join(directory, kind.file)
            stack.enter_context(_pipe(path, _held[kind.question]))
            words += [kind.option, path]
        yield words


def _is_gone(path: str | None) -> bool:
    """Decide whether a password file can be read only once: the pipe of a parent, or the shell's."""
    if not path:
        return False
    try:
        return path == "-" or not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


@contextlib.contextmanager
def _pipe(path: str, text: str) -> t.Iterator[None]:
    """Let the first program that opens a path read a text."""
    os.mkfifo(path, 0o600)
    writer = threading.Thread(target=_write, args=(path, text), daemon=True)
    writer.start()
    try:
        yield
    finally:
        if writer.is_alive():  # nobody has read it
            reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            writer.join()
            os.close(reader)


def _write(path: str, text: str) -> None:
    # The reader may have ended in the meantime.
    with contextlib.suppress(BrokenPipeError), open(path, "w", encoding="utf-8") as pipe:
        pipe.write(text + "\n")
