# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a figure of membw believable, each with a measurement that would be wrong otherwise."""

from __future__ import annotations

import os
import statistics

import pytest

SHORT = ("--seconds", 0.2)
CPUS = sorted(os.sched_getaffinity(0))


def bytes_per_cpu_second(result):
    """On a machine that others use as well the CPU's time is what a reader really had."""
    return result["bytes"] / (result["seconds"] * result["cpu_share"])


def medians(*measurements, repetitions=5):
    """Return the median of each, measured in turn."""
    rounds = [[each() for each in measurements] for dummy in range(repetitions)]
    return [statistics.median(column) for column in zip(*rounds)]


@pytest.mark.parametrize("pattern", ["all", "line", "chase"])
def test_touches_no_new_page_while_it_measures(membw, pattern):
    assert membw.measure(*SHORT, "--pattern", pattern)["page_faults"] == 0


@pytest.mark.parametrize("pattern", ["all", "line"])
def test_no_compiler_drops_the_reads(optimised, pattern):
    """Reads of memory cannot be faster than those of the cache next to the processor; reads that were dropped are."""

    def of(*arguments):
        return lambda: bytes_per_cpu_second(optimised.measure(*SHORT, "--pattern", pattern, *arguments))

    memory, cache = medians(of(), of("--buffer", 1 << 20, "--allow-cached"))
    assert memory < cache
    # 64 bytes in each cycle of a processor of 5 GHz is more than one load port brings.
    assert cache < 64 * 5e9 * (8 if pattern == "line" else 1)


def test_a_chase_waits_for_every_step(optimised):
    """A step through memory costs several times one through the cache; both cost more than nothing."""

    def of(*arguments):
        return lambda: 64e9 / bytes_per_cpu_second(optimised.measure(*SHORT, "--pattern", "chase", *arguments))

    memory, cache = medians(of(), of("--buffer", 1 << 20, "--allow-cached"), repetitions=3)
    assert memory > 2 * cache
    assert cache > 0.5


def test_the_cache_does_not_answer(membw):
    """Four times the buffer, so a quarter of what the cache could hold of it, gives the same figure."""
    needed = membw.measure(*SHORT)["buffer_bytes"]

    def of(factor):
        return lambda: bytes_per_cpu_second(membw.measure(*SHORT, "--buffer", needed * factor))

    once, four_times = medians(of(1), of(4))
    assert once == pytest.approx(four_times, rel=0.2)


def test_refuses_a_buffer_that_the_cache_holds(membw):
    cache = membw.measure(*SHORT)["cache_bytes"]
    if not cache:
        pytest.skip("this kernel does not tell the sizes of caches")
    done = membw.run("--buffer", 16 * cache - 1)
    assert done.returncode == 2
    assert f"--buffer: {16 * cache - 1} is too small" in done.stderr and str(16 * cache) in done.stderr
    assert done.stdout == ""


def test_huge_pages_are_used_when_asked_for(membw):
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as stream:
        if "[never]" in stream.read():
            pytest.skip("this kernel gives no transparent huge pages")
    assert membw.measure(*SHORT)["huge_bytes"] == 0
    huge = membw.measure(*SHORT, "--huge-pages", "transparent")
    assert huge["huge_bytes"] > 0.9 * huge["buffer_bytes"]


def test_says_when_there_are_no_reserved_huge_pages(membw):
    with open("/proc/sys/vm/nr_hugepages", encoding="ascii") as stream:
        if int(stream.read()) > 0:
            pytest.skip("this machine has reserved huge pages")
    done = membw.run("--huge-pages", "reserved")
    assert done.returncode == 3 and "vm.nr_hugepages" in done.stderr


def test_readers_work_at_the_same_time_on_their_own_cpus(membw):
    result = membw.measure("--cpus", ",".join(map(str, CPUS)), *SHORT)
    assert result["cpus"] == CPUS
    assert result["overlap"] > 0.5


def test_memory_is_on_the_node_that_was_asked_for(membw):
    for node in sorted(int(name[4:]) for name in os.listdir("/sys/devices/system/node") if name[4:].isdigit()):
        assert membw.measure(*SHORT, "--memory-node", node)["memory_node"] == node
    done = membw.run("--memory-node", 1023)
    assert done.returncode == 3 and "1023" in done.stderr


@pytest.mark.parametrize("pattern", ["all", "line", "chase"])
def test_sanitizers_find_nothing(inspected, pattern):
    result = inspected.measure(
        "--seconds",
        0.05,
        "--cpus",
        ",".join(map(str, CPUS)),
        "--buffer",
        4 << 20,
        "--allow-cached",
        "--pattern",
        pattern,
    )
    assert result["bytes"] > 0


def test_output_that_cannot_be_written_is_a_failure(membw):
    done = os.system(f"{membw.program} --seconds 0.01 --buffer 1048576 --allow-cached > /dev/full 2> /dev/null")
    assert os.waitstatus_to_exitcode(done) == 6
