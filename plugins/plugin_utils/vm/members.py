# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The VMs of a fleet: their names, their numbers and their hypervisors."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, SettingError, number

COUNT = Range(int, 0, 65_535, "VMs on all hypervisors together")
Vm = t.Mapping[str, t.Any]
_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$")


def members(count: t.Any, pattern: str, hypervisors: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """Return C(name), C(number) and C(hypervisor) of each VM, ordered by number.

    VMs are assigned to the hypervisors in turn. When a fleet grows or shrinks, every VM that stays keeps its name, its
    number and its hypervisor. Another list of hypervisors moves VMs, which the role refuses.

    Args:
        count: number of VMs on all hypervisors together.
        pattern: the name, with %d or for example %03d for the number.

    Raises:
        SettingError: an argument cannot be used.
    """
    total = number("vm_fleet_count", count, COUNT)
    if not re.match(r"^[^%]*%0?[0-9]?d[^%]*$", pattern):
        raise SettingError(
            f"vm_fleet_pattern: {pattern!r} is not allowed; it must be a name with %d, or for example %03d, in place "
            "of the number"
        )
    if total and not hypervisors:
        raise SettingError(
            "vm_fleet_count: there are no hypervisors to carry the VMs; add at least one host to the group hypervisors"
        )
    found: list[dict[str, t.Any]] = [
        {"name": pattern % each, "number": each, "hypervisor": hypervisors[(each - 1) % len(hypervisors)]}
        for each in range(1, total + 1)
    ]
    for each in found[:1] + found[-1:]:
        if not _NAME.match(each["name"]):
            raise SettingError(
                f"vm_fleet_pattern: {pattern!r} gives {each['name']!r}, which is not a valid host name; it must have "
                "1 to 63 letters, digits and '-', with no '-' at either end"
            )
    return found


def moves(members_of_all: t.Sequence[Vm], results: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """Return the VMs that exist on another hypervisor than the one that members() gives them, with both.

    Args:
        members_of_all: from members().
        results: what the module C(vm_fleet) returned on each hypervisor. C(surplus) are the names of the fleet's VMs
            that it has and is not to carry.
    """
    return [
        f"{vm['name']} (on {host}, not {vm['hypervisor']})"
        for vm in members_of_all
        for host, result in results.items()
        if vm["name"] in result.get("surplus", ()) and host != vm["hypervisor"]
    ]


def reached(vms: t.Any, names: t.Collection[str], variables: Vm) -> dict[str, dict[str, t.Any]]:
    """Return the connection variables of each VM, from what its hypervisor says.

    A hypervisor is not trusted to name hosts for the controller, nor to choose text for its inventory.

    Args:
        vms: what the module vm_fleet returned.
        names: of the VMs that this hypervisor is to carry.
        variables: what all of them have.

    Raises:
        SettingError: a value does not fit.
    """
    found = {}
    for vm in vms:
        name, address, port = vm["name"], vm["address"], vm["port"]
        if name not in names:
            raise SettingError(f"the hypervisor names a VM {name!r}, which it does not carry")
        if not _is_address(address):
            raise SettingError(f"the hypervisor gives {name} the address {address!r}, which is not an IP address")
        if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65_535:
            raise SettingError(f"the hypervisor gives {name} the port {port!r}, which is not a TCP port")
        found[name] = {
            **variables,
            "ansible_host": address,
            "ansible_port": port,
            "ansible_control_path": f"%(directory)s/{_socket(name, variables)}",
        }
    return found


def _socket(name: str, variables: Vm) -> str:
    """Return the name of a VM's ssh socket.

    Ansible's own name depends on address, port and user alone. VMs of two hypervisors can have these in common.
    """
    parts = (variables["vm_fleet_hypervisor"], name, variables["ansible_ssh_common_args"])
    return hashlib.sha1(" ".join(parts).encode(), usedforsecurity=False).hexdigest()[:16]


def _is_address(text: t.Any) -> bool:
    try:
        return isinstance(text, str) and "%" not in text and bool(ipaddress.ip_address(text))
    except ValueError:
        return False
