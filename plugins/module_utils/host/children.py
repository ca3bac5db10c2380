# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Child processes, such as Redis servers and their clients, that may be another user's and die with this process."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import pwd
import signal
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import set_kernel_file

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Who joins is killed first when memory runs out, so that those who were there go on.
KILLED_FIRST = 1000


class Spawn(t.NamedTuple):
    """What a process is to be.

    Attributes:
        argv: path of the program, and its arguments.
        output: the file for its standard output and its errors.
        given: its standard input, at most 64 KiB.
        entry: the file by which it enters a control group; empty to stay.
        user: whose it is; empty for this process's.
        environment: in addition to the conductor's.
        out_of_memory: added to its chance to be killed when memory runs out.
    """

    argv: t.Sequence[str]
    output: str
    given: str = ""
    entry: str = ""
    user: str = ""
    environment: t.Mapping[str, str] = {}
    out_of_memory: int = 0


class Child:
    """One process."""

    def __init__(self, spawn: Spawn) -> None:
        self.pid = _start(spawn)
        self.output = spawn.output
        self.status: int | None = None

    def ended(self) -> bool:
        """Return whether it has ended; its C(status) is then that of os.waitpid()."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status is not None

    @property
    def was_killed(self) -> bool:
        """Whether somebody has sent it SIGKILL, as the kernel does when memory runs out."""
        return self.status is not None and os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended. Its number stays its own until ended() has seen its end."""
        if not self.ended():
            os.kill(self.pid, number)

    def says(self) -> str:
        """Return the end of what it printed."""
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return " ".join(file.read()[-600:].split())


def has_ended() -> bool:
    """Return whether a child has ended whose end nobody has seen yet; one call for all of them."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def end(children: t.Sequence[Child], number: int, seconds: float) -> None:
    """Send processes a signal, and SIGKILL to those that have not ended after so many seconds."""
    for child in children:
        child.signal(number)
    deadline = time.monotonic() + seconds
    left = [child for child in children if not child.ended()]
    while left:
        if time.monotonic() > deadline:
            for child in left:
                child.signal(signal.SIGKILL)
        time.sleep(0.01)
        left = [child for child in left if not child.ended()]


def spare(pid: int) -> None:
    """Make a server that has joined as likely to be killed as any other, unless it has just ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        set_kernel_file(f"/proc/{pid}/oom_score_adj", "0")


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name) if name else None
    except KeyError:
        raise OSError(errno.ENOENT, "this host has no user of that name", name) from None


def _start(spawn: Spawn) -> int:
    user = _user(spawn.user)
    environment = {**os.environ, **spawn.environment}
    receive, send = os.pipe()
    os.write(send, spawn.given.encode())
    os.close(send)
    output = os.open(spawn.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    conductor = os.getpid()
    pid = os.fork()
    if pid:
        os.close(receive)
        os.close(output)
        return pid
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(receive, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if spawn.entry:
            set_kernel_file(spawn.entry, "0")
        if spawn.out_of_memory:
            set_kernel_file("/proc/self/oom_score_adj", str(spawn.out_of_memory))
        if user and user.pw_uid != os.geteuid():
            os.setgroups([])
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
        # After the change of user, which would undo it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != conductor:
            os._exit(1)  # it died before it could say so
        os.chdir("/")
        os.execve(spawn.argv[0], list(spawn.argv), environment)
    except BaseException as error:
        os.write(2, f"cannot run {spawn.argv[0]}: {error}\n".encode())
    finally:
        os._exit(127)
