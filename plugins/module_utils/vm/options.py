# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the module vm_fleet: check them, and build the template of the VMs from them."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import (
    Range,
    Ranges,
    SettingError,
    check_numbers,
    number,
    size_in_bytes,
)
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import Domain, VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.image import file_state
from ansible_collections.memstretch.density.plugins.module_utils.vm.seed import check_files, seed_path
from ansible_collections.memstretch.density.plugins.module_utils.vm.template import (
    Template,
    allowed_cpus,
    disk_of_master,
)

Options = t.Mapping[str, t.Any]

SMALLEST_MEMORY = 64 * 2**20
RANGES: Ranges = {
    "parallel": Range(int, 1, 256, "VMs"),
    "stop_timeout": Range(int, 0, 86_400, "seconds"),
    "address_timeout": Range(int, 0, 86_400, "seconds"),
}
VCPUS = Range(int, 1, 1024, "vCPUs")
# The MAC address of a VM has two bytes for its number.
NUMBER = Range(int, 1, 65_535, "the VM's number in the fleet")
NUMA_NODE = Range(int, 0, 1023, "NUMA node")  # Linux has at most 1024
_NETWORK_NAME = re.compile(r"[A-Za-z0-9_.-]{1,50}")
FIRST_PORT = Range(int, 1, 65_535, "port")


def check_options(options: Options) -> None:
    """Raise SettingError for a value that no host can use."""
    check_numbers(options, RANGES)
    if options["vcpus"] is not None:
        number("vcpus", options["vcpus"], VCPUS)
    for node in options["numa_nodes"]:
        number("numa_nodes", node, NUMA_NODE)
    _check_first_port(options["network"] or {}, _check_numbers(options["vms"]))
    if options["pin"] and not options["cpus"]:
        raise SettingError("pin: true needs cpus, such as 0-15")
    if options["cpus"]:
        allowed_cpus(options["cpus"])
    if options["free_page_reporting"] and not options["balloon"]:
        raise SettingError("free_page_reporting: true needs balloon: true, which reports the pages")
    _check_made_network(options["network"] or {})
    check_files(options["seed"] or {})
    if options["state"] not in ("absent", "prepared") and bool(options["image"]) == bool(options["master"]):
        raise SettingError("image, master: exactly one of the two is needed")
    if options["image"] and not options["memory"]:
        raise SettingError("memory: image needs it, as a size such as 6G")


def _check_numbers(vms: t.Mapping[str, t.Any]) -> list[int]:
    """Return the VMs' numbers."""
    found = [number(f"vms.{name}", value, NUMBER) for name, value in vms.items()]
    if len(set(found)) != len(found):
        raise SettingError(f"vms: two VMs have the same number: {found}; each needs its own")
    return found


def _check_made_network(network: t.Mapping[str, t.Any]) -> None:
    if network.get("address") and not _NETWORK_NAME.fullmatch(network["name"]):
        raise SettingError(
            f"network.name: {network['name']!r} is not allowed; with an address it must have 1 to 50 letters, digits "
            "and '_.-'"
        )


def _check_first_port(network: t.Mapping[str, t.Any], vms: t.Sequence[int]) -> None:
    if network.get("type") != "user":
        return
    last = max(vms, default=NUMBER.low)
    unit = FIRST_PORT.unit if last == NUMBER.low else f"the VM with the number {last} has the last port, 65,535 at most"
    allowed = dataclasses.replace(FIRST_PORT, high=FIRST_PORT.high - (last - NUMBER.low), unit=unit)
    number("network.first_port", network["first_port"], allowed)


def build_template(options: Options, domains: t.Mapping[str, Domain]) -> Template:
    """Return the template of the VMs.

    Args:
        domains: all VMs of the host, among them the master.

    Raises:
        VmHostError: the master or the golden image cannot be used.
        SettingError: the memory is not a size, or is too small.
    """
    memory = size_in_bytes("memory", options["memory"]) if options["memory"] else 0
    if memory and memory < SMALLEST_MEMORY:
        raise SettingError(f"memory: {options['memory']!r} is too little; it must be at least 64M")
    master = _find_master(options["master"], domains) if options["master"] else None
    base = disk_of_master(master.xml, master.name) if master else options["image"]
    if not os.path.exists(base):
        raise VmHostError(f"golden image: {base} does not exist")
    return Template(
        domain_type=options["accelerator"],
        architecture=platform.machine(),
        cpu_model=options["cpu_model"],
        memory=memory,
        vcpus=options["vcpus"] or (0 if master else 1),
        cpus=options["cpus"],
        pin=options["pin"],
        numa_nodes=tuple(options["numa_nodes"]),
        bus=options["bus"],
        network=options["network"] or {"type": "network", "name": "default"},
        locked=options["locked"],
        hugepages=options["hugepages"],
        balloon=options["balloon"],
        free_page_reporting=options["free_page_reporting"],
        partition=options["partition"],
        seed=seed_path(options["directory"], options["seed"]) if options["seed"] else "",
        directory=options["directory"],
        base=base,
        base_state=file_state(base),
        master=master.xml if master else "",
    )


def _find_master(name: str, domains: t.Mapping[str, Domain]) -> Domain:
    master = domains.get(name)
    if master is None:
        raise VmHostError(f"master: this host has no VM {name}; it has: {', '.join(sorted(domains)) or 'none'}")
    if master.running:
        raise VmHostError(
            f"master: {name} is running; shut it down, and keep it off as long as clones of its disk exist"
        )
    return master
