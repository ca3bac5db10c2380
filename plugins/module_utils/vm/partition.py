# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resource partitions of libvirt, and the control groups that they become."""

from __future__ import annotations

import re

from ansible_collections.memstretch.density.plugins.module_utils.host.systemd import booted

_TOP = ("machine", "system", "user")


def group_of(partition: str) -> str:
    """Return the control group of a partition: a slice, or a path below the root of the controller without systemd."""
    name = partition.strip("/") or "machine"
    if booted():
        return slice_of(name)
    # libvirt marks its groups, but for three at the top.
    parts = name.split("/")
    kept = parts[:1] if parts[0] in _TOP else []
    return "/".join([*kept, *(part if "." in part else f"{part}.partition" for part in parts[len(kept) :])])


def slice_of(partition: str) -> str:
    """Return the name of the slice of systemd that libvirt makes for a partition, such as C(machine/fleet)."""
    escaped = re.sub(r"[^A-Za-z0-9:_./]", lambda found: f"\\x{ord(found[0]):02x}", partition)
    return f"{escaped.replace('/', '-')}.slice"
