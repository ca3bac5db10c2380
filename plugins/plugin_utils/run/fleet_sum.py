# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sum of the histograms of a fleet.

Decoding the histograms of ten thousand hosts takes minutes, and the whole playbook would wait for the callback. So the
process that fetches the result of a host, one of many, packs the counts for it; the callback only adds large integers.
"""

from __future__ import annotations

import array
import base64
import struct
import typing as t
import zlib

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import decode
from ansible_collections.memstretch.density.plugins.plugin_utils.run.lanes import little_endian, unpacked

# From the lower to the upper bound; results through a Unix socket have no wakeup and no server.
LATENCIES = ("service", "server", "response", "intended", "lateness", "wakeup")

# Lanes of 32 bits: the most samples that fit before the lanes must be emptied.
_LANE = "I"
_BITS = 32
_MOST = 2**_BITS - 1
# For each latency its lowest slot and the number of its lanes.
_HEADER = struct.Struct(f"<{2 * len(LATENCIES)}H")


def pack(latency: t.Mapping[str, t.Any]) -> str | None:
    """Return the counts of all latencies of a result as text; None if a lane cannot hold this many samples."""
    places: list[int] = []
    lanes = b""
    for name in LATENCIES:
        figures = latency.get(name) or {"count": 0}
        if figures["count"] > _MOST:
            return None
        counts = decode(figures["histogram"]) if figures["count"] else {}
        lowest = min(counts, default=0)
        dense = array.array(_LANE, bytes(_BITS // 8 * (max(counts) - lowest + 1 if counts else 0)))
        for slot, count in counts.items():
            dense[slot - lowest] = count
        places += [lowest, len(dense)]
        lanes += little_endian(dense)
    return base64.b64encode(zlib.compress(_HEADER.pack(*places) + lanes)).decode("ascii")


class FleetSum:
    """Adds up the counts of hosts, by latency.

    Attributes:
        hosts: the names of those that were added.
    """

    def __init__(self) -> None:
        self.hosts: set[str] = set()
        self._lanes = [0] * len(LATENCIES)
        self._room = _MOST
        self._emptied: list[dict[int, int]] = [{} for _latency in LATENCIES]

    def add(self, host: str, latency: t.Mapping[str, t.Any], text: str) -> None:
        """Add what pack() returned for the latencies of a host."""
        largest = max(figures["count"] for figures in latency.values())
        if largest > self._room:
            self._empty()
        self._room -= largest
        body = zlib.decompress(base64.b64decode(text))
        places, end = _HEADER.unpack_from(body), _HEADER.size
        for number, (lowest, size) in enumerate(zip(places[::2], places[1::2])):
            begin, end = end, end + _BITS // 8 * size
            self._lanes[number] += int.from_bytes(body[begin:end], "little") << (_BITS * lowest)
        self.hosts.add(host)

    def counts(self) -> dict[str, dict[int, int]]:
        """Return the sums by latency and slot."""
        self._empty()
        return dict(zip(LATENCIES, self._emptied))

    def _empty(self) -> None:
        """Move the sums from the lanes to where there is no limit."""
        for number, sums in enumerate(self._emptied):
            for slot, count in enumerate(unpacked(self._lanes[number], _LANE)):
                if count:
                    sums[slot] = sums.get(slot, 0) + count
        self._lanes, self._room = [0] * len(LATENCIES), _MOST
