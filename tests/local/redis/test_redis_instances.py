# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module redis_instances with daemons, run as Ansible runs it, on real servers. Processes are ended by number."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.locks import locked
from ansible_collections.memstretch.density.plugins.module_utils.redis.config import Config
from ansible_collections.memstretch.density.plugins.module_utils.redis.process import Process, server_among

from ..conftest import DAEMON_OF_THE_PLAY, PATIENCE, RedisServer, free_ports, wait_for

ROOT = Path(__file__).parents[3]
MODULE = ROOT / "plugins" / "modules" / "redis_instances.py"
# The module finds the collection as it does in Ansible's archive.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / ".ansible" / "collections")}
REDIS = shutil.which("redis-server")
assert REDIS, "redis-server is not installed; make test-local installs it"


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Server:
    """One server below a directory. Its methods run the module for it."""

    def __init__(self, root, name, port=None, **options):
        self.directory = root / name
        self.port = free_ports(1) if port is None else port
        self.config = self.directory / "redis.conf"
        self.pidfile = self.directory / "redis.pid"
        self.pids = set()
        # Another user cannot enter pytest's directories.
        self.fixed = {"name": name, "directory": str(root), "supervisor": "daemon", **DAEMON_OF_THE_PLAY}
        self.set(**options)

    def set(self, **options):
        """Choose the options of the following runs."""
        self.options = {**self.fixed, "port": self.port, **options}

    def arguments(self, state="present", check=False, **options):
        entry = {**self.options, "state": state, "timeout": PATIENCE, **options}
        return json.dumps(
            {
                "ANSIBLE_MODULE_ARGS": {
                    "instances": [entry],
                    "_ansible_check_mode": check,
                    "_ansible_diff": True,
                }
            }
        )

    def run_module(self, *args, **kwargs):
        run = subprocess.run(
            [sys.executable, str(MODULE)],
            env=ENVIRONMENT,
            input=self.arguments(*args, **kwargs),
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
        assert run.stdout, run.stderr
        self.output = run.stdout
        result = json.loads(run.stdout)
        (instance,) = result.get("instances") or [{}]
        if instance.get("pid"):
            self.pids.add(instance["pid"])
        if self.pidfile.exists() and self.pidfile.read_text(encoding="utf-8").strip().isdigit():
            self.pids.add(int(self.pidfile.read_text(encoding="utf-8")))
        return {**instance, **result}

    def ok(self, *args, **kwargs):
        result = self.run_module(*args, **kwargs)
        assert not result.get("failed"), result["msg"]
        return result

    def refused(self, *args, **kwargs):
        result = self.run_module(*args, **kwargs)
        assert result.get("failed"), result
        return result["msg"]

    def own(self, pid):
        try:
            return os.readlink(f"/proc/{pid}/cwd") == str(self.directory)
        except OSError:
            return False


@pytest.fixture
def make(tmp_path):
    servers = []

    def make_server(name="a", **kwargs):
        servers.append(Server(tmp_path, name, **kwargs))
        return servers[-1]

    yield make_server
    for server in servers:
        for pid in filter(server.own, server.pids):
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def spawn():
    """Start processes that the module must leave alone."""
    processes = []

    def spawn_process(*command, **kwargs):
        processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, **kwargs))
        return processes[-1]

    yield spawn_process
    for process in processes:
        process.kill()
        process.wait()


def test_starts_once_and_stops_once(make):
    server = make()
    first = server.ok()
    assert first["changed"] and first["actions"] == ["start"] and first["state"] == "started"
    assert first["version"][0].isdigit() and first["used_memory"] > 100_000 and len(first["run_id"]) == 40
    assert alive(first["pid"]) and int(server.pidfile.read_text(encoding="utf-8")) == first["pid"]

    second = server.ok()
    assert not second["changed"] and second["pid"] == first["pid"] and second["run_id"] == first["run_id"]
    assert second["diff"] == []

    assert server.ok("stopped")["changed"]
    assert not alive(first["pid"])
    assert not server.ok("stopped")["changed"]


def test_check_mode_predicts_and_changes_nothing(make):
    server = make()
    predicted = server.ok(check=True)
    assert predicted["changed"] and predicted["actions"] == ["start"] and not server.directory.exists()
    assert predicted["diff"] == server.ok()["diff"]

    pid = server.ok()["pid"]
    assert not server.ok(check=True)["changed"]
    for state in ("stopped", "absent"):
        assert server.ok(state, check=True)["changed"]
        assert alive(pid)
    server.set(maxmemory="64mb")
    predicted = server.ok(check=True)
    assert predicted["actions"] == ["stop", "start"] and "outdated" in str(predicted["diff"]) and alive(pid)
    assert predicted["diff"] == server.ok()["diff"]


def test_files_are_removed_while_nobody_else_removes_their_directory(make, tmp_path, spawn):
    """Two inventory hosts of a machine were removed at the same time, and their empty directory stayed."""
    server = make()
    pid = server.ok()["pid"]
    with locked(f"the Redis of {tmp_path}", 1):
        running = spawn(sys.executable, str(MODULE), env=ENVIRONMENT, stdin=subprocess.PIPE, encoding="utf-8")
        running.stdin.write(server.arguments("absent"))
        running.stdin.close()
        wait_for("the end of the server", lambda: not alive(pid))
        time.sleep(0.5)  # it would have removed them by now
        assert server.config.exists()
    assert running.wait(PATIENCE) == 0 and not server.directory.exists() and list(tmp_path.iterdir()) == []


def test_a_changed_configuration_restarts_that_server_only(make):
    server, other = make("a"), make("b")
    pid, other_pid = server.ok()["pid"], other.ok()["pid"]
    server.set(maxmemory="64mb")
    result = server.ok()
    assert result["actions"] == ["stop", "start"] and "changed" in result["reason"] and result["pid"] != pid
    assert not server.ok()["changed"]
    assert not other.ok()["changed"] and alive(other_pid)


def test_a_touched_configuration_is_no_change(make):
    server = make()
    server.ok()
    os.utime(server.config)
    assert not server.ok()["changed"]


def test_password(make):
    server = make(password="first secret")
    result = server.ok()
    assert "first secret" not in server.output
    process = Path(f"/proc/{result['pid']}")
    assert b"first secret" not in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    assert not any(b"first secret" in path.read_bytes() for path in server.directory.iterdir() if path.is_file())
    (server.directory / "users.acl").chmod(0o644)
    assert server.ok()["changed"] and (server.directory / "users.acl").stat().st_mode & 0o777 == 0o600

    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b'AUTH "first secret"\r\nCONFIG SET requirepass changed-by-hand\r\n')
        wait_for("the answers", lambda: client.recv(100))
    message = server.refused()
    assert "WRONGPASS" in message and "password" in message and alive(result["pid"])

    server.set(password="second secret")
    assert server.ok()["actions"] == ["stop", "start"]
    assert not server.ok()["changed"]


# Longer than what Redis repeats of an argument, with quotes and letters that messages show in another way.
SECRET = 'it\'s \\ a "secret" \u00e9 ' + "x" * 150


@pytest.mark.parametrize("password", ["plain-secret", SECRET])
def test_a_password_that_redis_repeats_is_in_no_message(make, password):
    server = make(password=password, extra_config={"rename-command": 'AUTH ""'})
    message = server.refused(timeout=2)
    assert "refuses user 'default': ERR" in message, message
    for part in (password[:8], password.encode("unicode_escape").decode()[:8]):
        assert part not in message
        assert not any(part.encode() in path.read_bytes() for path in server.directory.iterdir() if path.is_file())


def test_a_user_other_than_default(make):
    server = make(username="bench", password="s3-secret")
    assert server.ok()["version"]
    users = server.directory / "users.acl"
    users.write_text(users.read_text(encoding="utf-8").replace("+@all", "+ping"), encoding="utf-8")
    os.kill(server.pids.pop(), signal.SIGKILL)
    wait_for("the server has ended", lambda: server.ok("stopped", check=True)["actions"] == [])
    with subprocess.Popen([REDIS, str(server.config)], stdout=subprocess.DEVNULL) as limited:
        try:
            wait_for("it listens", lambda: RedisServer.answers_on(server.port))
            assert server.ok(check=True)["version"] is None, "bench may not use INFO"
        finally:
            limited.kill()


def test_unix_socket_only(make):
    server = make(port=0, socket="auto")
    assert server.ok()["changed"]
    assert not server.ok()["changed"]
    assert server.ok("stopped")["changed"]


def test_a_killed_server_is_started_again(make):
    server = make(port=0, socket="auto")
    pid = server.ok()["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for("the server ends", lambda: not alive(pid))
    assert server.pidfile.exists(), "the pidfile is stale now"
    again = server.ok()
    assert again["changed"] and again["pid"] != pid


def test_a_process_in_a_stale_pidfile_gets_no_signal(make, spawn):
    server = make()
    server.ok("stopped")
    stranger = spawn("sleep", "infinity")
    server.pidfile.write_text(f"{stranger.pid}\n", encoding="utf-8")
    assert not server.ok("stopped")["changed"]
    assert server.ok()["actions"] == ["start"]
    server.pidfile.write_text(f"{stranger.pid}\n", encoding="utf-8")
    assert server.ok("stopped")["actions"] == ["stop"], "found in spite of the pidfile"
    assert stranger.poll() is None


@pytest.mark.parametrize("content", ["", "nonsense", "-1", "999999999", "0"])
def test_the_server_is_found_without_a_valid_pidfile(make, content):
    server = make()
    pid = server.ok()["pid"]
    server.pidfile.write_text(content, encoding="utf-8")
    assert server.ok()["pid"] == pid
    server.pidfile.unlink()
    assert server.ok("stopped")["changed"] and not alive(pid)


def test_another_redis_in_a_stale_pidfile_keeps_running(make):
    server, other = make("a"), make("b")
    other_pid = other.ok()["pid"]
    server.ok("stopped")
    server.pidfile.write_text(str(other_pid), encoding="utf-8")
    assert not server.ok("stopped")["changed"]
    assert server.ok()["pid"] != other_pid
    server.ok("stopped")
    assert alive(other_pid)


def test_other_programs_with_the_path_as_argument_keep_running(make, spawn):
    server = make()
    server.ok("stopped")
    editor = spawn(sys.executable, "-c", "import signal; signal.pause()", str(server.config))
    viewer = spawn("tail", "-f", str(server.config))
    server.pidfile.write_text(str(viewer.pid), encoding="utf-8")
    assert not server.ok("stopped")["changed"]
    assert editor.poll() is None and viewer.poll() is None


def test_a_server_that_somebody_else_started_is_recognised_and_keeps_running(make):
    server = make()
    server.ok("stopped")
    # It rewrites its title, as every Redis before 6.2 does.
    subprocess.run([REDIS, str(server.config), "--daemonize", "yes"], check=True, stdout=subprocess.DEVNULL)
    result = server.ok()
    assert not result["changed"] and result["pid"] == int(server.pidfile.read_text(encoding="utf-8"))
    assert b"redis.conf" not in Path(f"/proc/{result['pid']}/cmdline").read_bytes()
    server.set(maxmemory="64mb")
    assert server.ok()["actions"] == [], "there is no record of the configuration that it was started with"
    assert server.ok("stopped")["changed"] and not alive(result["pid"])


def test_a_taken_port_is_refused(make):
    other = make("b")
    other_pid = other.ok()["pid"]
    server = make("a", port=other.port)
    message = server.refused()
    assert f"127.0.0.1:{other.port}" in message and "another process" in message
    assert alive(other_pid) and not server.pidfile.exists()


def test_a_taken_socket_is_refused(make):
    other = make("b", port=0, socket="auto")
    other.ok()
    server = make("a", port=0, socket=str(other.directory / "redis.sock"))
    assert str(other.directory / "redis.sock") in server.refused()
    assert not other.ok()["changed"], "Redis itself would have taken over the socket"


def test_redis_refuses_the_configuration(make):
    server = make(extra_config={"hz": "12parsecs"})
    message = server.refused()
    assert "12parsecs" in message and str(server.config) in message


def test_the_error_shows_the_log_of_a_server_that_ends_at_once(make):
    server = make(bind=["192.0.2.1"], password="s3-secret")
    message = server.refused()
    assert "has ended before it answered" in message and "192.0.2.1" in message, message
    assert not server.ok("stopped")["changed"]


def test_a_server_that_does_not_answer(make):
    server = make()
    pid = server.ok()["pid"]
    os.kill(pid, signal.SIGSTOP)
    message = server.refused(timeout=1)
    assert f"process {pid}" in message and f"127.0.0.1:{server.port}" in message and "1 s" in message
    message = server.refused("stopped", timeout=1)
    assert f"process {pid}" in message and "SIGTERM" in message
    assert alive(pid), "the module never sends SIGKILL"
    os.kill(pid, signal.SIGCONT)
    wait_for("the server ends", lambda: not alive(pid))


def test_a_restart_keeps_the_data_of_a_server_with_persistence(make):
    server = make(persistence=True, extra_config={"save": "3600 1"})
    server.ok()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"SET survivor yes\r\n")
        assert client.recv(100) == b"+OK\r\n"
    server.ok("stopped")
    server.ok()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET survivor\r\n")
        assert client.recv(100) == b"$3\r\nyes\r\n"


def test_a_child_that_saves_is_not_mistaken_for_the_server(make):
    delay = {"enable-debug-command": "yes", "rdb-key-save-delay": PATIENCE * 1_000_000}
    server = make(extra_config=delay)
    pid = server.ok()["pid"]
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"SET a b\r\nBGSAVE\r\n")
        children = Path(f"/proc/{pid}/task/{pid}/children")
        child = int(wait_for("the child", lambda: children.read_text(encoding="utf-8").strip()))

    config = Config(str(server.config))
    try:
        assert Process(child).serves(config, REDIS), "they look the same"
        assert server_among([child, pid], config, REDIS).pid == pid
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.usefixtures("needs_root")
def test_a_server_in_a_container_with_the_same_path_keeps_running(make, spawn):
    server = make()
    server.ok("stopped")
    contained = spawn(
        "unshare",
        "--pid",
        "--fork",
        "--kill-child",
        REDIS,
        str(server.config),
        "--set-proc-title",
        "no",
    )
    wait_for("the pidfile", lambda: contained.poll() is not None or server.pidfile.exists())
    assert contained.poll() is None, "the contained redis-server has ended"
    assert not server.ok("stopped")["changed"]
    assert contained.poll() is None


def test_simultaneous_runs_start_one_server(make):
    server = make()
    slow = server.directory.parent / "slow-redis-server"
    slow.write_text(f'#!/bin/sh\nsleep 0.5\nexec {REDIS} "$@"\n', encoding="utf-8")
    slow.chmod(0o755)
    arguments = server.arguments(executable=str(slow))
    runs = [
        subprocess.Popen(
            [sys.executable, str(MODULE)],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        for _index in range(4)
    ]
    for run in runs:
        run.stdin.write(arguments)
        run.stdin.close()
    results = [json.loads(run.stdout.read()) for run in runs]
    for run in runs:
        run.wait()
        run.stdout.close()
    assert [result.get("msg") for result in results] == [None] * 4
    server.pids = {result["instances"][0]["pid"] for result in results}
    assert len(server.pids) == 1
    assert sorted(result["instances"][0]["actions"] for result in results) == [[], [], [], ["start"]]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"timeout": 0}, ["timeout", "0", "1 to 3,600"]),
        ({"timeout": 3601}, ["timeout", "3601", "1 to 3,600"]),
        ({"directory": "redis"}, ["directory", "redis", "absolute"]),
        ({"state": "running"}, ["state", "running", "present"]),
        ({"daemon_user": "nobody-here"}, ["daemon_user", "nobody-here"]),
    ],
)
def test_bad_options(make, options, words):
    server = make()
    message = server.refused(**options)
    assert all(word in message for word in words), message
    assert not server.directory.exists()


def test_a_missing_executable_is_reported_and_nothing_is_changed(make):
    server = make()
    result = server.ok(executable="no-such-redis")
    assert not result["changed"] and result["missing"] == ["no-such-redis"] and not server.directory.exists()


@pytest.fixture
def group(needs_root):
    """Create a control group for the test."""
    version_1 = Path("/sys/fs/cgroup/memory")
    root = version_1 if version_1.is_dir() else version_1.parent
    path = root / f"test-redis-{os.getpid()}"
    path.mkdir()
    yield path
    wait_for("its last process has ended", lambda: not (path / "cgroup.procs").read_text(encoding="ascii"))
    path.rmdir()


def test_the_server_runs_in_the_requested_control_group(group, make):
    server = make()
    outside = server.ok()["pid"]
    assert "control group" in server.ok(cgroup=group.name, check=True)["reason"] and alive(outside)
    moved = server.ok(cgroup=group.name)
    assert moved["changed"] and moved["pid"] != outside
    assert (group / "cgroup.procs").read_text(encoding="ascii").split() == [str(moved["pid"])]
    assert not server.ok(cgroup=f"/{group.name}")["changed"]
    assert not server.ok()["changed"], "without the option it stays in its group"
    server.ok("stopped")


@pytest.mark.parametrize(
    "name, message",
    [("no-such-group", "there is no control group"), ("../x", "it must be the path of a control group")],
)
def test_a_missing_control_group_is_refused(make, name, message):
    server = make()
    assert message in server.refused(cgroup=name)
    assert not server.pidfile.exists()


@pytest.mark.usefixtures("needs_root")
def test_a_server_of_root_runs_as_a_user_of_its_own(make, tmp_path):
    server = make(daemon_user="", password="s3-secret", socket="auto")
    closed = server.refused()
    assert "directory" in closed and "does not let it in" in closed and not server.directory.exists()

    with tempfile.TemporaryDirectory(dir="/var/tmp") as open_to_all:
        os.chmod(open_to_all, 0o755)
        server.set(daemon_user="", password="s3-secret", socket="auto", directory=open_to_all)
        result = server.ok()
        assert not result["notes"]
        try:
            status = Path(f"/proc/{result['pid']}/status").read_text(encoding="utf-8")
            user, group = (str(each) for each in pwd.getpwnam("redis")[2:4])
            assert f"Uid:\t{user}\t{user}\t{user}\t{user}\n" in status and f"Gid:\t{group}\t{group}" in status
            assert re.search(r"^Groups:\s*$", status, re.MULTILINE), "it has no other groups of root"
            home = Path(open_to_all, "a")
            owners = {str(path.relative_to(home)): path.owner() for path in (home, *home.rglob("*"))}
            assert {name for name, owner in owners.items() if owner != "redis"} == {
                ".",
                "redis.conf",
                "redis.conf.started",
            }
            assert not server.ok()["changed"]
            assert not server.ok(daemon_user="redis", check=True)["actions"]
            as_root = server.ok(daemon_user="root", password="", check=True)
            assert as_root["actions"] == ["stop", "start"]
            assert "runs as root without a password" in as_root["notes"][0]
        finally:
            server.ok("absent")
        assert not alive(result["pid"]) and not home.exists()
