# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the throughput of solotest and redis-benchmark with equal connections and pipeline, in interleaved rounds.

Redis is pinned to the last CPU, both clients to the first. If Redis uses all of its CPU with both clients, they can
differ only by chance and by the server's cost per request. So a ratio below the bar counts as met only if this is
proven: both clients keep Redis at its whole CPU, and the interval of the ratio includes the bar. Figures are medians,
the ratio is the geometric mean over the pairs. --write writes them to docs/bench/short.md.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

from machine import describe, write_section

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".ansible" / "collections"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "programs" / "solotest"))

from servers import Redis

from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import (
    PAIRS_FOR_AN_INTERVAL,
    paired_ratio,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.throughput.figures import FULL_CPU

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TESTS = ROOT / "tests" / "programs" / "solotest"

CPUS = sorted(os.sched_getaffinity(0))
PROGRAM = TESTS / "build" / "solotest"
KEYS, VALUE_SIZE = 100_000, 1000
SHAPES = ((1, 16), (8, 16), (50, 16), (50, 1))
BAR = 1.0


def output(*words):
    done = subprocess.run(
        ["taskset", "-c", str(CPUS[0]), *map(str, words)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{words}: {done.stderr}")
    return done.stdout


def cpu_seconds(pid):
    """Return the user and system time of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def solotest(port, operation, connections, pipeline, requests):
    report = json.loads(
        output(
            PROGRAM,
            "--json",
            "--pacing",
            "none",
            "--pattern",
            "uniform",
            "--connections",
            connections,
            "--pipeline",
            pipeline,
            "--requests",
            requests,
            "test",
            port,
            VALUE_SIZE,
            KEYS,
            0,
            1,
            -1 if operation == "SET" else 100,
        )
    )
    return report["test"]["requests"]["ok"] / report["test"]["seconds"]


def redis_benchmark(port, operation, connections, pipeline, requests):
    text = output(
        "redis-benchmark",
        "-p",
        port,
        "-t",
        operation.lower(),
        "-c",
        connections,
        "-P",
        pipeline,
        "-n",
        requests,
        "-r",
        KEYS,
        "-d",
        VALUE_SIZE,
        "--csv",
    )
    return float(re.search(rf'^"{operation}","([0-9.]+)"', text, re.M).group(1))


def measure(client, server, *load):
    """Return requests per second, and the CPU time of Redis: seconds per second, and microseconds per request."""
    before = cpu_seconds(server.process.pid)
    rate = client(server.port, *load)
    spent = (cpu_seconds(server.process.pid) - before) / load[-1]
    return rate, spent * rate, spent * 1e6


def verdict(ratio, shares):
    """Check whether the bar is met: by the ratio, or because Redis is the limit of both clients."""
    if ratio.value >= BAR:
        return "yes"
    low, high = ratio.interval
    if not low <= BAR <= high:
        return "NO"
    return "Redis is the limit" if min(shares) >= FULL_CPU else "undecided"


def row(operation, shape, rounds):
    """Return one line of the table. Ratios are paired within a round: a disturbance of some seconds affects both."""
    columns = {
        client: [statistics.median(column) for column in zip(*(each[client] for each in rounds))]
        for client in (solotest, redis_benchmark)
    }
    ratio = paired_ratio(*([each[client][0] for each in rounds] for client in (solotest, redis_benchmark)))
    low, high = ratio.interval
    (own, own_busy, own_cost), (other, other_busy, other_cost) = columns.values()
    return (
        f"| {operation} | {shape[0]} x {shape[1]} | {own:,.0f} | {other:,.0f} "
        f"| {ratio.value:.3f} ({low:.3f} to {high:.3f}) | >= {BAR} | {verdict(ratio, (own_busy, other_busy))} "
        f"| {own_busy:.2f}, {other_busy:.2f} | {own_cost:.2f}, {other_cost:.2f} |"
    )


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repetitions", type=int, default=21)
    options.add_argument("--requests", type=int, default=200_000)
    options.add_argument("--write", action="store_true")
    arguments = options.parse_args()
    if arguments.repetitions < PAIRS_FOR_AN_INTERVAL:
        options.error(f"--repetitions: {arguments.repetitions} is too few; an interval needs {PAIRS_FOR_AN_INTERVAL}")
    subprocess.run(["make", "-s", "-C", TESTS, "build/solotest"], check=True)
    load = os.getloadavg()[0]
    lines = [
        "| op | connections x pipeline | solotest ops/s | redis-benchmark ops/s | ratio (95 %) | bar | met "
        "| Redis' CPU, busy | us per request |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    with Redis(cpu=CPUS[-1]) as server:
        output(PROGRAM, "fill", server.port, VALUE_SIZE, KEYS)
        redis_benchmark(server.port, "SET", 8, 16, 5 * KEYS)  # its keys have different names
        for operation in ("SET", "GET"):
            for shape in SHAPES:
                requests = arguments.requests if shape[1] > 1 else arguments.requests // 4
                rounds = []
                for number in range(arguments.repetitions):
                    order = (solotest, redis_benchmark) if number % 2 else (redis_benchmark, solotest)
                    rounds.append({client: measure(client, server, operation, *shape, requests) for client in order})
                lines.append(row(operation, shape, rounds))
                print(lines[-1], flush=True)
    if arguments.write:
        head = (
            f"Written by `tests/bench/throughput.py --write`: closed loop, {KEYS:,} keys of {VALUE_SIZE} bytes in "
            f"random order, Redis on CPU {CPUS[-1]}, clients on CPU {CPUS[0]}.\n"
            f"Medians of {arguments.repetitions} interleaved rounds; the ratio is the geometric mean of the rounds' "
            "ratios, with an interval of Student's t. Two figures in a cell: solotest, redis-benchmark. A ratio below "
            f"the bar needs the proof that Redis is the limit: {FULL_CPU} of its CPU or more under both clients, and "
            "an interval that includes the bar.\n\n" + describe(load)
        )
        write_section("throughput", "The client's throughput next to redis-benchmark", head + "\n".join(lines))


if __name__ == "__main__":
    main()
