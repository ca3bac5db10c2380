# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The charged DRAM and the page-ins of a host while a phase is measured, as its recorder samples them."""

from __future__ import annotations

import re
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.charged import PARTS, ChargedDram
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import CgroupFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.group_reclaim import GroupReclaim
from ansible_collections.memstretch.density.plugins.module_utils.host.pressure import page_ins

INTERVAL_S = 1.0


def sample(charged: ChargedDram, group: CgroupFiles | None, reclaim: GroupReclaim | None) -> dict[str, t.Any]:
    """Return the charged DRAM, the limit of the control group and the page-ins of this moment.

    Args:
        charged: reads it.
        group: the control group of the budget, if there is one.
        reclaim: its reclaim in the background.
    """
    figures: dict[str, t.Any] = dict(charged.read())
    if group:
        with group.locked():  # the reclaim lowers the limit for a moment
            figures["limit_bytes"] = group.limit()
    return {
        **figures,
        "limit_hits": group.limit_hits() if group else None,
        "clock_s": round(time.monotonic(), 6),
        "page_ins": page_ins(HostFiles()),
        "reclaim_cpu_s": reclaim.cpu_s if reclaim else 0.0,
    }


def private_bytes(pid: int) -> int:
    """Return the memory that a process shares with no other; 0 if it has ended."""
    text = HostFiles().text(f"/proc/{pid}/smaps_rollup") or ""
    return sum(int(size) * 1024 for size in re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+) kB$", text, re.MULTILINE))


def page_in_series(samples: t.Sequence[t.Mapping[str, t.Any]], now: float) -> dict[str, t.Any] | None:
    """Return the page-ins of the host between the samples; None if this kernel does not count them.

    Args:
        samples: of the watch.
        now: the monotonic clock.

    Returns:
        C(age_s), how many seconds ago the first sample was read; C(interval_s); C(per_second), one rate for each
        interval.
    """
    counts, times = ([sample[name] for sample in samples] for name in ("page_ins", "clock_s"))
    if None in counts:
        return None
    steps = zip(counts, counts[1:], times, times[1:])
    rates = [round((after - before) / max(until - since, 1e-6), 1) for before, after, since, until in steps]
    return {"age_s": round(now - times[0], 3), "interval_s": INTERVAL_S, "per_second": rates}


def summary(samples: t.Sequence[t.Mapping[str, t.Any]], mechanism: str) -> dict[str, t.Any]:
    """Return the figures of a phase from its samples.

    Returns:
        C(samples), their number; C(charged_bytes), C(maximum) and C(mean), None if one sample is unknown; C(parts), the
        parts of the sum in the sample with the maximum; C(compression_ratio), stored over compressed bytes of all
        samples; C(client_bytes), the most; C(limit_bytes), the least and the most; C(limit_hits), how often a process
        of the fleet met the limit and reclaimed by itself, None if unknown or without a control group;
        C(reclaim_cpu_s), the CPU time of the reclaim in the background.
    """
    sums = [sample["charged_bytes"] for sample in samples]
    known = None not in sums
    worst = max(samples, key=lambda sample: sample["charged_bytes"]) if known else samples[-1]
    stored, compressed = (_total(samples, name) for name in ("stored_bytes", "compressed_bytes"))
    hits = [sample["limit_hits"] for sample in samples]
    limits = [sample["limit_bytes"] for sample in samples if sample["limit_bytes"] is not None]
    return {
        "samples": len(samples),
        "charged_bytes": {"maximum": max(sums), "mean": round(sum(sums) / len(sums))} if known else None,
        "parts": {name: worst[name] for name in PARTS[mechanism]},
        "compression_ratio": round(stored / compressed, 3) if stored and compressed else None,
        "client_bytes": max((sample.get("client_bytes", 0) for sample in samples), default=0),
        "limit_bytes": [min(limits), max(limits)] if limits else None,
        "limit_hits": hits[-1] - hits[0] if None not in hits else None,
        "reclaim_cpu_s": round(max(0.0, samples[-1]["reclaim_cpu_s"] - samples[0]["reclaim_cpu_s"]), 6),
    }


def _total(samples: t.Sequence[t.Mapping[str, t.Any]], name: str) -> int | None:
    values = [sample[name] for sample in samples]
    return None if None in values else sum(values)
