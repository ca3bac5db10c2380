# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What followed when all servers of a held fleet were touched at once: how slow they became, and when that was over."""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import Window, figures

# The p99 is back in a second if it is at most so many times what it was before, and so is its median over so many
# seconds from then on. Single seconds have few requests above their p99.
_SECONDS, _BACK = 3, 1.25
# What slows the references too is the machine, as long as it is no more than this: page-ins slow them as well.
_MACHINE = 2.0
# What it is in the end is its median over so many seconds.
_END_SECONDS = 10


def touched(ramp: t.Mapping[str, t.Any], held: t.Sequence[Window]) -> dict[str, t.Any] | None:
    """Return the p99 before, at worst and in the end, and when it was back; None if the servers were not touched.

    Args:
        ramp: the record of a hold.
        held: its clean windows.
    """
    found = ramp.get("touch")
    if not found or not held:
        return None
    before, p99 = _before(held, "fleet"), _p99(found["seconds"], "fleet")
    beside, references = _before(held, "references"), _p99(found["seconds"], "references")

    def is_back(second: int) -> bool:
        span = slice(second, second + _SECONDS)
        machine = statistics.median(references[span]) / beside if beside else 1.0
        times = max(p99[second], statistics.median(p99[span])) / before
        return times <= _BACK * min(max(machine, 1.0), _MACHINE)

    answered = [each for each in p99 if each < float("inf")]
    end = statistics.median(p99[-_END_SECONDS:])
    return {
        "before_p99_us": round(before, 1),
        "worst_p99_us": round(max(answered), 1) if answered else None,
        "end_p99_us": round(end, 1) if end < float("inf") else None,
        "back_seconds": next(filter(is_back, range(len(p99) - _SECONDS + 1)), None),
        "seconds": len(p99),
        "touched_seconds": found["touched_seconds"],
    }


def _before(held: t.Sequence[Window], whose: str) -> float:
    """Return the p99 of a fleet or its references before; 0 if there are none."""
    known = [loads["upper"].p99_us for loads in (getattr(each, whose) for each in held) if loads]
    return statistics.median(known) if known else 0.0


def _p99(seconds: t.Iterable[t.Mapping[str, t.Any]], whose: str) -> list[float]:
    """Return the p99 in each second. One without an answer is slower than any other."""
    found = [figures([each[whose]]).get("upper") for each in seconds]
    return [each.p99_us if each else float("inf") for each in found]
