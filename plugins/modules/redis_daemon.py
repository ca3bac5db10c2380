#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: redis_daemon
short_description: Run a Redis server as a plain daemon, without a service manager
version_added: 0.1.0
author:
  - The memstretch.density contributors (@memstretch)
description:
  - Starts, stops and restarts one Redis (or Valkey) server as a daemon of the user that runs the task.
    It is meant for hosts without systemd, for containers, and for users without root.
  - Knows its process by more than a number. A process belongs to the configuration file when C(/proc) shows a
    Redis server's executable and the configuration file's path as first argument (Redis before 6.2, which
    overwrites its arguments, is known by its title and its working directory). The pidfile only says where to
    look first, so neither a stale pidfile nor a recycled process number leads to a signal to somebody else.
  - A server is I(started) when it answers C(PING) through its TCP port or its unix socket.
  - Runs of the module for the same configuration file wait for each other.
options:
  config:
    description:
      - Absolute path of the Redis configuration file.
      - It must set C(dir) and C(pidfile) to absolute paths, and C(port) or C(unixsocket). C(include) is not
        followed, and a port with TLS only cannot be asked.
      - In check mode the file may be missing, since an earlier task may be about to write it.
    type: path
    required: true
  state:
    description:
      - V(started) makes sure that the server runs and answers, with the configuration that is in the file now.
        When this module started it and its configuration or ACL file has changed since, it is restarted. A server
        that somebody else started is left running as it is.
      - V(restarted) stops the server if it runs, and starts it.
      - V(stopped) makes sure that it does not run. It gets SIGTERM, so it saves if it is configured to; it
        never gets SIGKILL.
    type: str
    choices: [started, stopped, restarted]
    default: started
  executable:
    description: Name or absolute path of the server's executable.
    type: str
    default: redis-server
  username:
    description: Name of the ACL user for C(PING).
    type: str
    default: default
  password:
    description:
      - Password of O(username), if the server needs one. It is sent through the connection only.
    type: str
  cgroup:
    description:
      - Path of the control group that the server runs in, below the root of the memory controller, for example V(fleet). It must be there. A
        server that runs in another one is restarted, since memory is charged to the group in which it was first used.
      - Empty leaves it to the system.
    type: str
    default: ""
  timeout:
    description:
      - Seconds to wait until the server answers, and to wait until it has ended; from 1 to 3600.
      - A server with persistence answers only when it has loaded its data, and ends only when it has saved it.
    type: int
    default: 30
attributes:
  check_mode:
    support: full
    description: Says what would change, and changes nothing.
  diff_mode:
    support: full
    description: Shows the state before and after.
  idempotent:
    support: partial
    details:
      - O(state=restarted) always restarts.
    description: A second run changes nothing.
  platform:
    platforms: linux
    description: Systems with C(/proc).
    support: full
notes:
  - A Redis without persistence loses its data when it is restarted.
  - The server runs as the user of the task.
seealso:
  - module: community.general.redis_info
"""

EXAMPLES = r"""
- name: Make sure that a Redis runs, and that it runs with its current configuration
  memstretch.density.redis_daemon:
    config: /home/bench/redis/6401/redis.conf

- name: The same for one that needs a password and has much to load
  memstretch.density.redis_daemon:
    config: /home/bench/redis/6402/redis.conf
    password: "{{ vault_redis_password }}"
    timeout: 600

- name: Stop it
  memstretch.density.redis_daemon:
    config: /home/bench/redis/6401/redis.conf
    state: stopped
"""

RETURN = r"""
state:
  description: What the server does now (in check mode, what it would do), either V(started) or V(stopped).
  type: str
  returned: success
  sample: started
actions:
  description: What was done, or in check mode would be done, in this order.
  type: list
  elements: str
  returned: success
  sample: [stop, start]
reason:
  description: Why it was done, for people. Empty if nothing was.
  type: str
  returned: success
  sample: its configuration has changed since it was started
pid:
  description: Process number of the server. Null if it does not run, or would be started in check mode.
  type: int
  returned: success
  sample: 4711
version:
  description: Version that the server tells. Null if it does not run or the user may not ask it.
  type: str
  returned: success
  sample: 7.0.15
run_id:
  description: What Redis calls its C(run_id), 40 hexadecimal digits, new at each start. Null as O(ignore:version).
  type: str
  returned: success
  sample: 3d6b1ad9a7d5c1d5a5f8e1a7f0b5b9d6c2e7f801
used_memory:
  description: Memory that Redis has allocated, in bytes. Null as O(ignore:version).
  type: int
  returned: success
  sample: 892352
"""

import fcntl
import hashlib
import json
import os
import re
import shlex
import signal
import socket
import time
from contextlib import contextmanager

from ansible.module_utils.basic import AnsibleModule

TIMEOUT_RANGE = (1, 3600)
LOG_LINES = 20
POLL_SECONDS = 0.02
# Debian's redis-server is a link to redis-check-rdb: one binary that goes by its name.
SERVER_EXECUTABLES = {
    "redis-server",
    "redis-check-rdb",
    "redis-check-aof",
    "valkey-server",
    "valkey-check-rdb",
    "valkey-check-aof",
}
# The first version whose arguments stay readable in /proc when asked to (set-proc-title).
KEEPS_ARGUMENTS = (6, 2)
# What timeout(1) ends with when it had to end the command, and when it could not run it.
TIMED_OUT = 124
CANNOT_RUN = (126, 127)
# Where the memory controller is, in version 1 and 2 of control groups.
CGROUP_ROOTS = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup")


class DaemonError(Exception):
    """Something that the user has to know; the text is for them."""


class Config:
    """What the module needs to know from a Redis configuration file."""

    NEEDED = {"aclfile", "bind", "dir", "logfile", "pidfile", "port", "unixsocket"}

    def __init__(self, path):
        self.path = path
        self.exists = os.path.isfile(path)
        self.values = self._read() if self.exists else {}
        self.directory = self._last("dir")
        self.pidfile = self._last("pidfile")
        self.logfile = self._last("logfile")
        self.socket = self._last("unixsocket")
        self.port = self._port()

    def _read(self):
        values = {}
        try:
            with open(self.path, encoding="utf-8", errors="surrogateescape") as file:
                lines = [line.strip() for line in file]
        except OSError as error:
            raise DaemonError(f"config: cannot read {self.path}: {error.strerror}") from error
        for name, *rest in (line.split(None, 1) for line in lines if line):
            if name.lower() in self.NEEDED:
                try:
                    values[name.lower()] = shlex.split(rest[0]) if rest else []
                except ValueError as error:
                    raise DaemonError(f"config: {self.path} has an unbalanced quote in the value of {name}") from error
        return values

    def _last(self, name):
        return (self.values.get(name) or [""])[0]

    def _port(self):
        text = self._last("port") or "6379"
        if not text.isdigit() or int(text) > 65535:
            raise DaemonError(f"config: {self.path} has port {text!r}; allowed is 0 (no TCP) to 65535")
        return int(text)

    @property
    def address(self):
        """Where this machine reaches the server: a path, or a pair of host and port."""
        if not self.port:
            return self.socket
        first = (self.values.get("bind") or ["127.0.0.1"])[0].lstrip("-")
        return {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::*": "::1", "::": "::1"}.get(first, first), self.port

    @property
    def endpoint(self):
        return f"{self.address[0]}:{self.port}" if self.port else f"unix socket {self.socket}"

    @property
    def record(self):
        return self.pidfile + ".started"

    def checksum(self):
        """SHA-256 of everything that a start reads: the file, and the ACL file it names."""
        digest = hashlib.sha256()
        for path in filter(None, (self.path, self._last("aclfile"))):
            try:
                with open(path, "rb") as file:
                    digest.update(file.read() + b"\0")
            except OSError as error:
                raise DaemonError(f"config: cannot read {path}: {error.strerror}") from error
        return digest.hexdigest()

    def require(self):
        """Refuse a file with which the server could not be found again or asked."""
        if not self.exists:
            raise DaemonError(f"config: {self.path} does not exist")
        for name in ("dir", "pidfile"):
            if not os.path.isabs(self._last(name)):
                raise DaemonError(
                    f"config: {self.path} must set {name} to an absolute path, it has {self._last(name)!r}"
                )
        if not self.port and not self.socket:
            raise DaemonError(f"config: {self.path} has port 0 and no unixsocket: nothing could reach the server")


class Process:
    """One process, as /proc shows it. Its start time makes it unique: numbers are used again."""

    def __init__(self, pid):
        self.pid = pid
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        self.zombie, self.parent, self.started = fields[0] == "Z", int(fields[1]), int(fields[19])

    @property
    def alive(self):
        try:
            now = Process(self.pid)
        except (OSError, IndexError):
            return False
        return now.started == self.started and not now.zombie

    def serves(self, config, executable):
        """Is this the Redis server of that configuration file?"""
        try:
            name = os.path.basename(os.readlink(f"/proc/{self.pid}/exe")).replace(" (deleted)", "")
            with open(f"/proc/{self.pid}/cmdline", "rb") as file:
                arguments = [os.fsdecode(argument) for argument in file.read().split(b"\0")]
            directory = os.readlink(f"/proc/{self.pid}/cwd")
            # A container's processes are visible too, and their paths may read like ours.
            here = os.readlink(f"/proc/{self.pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
        except OSError:  # ended meanwhile, or another user's
            return False
        if self.zombie or not here or name not in SERVER_EXECUTABLES | {os.path.basename(os.path.realpath(executable))}:
            return False
        if len(arguments) > 1 and arguments[1]:
            return os.path.isabs(arguments[1]) and os.path.realpath(arguments[1]) == os.path.realpath(config.path)
        endpoint = arguments[0].split(" ")[1:2]
        return (
            bool(config.directory)
            and directory == os.path.realpath(config.directory)
            and bool(endpoint)
            and endpoint[0].endswith((f":{config.port}", f"unixsocket:{config.socket}"))
        )

    def terminate(self, config, executable):
        """SIGTERM, to this very process: between check and signal a handle keeps its number from being reused."""
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
            pass  # it has just ended by itself, which is what was wanted
        finally:
            os.close(handle)


class Connection:
    """The little of the Redis protocol that is needed to ask a server how it is."""

    def __init__(self, address, timeout):
        if isinstance(address, tuple):
            self.socket = socket.create_connection(address, timeout)
        else:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(timeout)
            try:
                self.socket.connect(address)
            except OSError:
                self.socket.close()
                raise
        self.reader = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.reader.close()
        self.socket.close()

    def ask(self, *words):
        parts = [f"*{len(words)}\r\n".encode()]
        for word in words:
            data = word.encode("utf-8", "surrogateescape")
            parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
        self.socket.sendall(b"".join(parts))
        line = self.reader.readline().decode("utf-8", "replace").rstrip("\r\n")
        if not line.startswith("$"):
            return line
        return self.reader.read(int(line[1:]) + 2).decode("utf-8", "replace")


class Daemon:
    def __init__(self, params, run_command):
        self.run_command = run_command
        self.config = Config(params["config"])
        self.executable = params["executable"]
        self.username = params["username"]
        self.password = params["password"]
        self.timeout = params["timeout"]
        self.cgroup = params["cgroup"].strip("/")

    def find(self):
        """The server's process: where the pidfile says, or else anywhere."""
        try:
            with open(self.config.pidfile, encoding="ascii", errors="replace") as file:
                first = [int(file.read().strip())]
        except (OSError, ValueError):
            first = []
        return self._select(first) or self._select(int(name) for name in os.listdir("/proc") if name.isdigit())

    def _find_patiently(self):
        # A Redis that rewrites its title shows no arguments at all for a moment.
        process = self.find()
        if not process:
            time.sleep(5 * POLL_SECONDS)
        return process or self.find()

    def _select(self, pids):
        found = {}
        for pid in pids:
            try:
                process = Process(pid)
            except (OSError, IndexError):
                continue
            if process.serves(self.config, self.executable):
                found[pid] = process
        # While it saves, a server has a child that looks like it.
        return next((process for process in found.values() if process.parent not in found), None)

    def is_current(self, process):
        """False only if this module started that process with another configuration."""
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

    def is_in_place(self, process):
        """Does it run in the control group that it should run in?"""
        if not process or not self.cgroup:
            return True
        with open(f"/proc/{process.pid}/cgroup", encoding="utf-8") as file:
            groups = [line.rstrip("\n").split(":", 2) for line in file]
        wanted = "memory" if any("memory" in names.split(",") for dummy, names, dummy in groups) else ""
        return any(wanted in names.split(",") and path == f"/{self.cgroup}" for dummy, names, path in groups)

    def _group_processes(self):
        path = next((f"{root}/{self.cgroup}/cgroup.procs" for root in CGROUP_ROOTS if os.path.isdir(root)), None)
        if not path or not os.path.exists(path):
            raise DaemonError(
                f"cgroup: there is no control group {self.cgroup!r} of the memory controller on this host; make it first, for example "
                "with the module dram_budget, or leave the option empty"
            )
        return path

    def start(self):
        self._refuse_taken_address()
        checksum = self.config.checksum()
        log_position = self._log_size()
        self._launch()
        process = self._find_patiently()
        if process:
            with open(
                os.open(self.config.record, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii"
            ) as file:
                json.dump({"pid": process.pid, "started": process.started, "checksum": checksum}, file)
        self.wait(process, log_position)
        return process

    def stop(self, process):
        process.terminate(self.config, self.executable)
        deadline = time.monotonic() + self.timeout
        while process.alive:
            if time.monotonic() > deadline:
                raise DaemonError(
                    f"the server of {self.config.path}, process {process.pid}, has not ended within {self.timeout} s "
                    "after SIGTERM (it may be saving its data): wait for it, or raise the option timeout"
                )
            time.sleep(POLL_SECONDS)

    def wait(self, process, log_position=None):
        """Wait until the server answers."""
        deadline = time.monotonic() + self.timeout
        while True:
            if not process or not process.alive:
                raise DaemonError(
                    f"the server of {self.config.path} has ended before it answered" + self._log_tail(log_position)
                )
            reply = self._ping()
            if reply == "+PONG" and process.alive:
                return
            if reply.startswith(("-WRONGPASS", "-NOAUTH", "-NOPERM", "-DENIED", "-ERR")):
                raise DaemonError(
                    f"the server of {self.config.path} runs (process {process.pid}) but refuses user {self.username!r}: "
                    f"{reply[1:]!r}; check the options username and password"
                )
            if time.monotonic() > deadline:
                raise DaemonError(
                    f"the server of {self.config.path} runs (process {process.pid}) but has not answered on {self.config.endpoint} "
                    f"within {self.timeout} s (last reply: {reply[1:] or 'none'})" + self._log_tail(log_position)
                )
            time.sleep(POLL_SECONDS)

    def info(self):
        """What the server tells about itself; empty if the user may not ask."""
        with self._connect() as connection:
            text = self._greet(connection) or connection.ask("INFO", "everything")
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line and not text.startswith("-"))

    def _connect(self):
        return Connection(self.config.address, min(self.timeout, 5))

    def _greet(self, connection):
        """The error with which the server refuses the password, or nothing."""
        reply = connection.ask("AUTH", self.username, self.password) if self.password else "+OK"
        return "" if reply == "+OK" else reply

    def _ping(self):
        try:
            with self._connect() as connection:
                return self._greet(connection) or connection.ask("PING")
        except OSError:
            return ""  # not yet: the caller goes on asking until its time is up

    def _refuse_taken_address(self):
        # Redis takes a unix socket away from another server without a word, and a TCP port's owner would answer for it.
        for address in filter(None, (self.config.port and self.config.address, self.config.socket)):
            try:
                with Connection(address, 2):
                    pass
            except OSError:
                continue  # nobody listens there
            where = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else f"unix socket {address}"
            raise DaemonError(
                f"cannot start the server of {self.config.path}: another process listens on {where} already; "
                "stop that one, or choose another port or unixsocket"
            )

    def _launch(self):
        command = [self.executable, self.config.path, "--daemonize", "yes"]
        if self._version() >= KEEPS_ARGUMENTS:
            command += ["--set-proc-title", "no"]
        if self.cgroup:  # entered before anything is allocated
            command = ["sh", "-c", 'echo 0 > "$0" && exec "$@"', self._group_processes(), *command]
        status, output, errors = self._run(command)
        if status:
            text = errors.strip() or output.strip() or "without a word"
            raise DaemonError(f"{self.executable} refuses {self.config.path} (exit status {status}): {text}")

    def _version(self):
        dummy, output, dummy = self._run([self.executable, "--version"])
        match = re.search(r"\bv=(\d+)\.(\d+)", output)
        return (int(match.group(1)), int(match.group(2))) if match else (0, 0)

    def _run(self, command):
        """Run a command within the time that is left to it, and return its status, output and errors."""
        try:
            status, output, errors = self.run_command(
                ["timeout", str(self.timeout), *command], cwd="/", handle_exceptions=False
            )
        except OSError as error:
            raise DaemonError(f"executable: cannot run {self.executable}: {error.strerror}") from error
        if status == TIMED_OUT:
            raise DaemonError(f"{' '.join(command)} has not returned within {self.timeout} s")
        if status in CANNOT_RUN:
            raise DaemonError(f"executable: cannot run {self.executable}: {errors.strip()}")
        return status, output, errors

    def _log_size(self):
        try:
            return os.path.getsize(self.config.logfile)
        except OSError:
            return 0

    def _log_tail(self, position):
        """The last lines of the log, of this start only if a position is given."""
        try:
            with open(self.config.logfile, "rb") as file:
                file.seek(max(position or 0, self._log_size() - 16384))
                lines = file.read().decode("utf-8", "replace").splitlines()[-LOG_LINES:]
        except OSError:
            return f" (its log {self.config.logfile or 'is not kept'} cannot be read)"
        return "; its log ends with:\n" + "\n".join(lines)


def plan(state, process, current, in_place=True):
    """The actions that lead to the state, and the reason for them."""
    if state == "stopped":
        return (["stop"], "it runs") if process else ([], "")
    if not process:
        return ["start"], "it does not run"
    if state == "restarted":
        return ["stop", "start"], "a restart was asked for"
    if not current:
        return ["stop", "start"], "its configuration has changed since it was started"
    if not in_place:
        return ["stop", "start"], "it runs in another control group"
    return [], ""


def act(daemon, actions, process):
    """Do them, and return the process that then runs."""
    if "stop" in actions:
        daemon.stop(process)
        process = None
    if "start" in actions:
        process = daemon.start()
    return process


@contextmanager
def locked(config):
    """One run of this module at a time for a configuration file. Nothing is written for it."""
    if not config.exists:
        yield
        return
    with open(config.path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def check_params(module):
    low, high = TIMEOUT_RANGE
    if not low <= module.params["timeout"] <= high:
        raise DaemonError(f"timeout: {module.params['timeout']} is out of range; allowed is {low} to {high} seconds")
    if not os.path.isabs(module.params["config"]):
        raise DaemonError(f"config: {module.params['config']!r} is not an absolute path")
    if not re.match(r"^(/?[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*)?$", module.params["cgroup"]):
        raise DaemonError(f"cgroup: {module.params['cgroup']!r} is not the path of a control group, such as fleet")
    module.params["executable"] = module.get_bin_path(module.params["executable"]) or module.params["executable"]


def run(module):
    check_params(module)
    state, check_mode = module.params["state"], module.check_mode
    daemon = Daemon(module.params, module.run_command)
    if state != "stopped" and not (check_mode and not daemon.config.exists):
        daemon.config.require()
    with locked(daemon.config):
        process = daemon.find()
        before = {
            "state": "started" if process else "stopped",
            "configuration": "current" if daemon.is_current(process) else "outdated",
        }
        actions, reason = plan(state, process, before["configuration"] == "current", daemon.is_in_place(process))
        if actions:
            process = None if check_mode else act(daemon, actions, process)
        elif process:
            daemon.wait(process)
        info = daemon.info() if process else {}
    after = {"state": "stopped" if state == "stopped" else "started", "configuration": "current"}
    return {
        "changed": bool(actions),
        "diff": {"before": before, "after": after},
        "state": after["state"],
        "actions": actions,
        "reason": reason,
        "pid": process.pid if process else None,
        "version": info.get("redis_version"),
        "run_id": info.get("run_id"),
        "used_memory": int(info["used_memory"]) if "used_memory" in info else None,
    }


def main():
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["started", "stopped", "restarted"], "default": "started"},
            "executable": {"type": "str", "default": "redis-server"},
            "username": {"type": "str", "default": "default"},
            "password": {"type": "str", "no_log": True},
            "timeout": {"type": "int", "default": 30},
            "cgroup": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    try:
        result = run(module)
    except (DaemonError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
