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


def touched(ramp: t.Mapping[str, t.Any], held: t.Sequence[Window]) -> dict[str, t.Any] | None:
    """Return the p99 before, at worst and after how many seconds it was back; None if the servers were not touched.

    Args:
        ramp: the record of a hold.
        held: its clean windows.
    """
    found = ramp.get("touch")
    if not found or not held:
        return None
    before = statistics.median(each.fleet["upper"].p99_us for each in held)
    seconds = [figures([each["fleet"]]).get("upper") for each in found["seconds"]]
    # A second without an answer is slower than any other.
    p99 = [each.p99_us if each else float("inf") for each in seconds]
    answered = [each for each in p99 if each < float("inf")]
    back = next(
        (
            second
            for second in range(len(p99) - _SECONDS + 1)
            if max(p99[second], statistics.median(p99[second : second + _SECONDS])) <= _BACK * before
        ),
        None,
    )
    return {
        "before_p99_us": round(before, 1),
        "worst_p99_us": round(max(answered), 1) if answered else None,
        "back_seconds": back,
        "seconds": len(p99),
        "touched_seconds": found["touched_seconds"],
    }
