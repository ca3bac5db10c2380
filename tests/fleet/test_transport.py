# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the controller reaches guests through their hypervisors: real ssh clients and servers in network namespaces."""

from __future__ import annotations

import pathlib
import re
import shutil
import tempfile
import typing as t

import pytest
import yaml

from .ssh_guests import ROOT, SshGuests

Start = t.Callable[..., SshGuests]
# As after a phase that was longer than ControlPersist: Ansible's own connections to the guests have ended.
CLOSE = {
    "hosts": "fleet",
    "gather_facts": False,
    "tasks": [{"ansible.builtin.raw": "true"}, {"ansible.builtin.meta": "reset_connection"}],
}
READ_BOOT_ID = {
    "hosts": "fleet",
    "gather_facts": False,
    "tasks": [
        {"ansible.builtin.raw": "cat /proc/sys/kernel/random/boot_id", "register": "read"},
        # The last word: the shell of the user who runs the tests may print something of its own first.
        {"ansible.builtin.debug": {"msg": "{{ inventory_hostname }}={{ read.stdout.split() | last }}"}},
    ],
}


@pytest.fixture
def start() -> t.Iterator[Start]:
    # A short path: those of sockets are limited.
    path = pathlib.Path(tempfile.mkdtemp(prefix="ms-", dir="/var/tmp"))
    started: list[SshGuests] = []

    def begin(guests: dict[str, int], **options: bool) -> SshGuests:
        started.append(SshGuests(path, guests, **options))
        return started[-1]

    yield begin
    for each in started:
        each.close()
    shutil.rmtree(path)


def reached(output: str) -> dict[str, str]:
    """Return the boot id that a playbook read under the name of each guest."""
    return dict(re.findall(r'"msg": "([a-z0-9-]+)=([0-9a-f-]{36})"', output))


@pytest.mark.long
@pytest.mark.parametrize("count", [32, 128])
def test_guests_come_back_at_once_through_one_sshd_with_its_default_limits(start: Start, count: int) -> None:
    """The connection to the hypervisor has ended, too, as after a phase that was longer than its own ControlPersist."""
    guests = start({"kvm1": count})
    status, output = guests.playbook([CLOSE, guests.end_jumps(), READ_BOOT_ID], "--forks", str(count))
    assert status == 0, output[-3000:]
    assert reached(output) == guests.boot_ids()
    log = guests.log("kvm1")
    # The first connection, and the one after its end.
    assert "drop connection" not in log and len(re.findall("Accepted publickey", log)) == 2, log[-3000:]


@pytest.mark.long
def test_the_recipe_for_guests_that_already_exist_opens_one_connection(start: Start) -> None:
    """As docs/howto.md has it, with the files and the user of this test."""
    page = (ROOT / "docs" / "howto.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n# group_vars/fleet.yml\n(.*?)```", page, re.DOTALL)
    guests = start({"kvm1": 16})
    text = block.replace("~/.ssh/", f"{guests.path}/")
    text = text.replace("user@jump.example.com", f"-F {guests.ssh_config()} {guests.jumps[0].address}")
    recipe = yaml.safe_load(text)
    recipe["ansible_ssh_common_args"] += " -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    status, output = guests.playbook_of_guests([CLOSE, READ_BOOT_ID], "--forks", "16", **recipe)
    assert status == 0, output[-3000:]
    assert reached(output) == guests.boot_ids()
    log = guests.log("kvm1")
    assert "drop connection" not in log and len(re.findall("Accepted publickey", log)) == 1, log[-3000:]


def test_guests_of_two_hypervisors_with_equal_addresses_are_told_apart(start: Start) -> None:
    guests = start({"kvm1": 2, "kvm2": 2})
    status, output = guests.playbook([READ_BOOT_ID, READ_BOOT_ID])
    assert status == 0, output[-3000:]
    assert reached(output) == guests.boot_ids()


@pytest.mark.parametrize("forwarding", [True, False])
def test_a_hypervisor_that_does_not_forward_connections_is_named(start: Start, forwarding: bool) -> None:
    guests = start({"kvm1": 1}, forwarding=forwarding)
    reach = {"ansible.builtin.include_role": {"name": "memstretch.density.vm_fleet", "tasks_from": "reach"}}
    show = {"ansible.builtin.debug": {"var": "vm_fleet_reached"}}
    status, output = guests.playbook([{"hosts": "hypervisors", "gather_facts": False, "tasks": [reach, show]}])
    if forwarding:
        assert status == 0 and re.search('"connections": "?8', output) and '"unknown": ""' in output, output
    else:
        assert status != 0 and "kvm1 has forwarded 0 of 8 connections" in output, output
    # Ansible's own connection, and the one that carries all eight.
    assert len(re.findall("Accepted publickey", guests.log("kvm1"))) == 2, guests.log("kvm1")


@pytest.mark.parametrize("place", ["inventory", pytest.param("command line", marks=pytest.mark.long)])
def test_guests_are_reached_through_a_bastion(start: Start, place: str) -> None:
    guests = start({"kvm1": 2}, bastion=True)
    config = guests.ssh_config()
    if place == "inventory":
        jump = f"-F {config} -o ProxyCommand='ssh -F {config} -W [%h]:%p bastion'"
        status, output = guests.playbook([READ_BOOT_ID], ansible_ssh_common_args=jump)
    else:
        arguments = ("--ssh-common-args", f"-F {config} -J bastion", "--user", "root")
        status, output = guests.playbook([READ_BOOT_ID], *arguments, ansible_ssh_common_args=None)
    assert status == 0, output[-3000:]
    assert reached(output) == guests.boot_ids()
    assert "Accepted publickey" in guests.log("bastion")


@pytest.mark.long
def test_hypervisors_and_guests_have_addresses_of_ipv6(start: Start) -> None:
    guests = start({"kvm1": 2, "kvm2": 2}, ipv6=True)
    status, output = guests.playbook([READ_BOOT_ID])
    assert status == 0, output[-3000:]
    assert reached(output) == guests.boot_ids()
