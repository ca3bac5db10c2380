# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of ssh to VMs, read back by shell and ssh themselves."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.vm.ssh import ssh

ACCESS = {
    "reach": "auto",
    "connection": "ssh",
    "address": "kvm1.example.com",
    "user": "admin",
    "port": 2222,
    "key": "/keys/a key",
    "args": "-o ConnectTimeout=7",
    "extra_args": "",
    "socket_directory": "/tmp/cp-100%",
    "fleet": "fleet",
    "known_hosts": "/home/user/fleet/known_hosts",
}


def settings(words):
    """Return the options that ssh itself reads from a command, by their names in lower case."""
    shown = subprocess.run(["ssh", "-F", "none", "-G", *words], capture_output=True, text=True, check=True).stdout
    return dict(line.partition(" ")[::2] for line in shown.splitlines())


def test_the_hypervisor_is_reached_as_ansible_reaches_it():
    words = shlex.split(ssh(ACCESS)["jump"])
    found = settings([*words[1:], ACCESS["address"]])

    assert words[0] == "ssh"
    assert (found["user"], found["port"], words[words.index("-i") + 1]) == ("admin", "2222", "/keys/a key")
    assert found["connecttimeout"] == "7" and found["batchmode"] == "yes" and found["controlpersist"] == "1800"


def test_what_ansible_does_not_set_is_left_to_ssh():
    jump = ssh({**ACCESS, "user": None, "port": "", "key": None, "args": "", "extra_args": None})["jump"]

    assert jump.startswith("ssh -o BatchMode=yes -o ControlMaster=auto ")
    assert not {"-l", "-p", "-i"} & set(shlex.split(jump))


def test_a_vm_is_reached_through_the_hypervisor_by_a_command_that_a_shell_can_read():
    found = settings([*shlex.split(ssh(ACCESS)["vm_args"]), "vm1"])
    shell, option, commands = shlex.split(found["proxycommand"])

    assert (shell, option) == ("sh", "-c")
    subprocess.run(["sh", "-n", "-c", commands.replace("%%", "%")], check=True)
    assert commands.endswith("-W [%h]:%p kvm1.example.com")
    assert found["hostkeyalias"] == "fleet" and found["stricthostkeychecking"] == "true"
    assert found["userknownhostsfile"] == "/home/user/fleet/known_hosts"


def test_ssh_expands_only_the_vm_in_the_command():
    """ssh expands %h and %p in ProxyCommand; everything else must stay as it is."""
    commands = ssh({**ACCESS, "address": "fe80::1%eth0"})["vm_args"]

    assert commands.replace("%%", "").count("%") == len(["%h", "%p"])
    assert "fe80::1%%eth0" in commands and "cp-100%%/" in commands


def test_a_connection_of_its_own_belongs_to_each_way_to_each_hypervisor():
    changes = [{}, {"address": "kvm2"}, {"user": "root"}, {"args": ""}]

    assert len({ssh({**ACCESS, **change})["jump"].split("ControlPath=")[1].split("j")[0] for change in changes}) == 4
    assert ssh(ACCESS) == ssh({**ACCESS, "fleet": "fleet"})


@pytest.mark.parametrize(
    ("reach", "connection", "found"),
    [
        ("auto", "ssh", "hypervisor"),
        ("auto", "local", "direct"),
        ("auto", "ansible.builtin.local", "direct"),
        ("direct", "ssh", "direct"),
        ("hypervisor", "local", "hypervisor"),
    ],
)
def test_a_controller_that_is_the_hypervisor_reaches_its_vms_directly(reach, connection, found):
    commands = ssh({**ACCESS, "reach": reach, "connection": connection})

    assert commands["reach"] == found
    assert ("ProxyCommand" in commands["vm_args"]) == (found == "hypervisor")
    assert ("ConnectTimeout=7" in shlex.split(commands["vm_args"])) == (found == "direct")
