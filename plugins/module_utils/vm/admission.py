# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether a host can carry a fleet. The caller supplies the figures, and every reason names them."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import size_text

# Memory of QEMU itself for a small guest: page tables, device models, buffers. Measured: 40 to 120 MiB.
# Under software emulation the cache of translated code comes on top.
OVERHEAD = 96 * 2**20


class Capacity(t.NamedTuple):
    """What a host offers to a fleet. Sizes in bytes."""

    memory: int
    budget: int | None  # DRAM budget of the control group that holds the fleet
    swap: int
    reserve: int  # kept for the host itself
    foreign: int  # what running VMs outside the fleet may use
    cpus: int
    disk_free: int
    addresses: int | None  # that the network can assign; None if unknown
    huge_pages: int = 0  # part of the memory that is reserved as huge pages, which these VMs do not use


class Demand(t.NamedTuple):
    """What a fleet needs from its host. Sizes in bytes."""

    vms: int
    new_disks: int
    memory: int  # of one VM
    overhead: int  # of QEMU itself, for one VM
    vcpus: int  # of one VM
    disk_growth: int  # expected of one clone
    disk_size: int  # upper limit of one clone
    unswappable: str  # why the memory of its VMs cannot be swapped out; empty if it can


def admit(capacity: Capacity, demand: Demand) -> tuple[list[str], list[str]]:
    """Return the reasons to refuse the fleet, and the warnings about it."""
    refusals, warnings = [], []
    for check in (_check_memory, _check_disk, _check_network, _check_cpus):
        refused, warned = check(capacity, demand)
        refusals += refused
        warnings += warned
    return refusals, warnings


def _check_memory(capacity: Capacity, demand: Demand) -> tuple[list[str], list[str]]:
    refusals = []
    each = demand.memory + demand.overhead
    unreserved = capacity.memory - capacity.huge_pages - capacity.reserve - capacity.foreign
    budget = capacity.budget if capacity.budget is not None else capacity.memory
    dram = min(unreserved, budget)
    if demand.vms * each > dram + capacity.swap:
        reserved = f"{size_text(capacity.huge_pages)} reserved as huge pages, " if capacity.huge_pages else ""
        detail = (
            f"its DRAM budget; the host has {size_text(capacity.memory)}"
            if capacity.budget is not None and capacity.budget <= unreserved
            else f"{size_text(capacity.memory)}, less {reserved}{size_text(capacity.foreign)} for VMs outside the "
            f"fleet and {size_text(capacity.reserve)} for the host itself"
        )
        refusals.append(
            f"memory: {demand.vms} VMs of {size_text(demand.memory)} need {size_text(demand.vms * each)}, including "
            f"{size_text(demand.overhead)} of QEMU itself for each; this host offers {size_text(dram)} of DRAM "
            f"({detail}) and {size_text(capacity.swap)} of swap, so {max(0, (dram + capacity.swap) // each)} VMs fit"
        )
    if demand.unswappable and capacity.swap:
        refusals.append(
            f"memory: {demand.unswappable}, and this host has {size_text(capacity.swap)} of swap. Locked memory and "
            "huge pages are never swapped out, so a study of stretched memory would measure nothing. Use them only on "
            "hosts without swap"
        )
    return refusals, []


def _check_disk(capacity: Capacity, demand: Demand) -> tuple[list[str], list[str]]:
    expected, limit = demand.new_disks * demand.disk_growth, demand.new_disks * demand.disk_size
    free = size_text(capacity.disk_free)
    if expected > capacity.disk_free:
        return [
            f"disk: {demand.new_disks} new clones are expected to write {size_text(demand.disk_growth)} each "
            f"(disk_growth), {size_text(expected)} in total, but only {free} are free"
        ], []
    if limit > capacity.disk_free:
        return [], [
            f"disk: {demand.new_disks} new clones can grow to {size_text(limit)} in total, but only {free} are free; "
            f"each is expected to write {size_text(demand.disk_growth)} (disk_growth)"
        ]
    return [], []


def _check_network(capacity: Capacity, demand: Demand) -> tuple[list[str], list[str]]:
    if capacity.addresses is not None and demand.vms > capacity.addresses:
        return [
            f"network: {demand.vms} VMs need an address each, but the network can assign only {capacity.addresses}"
        ], []
    return [], []


def _check_cpus(capacity: Capacity, demand: Demand) -> tuple[list[str], list[str]]:
    vcpus = demand.vms * demand.vcpus
    if vcpus > capacity.cpus:
        return [], [
            f"CPU: {demand.vms} VMs with {demand.vcpus} vCPUs each share {capacity.cpus} CPUs "
            f"({vcpus / capacity.cpus:.1f} vCPUs per CPU): measured latencies may include waiting for a CPU"
        ]
    return [], []
