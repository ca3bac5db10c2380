# SPDX-License-Identifier: GPL-3.0-or-later
"""How samples are shared out among ages, and what is concluded from them."""

from __future__ import annotations

import errno
import mmap
import os
import random

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom import look
from ansible_collections.memstretch.density.plugins.module_utils.headroom.damon import DamonError, DamonInUse
from ansible_collections.memstretch.density.plugins.module_utils.headroom.lru_gen import LruGenError
from ansible_collections.memstretch.density.plugins.module_utils.headroom.sample import PageFiles, Sampled
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

HERE = Unit("here", "process", (os.getpid(),))


def page(number, frame, folio=None):
    return Sampled(1, number, frame, frame if folio is None else folio)


def test_each_page_is_watched_for_one_age():
    pages = [page(number, 100 + number) for number in range(30)]
    samples = look._assigned([pages], 3)

    assert [len(sample) for sample in samples] == [10, 10, 10]
    assert {each.page for sample in samples for each in sample} == set(pages)


def test_all_pages_of_a_folio_are_watched_for_the_same_age():
    huge = [page(number, 512 + number, folio=512) for number in range(20)]
    samples = look._assigned([huge[:10], huge[10:]], 4)

    assert sorted(len(sample) for sample in samples) == [0, 0, 0, 20]


def test_pages_of_one_folio_are_worth_one():
    separate = [look._Watched(0, page(number, number)) for number in range(100)]
    together = [look._Watched(0, page(number, number, folio=number // 10)) for number in range(100)]

    assert look._effective(separate) == {0: pytest.approx(100)}
    assert look._effective(together) == {0: pytest.approx(10)}


@pytest.mark.usefixtures("needs_root")
def test_what_became_of_a_page_counts():
    """Some pages of this process stay, and the others are freed: the freed ones say nothing."""
    with mmap.mmap(-1, 2**22, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        for place in range(0, len(area), mmap.PAGESIZE):
            area[place] = 1
        files = PageFiles()
        try:
            drawn = [each for each in files.draw(HERE, 3000, random.Random(1)).pages if each.frame == each.folio]
            sample = [look._Watched(0, each) for each in drawn]
            half = {each.frame for each in drawn[: len(drawn) // 2]}
            assert look._shares(sample, half, files, 2) == {0: pytest.approx(0.5, abs=0.05)}
            moved = [each._replace(page=each.page._replace(frame=each.page.frame + 1)) for each in sample]
            assert look._shares(moved, half, files, 1) == {}
            back = [each._replace(page=each.page._replace(frame=None, folio=None)) for each in sample]
            assert look._shares(back, set(), files, 1) == {0: 1.0}
        finally:
            files.close()


@pytest.mark.usefixtures("needs_root")
def test_without_measuring_nothing_is_claimed():
    found = look.Look(HostFiles(), [HERE], [1], 100).take(active=False)
    (unit,) = found["units"]

    assert found["method"] is None and found["reason"] == "active memory is not measured in check mode"
    assert unit["ages"] == [] and unit["reason"] == found["reason"] and unit["resident_bytes"] > 2**20


@pytest.fixture
def seen(tmp_path):
    """A function that returns the active bytes and the stretchable bytes of a unit, of which something was measured."""

    def seen(measured, **figures):
        process = tmp_path / "proc/5"
        process.mkdir(parents=True, exist_ok=True)
        (process / "status").write_text("".join(f"{name}:\t{size} kB\n" for name, size in figures.items()))
        unit = look.Look(HostFiles(str(tmp_path)), [Unit("web", "vm", (5,))], [10])._document(0, measured, None)
        return unit["ages"][0]["active_bytes"], unit["stretchable_bytes"]

    return seen


MIB = 2**20


def test_generations_have_nothing_of_what_is_locked(seen):
    """MGLRU has only memory that can be evicted, so what is locked is not taken off once more."""
    generations = look._Measured([], [{10: (10.0, 1024 * MIB)}], [], 0.0)
    assert seen(generations, RssAnon=4 * 2**20, VmLck=2**20) == (1024 * MIB, 3072 * MIB)


def test_shared_memory_in_swap_is_not_active(seen, tmp_path):
    """Half of the memory of a VM is in swap, where the sample sees none of it, and half of the rest is active."""
    (tmp_path / "proc/5").mkdir(parents=True)
    (tmp_path / "proc/5/maps").write_text("7f00-7f10 rw-s 00000000 00:01 12 /memfd:ram (deleted)\n")
    (tmp_path / "proc/5/smaps_rollup").write_text(f"Swap:  {2 * 2**20} kB\n")
    sampled = look._Measured([{10: look._Active(10.0, 0.5, 0.45, 0.55)}], [], [], 0.0)
    assert seen(sampled, RssShmem=2 * 2**20) == (1024 * MIB, 4096 * MIB)


class Kernel:
    """Stands for look.Damon: all pages count as accessed, and the kernel's thread takes so long for each check."""

    page_us = 0.0
    fails: str | None = None
    open = 0

    def __init__(self, ages):
        self._ages, self._frames, self.cpu_seconds = ages, {}, 0.0

    def __enter__(self):
        Kernel.open += 1
        return self

    def __exit__(self, *_error):
        Kernel.open -= 1

    def prepare(self, number, frames):
        assert frames == sorted(set(frames))
        self._frames[number] = set(frames)

    def seconds(self, passes):
        return max(age * times for age, times in zip(self._ages, passes))

    def watch(self, passes):
        if self.fails and len(passes) > 1:
            raise DamonError(self.fails)
        for number, times in enumerate(passes):
            for _pass in range(times):
                self.cpu_seconds += len(self._frames[number]) * self.page_us / 1e6
                yield number, float(self._ages[number]), self._frames[number]


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(look, "Damon", Kernel)
    monkeypatch.setattr(look, "refuse", lambda: None)
    monkeypatch.setattr(Kernel, "page_us", 0.0)
    monkeypatch.setattr(Kernel, "fails", None)
    return Kernel


@pytest.fixture
def memory():
    """16 MiB of this process, in DRAM."""
    with mmap.mmap(-1, 2**24, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        if os.path.isdir("/sys/kernel/mm/transparent_hugepage"):
            area.madvise(mmap.MADV_NOHUGEPAGE)
        for place in range(0, len(area), mmap.PAGESIZE):
            area[place] = 1
        yield area


def taken(ages, **options):
    return look.Look(HostFiles(), [HERE], ages, **options).take(methods=[look.DAMON])


@pytest.mark.usefixtures("needs_root", "memory")
def test_samples_are_as_large_as_wanted_where_a_trial_finds_them_cheap(kernel):
    found = taken([100, 3000], cpu_percent=100)
    cost, ages = found["cost"], found["units"][0]["ages"]

    assert found["reason"] is None and [age["seconds"] for age in ages] == [100, 3000]
    assert (cost["pages"], cost["wanted_cpu_percent"]) == (look.PAGES, None)
    size = found["units"][0]["stretchable_bytes"]
    assert all((age["high_bytes"] - age["low_bytes"]) / 2 / size <= 0.05 for age in ages)


@pytest.mark.usefixtures("needs_root", "memory")
def test_a_slow_kernel_gets_smaller_samples_and_the_look_says_what_more_would_take(kernel):
    """10 ms for each check: of 3,000 s, 2 % of a CPU and a fifth of that on average are 12 s, and the trial takes 5."""
    kernel.page_us = 10_000
    found = taken([1000, 3000], cpu_percent=2)
    cost, pages = found["cost"], found["cost"]["pages"]

    assert 100 < pages < 250 and 2 < cost["wanted_cpu_percent"] < 5
    assert 9 < cost["kernel_cpu_s"] < 12
    size = found["units"][0]["stretchable_bytes"]
    errors = [(age["high_bytes"] - age["low_bytes"]) / 2 / size for age in found["units"][0]["ages"]]
    assert min(errors) > 0


@pytest.mark.usefixtures("kernel")
def test_no_other_method_is_tried_where_somebody_else_uses_damon(monkeypatch):
    """It would age or evict the pages whose accesses that DAMON wants to see."""

    def refuse():
        raise DamonInUse("DAMON is in use")

    monkeypatch.setattr(look, "refuse", refuse)
    for method in ("LruGen", "Reclaim", "PageFiles"):
        monkeypatch.setattr(look, method, None)
    found = look.Look(HostFiles(), [HERE], [1]).take(probe=True)
    assert (found["method"], found["reason"]) == (None, "DAMON is in use")


@pytest.mark.usefixtures("kernel")
def test_a_kernel_that_does_not_tell_where_pages_are_leaves_the_other_methods(monkeypatch):
    """Without CONFIG_PROC_PAGE_MONITOR, or with a security module that refuses the file."""

    def missing(root):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/proc/kpageflags")

    class Generations:
        def __init__(self, files, units, probe):
            raise LruGenError("MGLRU is off")

    monkeypatch.setattr(look, "PageFiles", missing)
    monkeypatch.setattr(look, "LruGen", Generations)
    reasons = look.Look(HostFiles(), [HERE], [1]).take()["reason"].split("; ")
    assert "/proc/kpageflags" in reasons[0] and reasons[1:] == [
        "MGLRU is off",
        "a trial that evicts a little needs headroom_probe: true",
    ]


@pytest.mark.usefixtures("needs_root", "memory")
def test_a_look_that_fails_after_its_trial_leaves_nothing_on(kernel):
    kernel.fails = "the kernel refused DAMON (on): Device or resource busy"
    found = taken([1, 3])

    assert found["method"] is None and found["reason"] == kernel.fails and kernel.open == 0
    assert found["cost"]["pages"] is None and found["units"][0]["ages"] == []


@pytest.mark.usefixtures("needs_root", "kernel", "memory")
@pytest.mark.parametrize("is_zombie", [False, True])
def test_a_unit_that_ends_before_the_look_is_named_and_the_others_are_seen(is_zombie):
    started = os.fork()
    if not started:
        os._exit(0)
    gone = Unit("gone", "process", (started,))
    seen = look.Look(HostFiles(), [gone, HERE], [1, 3], cpu_percent=100)
    os.waitid(os.P_PID, started, os.WEXITED | os.WNOWAIT * is_zombie)
    ended, here = seen.take(methods=[look.DAMON])["units"]
    if is_zombie:
        os.waitpid(started, 0)

    assert (ended["ages"], ended["reason"]) == ([], look.ENDED)
    assert len(here["ages"]) == 2 and here["reason"] is None
