# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, stop and query one Redis server that runs as a daemon without a service manager."""

from __future__ import annotations

import json
import os
import re
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import group_directory, group_path
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, write_file
from ansible_collections.memstretch.density.plugins.module_utils.host.locks import locked
from ansible_collections.memstretch.density.plugins.module_utils.redis.config import Address, Config, address_text
from ansible_collections.memstretch.density.plugins.module_utils.redis.connection import Connection
from ansible_collections.memstretch.density.plugins.module_utils.redis.process import Process, find_server

LOG_LINES = 20
POLL_SECONDS = 0.02
# The first version that keeps its arguments readable in /proc (set-proc-title no).
KEEPS_ARGUMENTS = (6, 2)
# Exit status of timeout(1) when the time is over, and when it cannot run the command.
TIMED_OUT = 124
CANNOT_RUN = (126, 127)
_REFUSALS = ("-WRONGPASS", "-NOAUTH", "-NOPERM", "-DENIED", "-ERR")


class DaemonError(Exception):
    """The server does not do what was requested; the text is for the user."""


class Daemon:
    """One Redis server."""

    def __init__(
        self,
        config: Config,
        executable: str,
        username: str,
        password: str | None,
        timeout: int,
        cgroup: str,
        run_command: RunCommand,
    ) -> None:
        self.config = config
        self.executable = executable
        self.username = username
        self.password = password
        self.timeout = timeout
        self.cgroup = group_path(cgroup.strip("/"))
        self._run_command = run_command

    def locked(self) -> t.ContextManager[None]:
        """Serialise runs for the same configuration file."""
        return locked(f"the Redis of {self.config.path}")

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
        """Return whether the process runs in the requested control group, if one is requested."""
        return not process or not self.cgroup or process.in_cgroup(self.cgroup)

    def info(self) -> dict[str, str]:
        """Return the fields of the command INFO; nothing if the user may not use it."""
        with self._connect() as connection:
            text = self._authenticate(connection) or connection.execute("INFO", "everything")
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line and not text.startswith("-"))

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
            if reply == "+PONG" and process.alive:
                return
            if reply.startswith(_REFUSALS):
                raise DaemonError(
                    f"the server of {self.config.path} runs (process {process.pid}) but refuses user "
                    f"{self.username!r}: {reply[1:]!r}; check the options username and password"
                )
            if time.monotonic() > deadline:
                raise DaemonError(
                    f"the server of {self.config.path} runs (process {process.pid}) but has not answered at "
                    f"{address_text(self.config.address)} within {self.timeout} s (last reply: {reply[1:] or 'none'})"
                    + self._log_tail(log_position)
                )
            time.sleep(POLL_SECONDS)

    # --- the protocol ------------------------------------------------------------------------------------------

    def _connect(self) -> Connection:
        return Connection(self.config.address, min(self.timeout, 5))

    def _authenticate(self, connection: Connection) -> str:
        """Return the error with which the server refuses the password, or an empty string."""
        reply = connection.execute("AUTH", self.username, self.password) if self.password else "+OK"
        return "" if reply == "+OK" else reply

    def _ping(self) -> str:
        try:
            with self._connect() as connection:
                return self._authenticate(connection) or connection.execute("PING")
        except OSError:
            return ""  # not yet: the caller tries again until the timeout

    # --- the start ---------------------------------------------------------------------------------------------

    def _refuse_taken_address(self) -> None:
        # Redis silently takes a unix socket from another server, and the owner of a TCP port would answer in its place.
        addresses: list[Address] = [self.config.address] if self.config.port else []
        addresses += [self.config.socket] if self.config.socket else []
        for address in addresses:
            try:
                with Connection(address, 2):
                    pass
            except OSError:
                continue  # nothing listens there
            raise DaemonError(
                f"cannot start the server of {self.config.path}: another process already listens on "
                f"{address_text(address)}; stop it, or choose another port or unixsocket"
            )

    def _launch(self) -> None:
        command = [self.executable, self.config.path, "--daemonize", "yes"]
        if self._version() >= KEEPS_ARGUMENTS:
            command += ["--set-proc-title", "no"]
        if self.cgroup:  # the shell enters the group before the server allocates memory
            command = ["sh", "-c", 'echo 0 > "$0" && exec "$@"', self._cgroup_file(), *command]
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
            with open(self.config.logfile, "rb") as file:
                file.seek(max(position or 0, self._log_size() - 16384))
                lines = file.read().decode("utf-8", "replace").splitlines()[-LOG_LINES:]
        except OSError:
            return f" (its log {self.config.logfile} cannot be read)"
        return "; its log ends with:\n" + "\n".join(lines)


def actions_for(
    state: str, process: Process | None, current: bool = True, in_cgroup: bool = True
) -> tuple[list[str], str]:
    """Return the actions that lead to a state, and the reason for them."""
    if state == "stopped":
        return (["stop"], "it runs") if process else ([], "")
    if not process:
        return ["start"], "it does not run"
    if state == "restarted":
        return ["stop", "start"], "a restart was requested"
    if not current:
        return ["stop", "start"], "its configuration has changed since it was started"
    if not in_cgroup:
        return ["stop", "start"], "it runs in another control group"
    return [], ""
