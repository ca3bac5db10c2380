# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which playbook this is, and whether another one on this controller still runs."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import socket

from ansible_collections.memstretch.density.plugins.module_utils.host.claim import Claimant
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

_LONGEST = 200


def this_playbook() -> Claimant:
    """Return the playbook that this process, the worker of a task, belongs to.

    A playbook that another one started, as a study does, belongs to that one.
    """
    ancestors = []
    pid = os.getppid()
    while pid > 0:
        ancestors.append(pid)
        pid = _parent(pid)
    playbooks = [pid for pid in ancestors if _is_playbook(pid)] or ancestors[:1]
    return Claimant(
        controller=_controller(),
        process=_process(playbooks[-1]),
        ancestors=[_process(pid) for pid in ancestors],
        text=f"process {playbooks[-1]} of {getpass.getuser()} on {socket.gethostname()} ({_command(playbooks[-1])})",
    )


def is_running(process: str) -> bool:
    """Decide whether a process of this controller still runs."""
    pid = process.partition(":")[0]
    return pid.isdigit() and _process(int(pid)) == process


def _controller() -> str:
    """Build the name that tells this controller, its boot and its process numbers from all others."""
    boot = HostFiles().text("/proc/sys/kernel/random/boot_id") or ""
    try:
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux
        numbers = ""
    return f"{socket.gethostname()} {boot} {numbers}"


def _process(pid: int) -> str:
    """Return a process as C(pid:start), which no later process has; without the start where there is no /proc."""
    fields = _status(pid)
    return f"{pid}:{fields[19]}" if fields else f"{pid}:ended" if os.path.isdir("/proc/self") else f"{pid}:"


def _parent(pid: int) -> int:
    fields = _status(pid)
    return int(fields[1]) if fields else 0


def _status(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name of the program, which may hold anything."""
    return (HostFiles().text(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()


def _words(pid: int) -> list[str]:
    return (HostFiles().text(f"/proc/{pid}/cmdline") or "").strip("\0").split("\0")


def _is_playbook(pid: int) -> bool:
    return any(os.path.basename(word) == "ansible-playbook" for word in _words(pid)[:3])


def _command(pid: int) -> str:
    """Return the playbooks that a process runs, without its options, which may hold secrets."""
    books = [word for word in _words(pid)[1:] if re.search(r"\.ya?ml$|^\w+\.\w+\.\w+$", word) and "=" not in word]
    return " ".join(["ansible-playbook", *(shlex.quote(word) for word in books if not word.startswith("@"))])[:_LONGEST]
