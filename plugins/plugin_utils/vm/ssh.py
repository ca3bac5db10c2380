# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of ssh that lead from the controller through a hypervisor to its VMs."""

from __future__ import annotations

import hashlib
import os
import shlex
import typing as t

DIRECT, HYPERVISOR = "direct", "hypervisor"
LOCAL = ("local", "ansible.builtin.local")


def ssh(access: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return C(reach), C(jump), the command of ssh to the hypervisor, and C(vm_args), the arguments of ssh to a VM.

    Args:
        access: C(reach), the variable vm_fleet_reach; C(connection), C(address), C(user), C(port), C(key), C(args) and
            C(extra_args), with which Ansible reaches the hypervisor, empty where it has none; C(socket_directory) for
            connections that stay open; C(fleet), its name; C(known_hosts), the file with the VMs' host key.
    """
    socket = _socket(access)
    jump = _jump(access, socket)
    reach = access["reach"]
    if reach == "auto":
        # A controller that is the hypervisor reaches the VMs directly.
        reach = DIRECT if access["connection"] in LOCAL else HYPERVISOR
    through = "-o " + shlex.quote(f"ProxyCommand={_proxy(access, jump, socket)}")
    vm_args = [
        f"-o UserKnownHostsFile={access['known_hosts']}",
        f"-o HostKeyAlias={access['fleet']}",
        "-o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -o PasswordAuthentication=no",
        # A VM that crashes does not close its connection, and one that swaps may not answer for minutes.
        "-o ServerAliveInterval=30 -o ServerAliveCountMax=10",
        through if reach == HYPERVISOR else access["args"],
    ]
    return {"reach": reach, "jump": jump, "vm_args": " ".join(filter(None, vm_args))}


def _hypervisor(access: t.Mapping[str, t.Any]) -> str:
    """Return the command of ssh with the options with which Ansible reaches the hypervisor."""
    key = access["key"] and os.path.expanduser(access["key"])
    words = [
        "ssh -o BatchMode=yes",
        access["args"],
        access["extra_args"],
        key and f"-i {shlex.quote(key)}",
        access["port"] and f"-p {access['port']}",
        access["user"] and f"-l {access['user']}",
    ]
    return " ".join(filter(None, words))


def _socket(access: t.Mapping[str, t.Any]) -> str:
    """Return the path of the socket of the connection to the hypervisor, which is another one with other options."""
    target = f"{_hypervisor(access)} {access['address']}"
    digest = hashlib.sha1(target.encode(), usedforsecurity=False).hexdigest()
    return f"{access['socket_directory']}/{digest[:10]}j"


def _jump(access: t.Mapping[str, t.Any], socket: str) -> str:
    """Return the command of ssh to the hypervisor, without its address.

    One connection to the hypervisor carries those to all of its VMs. sshd drops connections that come at once
    (MaxStartups), as they do after a long phase, so it stays open between phases.
    """
    path = shlex.quote(f"ControlPath={socket.replace('%', '%%')}")  # ssh expands % there
    return (
        f"{_hypervisor(access)} -o ControlMaster=auto -o ControlPersist=30m -o {path} "
        "-o ServerAliveInterval=30 -o ServerAliveCountMax=4"
    )


def _proxy(access: t.Mapping[str, t.Any], jump: str, socket: str) -> str:
    """Return the command through which ssh reaches a VM.

    The connection to the hypervisor has ended after a phase of more than 30 minutes, and before a later play with the
    written inventory. Then all forks come at once: the first one opens it, and the others wait for that. The lock must
    not stay with the connection (-o). A controller without flock goes on without it.
    """
    address = shlex.quote(access["address"])
    lock = shlex.quote(f"{socket}.lock")
    opened = (
        f"{jump} -O check {address} >/dev/null 2>&1 || flock -o -w 30 {lock} {jump} -n {address} true >/dev/null 2>&1"
    )
    # In the option ProxyCommand ssh expands %, and begins the command with exec, so a shell must run these two.
    commands = f"{opened}; exec {jump}".replace("%", "%%")
    return "sh -c " + shlex.quote(f"{commands} -W [%h]:%p {address.replace('%', '%%')}")
