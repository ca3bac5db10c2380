# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that headroom_watch installs: is the memory of this host still safe?

It stands alone, with nothing but Python 3.8's standard library. C(write FILE) adds the last minute to the state, which
has the counters of a day, and writes metrics for the textfile collector of node_exporter. C(check) prints one line and
ends with the status of a check of Nagios: 0 is safe, 1 near, 2 over, 3 unknown. What the day says, history.py reads.

What counts is the time in which tasks waited for memory (PSI), page-ins, and refaults: pages that come back soon after
they were evicted. How much swap is used says nothing: with zram it is meant to be used.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import typing as t

STATE = "/run/memstretch-headroom.json"
# Percent of the last minute, as in the verdict of the playbook headroom.yml.
NEAR_PRESSURE, OVER_PRESSURE = 1.0, 10.0
# A minute with more page-ins than this waits at least 3 % of it for a tier that takes 30 us.
NEAR_PAGE_INS = 1000.0
# Metrics that are older than this many seconds are not those of the present.
OLD = 180.0
COUNTERS = ("pswpin", "zswpin", "pgmajfault", "workingset_refault_anon", "workingset_refault_file")
VERDICTS = ("safe", "near", "over", "unknown")
# The moments of so many seconds are kept, and at most so many of them: one a minute, and those of a hand.
KEPT_S = 86_400.0
MOST_MOMENTS = 1500

METRICS = {
    "memstretch_headroom_verdict": "1 for the verdict on the memory of this host.",
    "memstretch_headroom_written_timestamp_seconds": "When this file was written.",
    "memstretch_headroom_memory_waiting_ratio": "Part of the last minute in which tasks waited for memory.",
    "memstretch_headroom_page_ins_per_second": "Page-ins from swap, zram and zswap since the last time.",
    "memstretch_headroom_refaults_per_second": "Pages each second that came back soon after they were evicted.",
    "memstretch_headroom_major_faults_per_second": "Page faults each second that waited for a page.",
    "memstretch_headroom_dram_bytes": "DRAM of this host.",
    "memstretch_headroom_available_bytes": "Memory that programs can still get without swapping.",
    "memstretch_headroom_tier_bytes": "Size of a swap area.",
    "memstretch_headroom_tier_used_bytes": "The part of it that is used.",
    "memstretch_headroom_compression_ratio": "How well zram compresses.",
}

Sample = t.Tuple[str, t.Dict[str, str], float]
_MOVED = (("pswpin", "zswpin", "swpin_zero"), ("pswpout", "zswpout", "swpout_zero"))
_REFAULTS = ("workingset_refault_anon", "workingset_refault_file")


def text(path: str, root: str) -> str:
    """Return the text of a file; empty if this kernel does not have it."""
    try:
        with open(os.path.join(root, path.lstrip("/")), encoding="utf-8", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        if error.errno == 95:  # EOPNOTSUPP: pressure is not measured
            return ""
        raise


def counters(root: str) -> dict[str, int]:
    """Return the counters of the kernel, each only if this kernel has it."""
    found = _vmstat(root)
    return {name: int(found[name]) for name in COUNTERS if name in found}


def _vmstat(root: str) -> dict[str, str]:
    words = text("/proc/vmstat", root).split()
    return dict(zip(words[::2], words[1::2]))


class Moment(t.NamedTuple):
    """What is counted at one time.

    Attributes:
        at: seconds since the epoch.
        counts: since the boot: microseconds in which some task waited for memory, pages that came back from swap, zram
            and zswap, pages that went there, and refaults. None is not counted by this kernel.
    """

    at: float
    counts: t.Sequence[int | None]


def moment(root: str, now: float) -> Moment:
    """Return what is counted now."""
    found = _vmstat(root)
    waited = re.search(r"^some .*total=(\d+)", text("/proc/pressure/memory", root), re.MULTILINE)
    counts = [int(waited[1]) if waited else None]
    for names in (*_MOVED, _REFAULTS):
        known = [int(found[name]) for name in names if name in found]
        counts.append(sum(known) if known else None)
    return Moment(now, counts)


def kept_moments(state: t.Mapping[str, t.Any]) -> list[Moment]:
    """Return the moments in the state, the earliest first."""
    return [Moment(*each) for each in state.get("history", [])]


def remembered(history: t.Sequence[Moment], present: Moment) -> list[Moment]:
    """Return the moments that are kept, with the present one as the last.

    Nothing is kept from before counters that have begun again, or from a time that is not before the present one.
    """
    before = [each for each in history if present.at - KEPT_S <= each.at < present.at]
    if before and any(
        old is not None and (new is None or new < old) for old, new in zip(before[-1].counts, present.counts)
    ):
        before = []
    return [*before, present][-MOST_MOMENTS:]


def pressure(root: str) -> dict[str, float]:
    """Return the percentages of the last minute in which some task, and all tasks, waited for memory."""
    lines = re.findall(r"^(some|full) .*avg60=([\d.]+)", text("/proc/pressure/memory", root), re.MULTILINE)
    return {share: float(value) for share, value in lines}


def rates(before: t.Mapping[str, t.Any], now: float, present: t.Mapping[str, int]) -> dict[str, float]:
    """Return how often each counter counted each second since the last time; nothing after a boot or a long pause."""
    seconds = now - float(before.get("at", 0))
    earlier = before.get("counters", {})
    if not 0 < seconds < OLD or any(value < earlier.get(name, 0) for name, value in present.items()):
        return {}
    return {name: (value - earlier[name]) / seconds for name, value in present.items() if name in earlier}


def verdict(waiting: t.Mapping[str, float], each_second: t.Mapping[str, float]) -> tuple[str, str]:
    """Return the verdict on the last minute, and its reason."""
    some = waiting.get("some")
    if some is None:
        return "unknown", "this kernel does not measure memory pressure (CONFIG_PSI, psi=1)"
    page_ins = page_ins_of(each_second)
    cause = f"some task waited for memory in {some:g} % of the last minute"
    cause += "" if page_ins is None else f", {page_ins:,.0f} page-ins/s"
    if some >= OVER_PRESSURE:
        return "over", cause
    if some >= NEAR_PRESSURE or (page_ins or 0) >= NEAR_PAGE_INS:
        return "near", cause
    return "safe", cause


def page_ins_of(each_second: t.Mapping[str, float]) -> float | None:
    known = [each_second[name] for name in ("pswpin", "zswpin") if name in each_second]
    return sum(known) if known else None


def samples(root: str, now: float, each_second: t.Mapping[str, float]) -> t.Iterator[Sample]:
    """Return all that is known. What is not known has no sample."""
    waiting = pressure(root)
    name, _reason = verdict(waiting, each_second)
    for each in VERDICTS:
        yield "memstretch_headroom_verdict", {"verdict": each}, float(each == name)
    yield "memstretch_headroom_written_timestamp_seconds", {}, now
    for share, value in sorted(waiting.items()):
        yield "memstretch_headroom_memory_waiting_ratio", {"tasks": share}, value / 100
    page_ins = page_ins_of(each_second)
    if page_ins is not None:
        yield "memstretch_headroom_page_ins_per_second", {}, page_ins
    for kind in ("anon", "file"):
        if f"workingset_refault_{kind}" in each_second:
            refaults = each_second[f"workingset_refault_{kind}"]
            yield "memstretch_headroom_refaults_per_second", {"pages": kind}, refaults
    if "pgmajfault" in each_second:
        yield "memstretch_headroom_major_faults_per_second", {}, each_second["pgmajfault"]
    info = dict(re.findall(r"^(\w+):\s+(\d+) kB$", text("/proc/meminfo", root), re.MULTILINE))
    for metric, field in (("dram", "MemTotal"), ("available", "MemAvailable")):
        if field in info:
            yield f"memstretch_headroom_{metric}_bytes", {}, int(info[field]) * 1024.0
    for line in text("/proc/swaps", root).splitlines()[1:]:
        area, _kind, size, used, _priority = line.split()
        yield "memstretch_headroom_tier_bytes", {"area": area}, int(size) * 1024.0
        yield "memstretch_headroom_tier_used_bytes", {"area": area}, int(used) * 1024.0
    yield from compression(root)


def compression(root: str) -> t.Iterator[Sample]:
    """Return how well the zram devices with swap compress, if they hold something."""
    names = re.findall(r"^/dev/(zram\d+) ", text("/proc/swaps", root), re.MULTILINE)
    figures = [text(f"/sys/block/{name}/mm_stat", root).split() for name in names]
    stored = sum(int(each[0]) for each in figures if len(each) > 2)
    used = sum(int(each[2]) for each in figures if len(each) > 2)
    if used:
        yield "memstretch_headroom_compression_ratio", {}, stored / used


def exposition(found: t.Iterable[Sample]) -> str:
    """Return samples in the text format. The textfile collector refuses samples with a time; one metric has it."""
    by_name: dict[str, list[str]] = {}
    for name, labels, value in found:
        escaped = {key: re.sub(r'(["\\])', r"\\\1", each).replace("\n", "\\n") for key, each in labels.items()}
        inner = ",".join(f'{key}="{each}"' for key, each in escaped.items())
        by_name.setdefault(name, []).append(f"{name}{{{inner}}} {value:.10g}" if inner else f"{name} {value:.13g}")
    lines = []
    for name, samples_of in by_name.items():
        lines += [f"# HELP {name} {METRICS[name]}", f"# TYPE {name} gauge", *samples_of]
    return "\n".join([*lines, "# EOF", ""])


def replace(path: str, content: str) -> None:
    """Write a file so that nobody sees half of it.

    The directory may be that of another user, such as node_exporter's: a link there must not lead root to another file.
    """
    new = f"{path}.new"
    if os.path.lexists(new):
        os.unlink(new)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
        os.fchmod(file.fileno(), 0o644)
    os.replace(new, path)


def write(path: str, root: str, state: str, now: float) -> None:
    """Write the metrics, and keep the counters for the next time and for a day."""
    present = counters(root)
    try:
        with open(state, encoding="utf-8") as file:
            before = json.load(file)
    except (FileNotFoundError, ValueError):  # the first time since the boot, or half a file after a crash
        before = {}
    each_second = rates(before, now, present)
    replace(path, exposition(samples(root, now, each_second)))
    history = remembered(kept_moments(before), moment(root, now))
    replace(state, json.dumps({"at": now, "counters": present, "rates": each_second, "history": history}))


def check(root: str, state: str, now: float) -> int:
    """Print the verdict for people and for a check of Nagios, and return its status."""
    try:
        with open(state, encoding="utf-8") as file:
            kept = json.load(file)
        fresh = now - kept["at"] < OLD
    except (FileNotFoundError, ValueError, KeyError):
        kept, fresh = {}, False
    name, reason = verdict(pressure(root), kept.get("rates", {}) if fresh else {})
    if not fresh and name == "safe":
        name, reason = "unknown", "the timer memstretch-headroom.timer has not run for three minutes"
    sys.stdout.write(f"MEMORY {name.upper()}: {reason}\n")
    return VERDICTS.index(name)


def main(arguments: t.Sequence[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "write":
        write(arguments[1], "/", STATE, time.time())
        return 0
    if list(arguments) == ["check"]:
        return check("/", STATE, time.time())
    sys.stderr.write("usage: memstretch-headroom check | write FILE\n")
    return 3


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
