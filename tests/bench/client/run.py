# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure solotest next to a raw socket loop and other clients, and say which bar each figure meets.

What is compared is interleaved, and closed loops alternate in slices (closed_loop.py), so that a machine that changes
its speed in the middle changes it for all. Needs redis-server, a C compiler and libhiredis; two CPUs give all rows.
With --write the figures go to a section of docs/bench/client.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from closed_loop import BLOCKS, bench_closed_loop
from common import (
    CPUS,
    HERE,
    KEYS,
    OTHER_CPU,
    PROGRAM,
    REDIS_CPU,
    ROOT,
    TESTS,
    VALUE_SIZE,
    Redis,
    Table,
    interleaved,
    places,
    solotest,
    truth,
)
from fill import bench_fill
from machine import CLIENT, CLIENT_SECTIONS, write_section
from stopped import bench_truth

PACED_RATE = 5000
PROMPT_US = 10  # sleeps that end later do so because the CPU has to be woken


@contextlib.contextmanager
def awake(cpus):
    """Keep CPUs busy with what gives way to everything else: then none has to be woken when a sleep ends."""

    def become_idle(cpu):
        os.sched_setaffinity(0, {cpu})
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    hogs = [
        subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=lambda cpu=cpu: become_idle(cpu))
        for cpu in cpus
    ]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def awake_for(part):
    """Measure a part with all CPUs awake: to wake one can take this machine longer than what is measured."""
    with awake(CPUS):
        part()


def bench_pacing(table, options):
    runs = {}
    for place, cpu in places(table, "pacing"):
        for state in ("", ", CPUs kept awake"):
            for mode in ("hybrid", "sleep"):
                runs[place, state, mode] = cpu
    if not options.realtime:  # the kernel takes the CPU away for a while from what never sleeps at that priority
        runs["same CPU", "", "spin"] = REDIS_CPU

    def run(port, state, mode, cpu):
        with awake(CPUS) if state else contextlib.nullcontext():
            return solotest(
                *("--pacing", mode, "--duration", options.seconds, "test", port, VALUE_SIZE, KEYS, 0, PACED_RATE),
                cpu=cpu,
            )

    with Redis(cpu=REDIS_CPU) as server:
        solotest("fill", server.port, VALUE_SIZE, KEYS)
        results = interleaved(
            max(3, options.repetitions // 5),
            {key: lambda key=key, cpu=cpu: run(server.port, *key[1:], cpu) for key, cpu in runs.items()},
        )
    for (place, state, mode), reports in results.items():
        prompt = lateness_us(results.get((place, state, "sleep"), reports), "p50_ns") <= PROMPT_US
        report_pacing(table, f"pacing {PACED_RATE:,}/s, {mode}, {place}{state}", reports, mode == "hybrid" and prompt)


def lateness_us(reports, percentile):
    return statistics.median(r["test"]["latency"]["lateness"][percentile] / 1e3 for r in reports)


def report_pacing(table, name, reports, barred):
    """The bars are those of hybrid pacing where sleeps end promptly; elsewhere sleeping costs more than they allow."""
    p50, p99 = (lateness_us(reports, percentile) for percentile in ("p50_ns", "p99_ns"))
    share = statistics.median(r["client_health"]["cpu_share"] for r in reports)
    off = statistics.median(abs(r["test"]["rate"]["achieved"] / PACED_RATE - 1) for r in reports)
    table.note(
        f"{name}: lateness p50, p99 in us, CPU, spin at the end in us",
        [
            (
                *(r["test"]["latency"]["lateness"][p] / 1e3 for p in ("p50_ns", "p99_ns")),
                round(r["client_health"]["cpu_share"], 3),
                r["client_health"]["spin_us_at_end"],
            )
            for r in reports
        ],
    )
    table.add(f"{name}: lateness p50", f"{p50:.2f} us", "<= 1 us" if barred else "", p50 <= 1 if barred else None)
    table.add(f"{name}: lateness p99", f"{p99:.2f} us", "<= 1 us" if barred else "", p99 <= 1 if barred else None)
    table.add(f"{name}: CPU", f"{share:.1%}", "<= 15 %" if barred else "", share <= 0.15 if barred else None)
    table.add(f"{name}: rate off by", f"{off:.4%}", "<= 0.1 %" if barred else "", off <= 0.001 if barred else None)


def bench_histogram(table):
    with Redis(cpu=REDIS_CPU) as server, tempfile.TemporaryDirectory() as directory:
        solotest("fill", server.port, VALUE_SIZE, KEYS)
        raw = os.path.join(directory, "raw")
        report = solotest(
            "--raw", raw, "--requests", 50000, "--pacing", "none", "test", server.port, VALUE_SIZE, KEYS, 0, 1
        )
        errors = []
        for name, values in zip(("service", "response", "intended", "lateness"), truth.read_raw(raw)):
            histogram = report["test"]["latency"][name]
            for key, permille in (("p50_ns", 500), ("p95_ns", 950), ("p99_ns", 990), ("p999_ns", 999)):
                exact = truth.percentile(values, permille)
                errors.append(histogram[key] / exact - 1 if exact else 0)
    table.add(
        "histogram: worst percentile against the raw samples",
        f"{max(map(abs, errors)):.2%}",
        "<= 1 %",
        max(map(abs, errors)) <= 0.01,
    )


def bench_memory(table, options):
    with Redis(cpu=REDIS_CPU) as server:
        solotest("fill", server.port, VALUE_SIZE, KEYS)
        report = solotest(
            "--pacing",
            "none",
            "--requests",
            options.requests * 15,
            "--pipeline",
            64,
            "test",
            server.port,
            VALUE_SIZE,
            KEYS,
            10,
            1,
        )
        megabytes = report["client_health"]["max_rss_kb"] / 1024
        table.add(
            f"memory of a test of {options.requests * 15:,} requests",
            f"{megabytes:.1f} MB",
            "<= 20 MB",
            megabytes <= 20,
        )
        try:
            with memory_pressure() as confine:
                locked = under_pressure(server, confine, locked=True)
                unlocked = under_pressure(server, confine, locked=False)
        except OSError as reason:
            table.add("own major faults under memory pressure", f"not measured: {reason}", "0", None)
            return
    faults = locked["client_health"]["major_faults"]
    table.note(
        "memory pressure: max of lateness in us, locked and not",
        [r["test"]["latency"]["lateness"]["max_ns"] / 1e3 for r in (locked, unlocked)],
    )
    table.add("own major faults under memory pressure, locked", str(faults), "0", faults == 0)
    table.add("the same, not allowed to lock (control)", str(unlocked["client_health"]["major_faults"]), "", None)


HOG = """
import random, sys
memory = bytearray(220 << 20)
print("ready", flush=True)
while True:
    at = random.randrange(len(memory))
    memory[at] = (memory[at] + 1) & 255
"""


@contextlib.contextmanager
def memory_pressure():
    """A memory cgroup of 64 MB with swap, in which a hog wants 220 MB. Yields a function that enters it."""
    if os.geteuid() != 0:
        raise PermissionError("needs root for a memory cgroup and a swap file")
    group = pathlib.Path("/sys/fs/cgroup/memory")
    limit = "memory.limit_in_bytes"
    if not group.is_dir():
        group, limit = pathlib.Path("/sys/fs/cgroup"), "memory.max"
    group = group / f"solotest-bench-{os.getpid()}"
    group.mkdir()
    hog = None
    with contextlib.ExitStack() as undo:
        undo.callback(lambda: retry(group.rmdir))
        directory = undo.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp"))
        swap = os.path.join(directory, "swap")
        with open(swap, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 256 << 20)
        os.chmod(swap, 0o600)
        for command in (["mkswap", swap], ["swapon", swap]):
            if subprocess.run(command, capture_output=True, check=False).returncode != 0:
                raise OSError(f"{command[0]} fails here")
        undo.callback(subprocess.run, ["swapoff", swap], check=False)
        (group / limit).write_text(str(64 << 20), encoding="ascii")

        def enter():
            (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

        def become_hog():
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            enter()

        hog = subprocess.Popen([sys.executable, "-c", HOG], stdout=subprocess.PIPE, preexec_fn=become_hog)
        undo.callback(hog.wait)
        undo.callback(hog.kill)
        hog.stdout.readline()
        yield enter


def retry(action):
    """Retry: the kernel removes a cgroup a moment after its last process has ended."""
    for _attempt in range(50):
        try:
            action()
            return
        except OSError:
            time.sleep(0.1)


def under_pressure(server, enter, locked):
    """A client in the hog's cgroup; the control runs in the same cgroup without the right to lock its memory."""

    def prepare():
        enter()
        if not locked:
            import resource

            resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chmod(directory, 0o755)
        program = shutil.copy(PROGRAM, directory)
        done = subprocess.run(
            [program, "--json", "--duration", "20", "test", str(server.port), str(VALUE_SIZE), str(KEYS), "0", "20"],
            capture_output=True,
            text=True,
            check=True,
            preexec_fn=prepare,
        )
    return json.loads(done.stdout)


PRIORITIES = {
    os.SCHED_OTHER: "normal priority",
    os.SCHED_FIFO: "real-time priority (FIFO 1)",
    os.SCHED_IDLE: "the lowest priority, so these figures mean nothing",
}


def describe_machine():
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"^model name\s*: (.*)", cpuinfo, re.M)
    redis = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    report = json.loads(
        subprocess.run([PROGRAM, "--json", "test", "1"], capture_output=True, text=True, check=False).stdout
    )
    clock = pathlib.Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text(encoding="ascii")
    memory = re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text(encoding="ascii")).group(1)
    virtual = "virtual machine" if re.search(r"^flags.*\bhypervisor\b", cpuinfo, re.M) else "no hypervisor"
    return [
        f"CPU: {model.group(1) if model else platform.machine()}, {len(CPUS)} usable CPUs, {virtual}",
        f"memory: {int(memory) / 2**20:.0f} GiB",
        f"kernel: {platform.release()}, clock source {clock.strip()}",
        f"Redis: {redis}, pinned to CPU {REDIS_CPU}; `other CPU` is {OTHER_CPU}",
        f"client: {report['client']['compiler']}, hiredis {report['client']['hiredis']}, "
        f"static: {report['client']['static']}",
        f"load average at the start: {os.getloadavg()[0]:.2f}; Redis and clients ran at "
        + f"{PRIORITIES[os.sched_getscheduler(0)]}, nice {os.nice(0)}",
    ]


def write_document(section, machine, table, options):
    lines = [f"- {line}" for line in machine]
    lines += [
        f"- closed loops: {options.pairs} pairs of slices of 50 ms in {BLOCKS} blocks, each of which restarts both "
        "clients; the median of the blocks' medians and its 95 % interval (sign test); "
        "fewer pairs with redis-benchmark",
        "- the least latency client: the raw loop with a random key, two looks at the clock and a histogram",
        "- closed loops and stalls: with CPUs kept awake by a loop of the lowest priority on each",
        "- fill: MSETs over 8 connections; redis-benchmark sends SETs and MSETs with as many keys in flight",
        "- stalls and stops: the truth is made of all stops of Redis and of the client that the kernel's scheduler "
        "recorded, planned or not",
        f"- all else: {max(3, options.repetitions // 5)} interleaved repetitions or more, medians in the table; "
        f"1 KB values, {KEYS:,} keys",
        "",
        table.markdown(),
        "",
        "### All repetitions",
        "",
    ]
    lines += [f"- {what}: {figures}" for what, figures in table.raw]
    write_section(section, CLIENT_SECTIONS[section], "\n".join(lines), CLIENT)
    print(f"written: {CLIENT_SECTIONS[section]} of {CLIENT.relative_to(ROOT)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=600, help="of slices of closed loops")
    parser.add_argument("--baseline", help="another build of solotest, to compare closed loops with")
    parser.add_argument("--repetitions", type=int, default=21)
    parser.add_argument("--requests", type=int, default=100000, help="a third of the keys of a fill")
    parser.add_argument("--seconds", type=float, default=10, help="of one repetition of a paced run")
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="run Redis and clients at real-time priority, on a machine where other work goes on",
    )
    parser.add_argument("--only", default="", help="parts whose name contains this: closed_loop, pacing, truth, ...")
    parser.add_argument(
        "--write",
        nargs="?",
        const="client",
        choices=CLIENT_SECTIONS,
        help="write this section of docs/bench/client.md (client)",
    )
    options = parser.parse_args()
    subprocess.run(["make", "-s", "-C", TESTS, "build/solotest"], check=True)
    if options.realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    machine = describe_machine()
    print("\n".join(machine) + "\n")
    table = Table()
    with tempfile.TemporaryDirectory() as directory:
        raw_loop = os.path.join(directory, "raw_loop")
        subprocess.run([os.environ.get("CC", "gcc"), "-O2", str(HERE / "raw_loop.c"), "-o", raw_loop], check=True)
        parts = {
            "closed_loop": lambda: awake_for(lambda: bench_closed_loop(table, options, raw_loop)),
            "pacing": lambda: bench_pacing(table, options),
            "truth": lambda: awake_for(lambda: bench_truth(table, options)),
            "histogram": lambda: bench_histogram(table),
            "fill": lambda: bench_fill(table, options),
            "memory": lambda: bench_memory(table, options),
        }
        for name, part in parts.items():
            if options.only in name:
                part()
    print("\n" + table.totals())
    if options.write:
        write_document(options.write, machine, table, options)


if __name__ == "__main__":
    main()
