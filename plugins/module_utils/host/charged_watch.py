# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watch the charged DRAM and the page-ins of a host while a phase is measured: a process reads them every second.

The same process reclaims memory of the budget's control group in the background.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.background import detach, is_running
from ansible_collections.memstretch.density.plugins.module_utils.host.charged import PARTS, ChargedDram
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import CgroupFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, private_directory
from ansible_collections.memstretch.density.plugins.module_utils.host.group_reclaim import GroupReclaim
from ansible_collections.memstretch.density.plugins.module_utils.host.pressure import page_ins

INTERVAL_S = 1.0
# All processes are looked through for the clients, so rarely: in the second sample, then in every tenth.
_CLIENTS_FIRST, _CLIENTS_EVERY = 1, 10


class WatchError(Exception):
    """The samples of a watch cannot be used; the message says why."""


def begin(charged: ChargedDram, group: CgroupFiles | None, longest_s: float) -> dict[str, t.Any]:
    """Watch the charged DRAM in the background until the file of the samples is removed, for at most C(longest_s).

    Args:
        charged: reads it.
        group: the control group of the budget, whose memory is reclaimed in the background meanwhile.
        longest_s: the watch ends by itself, and removes the file, after this many seconds.

    Returns:
        C(path) of the file, and C(pid) of the process.
    """
    # Not in /tmp, where others could guess the name.
    descriptor, path = tempfile.mkstemp(prefix="charged-", suffix=".samples", dir=private_directory())
    _write(descriptor, _sample(charged, group, None))  # so that even the shortest phase has one
    pid = detach(lambda: _watch(charged, group, descriptor, path, longest_s))
    os.close(descriptor)
    return {"path": path, "pid": pid}


def _watch(charged: ChargedDram, group: CgroupFiles | None, descriptor: int, path: str, longest_s: float) -> None:
    reclaim = GroupReclaim(group) if group else None
    if reclaim:
        reclaim.start()
    try:
        _write_samples(charged, group, reclaim, descriptor, longest_s)
        with contextlib.suppress(FileNotFoundError):  # nobody has ended the watch
            os.unlink(path)
    finally:
        if reclaim:
            reclaim.stop()  # not while the limit is lowered


def _write_samples(
    charged: ChargedDram, group: CgroupFiles | None, reclaim: GroupReclaim | None, descriptor: int, longest_s: float
) -> None:
    due = time.monotonic()
    end = due + longest_s
    for number in range(1, 1 << 62):
        due += INTERVAL_S
        time.sleep(max(0.0, due - time.monotonic()))
        if time.monotonic() > end or not os.fstat(descriptor).st_nlink:
            return
        sample = _sample(charged, group, reclaim)
        if number % _CLIENTS_EVERY == _CLIENTS_FIRST:
            sample["client_bytes"] = charged.client_bytes()
        _write(descriptor, sample)


def _sample(charged: ChargedDram, group: CgroupFiles | None, reclaim: GroupReclaim | None) -> dict[str, t.Any]:
    sample: dict[str, t.Any] = dict(charged.read())
    if group:
        with group.locked():  # the reclaim lowers the limit for a moment
            sample["limit_bytes"] = group.limit()
    return {
        **sample,
        "limit_hits": group.limit_hits() if group else None,
        "clock_s": round(time.monotonic(), 6),
        "page_ins": page_ins(HostFiles()),
        "reclaim_cpu_s": reclaim.cpu_s if reclaim else 0.0,
    }


def _write(descriptor: int, sample: t.Mapping[str, t.Any]) -> None:
    # One write for one line, so that a reader sees whole lines only.
    os.write(descriptor, (json.dumps(sample) + "\n").encode())


def end(job: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """End a watch and return its samples.

    Raises:
        WatchError: there are none, or the watch has ended before.
    """
    path = job["path"]
    name = os.path.basename(path)
    if os.path.dirname(path) != private_directory() or not re.match(r"^charged-\w+\.samples$", name):
        raise WatchError(f"job.path: {path} is not the file of a watch")
    has_watched = is_running(job["pid"])  # to the end
    try:
        with open(path, encoding="ascii") as file:
            lines = file.read().splitlines()
        os.unlink(path)
    except OSError as error:
        ended = "" if has_watched else f"; the process {job['pid']} that watched it has ended: see the option longest"
        raise WatchError(f"the samples of the charged DRAM cannot be read: {error}{ended}") from error
    if not lines or not has_watched:
        raise WatchError(
            f"the process {job['pid']} that watched the charged DRAM has ended before the phase did, after "
            f"{len(lines)} samples; was it killed?"
        )
    return [json.loads(line) for line in lines]


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
        "reclaim_cpu_s": round(samples[-1]["reclaim_cpu_s"], 6),
    }


def _total(samples: t.Sequence[t.Mapping[str, t.Any]], name: str) -> int | None:
    values = [sample[name] for sample in samples]
    return None if None in values else sum(values)
