# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a host offers to a fleet, and refuse a fleet that the host cannot carry."""

from __future__ import annotations

import os
import shutil
import typing as t
import xml.etree.ElementTree as ET

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import CgroupFiles, group_directory
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo
from ansible_collections.memstretch.density.plugins.module_utils.options import size_in_bytes, size_text
from ansible_collections.memstretch.density.plugins.module_utils.vm.addresses import dhcp_range
from ansible_collections.memstretch.density.plugins.module_utils.vm.admission import OVERHEAD, Capacity, Demand, admit
from ansible_collections.memstretch.density.plugins.module_utils.vm.fleet import Action, Fleet
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import VmHost, VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.image import GoldenImage
from ansible_collections.memstretch.density.plugins.module_utils.vm.options import Options
from ansible_collections.memstretch.density.plugins.module_utils.vm.partition import group_of
from ansible_collections.memstretch.density.plugins.module_utils.vm.sizes import MIB, Sizes
from ansible_collections.memstretch.density.plugins.module_utils.vm.template import (
    TRANSLATION_CACHE,
    Template,
    unswappable_reason,
)


def check_admission(
    fleet: Fleet, template: Template, actions: t.Sequence[Action], image: GoldenImage, options: Options
) -> list[str]:
    """Return the warnings about a fleet on this host.

    Raises:
        VmHostError: the host cannot carry the fleet, and the option admission does not turn that into a warning.
    """
    refusals, warnings = admit(
        _read_capacity(fleet, template, options), _demand(fleet, template, actions, image, options)
    )
    if refusals and options["admission"] == "refuse":
        raise VmHostError("this host cannot carry the fleet: " + "; ".join(refusals) + ". Nothing was changed")
    return warnings + refusals


def _read_capacity(fleet: Fleet, template: Template, options: Options) -> Capacity:
    memory = meminfo(HostFiles())
    uses_huge_pages = ET.fromstring(template.xml(fleet.vms[0])).find("./memoryBacking/hugepages") is not None
    others = (each for name, each in fleet.domains.items() if name not in fleet.members)
    return Capacity(
        memory=memory["MemTotal"],
        budget=_dram_budget(template.partition),
        swap=memory.get("SwapTotal", 0),
        reserve=size_in_bytes("reserve", options["reserve"]),
        foreign=sum(each.max_memory for each in others if each.running),
        cpus=os.cpu_count() or 1,
        disk_free=_free_space(options["directory"]),
        addresses=_address_count(fleet.host, template.network),
        huge_pages=0 if uses_huge_pages else huge_pages(memory),
    )


def huge_pages(memory: t.Mapping[str, int]) -> int:
    """Return the bytes that are reserved as huge pages, such as by a DRAM budget, from /proc/meminfo."""
    # Linux before 4.20 shows those of the default size alone.
    return memory.get("Hugetlb", memory.get("HugePages_Total", 0) * memory.get("Hugepagesize", 0))


def _demand(
    fleet: Fleet, template: Template, actions: t.Sequence[Action], image: GoldenImage, options: Options
) -> Demand:
    definition = template.xml(fleet.vms[0])
    sizes = fleet.host.sizes(fleet.vms[0].name, definition)
    _refuse_other_sizes(template, sizes)
    return Demand(
        vms=len(fleet.vms),
        new_disks=sum("clone" in action.operations for action in actions),
        memory=sizes.memory,
        overhead=OVERHEAD + (TRANSLATION_CACHE if template.domain_type == "qemu" else 0),
        vcpus=sizes.vcpus,
        disk_growth=size_in_bytes("disk_growth", options["disk_growth"]),
        disk_size=image.size(),
        unswappable=unswappable_reason(ET.fromstring(definition)),
    )


def _refuse_other_sizes(template: Template, sizes: Sizes) -> None:
    """Raise VmHostError if libvirt would give other sizes to the VMs than the options ask for."""
    different = []
    if template.memory and not 0 <= sizes.memory - template.memory < MIB:  # libvirt rounds up
        different.append(f"memory: {size_text(template.memory)} becomes {size_text(sizes.memory)}")
    if template.vcpus and {sizes.vcpus, sizes.max_vcpus} != {template.vcpus}:
        different.append(f"vcpus: {template.vcpus} becomes {sizes.vcpus} of {sizes.max_vcpus}")
    if different:
        raise VmHostError(
            f"libvirt gives other sizes to the VMs: {'; '.join(different)}. Something in the definition of the master "
            "repeats them. Take it out, or set the sizes of the master itself. Nothing was changed"
        )


def _free_space(directory: str) -> int:
    """Return the free bytes of the file system that holds or will hold a directory."""
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return shutil.disk_usage(directory).free


def _dram_budget(partition: str) -> int | None:
    """Return the memory limit of the control group that libvirt puts the VMs into, None if it has no limit."""
    return CgroupFiles(*group_directory(HostFiles(), group_of(partition))).limit()


def _address_count(host: VmHost, network: t.Mapping[str, t.Any]) -> int | None:
    """Count how many addresses a network can assign, None if that is not known."""
    if network["type"] != "network":
        return None
    if network.get("address"):
        return dhcp_range(network["address"]).size
    return host.network_addresses(network["name"])
