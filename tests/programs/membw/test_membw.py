# SPDX-License-Identifier: GPL-3.0-or-later
"""Test the behaviour that the figures of membw depend on, with the programs as they are built.

No test depends on the speed of the machine, the size of its caches, or how busy it is: tests/bench/memory_bandwidth.py
measures what the caches change. unit/test_seams.c tests the order and the number of reads. "Detects" in a docstring
names the faults in membw.c that make the test fail.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import time

import pytest

MIB = 2**20
CPUS = sorted(os.sched_getaffinity(0))
BUFFER = 5 * MIB
LINE = 64
# The last line, and one with an odd number.
LINES = [pytest.param(BUFFER // LINE - 1, id="last"), pytest.param(BUFFER // LINE // 2 + 4321, id="odd")]


def arguments(pattern="all", *, seconds=0.1, buffer=BUFFER, cpus=CPUS[:1]):
    return (
        "--pattern",
        pattern,
        "--seconds",
        seconds,
        "--buffer",
        buffer,
        "--allow-cached",
        "--cpus",
        ",".join(map(str, cpus)),
    )


def largest_cache(cpu):
    """Return the size that the kernel reports; 0 if it reports none."""
    units = {"K": 2**10, "M": 2**20}
    files = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/cache").glob("index*/size")
    sizes = [path.read_text(encoding="ascii").strip() for path in files]
    return max((int(size[:-1]) * units[size[-1]] for size in sizes), default=0)


def nodes_with_memory():
    """Return the nodes that the kernel reports, such as [0, 1] for 0-1; none if it does not support NUMA."""
    path = pathlib.Path("/sys/devices/system/node/has_memory")
    listed = path.read_text(encoding="ascii").strip().split(",") if path.exists() else []
    ranges = [each.split("-") for each in listed]
    return [node for each in ranges for node in range(int(each[0]), int(each[-1]) + 1)]


@pytest.mark.parametrize("pattern", ["all", "line", "chase"])
def test_no_page_faults_during_the_measurement(membw, pattern):
    """Detects: a buffer that is not written before the measurement."""
    assert membw.measure(*arguments(pattern))["page_faults"] == 0


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("pattern, word", [("all", 7), ("line", 0)])
def test_reads_each_line_while_it_measures(optimised, pattern, word, line):
    """membw notices when a word of the buffer changes during the measurement.

    Detects: only half of the buffer is read; every second line is skipped, even if the fill skips it too; the sums are
    not compared; the compiler removes the reads or moves them out of the loop.
    """
    seconds = 0.2
    while True:
        started = time.monotonic()
        running = optimised.start(*arguments(pattern, seconds=seconds))
        buffer = running.buffer(BUFFER)
        if buffer is not None:
            running.write(buffer + LINE * line + 8 * word, 1)
        in_time = time.monotonic() - started < seconds / 2
        done = running.end()
        if in_time:  # if not, membw may have ended before it read the changed word
            break
        seconds *= 2
    assert done.returncode == 4, done.stdout
    assert "wrong sum" in done.stderr


@pytest.mark.parametrize("line", LINES)
def test_a_chase_loads_each_line(optimised, line):
    """An invalid pointer in a line makes membw crash.

    Detects: lines that the chase does not visit; addresses that are calculated instead of loaded; a chase that the
    compiler removes.
    """
    running = optimised.start(*arguments("chase", seconds=5))
    running.write(running.buffer(BUFFER) + LINE * line, 0)
    assert running.end().returncode == -signal.SIGSEGV


@pytest.mark.parametrize("cache, buffer", [(MIB, 16 * MIB), (MIB + 1, 16 * MIB + 16)])
def test_the_buffer_must_be_16_times_the_cache(membw, cache, buffer):
    """Detects: a multiple other than 16; `<=` in place of `<`; a given cache that is ignored."""
    short = ("--cpus", CPUS[0], "--seconds", 0.05, "--cache", cache)
    result = membw.measure(*short, "--buffer", buffer)
    assert result["cache_bytes"] == cache and result["cache_given"] is True
    assert result["buffer_bytes"] >= buffer

    refused = membw.run(*short, "--buffer", buffer - 1)
    assert refused.returncode == 2 and refused.stdout == ""
    assert refused.stderr == (
        f"membw: --buffer: {buffer - 1} is too small; a cache of {cache} bytes requires at least "
        f"{buffer} (or --allow-cached)\n"
    )
    assert membw.run(*short, "--buffer", buffer - 1, "--allow-cached").returncode == 0


@pytest.mark.parametrize("cache, buffer", [(MIB, 256 * MIB), (20 * MIB, 320 * MIB)])
def test_chooses_a_buffer_for_the_cache(membw, cache, buffer):
    """Detects: no minimum; a multiple other than 16."""
    assert membw.measure("--cpus", CPUS[0], "--seconds", 0.05, "--cache", cache)["buffer_bytes"] == buffer


def test_the_cache_is_what_the_kernel_reports(membw):
    """Detects: the smallest or the first cache instead of the largest; a size in the wrong unit."""
    result = membw.measure(*arguments())
    assert result["cache_bytes"] == largest_cache(CPUS[0]) and result["cache_given"] is False


def test_huge_pages_are_used_on_request(membw):
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as stream:
        if "[never]" in stream.read():
            pytest.skip("this kernel does not provide transparent huge pages")
    assert membw.measure(*arguments(buffer=64 * MIB))["huge_bytes"] == 0
    huge = membw.measure(*arguments(buffer=64 * MIB), "--huge-pages", "transparent")
    assert huge["huge_bytes"] > 0.9 * huge["buffer_bytes"]


def test_fails_without_reserved_huge_pages(membw):
    with open("/proc/sys/vm/nr_hugepages", encoding="ascii") as stream:
        if int(stream.read()) > 0:
            pytest.skip("this machine has reserved huge pages")
    done = membw.run(*arguments(), "--huge-pages", "reserved")
    assert done.returncode == 3 and "vm.nr_hugepages" in done.stderr


def test_each_reader_runs_on_its_own_cpu(membw):
    """Detects: readers that are not bound to their CPUs, or that run one after another."""
    cpus = CPUS[:4]
    running = membw.start(*arguments(cpus=cpus, seconds=0.5))
    seen = running.wait_for_threads_on(cpus)
    done = running.end()
    assert seen, done.stderr
    result = json.loads(done.stdout)
    assert result["cpus"] == cpus
    assert result["overlap"] > 0


def test_memory_is_on_the_requested_node(membw):
    for node in nodes_with_memory():
        assert membw.measure(*arguments(), "--memory-node", node)["memory_node"] == node
    done = membw.run("--memory-node", 1023)
    assert done.returncode == 3 and "1023" in done.stderr


@pytest.mark.parametrize("pattern", ["all", "line", "chase"])
def test_sanitizers_find_nothing(sanitized, pattern):
    result = sanitized.measure(*arguments(pattern, seconds=0.05, cpus=CPUS[:4]))
    assert result["bytes"] > 0


def test_fails_if_the_result_cannot_be_written(membw):
    with open("/dev/full", "w", encoding="ascii") as full:
        assert membw.start(*arguments(), stdout=full).end().returncode == 6
