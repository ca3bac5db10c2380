# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether swap drives and VMs are on the NUMA nodes that use them."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.disks import numa_node, swap_disks
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, parse_cpu_list

# The share of a VM's memory that may be away from its CPUs without a warning: QEMU's own pages, for example.
TOLERATED_SHARE = 0.1
_VM = re.compile(r"^(qemu-|kvm$|cloud-hyperviso|firecracker)")


def swap_drives(files: HostFiles) -> list[dict[str, t.Any]]:
    """Return each disk that carries swap, with its node, or None if the kernel does not know the node."""
    return [{"disk": disk, "node": numa_node(files, disk)} for disk in swap_disks(files)]


def virtual_machines(files: HostFiles) -> list[dict[str, t.Any]]:
    """Return each VM's process with its memory by node, and the nodes whose CPUs it may use."""
    node_cpus = {
        int(name[4:]): set(parse_cpu_list(files.text(f"/sys/devices/system/node/{name}/cpulist")))
        for name in files.names("/sys/devices/system/node")
        if re.match(r"^node\d+$", name)
    }
    found = []
    for entry in files.names("/proc"):
        if not entry.isdigit() or not _VM.match(files.text(f"/proc/{entry}/comm") or ""):
            continue
        status = dict(re.findall(r"^(\w+):\s*(.*)$", files.text(f"/proc/{entry}/status") or "", re.MULTILINE))
        cpus = set(parse_cpu_list(status.get("Cpus_allowed_list")))
        bytes_on = bytes_by_node(files.text(f"/proc/{entry}/numa_maps", size=64 * 2**20) or "")
        arguments = (files.text(f"/proc/{entry}/cmdline") or "").split("\0")
        found.append(
            {
                "pid": int(entry),
                "name": _name(arguments) or files.text(f"/proc/{entry}/comm"),
                "bytes": bytes_on,
                "cpu_nodes": sorted(node for node, of_node in node_cpus.items() if of_node & cpus),
            }
        )
    return sorted(found, key=lambda each: each["pid"])


def _name(arguments: t.Sequence[str]) -> str | None:
    """Return the name in QEMU's arguments: -name guest=NAME,... or -name NAME."""
    value = next((arguments[place + 1] for place, each in enumerate(arguments[:-1]) if each == "-name"), "")
    return re.sub(r"^guest=", "", value.split(",")[0]) or None


def bytes_by_node(text: str) -> dict[int, int]:
    """Return the memory of a process by node, in bytes, from its numa_maps."""
    found: dict[int, int] = {}
    for line in text.splitlines():
        page = re.search(r"kernelpagesize_kB=(\d+)", line)
        for node, pages in re.findall(r"\bN(\d+)=(\d+)", line):
            found[int(node)] = found.get(int(node), 0) + int(pages) * 1024 * (int(page.group(1)) if page else 4)
    return found


def warnings(
    cpu_nodes: t.Iterable[int],
    drives: t.Sequence[t.Mapping[str, t.Any]],
    machines: t.Sequence[t.Mapping[str, t.Any]],
    ratio: t.Callable[[int, int], str],
) -> list[str]:
    """Return a warning for each swap drive and VM on the wrong node.

    Args:
        cpu_nodes: the nodes that have CPUs.
        drives: what swap_drives() returned.
        machines: what virtual_machines() returned.
        ratio: a function of the CPUs' node and the memory's node that returns, as text, how much slower this pair is
            than the local one; empty if it was not measured.
    """
    wanted, known = set(cpu_nodes), {drive["node"] for drive in drives} - {None}
    found = []
    if len(wanted) > 1 and known and wanted - known:
        for node in sorted(wanted - known):
            near = min(known)
            found.append(
                f"node {node} has no swap drive: its pages are swapped to node {_list(known)}{ratio(node, near)}"
            )
    for machine in machines:
        name, cpus_on = f"VM {machine['name']} (pid {machine['pid']})", _list(machine["cpu_nodes"])
        total = sum(machine["bytes"].values())
        away = {node: count for node, count in machine["bytes"].items() if node not in machine["cpu_nodes"]}
        if total and sum(away.values()) > TOLERATED_SHARE * total and machine["cpu_nodes"]:
            node = max(away, key=away.__getitem__)
            found.append(
                f"{name}: {sum(away.values()) / total:.0%} of its memory is on node {node}, "
                f"its CPUs are on node {cpus_on}{ratio(machine['cpu_nodes'][0], node)}"
            )
        elif total and len(wanted) > 1 and len(machine["cpu_nodes"]) > 1:
            minority = 1 - max(machine["bytes"].values()) / total
            if minority > TOLERATED_SHARE:
                found.append(
                    f"{name}: {minority:.0%} of its memory is not on the node that has most of it, "
                    f"and it may run on nodes {cpus_on}; pin it to one node if it fits there"
                )
    return found


def _list(nodes: t.Iterable[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))
