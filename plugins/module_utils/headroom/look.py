# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at a host: its units, and how much of their memory was accessed within each age."""

from __future__ import annotations

import math
import random
import resource
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.headroom import host, sizing
from ansible_collections.memstretch.density.plugins.module_utils.headroom.damon import (
    MOST_REGIONS,
    Damon,
    DamonError,
    DamonInUse,
    refuse,
)
from ansible_collections.memstretch.density.plugins.module_utils.headroom.lru_gen import LruGen, LruGenError
from ansible_collections.memstretch.density.plugins.module_utils.headroom.reclaim import Reclaim, ReclaimError
from ansible_collections.memstretch.density.plugins.module_utils.headroom.sample import PageFiles, Sampled
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.options import Range, Ranges

RANGES: Ranges = {
    "ages": Range(int, 1, 3600, "seconds"),
    "pages": Range(int, 50, 20_000, "pages"),
    "cpu_percent": Range(float, 0.1, 100, "percent"),
}
AGES = (1, 3, 10, 30, 60, 180, 300)
MOST_AGES = 12
# By default, the pages that the error of sizing.ERROR needs (385), and more, since some move or share a huge page.
PAGES, CPU_PERCENT = 500, 5.0
# So many pages of a unit are watched whatever they cost.
_LEAST_PAGES = 10
# What a page costs is measured with so many of all units together, in a look of so many seconds.
_TRIED_PAGES, _TRIAL_S = 500, 1
# So many trials at most, and no further one after one that took so many CPU seconds.
_TRIALS, _CHEAP_S = 3, 0.5
# To read that a page was accessed takes one file, and to set it up two. In the trial few may be accessed.
_READING = 0.5
# Short ages are looked at several times, and the mean counts.
_MOST_PASSES = 3

# The methods, in the order in which they are tried: whatever works counts, not the version of the kernel.
METHODS = (DAMON, MGLRU, RECLAIM) = ("damon", "mglru", "reclaim")

# The reason of a unit of which the controller takes no part of the host any more.
ENDED = "it has ended during the look"

# For each pass, how long it took, and the shares of the pages of each unit that were accessed.
_Passes = t.List[t.Tuple[float, t.Dict[int, float]]]


class _Watched(t.NamedTuple):
    """A page of the sample of an age."""

    unit: int
    page: Sampled


class _Active(t.NamedTuple):
    """The active share of a unit's memory that could be evicted, with its interval, and the seconds it was watched."""

    took: float
    share: float
    low: float
    high: float


class _Measured(t.NamedTuple):
    """What a method found.

    Attributes:
        shares: for each unit and age.
        bytes: instead, from methods that count all pages, the seconds and the active bytes, without what is locked;
            both ends of the interval are then the figure.
        pinned: the share of each unit's sampled pages that are locked.
        kernel_cpu_s: the CPU time of the kernel's own threads.
        plan: how large the samples are; None if all pages were counted.
    """

    shares: list[dict[int, _Active]]
    bytes: list[dict[int, tuple[float, int]]]
    pinned: list[float]
    kernel_cpu_s: float
    plan: sizing.Plan | None = None


class Look:
    """Reads the units of a host at one time.

    Args:
        units: whose memory is looked at.
        ages: in seconds, increasing.
        pages: how many pages of each unit are watched for each age, at most.
        cpu_percent: of one CPU while the look lasts, and a fifth of it averaged over half an hour. There are fewer
            pages where so many would cost more.
    """

    def __init__(
        self,
        files: HostFiles,
        units: t.Sequence[Unit],
        ages: t.Sequence[int],
        pages: int = PAGES,
        cpu_percent: float = CPU_PERCENT,
    ) -> None:
        self._files, self._units, self._ages = files, units, ages
        self._pages = max(1, min(pages, MOST_REGIONS // max(1, len(units))))
        self._passes = [max(1, min(_MOST_PASSES, ages[-1] // age)) for age in ages]
        self._cpu_percent = cpu_percent
        self._memory = [host.unit_memory(files, unit) for unit in units]

    def take(self, active: bool = True, probe: bool = False, methods: t.Sequence[str] = METHODS) -> dict[str, t.Any]:
        """Return the result of the look.

        Args:
            active: whether active memory is measured, which changes settings of the kernel while it lasts.
            probe: whether MGLRU may be switched on, and memory evicted for a trial.
            methods: those that are tried.
        """
        before, cpu = host.moment(self._files), time.process_time()
        method: str | None = None
        measured = _Measured([], [], [], 0.0)
        reason: str | None = None if active else "active memory is not measured in check mode"
        if active and self._units:
            method, measured, reason = self._try(probe, methods)
        after = host.moment(self._files)
        if after.at - before.at < 1:  # too short for rates
            time.sleep(1)
            after = host.moment(self._files)
        return {
            "taken_at": round(before.at, 3),
            "method": method,
            "reason": reason,
            "host": {**host.memory(self._files), "rates": host.rates(before, after, self._files)},
            "units": [self._document(number, measured, reason) for number in range(len(self._units))],
            "cost": {
                "cpu_s": round(time.process_time() - cpu, 3),
                "kernel_cpu_s": round(measured.kernel_cpu_s, 3),
                "seconds": round(after.at - before.at, 3),
                "pages": measured.plan.pages if measured.plan else None,
                "wanted_cpu_percent": _rounded_up(measured.plan.wanted_cpu_percent) if measured.plan else None,
            },
        }

    def _try(self, probe: bool, methods: t.Sequence[str]) -> tuple[str | None, _Measured, str | None]:
        """Return the first method that works and what it measured, or else why none does."""
        reasons = []
        for method in methods:
            try:
                if method == DAMON:
                    return method, self._by_damon(), None
                if method == MGLRU:
                    return method, self._by_mglru(probe), None
                if probe:
                    return method, self._by_reclaim(), None
                reasons.append("a trial that evicts a little needs headroom_probe: true")
            except DamonInUse as error:
                return None, _Measured([], [], [], 0.0), str(error)  # the other methods would disturb it
            except (DamonError, LruGenError, ReclaimError, OSError) as error:
                reasons.append(str(error))
        return None, _Measured([], [], [], 0.0), "; ".join(reasons)

    def _by_mglru(self, probe: bool) -> _Measured:
        with LruGen(self._files, self._units, probe) as generations:
            return _Measured([], generations.watch(self._ages), [], 0.0)

    def _by_reclaim(self) -> _Measured:
        with Reclaim(self._files, self._units) as trial:
            resident = trial.watch(self._ages)
        # What is locked stays resident; the generations of MGLRU do not have it.
        active = [
            {age: (took, max(0, size - memory["locked"])) for age, (took, size) in of_unit.items()}
            for of_unit, memory in zip(resident, self._memory)
        ]
        return _Measured([], active, [], 0.0)

    def _by_damon(self) -> _Measured:
        refuse()  # before anything else, since the other methods would disturb somebody else's DAMON
        # A file is held open for each process.
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
        page_files = PageFiles(self._files.root)
        try:
            if not page_files.sees_frames():
                raise DamonError("the kernel does not show page frames to this user; set become: true")
            cost, spent, kernel_s = self._tried(page_files)
            with Damon(self._ages) as damon:
                plan = sizing.plan(
                    cost,
                    len(self._units),
                    self._passes,
                    damon.seconds(self._passes),
                    self._cpu_percent,
                    min(_LEAST_PAGES, self._pages),
                    self._pages,
                    spent,
                )
                source = random.Random(0)
                drawn = [page_files.draw(unit, plan.pages * len(self._ages), source) for unit in self._units]
                samples = _assigned([each.pages for each in drawn], len(self._ages))
                shares, cpu = self._watch(damon, page_files, samples)
        finally:
            page_files.close()
        pinned = [each.pinned / max(1, len(each.pages) + each.pinned + each.hidden) for each in drawn]
        worth = [_effective(sample) for sample in samples]
        means = [self._means(number, worth, shares) for number in range(len(drawn))]
        return _Measured(means, [], pinned, kernel_s + cpu, plan)

    def _tried(self, page_files: PageFiles) -> tuple[sizing.Cost, float, float]:
        """Try what a look costs, and return what C(_trial) does. A cheap trial is repeated, and the least counts.

        The first one finds cold caches, where a page may cost several times as much as in the look.
        """
        trials = [self._trial(page_files)]
        while len(trials) < _TRIALS and trials[-1][1] < _CHEAP_S:
            trials.append(self._trial(page_files))
        costs, spent, kernel_s = zip(*trials)
        return sizing.Cost(*(min(each) for each in zip(*costs))), math.fsum(spent), math.fsum(kernel_s)

    def _trial(self, page_files: PageFiles) -> tuple[sizing.Cost, float, float]:
        """Look for a second at a few pages of each unit.

        Returns:
            What a look costs, and the CPU seconds that the trial took: all of them, and those of the kernel's thread.
        """
        count, source = -(-_TRIED_PAGES // len(self._units)), random.Random(1)
        began, lap = time.process_time(), _laps()
        for unit in self._units:
            page_files.draw(unit, 1, source)  # the first one of a unit opens files, which stay open
        lap()
        for unit in self._units:
            page_files.draw(unit, 0, source)
        listing = lap()
        (sample,) = _assigned([page_files.draw(unit, count, source).pages for unit in self._units], 1)
        finding = max(0.0, lap() - listing)
        with Damon([_TRIAL_S]) as damon:
            lap()
            frames = _one_for_each_folio(sample)
            damon.prepare(0, sorted(frames))
            setting = lap()
            ((_number, _took, accessed),) = damon.watch([1])
            lap()
            _shares(sample, {frames[frame] for frame in accessed & frames.keys()}, page_files, len(self._units))
            counting, kernel_s = lap(), damon.cpu_seconds
        removing, tried = lap(), max(1, len(sample))
        cost = sizing.Cost(
            unit_s=listing / len(self._units),
            page_s=(finding + setting + removing) / tried,
            check_s=(kernel_s + counting + _READING * setting) / tried,
        )
        return cost, time.process_time() - began + kernel_s, kernel_s

    def _means(
        self, number: int, worth: t.Sequence[t.Mapping[int, float]], shares: t.Sequence[_Passes]
    ) -> dict[int, _Active]:
        """Return what was seen of a unit at each age."""
        found = {}
        for position, age in enumerate(self._ages):
            known = [(took, each[number]) for took, each in shares[position] if number in each]
            if known:
                took, share = (sum(figures) / len(known) for figures in zip(*known))
                found[age] = _Active(took, share, *sizing.interval(share, worth[position][number]))
        return found

    def _watch(
        self, damon: Damon, page_files: PageFiles, samples: t.Sequence[t.Sequence[_Watched]]
    ) -> tuple[list[_Passes], float]:
        """Watch all ages at the same time."""
        frames = [_one_for_each_folio(sample) for sample in samples]
        for number, of_age in enumerate(frames):
            damon.prepare(number, sorted(of_age))
        shares: list[_Passes] = [[] for _age in self._ages]
        for number, took, accessed in damon.watch(self._passes):
            folios = {frames[number][frame] for frame in accessed if frame in frames[number]}
            shares[number].append((took, _shares(samples[number], folios, page_files, len(self._units))))
        return shares, damon.cpu_seconds

    def _document(self, number: int, measured: _Measured, reason: str | None) -> dict[str, t.Any]:
        unit, memory = self._units[number], self._memory[number]
        owned = memory["resident"] + memory["swapped"]
        locked = memory["locked"]
        if measured.pinned:
            locked = max(locked, int(owned * measured.pinned[number]))
        stretchable = owned - locked
        figures: dict[int, tuple[float, ...]] = {}
        if measured.shares:
            # Shared memory in swap is in no page table, so the sample has none of it; and it was not accessed.
            sampled = max(0, stretchable - memory["shared_swapped"])
            figures = {
                age: (each.took, *(share * sampled for share in each[1:]))
                for age, each in measured.shares[number].items()
            }
        elif measured.bytes:
            figures = {
                age: (took, *(min(stretchable, size),) * 3) for age, (took, size) in measured.bytes[number].items()
            }
        ages = [
            {
                "seconds": age,
                "watched_s": round(took, 3),
                "active_bytes": round(active),
                "low_bytes": round(low),
                "high_bytes": round(high),
            }
            for age, (took, active, low, high) in sorted(figures.items())
        ]
        # Until its parent has read its status, a process that has ended has a directory, but no memory.
        alive = any(self._files.raw(f"/proc/{pid}/maps", 1) for pid in unit.pids)
        gone = None if alive else ENDED
        return {
            "name": unit.name,
            "kind": unit.kind,
            "given_bytes": unit.given_bytes,
            "balloon_bytes": unit.balloon_bytes,
            "resident_bytes": memory["resident"],
            "swapped_bytes": memory["swapped"],
            "pinned_bytes": locked + memory["hugetlb"],
            "stretchable_bytes": stretchable,
            "ages": ages,
            "reason": gone or reason or (None if ages else "it has no memory that could be sampled"),
        }


def _laps() -> t.Callable[[], float]:
    """Return a function that returns the CPU seconds of this process since its last call."""
    last = time.process_time()

    def lap() -> float:
        nonlocal last
        before, last = last, time.process_time()
        return last - before

    return lap


def _rounded_up(percent: float | None) -> float | None:
    """Return a share of a CPU in tenths of a percent; the look must get at least that."""
    return None if percent is None else math.ceil(10 * percent) / 10


def _assigned(pages: t.Sequence[t.Sequence[Sampled]], ages: int) -> list[list[_Watched]]:
    """Return a sample for each age. All pages of a folio are in the same one: the kernel keeps one trace for them."""
    found: list[list[_Watched]] = [[] for _age in range(ages)]
    age_of: dict[int, int] = {}
    for unit, of_unit in enumerate(pages):
        for position, page in enumerate(of_unit):
            age = position % ages
            if page.folio is not None:
                age = age_of.setdefault(page.folio, age)
            found[age].append(_Watched(unit, page))
    return found


def _one_for_each_folio(sample: t.Sequence[_Watched]) -> dict[int, int]:
    """Return the frames to watch, with the folio of each."""
    folios = {page.folio: page.frame for _unit, page in sample if page.folio is not None and page.frame is not None}
    return {frame: folio for folio, frame in folios.items()}


def _shares(sample: t.Sequence[_Watched], accessed: set[int], page_files: PageFiles, units: int) -> dict[int, float]:
    """Return, for each unit, the share of its sampled pages that were accessed.

    A page that was swapped and is back was accessed, and one that is swapped now was not. A page that no longer exists,
    or that the kernel has moved to another frame, says nothing.

    Args:
        accessed: the folios that were accessed.
    """
    counted, active = [0] * units, [0] * units
    for unit, page in sample:
        exists, frame = page_files.frame_of(page)
        if not exists or (page.frame is not None and frame not in (None, page.frame)):
            continue
        counted[unit] += 1
        if page.frame is None:
            active[unit] += frame is not None
        elif frame is not None:
            active[unit] += page.folio in accessed
    return {unit: active[unit] / count for unit, count in enumerate(counted) if count}


def _effective(sample: t.Sequence[_Watched]) -> dict[int, float]:
    """Return, for each unit, how many independent pages its sample is worth: those of one folio are not independent."""
    weights: dict[int, dict[t.Any, int]] = {}
    for unit, page in sample:
        key = page.folio if page.folio is not None else (page.pid, page.number)
        of_unit = weights.setdefault(unit, {})
        of_unit[key] = of_unit.get(key, 0) + 1
    return {
        unit: sum(each.values()) ** 2 / sum(weight**2 for weight in each.values()) for unit, each in weights.items()
    }
