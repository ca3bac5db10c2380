# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module redis_instances refuses, and where it puts things; tests/local starts real servers."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.redis.instances import (
    OPTIONS,
    Host,
    expand,
    problems_of,
)

DEFAULTS = {name: each.get("default") for name, each in OPTIONS.items()}
USER = Host(root=False, home="/home/bench", systemd=True, first_process="systemd", enforcing=False)
ROOT = dataclasses.replace(USER, root=True)
BARE = dataclasses.replace(ROOT, home="/root", systemd=False, first_process="sh")


def problems(*entries, host=USER, prefix="redis_", **shared):
    defaults = {**DEFAULTS, **shared}
    instances = [expand(each, defaults, host) for each in entries]
    supervisors = [each.get("supervisor") or defaults["supervisor"] for each in entries]
    return problems_of(instances, supervisors, host, prefix)


@pytest.mark.parametrize(
    "host, options, paths",
    [
        (USER, {}, ["/home/bench/.local/state/memstretch/redis/6379"] * 2),
        (ROOT, {}, ["/etc/memstretch-redis/6379", "/var/lib/memstretch-redis/6379"]),
        (ROOT, {"directory": "/srv/r/"}, ["/srv/r/6379", "/srv/r/6379/data"]),
        (BARE, {"daemon_user": "root"}, ["/root/.local/state/memstretch/redis/6379"] * 2),
        (BARE, {}, [f"/var/lib/memstretch-redis-daemons/6379{end}" for end in ("", "/data")]),
        (BARE, {"user": "valkey", "directory": "/srv"}, ["/srv/6379", "/srv/6379/data"]),
        (ROOT, {"supervisor": "daemon", "directory": "/srv", "daemon_user": "root"}, ["/srv/6379"] * 2),
    ],
)
def test_where_files_are(host, options, paths):
    instance = expand(options, DEFAULTS, host)
    assert [instance.home, instance.data] == paths
    assert (instance.config, instance.acl) == (f"{paths[0]}/redis.conf", f"{paths[0]}/users.acl")
    assert not problems(options, host=host)


@pytest.mark.parametrize(
    "host, options, user",
    [
        (BARE, {}, "redis"),
        (BARE, {"user": "valkey"}, "valkey"),
        (BARE, {"daemon_user": "bench"}, "bench"),
        (BARE, {"daemon_user": "root"}, ""),
        (ROOT, {"supervisor": "daemon"}, "redis"),
        (USER, {}, ""),
    ],
)
def test_no_daemon_is_roots_unless_somebody_asks_for_that(host, options, user):
    assert expand(options, DEFAULTS, host).daemon_user == user


@pytest.mark.parametrize(
    "host, options, socket",
    [
        (ROOT, {"socket": "auto"}, "/run/memstretch-redis/6379/redis.sock"),
        (USER, {"socket": "auto"}, "/home/bench/.local/state/memstretch/redis/6379/redis.sock"),
        (USER, {"socket": "/x/y"}, "/x/y"),
        (USER, {}, ""),
    ],
)
def test_where_the_socket_is(host, options, socket):
    assert expand(options, DEFAULTS, host).socket == socket


@pytest.mark.parametrize(
    "options, name",
    [
        ({"name": "a", "port": 1}, "a"),
        ({"port": 1, "inventory_host": "h"}, "1"),
        ({"port": 0, "inventory_host": "h"}, "h"),
    ],
)
def test_the_name(options, name):
    assert expand(options, DEFAULTS, USER).name == name


@pytest.mark.parametrize(
    "top, of_host, own, state",
    [
        ("present", None, None, "present"),
        ("present", "stopped", "present", "stopped"),
        ("present", "stopped", "absent", "absent"),
        ("absent", "present", "present", "absent"),
        ("present", None, "stopped", "stopped"),
    ],
)
def test_the_strongest_state_counts(top, of_host, own, state):
    assert expand({"host_state": of_host, "state": own}, {**DEFAULTS, "state": top}, USER).state == state


def test_an_entry_takes_missing_values_from_the_top_level():
    instance = expand({"port": 7000, "maxmemory": None}, {**DEFAULTS, "port": 1, "maxmemory": "12MB"}, USER)
    assert (instance.port, instance.maxmemory) == (7000, "12mb")
    assert expand({"bind": ["127.0.0.1 ::1"]}, DEFAULTS, USER).bind == ("127.0.0.1", "::1")


def test_the_password_is_in_no_text_of_an_instance():
    assert "s3-secret" not in repr(expand({"password": "s3-secret"}, DEFAULTS, USER))


@pytest.mark.parametrize(
    "options, host, words",
    [
        (
            {"port": 65536},
            USER,
            "redis_port: 65536 is out of range; it must be from 0 to 65535; 0 is no TCP (instance 65536)",
        ),
        (
            {"bind": ["0.0.0.0"]},
            USER,
            'redis_bind: "0.0.0.0" is reachable from other machines, and redis_password is empty',
        ),
        (
            {"timeout": 3601},
            USER,
            "redis_start_timeout: 3601 is out of range; it must be a whole number from 1 to 3,600",
        ),
        (
            {"cgroup": "../fleet"},
            USER,
            'redis_daemon_cgroup: "../fleet" is not allowed; it must be the path of a control group',
        ),
        ({"cgroup": "a b"}, USER, 'redis_daemon_cgroup: "a b" is not allowed; it must be the path of a control group'),
        ({"directory": "a/b"}, USER, 'redis_directory: "a/b" is not allowed; it must be an absolute path'),
        ({"owner": "a\nb"}, USER, 'redis_owner: "a\\nb" is not allowed'),
        ({"inventory_host": "a\nb", "name": "x"}, USER, 'redis_inventory_host: "a\\nb" is not allowed'),
        ({"supervisor": "systemd"}, USER, "redis_supervisor: 'systemd' needs root"),
        ({"supervisor": "systemd"}, BARE, "but this one runs sh; set it to 'daemon'"),
        (
            {},
            dataclasses.replace(ROOT, enforcing=True),
            "redis_supervisor: 'auto' is not allowed where SELinux is enforcing",
        ),
        ({"daemon_user": "redis"}, USER, "redis_daemon_user: 'redis' needs root"),
        ({"socket": "/tmp/x", "name": "x"}, ROOT, "because the service has a private /tmp"),
        (
            {"extra_config": {"DIR": "/"}},
            USER,
            'redis_extra_config: "DIR" is not allowed; it is set by redis_directory',
        ),
        ({"extra_config": {"hz": "1\n2"}}, USER, 'redis_extra_config: the value of "hz" is not allowed'),
        ({"extra_config": {"hz": [{"a": 1}]}}, USER, 'redis_extra_config: the value of "hz" is not allowed'),
    ],
)
def test_a_value_that_is_not_allowed_is_named(options, host, words):
    (line,) = problems(options, host=host)
    assert words in line


def test_names_without_a_prefix():
    assert problems({"timeout": 0}, prefix="")[0].startswith("timeout: 0 is out of range")


def test_what_two_instances_cannot_share():
    assert problems({"name": "a", "port": 5}, {"name": "b", "port": 5}) == [
        "redis_port: 5 is the port of 2 instances of this host (a, b); each needs its own"
    ]
    assert problems({"port": 5}, {"port": 5, "state": "absent"}) == [
        'redis_name: "5" is the name of 2 instances of this host; each needs its own'
    ]
    assert problems({"port": 5, "directory": "/a"}, {"port": 6, "directory": "/b"}) == []


def test_an_instance_that_must_not_exist_needs_no_valid_settings():
    assert problems({"port": 70000, "state": "absent"}) == []
