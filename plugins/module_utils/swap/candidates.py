# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drives of a host that could hold swap, and the objections to each. Nothing here writes."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.disks import (
    behind_pch,
    disk_serial,
    numa_node,
    real_disks,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import BY_ID, Disk, GuardError
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import Guard


def candidates(guard: Guard) -> list[dict[str, t.Any]]:
    """Return each real disk with its identity, its place, and the reasons against it; the best first."""
    files = guard.files
    names = _stable_names(files)
    found = [_candidate(guard, disk, names.get(disk, [])) for disk in real_disks(files)]
    return sorted(found, key=lambda each: (bool(each["against"]), each["behind_pch"] is True, each["disk"]))


def _candidate(guard: Guard, name: str, paths: list[str]) -> dict[str, t.Any]:
    files = guard.files
    behind = behind_pch(files, name)
    found: dict[str, t.Any] = {
        "disk": name,
        "path": paths[0] if paths else None,
        "model": files.text(f"/sys/block/{name}/device/model"),
        "serial": disk_serial(files, name),
        "size_bytes": (files.number(f"/sys/block/{name}/size") or 0) * 512,
        "numa_node": numa_node(files, name),
        "rotational": files.number(f"/sys/block/{name}/queue/rotational") == 1,
        "behind_pch": behind,
        "against": [],
    }
    against = found["against"]
    if not paths:
        against.append(f"has no path below {BY_ID}, so it has no stable name")
    if paths or files.root == "/":  # a recorded host has no device nodes
        against += _reasons(guard, paths[0] if paths else f"/dev/{name}")
    if found["rotational"]:
        against.append("is a rotating disk according to the kernel: a page-in would take milliseconds")
    if behind:
        against.append("is behind the PCH, whose link to the processor all its devices share")
    return {**found, "summary": summary(found)}


def summary(drive: dict[str, t.Any]) -> str:
    """Return all that decides whether a drive can hold swap, in one line."""
    words = {None: "unknown", True: "yes", False: "no"}
    parts = (
        drive["path"] or f"/dev/{drive['disk']}",
        drive["model"] or "model unknown",
        f"serial {drive['serial'] or 'unknown'}",
        f"{drive['size_bytes'] / 1e9:.1f} GB",
        f"NUMA node {'unknown' if drive['numa_node'] is None else drive['numa_node']}",
        f"behind the PCH: {words[drive['behind_pch']]}",
        f"it {'; it '.join(drive['against'])}" if drive["against"] else "can be used (swap_space_devices)",
    )
    return " | ".join(parts)


def _reasons(guard: Guard, path: str) -> list[str]:
    try:
        disk = Disk(path, guard.files)
        return [reason.text for reason in guard.reasons(disk, guard.content_if_readable(disk), {})]
    except (GuardError, OSError) as error:
        return [f"cannot be examined: {error}"]


def _stable_names(files: HostFiles) -> dict[str, list[str]]:
    """Return the paths below /dev/disk/by-id of each disk; those with model and serial number first."""
    found: dict[str, list[str]] = {}
    for name in files.names(BY_ID):
        disk = os.path.basename(os.path.realpath(files.path(BY_ID + name)))
        found.setdefault(disk, []).append(BY_ID + name)
    opaque = ("wwn-", "nvme-eui.", "nvme-uuid.", "nvme-nvme.", "dm-", "lvm-")
    return {
        disk: sorted(paths, key=lambda path: (os.path.basename(path).startswith(opaque), path))
        for disk, paths in found.items()
    }
