# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role redis with daemons, from the first run to the removal."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import redis

from ..conftest import holds


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_several_hosts_and_instances_from_first_run_to_removal(site, ports, ask):
    tcp = {"name": "tcp", "port": ports[1]}
    hosts = {
        "a": {"redis_port": ports[0], "redis_maxmemory": "64mb"},
        "b": {"redis_instances": [tcp, {"name": "sock", "port": 0, "socket": "auto", "socket_mode": "0770"}]},
    }
    check = site.ok(hosts, "--check", "--diff")
    assert check.changed > 0 and site.files() is None, "check mode predicts changes and makes none"

    first = site.ok(hosts)
    assert first.changed > 0
    assert [ask(port, "PING") for port in ports[:2]] == ["+PONG"] * 2
    path = site.root / "sock" / "redis.sock"
    assert ask(path, "PING") == "+PONG" and path.stat().st_mode & 0o777 == 0o770
    facts = first.facts
    assert facts["a"][str(ports[0])]["maxmemory"] == 64 * 1024 * 1024
    assert facts["a"][str(ports[0])]["port"] == ports[0] and facts["a"][str(ports[0])]["host"] == "127.0.0.1"
    assert facts["b"]["sock"]["socket"] == str(path) and facts["b"]["sock"]["port"] == 0
    for instance in (instance for host in facts.values() for instance in host.values()):
        assert instance["version"][0].isdigit() and instance["used_memory"] > 100_000 and len(instance["run_id"]) == 40
        assert instance["state"] == "started" and instance["supervisor"] == "daemon" and not gone(instance["pid"])
        assert ask(instance["port"] or path, "CONFIG GET save").split() == ["*2", "$4", "save", "$0"]

    for instance, address in (("a", {"port": ports[0]}), ("b", {"unix_socket_path": str(path)})):
        with redis.Redis(**address, decode_responses=True) as client:
            told = client.info()
        (found,) = (each for each in facts[instance].values() if each["pid"] == told["process_id"])
        assert (found["run_id"], found["version"]) == (told["run_id"], told["redis_version"]), "a client reads the same"
        assert found["maxmemory"] == told["maxmemory"]

    second = site.ok(hosts)
    assert second.changed == 0
    assert second.facts["b"]["sock"]["run_id"] == facts["b"]["sock"]["run_id"]

    tcp["maxmemory"] = "16mb"
    predicted, third = site.ok(hosts, "--check", "--diff"), site.ok(hosts, "--diff")
    assert predicted.differences == third.differences, "check mode had changed nothing, and shows what changes"
    assert third.differences["a"] == [] and ("tcp", '"outdated"', '"current"') in third.differences["b"]
    assert {name: host["changed"] for name, host in third.stats.items()} == {"a": 0, "b": 1}
    assert {each["name"]: each["actions"] for each in third.facts["b"].values()} == {
        "tcp": ["stop", "start"],
        "sock": [],
    }
    assert third.facts["b"]["tcp"]["maxmemory"] == 16 * 1024 * 1024
    assert third.facts["a"][str(ports[0])]["run_id"] == facts["a"][str(ports[0])]["run_id"]
    assert [third.facts["b"][name]["run_id"] == facts["b"][name]["run_id"] for name in ("tcp", "sock")] == [False, True]

    assert site.ok(hosts, "--check", redis_state="absent").changed > 0
    assert ask(ports[0], "PING") == "+PONG"
    last = site.ok(hosts, redis_state="absent")
    assert last.changed > 0 and site.files() is None and set(map(gone, site.servers)) == {True}
    assert last.facts == {"a": {}, "b": {}}
    assert site.ok(hosts, redis_state="absent").changed == 0


def test_password(site, ports, ask):
    username, secret = "bench", "a long but guessable one"
    instance = {"port": ports[0], "socket": "auto", "username": username, "password": secret}
    host = {"redis_instances": [instance]}
    first = site.ok(host, "-vvvv", "--diff")
    facts = first.facts["one"][str(ports[0])]
    for address in (ports[0], site.root / str(ports[0]) / "redis.sock"):
        assert "NOAUTH" in ask(address, "PING")
        assert "WRONGPASS" in ask(address, f"AUTH {username} wrong")
        assert (
            ask(address, f'AUTH {username} "{secret}"', "PING", "PUBLISH a b", "SET a b") == "+OK\r\n+PONG\r\n:0\r\n+OK"
        )
    assert secret not in first.output
    assert (
        secret.encode()
        not in Path(f"/proc/{facts['pid']}/cmdline").read_bytes() + Path(f"/proc/{facts['pid']}/environ").read_bytes()
    )
    files = [path for path in site.root.rglob("*") if path.is_file()]
    assert not any(secret.encode() in path.read_bytes() for path in files)
    acl = site.root / str(ports[0]) / "users.acl"
    assert acl in files and acl.stat().st_mode & 0o777 == 0o600
    assert facts["version"], "the facts are there with a password too"
    assert "WRONGPASS" in ask(ports[0], f'AUTH default "{secret}"'), "it is the only user"
    assert site.ok(host).changed == 0

    instance["password"] = "another"
    del instance["username"]
    predicted, replaced = site.ok(host, "--check", "--diff"), site.ok(host, "--diff")
    assert predicted.differences == replaced.differences
    assert [name for name, _before, _after in replaced.differences["one"]] == [str(acl), str(ports[0])], (
        "and the restart"
    )
    assert secret not in replaced.output and "#" not in str(replaced.differences), "nor a hash that can be guessed"
    assert replaced.facts["one"][str(ports[0])]["run_id"] != facts["run_id"]
    assert ask(ports[0], "AUTH another", "PING") == "+OK\r\n+PONG"
    del instance["password"]
    names = [name for name, _before, _after in site.ok(host, "--diff").differences["one"]]
    assert names == [str(acl.with_name("redis.conf")), str(acl), str(ports[0])]
    assert ask(ports[0], "PING") == "+PONG" and not acl.exists()


@pytest.mark.long
def test_a_killed_daemon_and_a_stale_pidfile(site, ports, ask):
    host = {"redis_port": ports[0], "redis_directory": ""}  # the default is a directory in the home directory
    pid = site.ok(host).facts["one"][str(ports[0])]["pid"]
    directory = site.home / ".local/state/memstretch/redis" / str(ports[0])
    assert directory.stat().st_mode & 0o777 == 0o700
    os.kill(pid, signal.SIGKILL)
    while not gone(pid):
        time.sleep(0.02)
    pidfile = directory / "redis.pid"
    with subprocess.Popen(["sleep", "infinity"]) as stranger:
        try:
            pidfile.write_text(str(stranger.pid), encoding="utf-8")
            again = site.ok(host)
            assert again.changed == 1 and ask(ports[0], "PING") == "+PONG"
            pidfile.write_text(str(stranger.pid), encoding="utf-8")
            assert site.ok(host, redis_state="absent").changed > 0
            assert gone(again.facts["one"][str(ports[0])]["pid"]) and stranger.poll() is None
            assert not (site.home / ".local/state/memstretch").exists()
        finally:
            stranger.kill()


@pytest.mark.long
def test_states_of_single_instances(site, ports, ask):
    host = {"redis_instances": [{"name": "a", "port": ports[0]}, {"name": "b", "port": ports[1], "state": "stopped"}]}
    facts = site.ok(host).facts["one"]
    assert facts["a"]["state"] == "started" and facts["b"]["state"] == "stopped" and facts["b"]["pid"] is None
    assert (site.root / "b" / "redis.conf").exists()
    with pytest.raises(ConnectionRefusedError):
        ask(ports[1], "PING")

    host["redis_instances"][0]["state"] = "absent"
    host["redis_instances"][1]["state"] = "present"
    assert set(site.ok(host).facts["one"]) == {"b"}
    assert not (site.root / "a").exists() and ask(ports[1], "PING") == "+PONG"

    assert site.ok(host, redis_state="stopped").facts["one"]["b"]["state"] == "stopped"
    assert site.ok(host, redis_state="stopped").changed == 0
    site.ok(host, redis_state="absent")
    assert site.files() is None


def test_absent_leaves_foreign_files(site, ports):
    site.root.mkdir()
    (site.root / "notes").write_text("mine", encoding="utf-8")
    (site.root / "theirs").mkdir()
    (site.root / "theirs" / "redis.conf").write_text("port 1\n", encoding="utf-8")
    before = site.files()
    host = {"redis_instances": [{"port": ports[0]}]}
    site.ok(host)
    host["redis_instances"].append({"name": "theirs", "port": ports[1]})
    message = site.refused(host)
    assert str(site.root / "theirs") in message and "redis_directory" in message
    site.ok(host, redis_state="absent")
    assert site.files() == before


@pytest.mark.long
def test_persistence_and_extra_config(site, ports, ask):
    host = {
        "redis_port": ports[0],
        "redis_persistence": True,
        "redis_extra_config": {"io-threads": 2, "server_cpulist": "0", "appendonly": True, "save": ["900 1", "300 10"]},
    }
    site.ok(host)
    assert ask(ports[0], "CONFIG GET server_cpulist").split()[-1] == "0"
    assert "900 1 300 10" in ask(ports[0], "CONFIG GET save") and "2" in ask(ports[0], "CONFIG GET io-threads")
    assert ask(ports[0], "SET survivor yes") == "+OK"
    host["redis_extra_config"]["io-threads"] = 1
    site.ok(host)
    assert "yes" in ask(ports[0], "GET survivor")
    assert site.ok(host).changed == 0


def test_refusals_by_redis_itself(site, ports, ask):
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports[1]))
        other.listen()
        message = site.refused(
            {
                "bad": {"redis_port": ports[0], "redis_extra_config": {"no-such-directive": "1"}},
                "taken": {"redis_port": ports[1]},
                "good": {"redis_port": ports[2]},
            }
        )
    assert "no-such-directive" in message
    assert f"127.0.0.1:{ports[1]}" in message and "another process" in message
    assert ask(ports[2], "PING") == "+PONG"


def test_hosts_that_share_one_redis_are_refused(site, ports):
    hosts = {"a": {"redis_port": ports[0]}, "b": {"redis_port": ports[0]}}
    message = site.refused(hosts)
    assert "a, b share one Redis" in message or "b, a share one Redis" in message


def test_what_another_inventory_has_set_up_is_neither_changed_nor_removed(site, ports, ask):
    host = {"redis_port": ports[0], "redis_persistence": True}
    first = site.ok(host).facts["one"][str(ports[0])]
    ask(ports[0], "SET survivor yes")
    files = site.files()
    other = {"inventory": "other"}

    message = site.refused(host, **other)
    assert holds(message, ("redis_name", f"{site.root}/{ports[0]}", "was set up by another inventory", "redis_owner"))
    removed = site.ok(host, **other, redis_state="absent")
    assert removed.changed == 0 and "stays: another inventory" in removed.output
    assert site.files() == files and "yes" in ask(ports[0], "GET survivor")
    assert site.ok(host).facts["one"][str(ports[0])]["run_id"] == first["run_id"]

    owner = removed.output.partition("stays: another inventory (")[2].partition(")")[0]
    assert site.ok(host, **other, redis_owner=owner).changed == 0, "naming the owner takes it over"
    site.ok(host, redis_state="absent")
    assert site.files() is None


BAD = [
    ({"port": 65536}, ["redis_port: 65536", "65535"]),
    ({"port": -1}, ["redis_port: -1", "from 0 to 65535; 0 is no TCP"]),
    ({"port": 0}, ["redis_port: 0", "redis_socket"]),
    ({"bind": []}, ["redis_bind", "at least one"]),
    ({"bind": ["0.0.0.0"]}, ['redis_bind: "0.0.0.0"', "redis_password"]),
    ({"bind": ["0.0.0.0"], "password": None}, ['redis_bind: "0.0.0.0"', "redis_password"]),
    ({"bind": ["127.0.0.1", "::"]}, ['redis_bind: "::"', "redis_password"]),
    ({"bind": ["*"]}, ['redis_bind: "*"', "redis_password"]),
    ({"bind": ["127.0.0.1.example.org"]}, ['redis_bind: "127.0.0.1.example.org"', "redis_password"]),
    ({"socket": "redis.sock"}, ['redis_socket: "redis.sock"', "absolute"]),
    ({"socket": "/x" * 54}, ["redis_socket", "107"]),
    ({"socket_mode": "777"}, ['redis_socket_mode: "777"', "'0700'"]),
    ({"maxmemory": "12parsecs"}, ['redis_maxmemory: "12parsecs"', "512mb"]),
    ({"maxmemory": "1.5gb"}, ['redis_maxmemory: "1.5gb"', "whole number"]),
    ({"maxmemory": "-1"}, ['redis_maxmemory: "-1"']),
    ({"maxmemory_policy": "random"}, ['redis_maxmemory_policy: "random"', "noeviction", "volatile-ttl"]),
    ({"username": "a b", "password": "0f9e-8d7c"}, ['redis_username: "a b"', "letters"]),
    ({"username": "bench"}, ['redis_username: "bench"', "redis_password"]),
    ({"name": "../x"}, ['redis_name: "../x"', "letters"]),
    ({"name": "twin"}, ['redis_name: "twin"', "2 instances"]),
    ({"name": "twin"}, ["redis_name", "twin"]),
    ({"name": "s1", "socket": "/same"}, ["redis_socket: /same", "s1, s2"]),
    ({"name": "s2", "socket": "/same"}, ["redis_socket: /same"]),
    ({"name": "p1", "port": 5}, ["redis_port: 5 ", "p1, p2"]),
    ({"name": "p2", "port": 5}, ["redis_port: 5 "]),
    ({"extra_config": {"requirepass": "x"}}, ['redis_extra_config: "requirepass"', "redis_password"]),
    ({"extra_config": {"DIR": "/"}}, ['redis_extra_config: "DIR"', "redis_directory"]),
    ({"extra_config": {"save": "1 1"}}, ['redis_extra_config: "save"', "redis_persistence"]),
    ({"extra_config": {"a b": "1"}}, ['redis_extra_config: "a b"', "lower case"]),
    ({"extra_config": {"hz": "10\ndir /"}}, ['redis_extra_config: the value of "hz"', "one line"]),
]


def test_all_bad_values_are_named_before_any_change(site):
    instances = [{"name": f"i{index}", "port": 1000 + index, **bad} for index, (bad, _words) in enumerate(BAD)]
    message = site.refused(
        {"redis_instances": instances},
        redis_start_timeout=0,
        redis_systemd_slice="a b",
        redis_systemd_oom_score_adjust=1001,
    )
    lines = message.splitlines()
    for index, (bad, words) in enumerate(BAD):
        instance = [] if "name" in bad else [f"(instance i{index})"]
        assert any(all(word in line for word in words + instance) for line in lines), (bad, message)
    assert any("redis_start_timeout: 0" in line and "3,600" in line for line in lines)
    assert any("redis_systemd_slice" in line for line in lines)
    assert any("redis_systemd_oom_score_adjust: 1001" in line and "-1,000 to 1,000" in line for line in lines)
    assert site.files() is None


BAD_SCALARS = [
    ({"redis_port": "many"}, ["redis_port", "many", "int"]),
    ({"redis_state": "gone"}, ["redis_state", "gone", "present, stopped, absent"]),
    ({"redis_supervisor": "upstart"}, ["redis_supervisor", "upstart", "auto, systemd, daemon"]),
    ({"redis_instances": [{"prot": 1}]}, ["prot", "port"]),
    ({"redis_directory": "relative/path"}, ["redis_directory", "relative/path", "absolute"]),
    ({"redis_bind": "0.0.0.0"}, ["redis_bind", "0.0.0.0", "redis_password"]),
    ({"redis_bind": "0.0.0.0", "redis_password": None}, ["redis_bind", "0.0.0.0", "redis_password"]),
]


def test_bad_scalars(site):
    cases = list(BAD_SCALARS)
    if not Path("/run/systemd/system").exists():
        cases.append(({"redis_supervisor": "systemd"}, ["redis_supervisor", "daemon"]))
    hosts = {f"bad{number}": {"redis_port": 1000 + number, **bad} for number, (bad, dummy) in enumerate(cases)}
    messages = site.run_role(hosts).messages_of
    wrong = [(host, words) for host, (dummy, words) in zip(hosts, cases) if not holds(messages(host), words)]
    assert not wrong, {host: messages(host) for host in hosts}
    assert site.files() is None


def test_redis_is_not_installed(site):
    host = {"redis_executable": "no-such-redis", "redis_package": "no-such-package"}
    if os.geteuid():
        message = site.refused(host)
        assert "no-such-redis" in message and "no-such-package" in message and "become" in message
    else:
        check = site.ok(host, "--check")
        assert "no-such-package would be installed" in str(check.results("Report that the package would be installed"))
    assert site.files() is None
