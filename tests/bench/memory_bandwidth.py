# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare membw with public programs that read memory sequentially: one CPU, interleaved rounds, medians.

Peers: likwid-bench's kernels load and load_avx (Debian's likwid), and sysbench memory (Debian's sysbench). mbw copies
memory, so its figure is for orientation only. Then membw is compared with itself: four times the buffer
must give the same bandwidth, and a buffer that fits the cache a higher bandwidth and a lower latency. --only-cache
measures that alone and needs no peers. With --write the figures go to docs/bench/short.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess

from machine import describe, write_section
from sign_test import median_with_interval

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = ROOT / "tests" / "programs" / "membw" / "build" / "membw"
CPU = min(os.sched_getaffinity(0))
MEGABYTES = 512
BAR = 0.95
LARGER = 4  # the factor between the default buffer and the larger one
IN_CACHE = 1 << 20


def output(*words):
    done = subprocess.run(["taskset", "-c", str(CPU), *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{words}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return done.stdout


def membw(pattern):
    def run():
        words = ("--cpus", CPU, "--pattern", pattern, "--buffer", MEGABYTES << 20, "--allow-cached")
        return json.loads(output(PROGRAM, *words))["bytes_per_second"]

    return run


def likwid(kernel):
    def run():
        text = output("likwid-bench", "-t", kernel, "-w", f"S0:{MEGABYTES}MB:1", "-s", 1)
        return float(re.search(r"^MByte/s:\s+([0-9.]+)", text, re.MULTILINE).group(1)) * 1e6

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
    text = output("mbw", "-n", 2, "-t0", MEGABYTES)
    return float(re.search(r"^AVG.*Copy: ([0-9.]+) MiB/s", text, re.MULTILINE).group(1)) * 2**20


def build():
    subprocess.run(["make", "-s", "-C", ROOT / "tests" / "programs" / "membw", "build/membw"], check=True)


PEERS = {
    "likwid-bench load": likwid("load"),
    "likwid-bench load_avx": likwid("load_avx"),
    "sysbench memory, read": sysbench,
}
OWN = {"membw --pattern all": membw("all"), "membw --pattern line": membw("line")}
ASIDE = {"mbw, copies": mbw}


def figure(pattern, buffer):
    """Return bytes or steps per second of CPU time: other work on the CPU changes that less than wall time."""
    words = (PROGRAM, "--cpus", CPU, "--pattern", pattern, "--buffer", buffer, "--allow-cached", "--seconds", 0.2)
    report = json.loads(output(*words))
    return report["bytes"] / (64 if pattern == "chase" else 1) / (report["seconds"] * report["cpu_share"])


def available():
    text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
    return int(re.search(r"^MemAvailable: +(\d+) kB", text, re.MULTILINE).group(1)) << 10


def cache_lines(repetitions):
    """Return a table of the effect of the buffer's size. Ratios are paired within a round."""
    report = json.loads(output(PROGRAM, "--cpus", CPU, "--buffer", IN_CACHE, "--allow-cached", "--seconds", 0.01))
    default = max(256 << 20, 16 * report["cache_bytes"])
    larger = LARGER * default
    if larger > available() / 2:
        return [f"The effect of the cache is not measured: that needs {2 * larger >> 20:,} MiB of available memory."]
    comparisons = {
        f"bandwidth, {default >> 20} MiB relative to {larger >> 20} MiB": ("all", default, larger),
        f"bandwidth, 1 MiB relative to {default >> 20} MiB": ("all", IN_CACHE, default),
        f"steps of a chase, 1 MiB relative to {default >> 20} MiB": ("chase", IN_CACHE, default),
    }
    bars = ((0.8, 1.2), (1, math.inf), (2, math.inf))
    rounds = [
        [figure(pattern, first) / figure(pattern, second) for pattern, first, second in comparisons.values()]
        for _round in range(repetitions)
    ]
    lines = [
        f"Effect of the cache of {report['cache_bytes'] >> 20} MiB, median of {repetitions} ratios:",
        "",
        "| membw | ratio (95 %) | bar | met |",
        "| --- | --- | --- | --- |",
    ]
    for name, (low, high), ratios in zip(comparisons, bars, zip(*rounds)):
        ratio, least, most = median_with_interval(ratios)
        wanted = f"> {low}" if high == math.inf else f"{low} to {high}"
        met = "yes" if low < ratio < high else "NO"
        lines.append(f"| {name} | {ratio:.3f} ({least:.3f} to {most:.3f}) | {wanted} | {met} |")
    return lines


def pair_lines(figures):
    """Return a table of membw relative to each peer. Ratios are paired within a round: a disturbance affects both."""
    own = figures["membw --pattern all"]
    lines = [
        f"membw --pattern all relative to each peer, median of {len(own)} interleaved rounds:",
        "",
        f"| peer | ratio (95 %) | >= {BAR} |",
        "| --- | --- | --- |",
    ]
    for peer in PEERS:
        ratios = [mine / other for mine, other in zip(own, figures[peer])]
        ratio, least, most = median_with_interval(ratios)
        verdict = "yes" if least >= BAR else "NO" if most < BAR else "not decided"
        lines.append(f"| {peer} | {ratio:.3f} ({least:.3f} to {most:.3f}) | {verdict} |")
    return lines


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repetitions", type=int, default=9)
    options.add_argument("--write", action="store_true")
    options.add_argument("--only-cache", action="store_true")
    arguments = options.parse_args()
    if arguments.only_cache:
        if arguments.write:
            options.error("--write needs the whole bench")
        build()
        print("\n".join(cache_lines(arguments.repetitions)))
        return
    missing = [name for name in ("likwid-bench", "sysbench", "mbw", "taskset") if shutil.which(name) is None]
    if missing:
        raise SystemExit(f"not measured: {', '.join(missing)} is not installed (make bench installs it)")
    build()
    load = os.getloadavg()[0]
    programs = {**OWN, **PEERS, **ASIDE}
    rounds = [{name: run() for name, run in programs.items()} for dummy in range(arguments.repetitions)]
    figures = {name: [each[name] for each in rounds] for name in programs}
    medians = {name: statistics.median(values) for name, values in figures.items()}
    lines = ["| program | GB/s, median | minimum to maximum |", "| --- | --- | --- |"]
    lines += [
        f"| {name} | {medians[name] / 1e9:.2f} | {min(values) / 1e9:.2f} to {max(values) / 1e9:.2f} |"
        for name, values in figures.items()
    ]
    lines += ["", *pair_lines(figures), "", *cache_lines(arguments.repetitions)]
    text = "\n".join(lines)
    print(text)
    if arguments.write:
        head = (
            f"Written by `tests/bench/memory_bandwidth.py --write`: one reader on CPU {CPU}, "
            f"a buffer of {MEGABYTES} MiB.\n\n" + describe(load)
        )
        write_section("memory_bandwidth", "Memory bandwidth next to other programs", head + text)


if __name__ == "__main__":
    main()
