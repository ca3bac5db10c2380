# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure solotest beside a raw socket loop and other clients, and say which bar each figure meets.

Repetitions of the things compared are interleaved and their medians taken, so that a machine that changes
its speed in the middle changes it for all. Needs redis-server, a C compiler and libhiredis; two CPUs give all
rows. With --write the raw figures go to docs/bench/client.md.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import pathlib
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
TESTS = ROOT / "tests" / "programs" / "solotest"
sys.path.insert(0, str(TESTS))

import truth  # noqa: E402  pylint: disable=wrong-import-position
from servers import Redis  # noqa: E402  pylint: disable=wrong-import-position

KEYS = 1000
VALUE_SIZE = 1000
CPUS = sorted(os.sched_getaffinity(0))
REDIS_CPU = CPUS[-1]
OTHER_CPU = CPUS[0]
PROGRAM = TESTS / "build" / "solotest"


class Table:
    """Rows of what was measured, its bar, and whether it is met; and the raw figures behind them."""

    def __init__(self):
        self.rows = []
        self.raw = []

    def add(self, what, value, target, met):
        """`met` is True, False, or None for a figure without a bar."""
        self.rows.append((what, value, target, {True: "yes", False: "NO", None: ""}[met]))
        print("{:66} {:30} {:22} {}".format(*self.rows[-1]), flush=True)

    def note(self, what, figures):
        self.raw.append((what, figures))

    def markdown(self):
        lines = ["| what | measured | bar | met |", "| --- | --- | --- | --- |"]
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join(lines)


def solotest(*arguments, cpu=None):
    """Run the client and return its JSON."""
    placement = ["--cpu", str(cpu)] if cpu is not None else []
    done = subprocess.run(
        [PROGRAM, "--json", *placement, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"solotest {arguments}: {done.stderr}")
    return json.loads(done.stdout)


def closed_loop_solotest(port, requests, cpu):
    report = solotest("--pacing", "none", "--requests", requests, "test", port, VALUE_SIZE, KEYS, 0, 1, cpu=cpu)
    health = report["client_health"]
    return report["test"]["rate"]["achieved"], (health["user_s"] + health["system_s"]) / requests * 1e6


def pinned(command, cpu):
    """Run a command on one CPU; return its output and the CPU seconds it took."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=output,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
        )
        _pid, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(f"{command} exits with {process.returncode}")
        output.seek(0)
        return output.read(), usage.ru_utime + usage.ru_stime


def closed_loop_raw(program):
    def run(port, requests, cpu):
        output, _seconds = pinned([program, port, requests, VALUE_SIZE, KEYS], cpu)
        rate, microseconds = map(float, output.split())
        return rate, microseconds

    return run


def closed_loop_redis_benchmark(port, requests, cpu):
    output, seconds = pinned(
        ["redis-benchmark", "-p", port, "-t", "get", "-c", 1, "-n", requests, "-r", KEYS, "-d", VALUE_SIZE, "--csv"],
        cpu,
    )
    rate = float(re.search(r'^"GET","([0-9.]+)"', output, re.M).group(1))
    return rate, seconds / requests * 1e6


def closed_loop_memtier(port, requests, cpu):
    with tempfile.NamedTemporaryFile("r") as result:
        _output, seconds = pinned(
            [
                "memtier_benchmark",
                "-p",
                port,
                "-t",
                1,
                "-c",
                1,
                "-n",
                requests,
                "--ratio",
                "0:1",
                "--key-prefix",
                "",
                "--key-minimum",
                1,
                "--key-maximum",
                KEYS - 1,
                "--hide-histogram",
                "--json-out-file",
                result.name,
            ],
            cpu,
        )
        rate = json.load(result)["ALL STATS"]["Gets"]["Ops/sec"]
    return rate, seconds / requests * 1e6


def fill_for_all(server):
    """Our keys, and those that redis-benchmark asks for."""
    solotest("fill", server.port, VALUE_SIZE, KEYS)
    pinned(
        [
            "redis-benchmark",
            "-p",
            server.port,
            "-t",
            "set",
            "-c",
            1,
            "-P",
            50,
            "-n",
            20 * KEYS,
            "-r",
            KEYS,
            "-d",
            VALUE_SIZE,
            "-q",
        ],
        OTHER_CPU,
    )


def interleaved(repetitions, runs):
    """Run each of {name: function} in turn, again and again; return {name: [results]}."""
    results = {name: [] for name in runs}
    for _repetition in range(repetitions):
        for name, run in runs.items():
            results[name].append(run())
    return results


def bench_closed_loop(table, options, raw_loop):
    clients = {
        "raw loop": closed_loop_raw(raw_loop),
        "solotest": closed_loop_solotest,
        "redis-benchmark": closed_loop_redis_benchmark,
    }
    if shutil.which("memtier_benchmark"):
        clients["memtier_benchmark"] = closed_loop_memtier
    for place, cpu in (("same CPU", REDIS_CPU), ("other CPU", OTHER_CPU)):
        if place == "other CPU" and len(CPUS) < 2:
            table.add("closed loop, other CPU", "not measured: one CPU", "", None)
            continue
        with Redis(cpu=REDIS_CPU) as server:
            fill_for_all(server)
            requests = options.requests if place == "same CPU" else options.requests // 10
            results = interleaved(
                options.repetitions,
                {name: functools.partial(run, server.port, requests, cpu) for name, run in clients.items()},
            )
        rate = {name: statistics.median(r for r, _cpu in values) for name, values in results.items()}
        work = {name: statistics.median(c for _rate, c in values) for name, values in results.items()}
        for name, values in results.items():
            table.note(f"closed loop, {place}, {name}: GET/s", [round(r) for r, _cpu in values])
            table.note(f"closed loop, {place}, {name}: CPU us per request", [round(c, 3) for _rate, c in values])
            table.add(f"closed loop, {place}, {name}", f"{rate[name]:,.0f}/s, {work[name]:.2f} us CPU", "", None)
        barred = place == "same CPU"
        ratio = rate["solotest"] / rate["raw loop"]
        table.add(
            f"GET/s relative to the raw loop, {place}",
            f"{ratio:.3f}",
            ">= 0.98" if barred else "",
            ratio >= 0.98 if barred else None,
        )
        ratio = rate["solotest"] / rate["redis-benchmark"]
        table.add(
            f"GET/s relative to redis-benchmark, {place}",
            f"{ratio:.3f}",
            ">= 1.3" if barred else "",
            ratio >= 1.3 if barred else None,
        )
        ratio = work["solotest"] / work["raw loop"]
        table.add(
            f"CPU per request relative to the raw loop, {place}",
            f"{ratio:.3f}",
            "<= 1.05" if barred else "",
            ratio <= 1.05 if barred else None,
        )


def bench_pacing(table, options):
    runs = {
        ("same CPU", "hybrid"): (REDIS_CPU, []),
        ("other CPU", "hybrid"): (OTHER_CPU, []),
        ("same CPU", "sleep"): (REDIS_CPU, ["--pacing", "sleep"]),
        ("same CPU", "spin"): (REDIS_CPU, ["--pacing", "spin"]),
    }
    if len(CPUS) < 2:
        del runs[("other CPU", "hybrid")]
    if options.realtime:  # the kernel takes the CPU away for a while from what never sleeps at that priority
        del runs[("same CPU", "spin")]

    def run(port, cpu, arguments):
        return solotest(*arguments, "--duration", options.seconds, "test", port, VALUE_SIZE, KEYS, 0, 5000, cpu=cpu)

    with Redis(cpu=REDIS_CPU) as server:
        solotest("fill", server.port, VALUE_SIZE, KEYS)
        results = interleaved(
            max(3, options.repetitions // 5),
            {key: lambda cpu=cpu, extra=extra: run(server.port, cpu, extra) for key, (cpu, extra) in runs.items()},
        )
    for (place, mode), reports in results.items():
        p50, p99 = (
            statistics.median(r["test"]["latency"]["lateness"][p] / 1e3 for r in reports) for p in ("p50_ns", "p99_ns")
        )
        share = statistics.median(r["client_health"]["cpu_share"] for r in reports)
        off = statistics.median(abs(r["test"]["rate"]["achieved"] / 5000 - 1) for r in reports)
        barred = (place, mode) == ("same CPU", "hybrid")
        name = f"pacing 5,000/s, {mode}, {place}"
        table.note(
            f"{name}: lateness p50, p99 in us",
            [
                (r["test"]["latency"]["lateness"]["p50_ns"] / 1e3, r["test"]["latency"]["lateness"]["p99_ns"] / 1e3)
                for r in reports
            ],
        )
        table.add(f"{name}: lateness p50", f"{p50:.2f} us", "<= 1 us" if barred else "", p50 <= 1 if barred else None)
        table.add(f"{name}: lateness p99", f"{p99:.1f} us", "<= 40 us" if barred else "", p99 <= 40 if barred else None)
        table.add(f"{name}: CPU", f"{share:.1%}", "<= 25 %" if barred else "", share <= 0.25 if barred else None)
        table.add(f"{name}: rate off by", f"{off:.4%}", "<= 0.1 %" if barred else "", off <= 0.001 if barred else None)


def worst(errors):
    return max(abs(error) for error in errors.values())


def bench_truth(table, options):
    plans = {
        "9 x 50 ms": [(0.5 + i, 0.05) for i in range(9)],
        "random 20-300 ms": [(0.5 + 1.5 * i, random.Random(i).uniform(0.02, 0.3)) for i in range(6)],
    }
    repetitions = max(3, options.repetitions // 5)
    with Redis(cpu=REDIS_CPU) as server:
        solotest("fill", server.port, VALUE_SIZE, KEYS)
        for name, plan in plans.items():
            measured = {"server": [], "client": []}
            for _repetition in range(repetitions):
                for stop, runs in measured.items():
                    runs.append(
                        truth.measure_with_stalls(
                            str(PROGRAM),
                            server.port,
                            stop,
                            plan,
                            5000,
                            10,
                            server.process.pid,
                            ["--cpu", str(OTHER_CPU)],
                        )
                    )
            report_truth(table, name, measured, 1e9 * min(length for _at, length in plan))


def report_truth(table, name, measured, shortest_stop):
    errors = [
        truth.errors(expected, report["test"]["latency"]["response"])
        for report, _columns, expected in measured["server"]
    ]
    table.note(
        f"server stalls {name}: relative error of response", [{k: round(v, 4) for k, v in e.items()} for e in errors]
    )
    for key in truth.PERMILLES:
        error = statistics.median(abs(e[key]) for e in errors)
        table.add(
            f"server stalls {name}: {key[:-3]} of response against truth", f"{error:.2%}", "<= 2 %", error <= 0.02
        )
    latency = measured["server"][0][0]["test"]["latency"]
    table.add(
        f"server stalls {name}: p99 of service, of response",
        f"{latency['service']['p99_ns'] / 1e3:,.0f} us, {latency['response']['p99_ns'] / 1e3:,.0f} us",
        "",
        None,
    )
    errors = []
    for report, _columns, expected in measured["client"]:
        own = truth.errors(expected, report["test"]["latency"]["intended"])
        errors.append({key: own[key] for key in ("p99_ns", "p999_ns", "max_ns")})
    error = statistics.median(worst(e) for e in errors)
    table.note(
        f"client stops {name}: relative error of intended", [{k: round(v, 4) for k, v in e.items()} for e in errors]
    )
    table.add(f"client stops {name}: p99 .. max of intended against truth", f"{error:.2%}", "<= 2 %", error <= 0.02)
    # Every repetition has every planned stop, so a stop that leaked into `response` would show in all of them. Time
    # that the machine takes from the server belongs there, but only in some: hence the minimum, not the median.
    responses = [report["test"]["latency"]["response"] for report, _columns, _expected in measured["client"]]
    cleanest = min(responses, key=lambda response: response["max_ns"])
    table.note(
        f"client stops {name}: p99.9, maximum of response in ms",
        [(round(response["p999_ns"] / 1e6, 2), round(response["max_ns"] / 1e6, 2)) for response in responses],
    )
    table.add(
        f"client stops {name}: p99.9, max of response, least of {len(responses)}",
        f"{cleanest['p999_ns'] / 1e6:.2f} ms, {cleanest['max_ns'] / 1e6:.2f} ms",
        f"< {shortest_stop / 2e6:.0f} ms, half a stop",
        cleanest["max_ns"] < shortest_stop / 2,
    )


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


def bench_fill(table, options):
    keys = options.requests * 3

    def filling(port, cpu):
        report = solotest("fill", port, VALUE_SIZE, keys, cpu=cpu)
        assert report["fill"]["dbsize"] == keys
        return report["fill"]["keys_per_second"]

    def singly(port, cpu):
        report = solotest(
            "--pacing",
            "none",
            "--pattern",
            "sequential",
            "--requests",
            keys // 10,
            "test",
            port,
            VALUE_SIZE,
            keys,
            0,
            1,
            0,
            cpu=cpu,
        )
        return report["test"]["rate"]["achieved"]

    def redis_benchmark(port, cpu):
        output, _seconds = pinned(
            [
                "redis-benchmark",
                "-p",
                port,
                "-t",
                "set",
                "-c",
                1,
                "-P",
                64,
                "-n",
                keys,
                "-r",
                keys,
                "-d",
                VALUE_SIZE,
                "--csv",
            ],
            cpu,
        )
        return float(re.search(r'^"SET","([0-9.]+)"', output, re.M).group(1))

    for place, cpu in (("same CPU", REDIS_CPU), ("other CPU", OTHER_CPU)):
        if place == "other CPU" and len(CPUS) < 2:
            table.add("fill relative to one at a time, other CPU", "not measured: one CPU", ">= 10", None)
            continue
        with Redis(cpu=REDIS_CPU) as server:
            results = interleaved(
                max(3, options.repetitions // 5),
                {
                    name: functools.partial(run, server.port, cpu)
                    for name, run in {
                        "fill": filling,
                        "one at a time": singly,
                        "redis-benchmark, 64 in flight": redis_benchmark,
                    }.items()
                },
            )
        for name, rates in results.items():
            table.note(f"{name}, {place}: SETs per second", [round(rate) for rate in rates])
        fill_rate, single, reference = (statistics.median(rates) for rates in results.values())
        table.add(f"SETs per second, {place}: fill, one at a time", f"{fill_rate:,.0f}, {single:,.0f}", "", None)
        table.add(f"SETs per second, {place}: redis-benchmark, 64 in flight", f"{reference:,.0f}", "", None)
        # Two programs that share one CPU cannot work at once: the fill saves wake-ups and system calls there, but the
        # work of Redis itself, most of the time of a request that is alone, stays. So that is a figure without a bar.
        barred = place == "other CPU"
        table.add(
            f"fill relative to one at a time, {place}" + ("" if barred else " (limit: one CPU for both)"),
            f"{fill_rate / single:.1f}",
            ">= 10" if barred else "",
            fill_rate >= 10 * single if barred else None,
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
    """The kernel lets go of a cgroup a moment after its last process has ended."""
    for _attempt in range(50):
        try:
            action()
            return
        except OSError:
            time.sleep(0.1)


def under_pressure(server, enter, locked):
    """A client in the hog's cgroup; the control loses the right to lock its memory, not that to be there."""

    def prepare():
        enter()
        if not locked:
            import resource  # pylint: disable=import-outside-toplevel

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
        + ("real-time priority (FIFO 1)" if os.sched_getscheduler(0) == os.SCHED_FIFO else "normal priority"),
    ]


def write_document(path, machine, table, options):
    lines = [
        "# Bench of the client: raw figures",
        "",
        "Written by `tests/bench/client/run.py --write`. What the words mean: [measurement.md](../measurement.md).",
        "",
    ]
    lines += [f"- {line}" for line in machine]
    lines += [
        f"- {options.repetitions} interleaved repetitions of {options.requests:,} requests, medians in the table; "
        f"1 KB values, {KEYS:,} keys",
        "",
        table.markdown(),
        "",
        "## All repetitions",
        "",
    ]
    lines += [f"- {what}: {figures}" for what, figures in table.raw]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {path.relative_to(ROOT)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=21)
    parser.add_argument("--requests", type=int, default=100000, help="of one repetition of a closed loop")
    parser.add_argument("--seconds", type=float, default=10, help="of one repetition of a paced run")
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="run Redis and clients at real-time priority, on a machine where other work goes on",
    )
    parser.add_argument("--only", default="", help="parts whose name contains this: closed_loop, pacing, truth, ...")
    parser.add_argument("--write", action="store_true", help="write docs/bench/client.md")
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
            "closed_loop": lambda: bench_closed_loop(table, options, raw_loop),
            "pacing": lambda: bench_pacing(table, options),
            "truth": lambda: bench_truth(table, options),
            "histogram": lambda: bench_histogram(table),
            "fill": lambda: bench_fill(table, options),
            "memory": lambda: bench_memory(table, options),
        }
        for name, part in parts.items():
            if options.only in name:
                part()
    missed = [row[0] for row in table.rows if row[3] == "NO"]
    print(
        f"\n{sum(row[3] == 'yes' for row in table.rows)} bars met, {len(missed)} missed"
        + "".join(f"\n  {m}" for m in missed)
    )
    if options.write:
        write_document(ROOT / "docs" / "bench" / "client.md", machine, table, options)


if __name__ == "__main__":
    main()
