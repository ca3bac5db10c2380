# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure membw beside public programs that read memory in sequence, on one CPU, in turn; medians count.

Peers: likwid-bench's kernels load and load_avx (Debian's likwid), and sysbench memory (Debian's sysbench). mbw copies, which is another
pattern; it is here for orientation only. With --write the figures go to docs/bench/memory_bandwidth.md.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess

from machine import describe

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = ROOT / "tests" / "programs" / "membw" / "build" / "membw"
CPU = min(os.sched_getaffinity(0))
MEGABYTES = 512
BAR = 0.95


def output(*words):
    done = subprocess.run(["taskset", "-c", str(CPU), *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{words}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return done.stdout


def membw(pattern):
    def run():
        report = json.loads(
            output(PROGRAM, "--cpus", CPU, "--pattern", pattern, "--buffer", MEGABYTES << 20, "--allow-cached")
        )
        return report["bytes_per_second"]

    return run


def likwid(kernel):
    def run():
        text = output("likwid-bench", "-t", kernel, "-w", f"S0:{MEGABYTES}MB:1", "-s", 1)
        return float(re.search(r"^MByte/s:\s+([0-9.]+)", text, re.M).group(1)) * 1e6

    return run


def sysbench():
    text = output(
        "sysbench",
        "memory",
        f"--memory-block-size={MEGABYTES}M",
        "--memory-oper=read",
        "--memory-total-size=1000G",
        "--time=1",
        "run",
    )
    return float(re.search(r"\(([0-9.]+) MiB/sec\)", text).group(1)) * 2**20


def mbw():
    return (
        float(re.search(r"^AVG.*Copy: ([0-9.]+) MiB/s", output("mbw", "-n", 2, "-t0", MEGABYTES), re.M).group(1))
        * 2**20
    )


PEERS = {
    "likwid-bench load": likwid("load"),
    "likwid-bench load_avx": likwid("load_avx"),
    "sysbench memory, read": sysbench,
}
OWN = {"membw --pattern all": membw("all"), "membw --pattern line": membw("line")}
ASIDE = {"mbw, copies": mbw}


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repetitions", type=int, default=9)
    options.add_argument("--write", action="store_true")
    arguments = options.parse_args()
    missing = [name for name in ("likwid-bench", "sysbench", "mbw", "taskset") if shutil.which(name) is None]
    if missing:
        raise SystemExit(f"not measured: {', '.join(missing)} is not installed (make bench installs it)")
    subprocess.run(["make", "-s", "-C", ROOT / "tests" / "programs" / "membw", "build/membw"], check=True)
    load = os.getloadavg()[0]
    programs = {**OWN, **PEERS, **ASIDE}
    rounds = [{name: run() for name, run in programs.items()} for dummy in range(arguments.repetitions)]
    figures = {name: [each[name] for each in rounds] for name in programs}
    medians = {name: statistics.median(values) for name, values in figures.items()}
    lines = ["| program | GB/s, median | least to most |", "| --- | --- | --- |"]
    lines += [
        f"| {name} | {medians[name] / 1e9:.2f} | {min(values) / 1e9:.2f} to {max(values) / 1e9:.2f} |"
        for name, values in figures.items()
    ]
    best = max(PEERS, key=medians.__getitem__)
    # Paired within a round, so that what disturbs the machine for some seconds disturbs both.
    ratio = statistics.median(each["membw --pattern all"] / each[best] for each in rounds)
    lines += [
        "",
        f"membw relative to the best peer ({best}), every byte in sequence, median of {len(rounds)} interleaved rounds: {ratio:.3f}, "
        f"bar >= {BAR}: {'met' if ratio >= BAR else 'NOT met'}",
    ]
    text = "\n".join(lines)
    print(text)
    if arguments.write:
        head = (
            f"# Bench of membw\n\nWritten by `tests/bench/memory_bandwidth.py --write`: one reader on CPU {CPU}, a buffer of {MEGABYTES} MiB.\n\n"
            + describe(load)
        )
        (ROOT / "docs" / "bench" / "memory_bandwidth.md").write_text(head + text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
