# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are one machine, as far as the inventory or their records show."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run.same_machine import recorded_machines, same_machine

LOCAL = {"ansible_connection": "local"}
SSH = {"ansible_host": "10.0.0.1", "ansible_user": "bench"}


def first(*variables):
    """Return for the hosts a, b, c with these variables the first on the same machine, as one word."""
    hostvars = dict(zip("abc", variables))
    return "".join(same_machine(list(hostvars), hostvars).values())


def test_hosts_with_a_local_connection_are_this_machine():
    assert (
        first(LOCAL, {**LOCAL, "ansible_host": "b.example"}, {"ansible_connection": "ansible.builtin.local"}) == "aaa"
    )
    assert first(LOCAL, SSH, LOCAL) == "aba"


def test_hosts_with_the_same_address_are_one_machine():
    assert first(SSH, SSH, {**SSH, "redis_port": 7001}) == "aaa"
    assert first(SSH, {**SSH, "ansible_host": "10.0.0.2"}, {**SSH, "ansible_connection": "ssh"}) == "aba"


@pytest.mark.parametrize(
    "variable", ["ansible_port", "ansible_user", "ansible_ssh_common_args", "ansible_ssh_port", "ansible_control_path"]
)
def test_hosts_that_ssh_reaches_in_another_way_are_other_machines(variable):
    assert first(SSH, {**SSH, variable: "2222"}, SSH) == "aba"


def test_ssh_takes_the_name_of_a_host_without_an_address():
    assert first({}, {"ansible_host": "a"}, {"ansible_host": "b"}) == "aac"
    assert first({"ansible_connection": "ssh"}, {"ansible_host": "a", "ansible_user": "bench"}, {}) == "abc"


def test_hosts_of_which_nothing_is_known_are_machines_of_their_own():
    assert first({}, {}, {"ansible_connection": "ssh"}) == "abc"
    container = {"ansible_connection": "community.docker.docker", "ansible_host": "10.0.0.1"}
    assert first(container, container, SSH) == "abc", "another variable may name the container"


def test_the_records_of_hosts_with_one_boot_id_are_one_machine():
    kernel = {"kernel": {"boot_id": "boot-1"}}
    found = recorded_machines({"hosts": {"a": kernel, "b": {**kernel, "cpu": {}}, "c": {}, "d": {"kernel": None}}})
    assert list(found) == ["boot-1", "c", "d"] and found["boot-1"] == {**kernel, "cpu": {}}
    assert recorded_machines({}) == {}
