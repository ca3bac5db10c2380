# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""May a fleet of VMs be made on this host? Arithmetic on figures that were read before, so that every answer can name them."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import size_text

# What QEMU itself holds for a small guest: page tables, device models, buffers. Measured: 40 to 120 MiB. Translated code comes on top.
OVERHEAD = 96 * 2**20


class Host(t.NamedTuple):
    """What a host offers to the fleet. Sizes in bytes."""

    memory: int
    budget: int | None  # the DRAM budget of the group that holds the fleet
    swap: int
    reserve: int
    foreign: int  # what the running VMs of others may use
    cpus: int
    disk_free: int
    addresses: int | None  # that the network can give; None if nobody knows


class Wish(t.NamedTuple):
    """What the fleet wants of this host. Sizes in bytes."""

    vms: int
    new_disks: int
    memory: int  # of one VM
    overhead: int  # what QEMU itself holds for one VM
    vcpus: int  # of one VM
    disk_growth: int  # that one clone is expected to write
    disk_size: int  # that one clone can become at most
    unswappable: str  # why its memory cannot be stretched; empty if it can


def judge(host: Host, wish: Wish) -> tuple[list[str], list[str]]:
    """Return why the fleet must not be made, and what must be said about it."""
    refusals, warnings = [], []
    each = wish.memory + wish.overhead
    dram = min(host.memory - host.reserve - host.foreign, host.budget if host.budget is not None else host.memory)
    if wish.vms * each > dram + host.swap:
        refusals.append(
            f"memory: {wish.vms} VMs of {size_text(wish.memory)} need {size_text(wish.vms * each)} with {size_text(wish.overhead)} of QEMU's own for each, and this host offers "
            f"{size_text(dram)} of DRAM ({_dram_of(host)}) and {size_text(host.swap)} of swap: {max(0, (dram + host.swap) // each)} VMs fit"
        )
    if wish.unswappable and host.swap:
        refusals.append(
            f"memory: {wish.unswappable}, and this host has {size_text(host.swap)} of swap: locked and huge pages never go there, so a study of "
            "stretched memory would measure nothing. Allow them only on hosts without swap"
        )
    if wish.new_disks * wish.disk_growth > host.disk_free:
        refusals.append(
            f"disk: {wish.new_disks} new clones of which each is expected to grow to {size_text(wish.disk_growth)} (disk_growth) need "
            f"{size_text(wish.new_disks * wish.disk_growth)}, and {size_text(host.disk_free)} are free"
        )
    elif wish.new_disks * wish.disk_size > host.disk_free:
        warnings.append(
            f"disk: {wish.new_disks} new clones could grow to {size_text(wish.new_disks * wish.disk_size)}, and {size_text(host.disk_free)} are free; they are expected to "
            f"write {size_text(wish.disk_growth)} each"
        )
    if host.addresses is not None and wish.vms > host.addresses:
        refusals.append(f"network: {wish.vms} VMs need an address each, and the network can give {host.addresses}")
    if wish.vms * wish.vcpus > host.cpus:
        warnings.append(
            f"CPU: {wish.vms} VMs with {wish.vcpus} VCPUs each share {host.cpus} CPUs, {wish.vms * wish.vcpus / host.cpus:.1f} VCPUs for each: what is "
            "measured may be the wait for a CPU"
        )
    return refusals, warnings


def _dram_of(host: Host) -> str:
    if host.budget is not None and host.budget <= host.memory - host.reserve - host.foreign:
        return f"its DRAM budget, of {size_text(host.memory)}"
    return f"of {size_text(host.memory)}; {size_text(host.foreign)} belong to VMs of others, {size_text(host.reserve)} are kept for the host"
