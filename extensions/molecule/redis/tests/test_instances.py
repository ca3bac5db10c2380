# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026, the memstretch.density contributors
"""The instances as units, answers and files of the host."""

from __future__ import annotations

import pytest

SOCKET = "/run/memstretch-redis/sock/redis.sock"


def unit_property(host, name, instance="6401"):
    return host.check_output(f"systemctl show --value --property={name} memstretch-redis@{instance}.service")


@pytest.mark.parametrize(
    "instance, active, enabled",
    [("6401", "active", "enabled"), ("sock", "active", "enabled"), ("6403", "inactive", "disabled")],
)
def test_each_unit_is_as_configured(host, instance, active, enabled):
    wanted = {
        "ActiveState": active,
        "UnitFileState": enabled,
        "Type": "notify",
        "Slice": "fleet.slice",
        "User": "redis",
        "OOMScoreAdjust": "200",
        "NRestarts": "0",
    }
    assert {name: unit_property(host, name, instance) for name in wanted} == wanted


@pytest.mark.parametrize(
    "command, answer",
    [
        ("redis-cli -p 6401 ping", "PONG"),
        ("redis-cli -p 6401 config get save", "save"),  # without a value: it keeps nothing on disk
        (f"redis-cli -s {SOCKET} ping", "NOAUTH Authentication required."),
        (f"REDISCLI_AUTH=not-to-be-found redis-cli -s {SOCKET} --user bench --no-auth-warning ping", "PONG"),
    ],
)
def test_each_instance_answers(host, command, answer):
    assert host.check_output(command).strip() == answer


def test_only_the_instance_with_a_port_listens_and_on_loopback_only(host):
    addresses = {line.split()[3] for line in host.check_output("ss -Hltn").splitlines()}
    assert {address for address in addresses if not address.endswith(":22")} == {"127.0.0.1:6401"}


def test_the_instance_of_the_package_neither_runs_nor_starts_at_boot(host):
    assert host.run("systemctl is-active redis-server.service").stdout.strip() == "inactive"
    assert host.run("systemctl is-enabled redis-server.service").stdout.strip() == "disabled"


@pytest.mark.parametrize(
    "path, mode, user",
    [
        ("/etc/memstretch-redis/sock/users.acl", 0o600, "redis"),
        ("/etc/memstretch-redis/sock/redis.conf", 0o640, "root"),
        ("/var/lib/memstretch-redis/sock", 0o700, "redis"),
        (SOCKET, 0o770, "redis"),
    ],
)
def test_each_file_is_for_its_user_only(host, path, mode, user):
    file = host.file(path)
    assert (file.mode, file.user) == (mode, user)


def test_the_server_can_read_its_configuration(host):
    assert host.file("/etc/memstretch-redis/sock/redis.conf").group == "redis"


def test_the_password_is_in_no_file_and_no_command_line(host):
    # The brackets: the command line of the search itself must not match.
    found = host.run("grep -rl 'not-to-be-foun[d]' /etc /var/lib /usr/local /proc/[0-9]*/cmdline 2>/dev/null").stdout
    assert found == ""


def test_the_unit_is_hardened(host):
    rating = host.check_output("systemd-analyze security --no-pager memstretch-redis@6401.service")
    (overall,) = (line for line in rating.splitlines() if "Overall exposure" in line)
    assert float(overall.split()[-3]) < 2.5, overall


def test_the_kernel_kills_an_instance_before_the_services_of_the_host(host):
    assert host.check_output(f"cat /proc/{unit_property(host, 'MainPID')}/oom_score_adj") == "200"


def test_no_unit_has_failed(host):
    assert host.check_output("systemctl --failed --no-legend") == ""
