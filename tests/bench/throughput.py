# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure solotest's throughput beside redis-benchmark's at equal connections and pipeline, in turn; medians count.

Redis is pinned to the last CPU, both clients to the first. What Redis itself spends on a request is told as well: its inverse is the throughput of a Redis that
nothing keeps from its CPU, and does not depend on what else the machine does. With --write the figures go to docs/bench/throughput.md.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TESTS = ROOT / "tests" / "client"
sys.path.insert(0, str(TESTS))

from servers import Redis  # noqa: E402  pylint: disable=wrong-import-position

CPUS = sorted(os.sched_getaffinity(0))
PROGRAM = TESTS / "build" / "solotest"
KEYS, VALUE_SIZE = 100_000, 1000
SHAPES = ((1, 16), (8, 16), (50, 16), (50, 1))
BAR = 1.0


def output(*words):
    done = subprocess.run(["taskset", "-c", str(CPUS[0]), *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{words}: {done.stderr}")
    return done.stdout


def cpu_seconds(pid):
    """User and system time of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def solotest(port, operation, connections, pipeline, requests):
    report = json.loads(output(PROGRAM, "--json", "--pacing", "none", "--pattern", "uniform", "--connections", connections, "--pipeline", pipeline,
                               "--requests", requests, "test", port, VALUE_SIZE, KEYS, 0, 1, -1 if operation == "SET" else 100))
    return report["test"]["requests"]["ok"] / report["test"]["seconds"]


def redis_benchmark(port, operation, connections, pipeline, requests):
    text = output("redis-benchmark", "-p", port, "-t", operation.lower(), "-c", connections, "-P", pipeline, "-n", requests, "-r", KEYS,
                  "-d", VALUE_SIZE, "--csv")
    return float(re.search(rf'^"{operation}","([0-9.]+)"', text, re.M).group(1))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repetitions", type=int, default=9)
    options.add_argument("--requests", type=int, default=200_000)
    options.add_argument("--write", action="store_true")
    arguments = options.parse_args()
    subprocess.run(["make", "-s", "-C", TESTS, "build/solotest"], check=True)
    load = os.getloadavg()[0]
    lines = ["| op | connections x pipeline | solotest ops/s | redis-benchmark ops/s | ratio | bar | met | Redis CPU us/op, solotest | redis-benchmark |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    with Redis(cpu=CPUS[-1]) as server:
        output(PROGRAM, "fill", server.port, VALUE_SIZE, KEYS)
        redis_benchmark(server.port, "SET", 8, 16, 5 * KEYS)  # its keys have other names
        for operation in ("SET", "GET"):
            for shape in SHAPES:
                requests = arguments.requests if shape[1] > 1 else arguments.requests // 8
                rounds = []
                for dummy in range(arguments.repetitions):
                    figures = []
                    for client in (solotest, redis_benchmark):
                        before = cpu_seconds(server.process.pid)
                        rate = client(server.port, operation, *shape, requests)
                        figures += [rate, (cpu_seconds(server.process.pid) - before) / requests * 1e6]
                    rounds.append(figures)
                own, own_cpu, other, other_cpu = (statistics.median(column) for column in zip(*rounds))
                # Paired within a round, so that what disturbs the machine for some seconds disturbs both.
                ratio = statistics.median(each[0] / each[2] for each in rounds)
                met = "yes" if ratio >= BAR else "NO"
                lines.append(
                    f"| {operation} | {shape[0]} x {shape[1]} | {own:,.0f} | {other:,.0f} | {ratio:.3f} | >= {BAR} | {met} "
                    f"| {own_cpu:.2f} | {other_cpu:.2f} |"
                )
                print(lines[-1], flush=True)
    if arguments.write:
        model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
        head = (f"# Bench of solotest's throughput\n\nWritten by `tests/bench/throughput.py --write`: closed loop, {KEYS:,} keys of {VALUE_SIZE} bytes at "
                f"random, Redis on CPU {CPUS[-1]}, clients on CPU {CPUS[0]}.\n"
                f"Medians of {arguments.repetitions} interleaved rounds; the ratio is the median of the rounds' ratios.\n\n"
                f"- CPU: {model.group(1) if model else platform.machine()}, {len(CPUS)} usable CPUs\n- kernel: {platform.release()}\n"
                f"- load average at the start: {load:.2f}{' (busy with other work: absolute figures say little)' if load > 0.5 else ''}\n\n")
        (ROOT / "docs" / "bench" / "throughput.md").write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
