# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the watch of a host has seen in the last half hour, and in the worst hour of the last day. Nothing is changed.

The watch counts, once a minute, what the kernel counts anyway. It does not measure active memory. But memory of a VM
that is beyond DRAM now, and was there all of the last half hour, was not accessed in it: that is at least what is there
less all pages that were moved in that time. So both together give an upper bound of what was accessed.
"""

from __future__ import annotations

import json
import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.headroom import watch_program
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

HALF_HOUR_S, HOUR_S = 1800.0, 3600.0
Moment = watch_program.Moment
_Window = t.Dict[str, t.Any]


def read(files: HostFiles, now: float | None = None) -> dict[str, t.Any] | None:
    """Return what the watch has seen; None if no watch runs.

    Args:
        now: seconds since the epoch; by default the present time.
    """
    now = time.time() if now is None else now
    try:
        kept = watch_program.kept_moments(json.loads(files.text(watch_program.STATE) or "{}"))
    except ValueError:  # half a file, as the program itself reads it
        return None
    moments = watch_program.remembered(kept, watch_program.moment(files.root, now))
    if len(moments) < 2 or now - moments[-2].at >= watch_program.OLD:
        return None
    return {
        "since": round(moments[0].at, 3),
        "half_hour": _last(moments, HALF_HOUR_S),
        "worst_hour": _worst(moments, HOUR_S),
    }


def _last(moments: t.Sequence[Moment], seconds: float) -> _Window | None:
    """Return the window of so many seconds that ends at the last moment; None if the watch has not run so long."""
    end = moments[-1]
    begun = [each for each in moments if end.at - each.at >= seconds]
    return _window(begun[-1], end) if begun and _fits(begun[-1], end, seconds) else None


def _worst(moments: t.Sequence[Moment], seconds: float) -> _Window | None:
    """Return the window in which tasks waited for memory longest, or with most page-ins where none waited."""
    found = []
    last = 0
    for first in moments:
        while last < len(moments) and moments[last].at - first.at < seconds:
            last += 1
        if last == len(moments):
            break
        if _fits(first, moments[last], seconds):
            found.append(_window(first, moments[last]))
    return max(found, key=lambda each: (each["memory_some_share"] or 0, each["page_ins"] or 0), default=None)


def _fits(first: Moment, end: Moment, seconds: float) -> bool:
    """Check whether a window is not much longer than it should be, because nothing was counted in between."""
    return end.at - first.at < seconds + watch_program.OLD


def _window(first: Moment, end: Moment) -> _Window:
    seconds = end.at - first.at
    waited, came, went, refaults = (
        None if old is None or new is None else new - old for old, new in zip(first.counts, end.counts)
    )

    def each_second(count: float | None) -> float | None:
        return None if count is None else round(count / seconds, 3)

    moved = None if came is None or went is None else round((came + went) * os.sysconf("SC_PAGE_SIZE"))
    return {
        "began_at": round(first.at, 3),
        "seconds": round(seconds, 3),
        "memory_some_share": None if waited is None else round(waited / 1e6 / seconds, 6),
        "page_ins": each_second(came),
        "refaults": each_second(refaults),
        "moved_bytes": moved,
    }
