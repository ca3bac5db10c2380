# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redis servers as /proc shows them."""

from __future__ import annotations

import os
import signal
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.redis.config import Config

# Debian's redis-server is a link to redis-check-rdb: the binary chooses its function by the name it is called with.
SERVER_EXECUTABLES = {
    "redis-server",
    "redis-check-rdb",
    "redis-check-aof",
    "valkey-server",
    "valkey-check-rdb",
    "valkey-check-aof",
}


class Process:
    """One process. Its number alone does not identify it, since numbers are reused; its start time does."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        self.zombie, self.parent, self.started = fields[0] == "Z", int(fields[1]), int(fields[19])

    @property
    def alive(self) -> bool:
        try:
            now = Process(self.pid)
        except (OSError, IndexError):
            return False
        return now.started == self.started and not now.zombie

    @property
    def user(self) -> int:
        """Return the number of its effective user."""
        return os.stat(f"/proc/{self.pid}").st_uid

    def serves(self, config: Config, executable: str) -> bool:
        """Check whether this is the Redis server of that configuration file."""
        try:
            name = os.path.basename(os.readlink(f"/proc/{self.pid}/exe")).replace(" (deleted)", "")
            with open(f"/proc/{self.pid}/cmdline", "rb") as file:
                arguments = [os.fsdecode(argument) for argument in file.read().split(b"\0")]
            directory = os.readlink(f"/proc/{self.pid}/cwd")
            # Processes in containers are visible too, and their paths may equal ours.
            here = os.readlink(f"/proc/{self.pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
        except OSError:  # it has ended, or belongs to another user
            return False
        if self.zombie or not here or name not in SERVER_EXECUTABLES | {os.path.basename(os.path.realpath(executable))}:
            return False
        if len(arguments) > 1 and arguments[1]:
            return os.path.isabs(arguments[1]) and os.path.realpath(arguments[1]) == os.path.realpath(config.path)
        # Its title has replaced the arguments: "redis-server 127.0.0.1:6379".
        endpoint = arguments[0].split(" ")[1:2]
        return (
            bool(config.directory)
            and directory == os.path.realpath(config.directory)
            and bool(endpoint)
            and endpoint[0].endswith((f":{config.port}", f"unixsocket:{config.socket}"))
        )

    def terminate(self, config: Config, executable: str) -> None:
        """Send SIGTERM if this still is the server. The pidfd keeps the number from being reused in between."""
        if not hasattr(os, "pidfd_open"):  # Python 3.8
            if self.alive and self.serves(config, executable):
                os.kill(self.pid, signal.SIGTERM)
            return
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive and self.serves(config, executable):
                signal.pidfd_send_signal(handle, signal.SIGTERM)
        except ProcessLookupError:
            pass  # it has just ended by itself
        finally:
            os.close(handle)

    def in_cgroup(self, cgroup: str) -> bool:
        """Check whether it runs in that control group of the memory controller, or of version 2."""
        with open(f"/proc/{self.pid}/cgroup", encoding="utf-8") as file:
            groups = [line.rstrip("\n").split(":", 2) for line in file]
        controller = "memory" if any("memory" in names.split(",") for _number, names, _path in groups) else ""
        return any(controller in names.split(",") and path == f"/{cgroup}" for _number, names, path in groups)


def find_server(config: Config, executable: str) -> Process | None:
    """Return the server's process: the one in the pidfile, or else any process that serves the configuration."""
    try:
        with open(config.pidfile, encoding="ascii", errors="replace") as file:
            first = [int(file.read().strip())]
    except (OSError, ValueError):
        first = []
    everything = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return server_among(first, config, executable) or server_among(everything, config, executable)


def server_among(pids: t.Iterable[int], config: Config, executable: str) -> Process | None:
    """Return the process among these that serves the configuration, None if there is none."""
    found = {}
    for pid in pids:
        try:
            process = Process(pid)
        except (OSError, IndexError):
            continue
        if process.serves(config, executable):
            found[pid] = process
    # A server that saves its data has a child that looks the same.
    return next((process for process in found.values() if process.parent not in found), None)
