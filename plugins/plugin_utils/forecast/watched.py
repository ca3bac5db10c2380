# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What headroom saw on live hosts, as a fleet that is planned elsewhere: its memory, and how often it would miss."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.measured import UnknownMemory
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.memory import HostMemory, Server
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import model
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom.options import (
    ASSUMED_COMPRESSION,
    ASSUMED_PAGE_IN_US,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory

# The tiers of a plan that are swap, by the kind that headroom knows.
_TIERS = {"zram": "zram", "zswap": "zswap", "devices": "drive", "file": "file"}


class Misses(t.NamedTuple):
    """What a fleet pays for the memory that is not in DRAM.

    Attributes:
        page_ins: of the whole machine, in pages per second.
        waiting: the share of the time that the unit which waits longest waits for page-ins.
    """

    page_ins: float
    waiting: float


@dataclasses.dataclass(frozen=True)
class Watched:
    """The units that a look saw. A fleet of any size is planned as the same mix of them.

    Attributes:
        name: of the look.
        are_vms: whether all of them are VMs.
        members: the units.
        compression: of what is in zram or zswap.
        page_in_us: how long a page-in takes, by kind of tier.
        waiting: the largest share of the time that a unit may wait for page-ins.
        notes: what the look assumed, or left out.
    """

    name: str
    are_vms: bool
    members: tuple[model.Member, ...]
    compression: float
    page_in_us: t.Mapping[str, float]
    waiting: float
    notes: tuple[str, ...]

    @property
    def server(self) -> Server:
        """The mean unit. What is accessed within the shortest age cannot leave DRAM: the host would thrash."""
        count = len(self.members)
        size = sum(each.stretchable + each.pinned for each in self.members)
        resident = sum(each.pinned + (each.curve.active(self._shortest) if each.curve else 0) for each in self.members)
        return Server(size / count, resident / count, 1 / self.compression, False)

    @property
    def _shortest(self) -> float:
        return max((each.curve.shortest for each in self.members if each.curve), default=1.0)

    def misses(self, memory: HostMemory, size: float) -> Misses | None:
        """Return what a fleet pays on a machine where it fits; None if the tier is not swap."""
        if memory.tierless or size * self.server.bytes <= memory.dram:
            return Misses(0.0, 0.0)
        if memory.kind not in _TIERS:
            return None
        members = [dataclasses.replace(each, count=size / len(self.members)) for each in self.members]
        stored = memory.stored(1 / self.compression) if self.compression > 1 else 0.0
        if stored:
            found = model.forecast(members, self._site(memory.dram, self.compression))
            if memory.kind == "zram" or found.evicted <= stored:
                return self._paid(found, "zram" if memory.zram else _TIERS[memory.kind])
        # The rest goes to the drives. Which page-ins are theirs is not known: all are taken to be as slow.
        found = model.forecast(members, self._site(memory.dram - stored / self.compression, 0.0))
        return self._paid(found, _TIERS[memory.drives])

    def most(self, memory: HostMemory, limit: int) -> int | None:
        """Return how many of at most so many wait no longer than they may; None if that is not known."""
        low, high = 0, limit + 1
        while high - low > 1:
            middle = (low + high) // 2
            found = self.misses(memory, middle)
            if found is None:
                return None
            low, high = (middle, high) if found.waiting <= self.waiting else (low, middle)
        return low

    def _site(self, dram: float, compression: float) -> model.Site:
        return model.Site(dram, 0.0, compression, None, 1.0, self.waiting)

    def _paid(self, found: model.Forecast, kind: str) -> Misses:
        return Misses(found.total, max(found.page_ins, default=0.0) * self.page_in_us[kind] / 1e6)


def of_headroom(directory: RunDirectory) -> Watched:
    """Return the units that a look saw.

    Raises:
        RunError: its file is missing or damaged.
        UnknownMemory: the look does not tell.
    """
    document = directory.read_json("headroom.json")
    known = {name: host for name, host in document["hosts"].items() if host["now"] is not None}
    if not known:
        reasons = "; ".join(f"{name}: {host['reason']}" for name, host in document["hosts"].items())
        raise UnknownMemory(f"it does not know how much memory is active ({reasons})")
    left_out = [
        f"{name} is not in the plan, since its active memory is unknown: {host['reason']}"
        for name, host in document["hosts"].items()
        if name not in known
    ]
    units = [unit for host in known.values() for unit in host["units"]]
    assumed = [f"{name}: {text}" for name, host in known.items() for text in host["assumed"]]
    wishes = document["wishes"]
    drives = [host["measured"]["drive_page_in_us"] for host in known.values()]
    drive = max((each for each in drives if each is not None), default=None)
    page_in_us = dict(ASSUMED_PAGE_IN_US)
    if drive is not None:
        page_in_us.update(drive=drive, file=drive)
    if wishes["page_in_us"] is not None:
        page_in_us = dict.fromkeys(page_in_us, wishes["page_in_us"])
    compression = min((host["compression"] for host in known.values() if host["compression"]), default=None)
    if compression is None:
        compression = ASSUMED_COMPRESSION
        assumed.append(f"a compression of {compression:g}:1 is assumed")
    return Watched(
        name=directory.run_id,
        are_vms={unit["kind"] for unit in units} == {"vm"},
        members=tuple(member for host in known.values() for member in model.members(host["units"])),
        compression=compression,
        page_in_us=page_in_us,
        waiting=wishes["waiting"] / 100,
        notes=tuple(left_out + assumed),
    )
