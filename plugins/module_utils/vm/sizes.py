# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory and the vCPUs in a definition of libvirt: set them everywhere, and read what libvirt makes of them.

A definition repeats its sizes. libvirt takes the memory of a VM with NUMA cells from the cells alone, and refuses a
topology or a pinned vCPU that does not match the number of vCPUs.
"""

from __future__ import annotations

import math
import shlex
import typing as t
import xml.etree.ElementTree as ET

from ansible_collections.memstretch.density.plugins.module_utils.host.files import parse_cpu_list
from ansible_collections.memstretch.density.plugins.module_utils.vm import qemu

MIB = 2**20
# libvirt's units of memory.
_UNITS = {"b": 1, "bytes": 1, "KB": 1000, "k": 2**10, "KiB": 2**10, "M": 2**20, "MiB": 2**20}
_UNITS.update({"G": 2**30, "GiB": 2**30, "T": 2**40, "TiB": 2**40})
# Levels of a topology other than sockets, cores and threads, the older ones first.
_LEVELS = ("dies", "clusters", "modules")


class DomainError(Exception):
    """A VM cannot be defined as requested; the text gives the reason."""


class Sizes(t.NamedTuple):
    """The sizes of a VM."""

    memory: int  # bytes
    vcpus: int  # those that it starts with
    max_vcpus: int


def bytes_of(text: str | None, unit: str | None) -> int:
    """Return an amount of memory of a definition in bytes."""
    return int(text or 0) * _UNITS.get(unit or "KiB", 2**10)


def max_memory_of(xml: str) -> int:
    """Return the largest amount of memory that a VM may use, in bytes."""
    element = ET.fromstring(xml).find("memory")
    return 0 if element is None else bytes_of(element.text, element.get("unit"))


def set_memory(root: ET.Element, size: int) -> None:
    """Set the memory of a VM, and spread it over the NUMA cells in proportion to what they had.

    Memory modules are removed, and so are limits, which were chosen for another size.
    """
    for name in ("memory", "currentMemory", "maxMemory"):
        _remove(root, name)
    for tune in root.iterfind("memtune"):
        for name in ("hard_limit", "soft_limit", "swap_hard_limit"):
            _remove(tune, name)
    for devices in root.iterfind("devices"):
        for model in ("dimm", "virtio-mem"):
            _remove(devices, f"memory[@model='{model}']")
    ET.SubElement(root, "memory", {"unit": "bytes"}).text = str(size)
    cells = root.findall("./cpu/numa/cell")
    before = [bytes_of(cell.get("memory"), cell.get("unit")) for cell in cells]
    # In whole MiB, to which libvirt rounds each cell up.
    for cell, share in zip(cells, _shares(math.ceil(size / MIB), before)):
        cell.set("memory", str(share))
        cell.set("unit", "MiB")


def set_vcpus(root: ET.Element, count: int) -> None:
    """Set the number of vCPUs of a VM, with its topology, its NUMA cells, and what is said of single vCPUs.

    Raises:
        DomainError: there are fewer vCPUs than NUMA cells that have some.
    """
    vcpu = root.find("vcpu")
    if vcpu is None:
        vcpu = ET.SubElement(root, "vcpu")
    vcpu.attrib.pop("current", None)
    vcpu.text = str(count)
    _remove(root, "vcpus")
    topology = root.find("./cpu/topology")
    if topology is not None:
        _set_topology(topology, count)
    _set_cells(root, count)
    for tune in root.iterfind("cputune"):
        for element in list(tune):
            if not _limit_to(element, count):
                tune.remove(element)


def _set_topology(topology: ET.Element, count: int) -> None:
    """Keep threads and sockets as far as the vCPUs can be divided by them; the rest are cores."""
    threads = math.gcd(int(topology.get("threads", "1")), count)
    sockets = math.gcd(int(topology.get("sockets", "1")), count // threads)
    for level in _LEVELS:
        if level in topology.attrib:
            topology.set(level, "1")
    for name, value in (("sockets", sockets), ("cores", count // threads // sockets), ("threads", threads)):
        topology.set(name, str(value))


def _set_cells(root: ET.Element, count: int) -> None:
    cells = [cell for cell in root.iterfind("./cpu/numa/cell") if cell.get("cpus")]
    if count < len(cells):
        raise DomainError(
            f"vcpus: {count} is too few for the {len(cells)} NUMA cells of the master that have vCPUs; it must be at "
            f"least {len(cells)}. Or take the cells out of the master (<numa> in its definition)"
        )
    first = 0
    for cell, share in zip(cells, _shares(count, [1] * len(cells))):
        cell.set("cpus", f"{first}-{first + share - 1}" if share > 1 else str(first))
        first += share


def _limit_to(element: ET.Element, count: int) -> bool:
    """Take the vCPUs that there are no more out of an element of <cputune>, and return whether it still has some."""
    for attribute in ("vcpu", "vcpus"):
        listed = element.get(attribute)
        if listed is None:
            continue
        parts = [part.strip() for part in listed.split(",")]
        excluded = [int(part[1:]) for part in parts if part.startswith("^")]
        named = parse_cpu_list(",".join(part for part in parts if not part.startswith("^")))
        kept = [vcpu for vcpu in named if vcpu < count and vcpu not in excluded]
        if not kept:
            return False
        element.set(attribute, ",".join(map(str, kept)))
    return True


def _shares(total: int, weights: t.Sequence[int]) -> list[int]:
    """Divide a number into whole shares in proportion to weights."""
    whole = sum(weights)
    if not whole:
        weights, whole = [1] * len(weights), len(weights)
    ends = [total * sum(weights[: number + 1]) // whole for number in range(len(weights))]
    return [end - start for start, end in zip([0, *ends], ends)]


def sizes_of_command(command: str, definition: str) -> Sizes:
    """Return the sizes that libvirt gives to a VM.

    Args:
        command: the command of QEMU that libvirt makes of the definition.
        definition: the definition, whose memory modules are devices in the command.

    Raises:
        DomainError: the command has no sizes.
    """
    words = shlex.split(command)
    options = dict(zip(words, words[1:]))
    # -m 2048 (MiB) of libvirt up to 9.0, -m size=2097152k of later ones and with memory slots.
    size = qemu.boot_memory(options.get("-m", ""))
    vcpus = qemu.parts(options.get("-smp", ""))
    cpus = vcpus.get("cpus", vcpus.get("", ""))
    if size is None or not cpus.isdigit():
        raise DomainError(f"the command that libvirt makes for QEMU from the definition has no sizes: {command[:500]}")
    modules = sum(
        bytes_of(module.text, module.get("unit"))
        for module in ET.fromstring(definition).iterfind("./devices/memory/target/size")
    )
    current = int(cpus)
    return Sizes(size + modules, current, int(vcpus.get("maxcpus", current)))


def _remove(parent: ET.Element, tag: str) -> None:
    for child in parent.findall(tag):
        parent.remove(child)
