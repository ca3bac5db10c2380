# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, stop and query one Redis server that runs as a daemon without a service manager."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import group_directory, group_path
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, write_file
from ansible_collections.memstretch.density.plugins.module_utils.redis.config import Address, Config, address_text
from ansible_collections.memstretch.density.plugins.module_utils.redis.connection import Connection, Refused, fields
from ansible_collections.memstretch.density.plugins.module_utils.redis.process import Process, find_server

LOG_LINES = 20
POLL_SECONDS = 0.02
# The first version that keeps its arguments readable in /proc (set-proc-title no).
KEEPS_ARGUMENTS = (6, 2)
# Exit status of timeout(1) when the time is over, and when it cannot run the command.
TIMED_OUT = 124
CANNOT_RUN = (126, 127)
# A server that loads its data or is busy answers later.
_LATER = ("LOADING", "BUSY", "MASTERDOWN")
# Enter a control group, become another user, and become the server. sys.argv: user, group, file of the control group,
# command.
_BECOME = """
import os, sys
uid, gid, group, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
if group:
    with open(group, "w") as file:
        file.write("0")
if uid != os.geteuid():
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
os.execvp(command[0], command)
"""


class DaemonError(Exception):
    """The server does not do what was requested; the text is for the user."""


class Daemon:
    """One Redis server."""

    def __init__(
        self,
        config: Config,
        executable: str,
        username: str,
        password: str,
        timeout: int,
        cgroup: str,
        run_command: RunCommand,
        identity: tuple[int, int] | None = None,
    ) -> None:
        self.config = config
        self.executable = executable
        self.username = username
        self.password = password
        self.timeout = timeout
        self.cgroup = group_path(cgroup.strip("/"))
        self._run_command = run_command
        self._identity = identity or (os.geteuid(), os.getegid())

    # --- the state ---------------------------------------------------------------------------------------------

    def find(self) -> Process | None:
        return find_server(self.config, self.executable)

    def is_current(self, process: Process | None) -> bool:
        """Return False only if this module started that process with another configuration."""
        if not process or not self.config.exists:
            return True
        try:
            with open(self.config.record, encoding="ascii") as file:
                record = json.load(file)
        except (OSError, ValueError):
            return True
        if [record.get("pid"), record.get("started")] != [process.pid, process.started]:
            return True
        return record.get("checksum") == self.config.checksum()

    def is_in_cgroup(self, process: Process | None) -> bool:
        """Check whether the process runs in the requested control group, if one is requested."""
        return not process or not self.cgroup or process.in_cgroup(self.cgroup)

    def is_of_user(self, process: Process | None) -> bool:
        """Check whether the process runs as the requested user."""
        return not process or process.user == self._identity[0]

    def info(self) -> dict[str, str]:
        """Return the fields of the command INFO; nothing if the user may not use it."""
        with self._connect() as connection:
            connection.log_in(self.username, self.password)
            try:
                return fields(connection.require("INFO", "everything"))
            except Refused:
                return {}

    # --- the changes -------------------------------------------------------------------------------------------

    def apply(self, actions: t.Sequence[str], process: Process | None) -> Process | None:
        """Stop and start the server, and return the process that then runs."""
        if process and "stop" in actions:
            self.stop(process)
            process = None
        if "start" in actions:
            process = self.start()
        return process

    def start(self) -> Process | None:
        self._refuse_taken_address()
        checksum = self.config.checksum()
        log_position = self._log_size()
        self._launch()
        process = self._find_launched()
        if process:
            self.remember(process, checksum)
        self.wait(process, log_position)
        return process

    def remember(self, process: Process, checksum: str) -> None:
        """Record which process was started with which configuration."""
        started = {"pid": process.pid, "started": process.started, "checksum": checksum}
        write_file(self.config.record, json.dumps(started), 0o600)

    def stop(self, process: Process) -> None:
        process.terminate(self.config, self.executable)
        deadline = time.monotonic() + self.timeout
        while process.alive:
            if time.monotonic() > deadline:
                raise DaemonError(
                    f"the server of {self.config.path}, process {process.pid}, has not ended within {self.timeout} s "
                    "after SIGTERM (it may be saving its data): wait for it, or raise the option timeout"
                )
            time.sleep(POLL_SECONDS)

    def wait(self, process: Process | None, log_position: int | None = None) -> None:
        """Wait until the server answers.

        Args:
            log_position: where the log of this start begins; None to show any line of the log in an error.
        """
        deadline = time.monotonic() + self.timeout
        while True:
            if not process or not process.alive:
                raise DaemonError(
                    f"the server of {self.config.path} has ended before it answered" + self._log_tail(log_position)
                )
            reply = self._ping()
            if reply == "PONG" and process.alive:
                return
            if reply not in ("", *_LATER):
                raise DaemonError(
                    f"the server of {self.config.path} runs (process {process.pid}) but refuses user "
                    f"{self.username!r}: {reply}; check the options username and password"
                )
            if time.monotonic() > deadline:
                raise DaemonError(
                    f"the server of {self.config.path} runs (process {process.pid}) but has not answered at "
                    f"{address_text(self.config.address)} within {self.timeout} s (last reply: {reply or 'none'})"
                    + self._log_tail(log_position)
                )
            time.sleep(POLL_SECONDS)

    # --- the protocol ------------------------------------------------------------------------------------------

    def _connect(self) -> Connection:
        return Connection(self.config.address, min(self.timeout, 5))

    def _ping(self) -> str:
        """Return PONG, or the code of an error."""
        try:
            with self._connect() as connection:
                connection.log_in(self.username, self.password)
                return connection.require("PING").lstrip("+")
        except Refused as refused:
            return str(refused)
        except OSError:
            return ""  # not yet: the caller tries again until the timeout

    # --- the start ---------------------------------------------------------------------------------------------

    def _refuse_taken_address(self) -> None:
        # Redis silently takes a unix socket from another server, and the owner of a TCP port would answer in its place.
        addresses: list[tuple[Address, str]] = []
        addresses += [(self.config.address, "port (redis_port)")] if self.config.port else []
        addresses += [(self.config.socket, "unixsocket")] if self.config.socket else []
        for address, option in addresses:
            try:
                with Connection(address, 2):
                    pass
            except OSError:
                continue  # nothing listens there
            raise DaemonError(
                f"cannot start the server of {self.config.path}: another process already listens on "
                f"{address_text(address)}; stop it, or set another {option}"
            )

    def _launch(self) -> None:
        command = [self.executable, self.config.path, "--daemonize", "yes"]
        if self._version() >= KEEPS_ARGUMENTS:
            command += ["--set-proc-title", "no"]
        group = self._cgroup_file() if self.cgroup else ""  # entered before the server allocates memory
        if group or self._identity[0] != os.geteuid():
            uid, gid = self._identity
            command = [sys.executable, "-Ic", _BECOME, str(uid), str(gid), group, *command]
        status, output, errors = self._run(command)
        if status:
            message = errors.strip() or output.strip() or "no message"
            raise DaemonError(f"{self.executable} refuses {self.config.path} (exit status {status}): {message}")

    def _find_launched(self) -> Process | None:
        # While a Redis rewrites its title, it shows no arguments for a moment.
        process = self.find()
        if not process:
            time.sleep(5 * POLL_SECONDS)
        return process or self.find()

    def _cgroup_file(self) -> str:
        path = f"{group_directory(HostFiles(), self.cgroup)[0]}/cgroup.procs"
        if not os.path.exists(path):
            raise DaemonError(
                f"cgroup: there is no control group {self.cgroup!r} of the memory controller on this host; create it "
                "first, for example with the module dram_budget, or leave the option empty"
            )
        return path

    def _version(self) -> tuple[int, int]:
        _status, output, _errors = self._run([self.executable, "--version"])
        match = re.search(r"\bv=(\d+)\.(\d+)", output)
        return (int(match.group(1)), int(match.group(2))) if match else (0, 0)

    def _run(self, command: list[str]) -> tuple[int, str, str]:
        """Run a command within the timeout, and return its status, output and errors."""
        try:
            status, output, errors = run_to_end(
                self._run_command, ["timeout", str(self.timeout), *command], cwd="/", handle_exceptions=False
            )
        except OSError as error:
            raise DaemonError(f"executable: cannot run {self.executable}: {error.strerror}") from error
        if status == TIMED_OUT:
            raise DaemonError(f"{' '.join(command)} has not returned within {self.timeout} s")
        if status in CANNOT_RUN:
            raise DaemonError(f"executable: cannot run {self.executable}: {errors.strip()}")
        return status, output, errors

    # --- the log -----------------------------------------------------------------------------------------------

    def _log_size(self) -> int:
        try:
            return os.path.getsize(self.config.logfile)
        except OSError:
            return 0

    def _log_tail(self, position: int | None) -> str:
        """Return the last lines of the log, beginning at a position if one is given."""
        if not self.config.logfile:
            return " (it keeps no log)"
        try:
            # The server's user may be another one, who could put a link there.
            with open(os.open(self.config.logfile, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                if os.fstat(file.fileno()).st_nlink != 1:
                    raise OSError(errno.EMLINK, "has other names too")
                file.seek(max(position or 0, self._log_size() - 16384))
                lines = file.read().decode("utf-8", "replace").splitlines()[-LOG_LINES:]
        except OSError:
            return f" (its log {self.config.logfile} cannot be read)"
        return "; its log ends with:\n" + "\n".join(lines)


def actions_for(
    state: str, process: Process | None, current: bool = True, in_cgroup: bool = True, of_user: bool = True
) -> tuple[list[str], str]:
    """Return the actions that lead to a state, and the reason for them."""
    if state == "stopped":
        return (["stop"], "it runs") if process else ([], "")
    if not process:
        return ["start"], "it does not run"
    if not current:
        return ["stop", "start"], "its configuration has changed since it was started"
    if not in_cgroup:
        return ["stop", "start"], "it runs in another control group"
    if not of_user:
        return ["stop", "start"], "it runs as another user"
    return [], ""
