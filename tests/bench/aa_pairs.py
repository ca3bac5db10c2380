# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how often the interval of a ratio holds 1 where nothing differs: A/A studies of a real Redis.

A study measures the same arm twice in each of its rounds, in the order of a real study. Each run starts a Redis of its
own, fills it and loads it with the client; no playbook is involved. The files of the runs go through the code that
compares runs. The share of the intervals that hold 1 has a binomial interval of its own (Clopper and Pearson).

    python tests/bench/aa_pairs.py [--studies N] [--minutes N] [--write]
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import typing as t

from machine import describe, write_section

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "programs" / "solotest"))

from servers import Redis
from synthetic_fleets import begun_run, record_run, run_config

from ansible_collections.memstretch.density.plugins.module_utils.host import (
    pressure as memory_pressure,
)
from ansible_collections.memstretch.density.plugins.module_utils.solotest import client
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import FIGURES
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.run.measurement import measurement
from ansible_collections.memstretch.density.plugins.plugin_utils.study import arms as study_arms
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import ArmRuns, compare

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENT_TESTS = ROOT / "tests" / "programs" / "solotest"
PROGRAM = CLIENT_TESTS / "build" / "solotest"

ROUNDS = 5
LOAD = {"key_count": 2000, "value_size": 1000, "requests": 2500, "rate": 5000}
CONFIG = run_config(profile="dram", influences=[0], read_mixes=[100], warmups=0, iterations=1, min_overlap=0, **LOAD)
# Of 100 intervals of 95 %, fewer than this hold the truth by chance in 1 of 100 benches.
LEAST = 90
NAMES = {"avg_us": "average", "p99_us": "p99", "max_us": "maximum"}


def binomial_interval(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a probability with this many hits in the trials."""

    def at_most(count: int, share: float) -> float:
        return sum(math.comb(trials, each) * share**each * (1 - share) ** (trials - each) for each in range(count + 1))

    def bound(is_below: t.Callable[[float], bool]) -> float:
        low, high = 0.0, 1.0
        for _step in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if is_below(middle) else (low, middle)
        return low

    lowest = bound(lambda share: 1 - at_most(hits - 1, share) < 0.025) if hits else 0.0
    return lowest, bound(lambda share: at_most(hits, share) > 0.025) if hits < trials else 1.0


def measure(phase: t.Mapping[str, t.Any], server: Redis) -> dict[str, t.Any]:
    """Run the client for a phase and return what the module solotest returns."""
    test = phase["kind"] != "fill"
    load = CONFIG["load"]
    options = collections.defaultdict(
        lambda: None,
        {name: load[name] for name in ("value_size", "key_count", "rate")},
        mode="test" if test else "fill",
        port=server.port,
        influence=phase.get("influence", 0),
        read_mix=phase.get("read_mix", 100),
        requests=load["requests"] if test else None,
        arrivals=load["arrivals"] if test else None,
        overwrite=True,
    )
    before = memory_pressure.snapshot()
    done = subprocess.run(client.command(options, str(PROGRAM)), stdout=subprocess.PIPE, check=True)
    pressure = memory_pressure.difference(before, memory_pressure.snapshot())
    return measurement(client.facts(json.loads(done.stdout), None, pressure, {}))


def record(directory: pathlib.Path) -> RunDirectory:
    """Make one run on a Redis of its own."""
    with Redis() as server:
        return record_run(
            begun_run(directory, CONFIG, ["redis"]), lambda phase, _number, _host: measure(phase, server)
        )[0]


def study(directory: pathlib.Path) -> dict[str, t.Any]:
    """Measure an arm twice in each round, and return the comparison."""
    arms = study_arms.profile_arms("profiles", "dram,dram")
    schedule = study_arms.schedule(arms, "interleaved", ROUNDS)
    runs: dict[str, list[RunDirectory]] = {arm.name: [] for arm in arms}
    for (arm, _round), name in zip(schedule, study_arms.run_names("aa", schedule)):
        runs[arm.name].append(record(directory / name))
    repeats = study_arms.repeated([(arm.name, arm.variables) for arm in arms])
    return compare([ArmRuns(name, each, repeats.get(name)) for name, each in runs.items()])[0]


def table(studies: t.Sequence[dict[str, t.Any]]) -> list[str]:
    """Return the share of the intervals that hold 1, figure by figure, and what the studies say of themselves."""
    lines = [
        "| figure | intervals that hold 1 | 95 % interval of that share | spread of runs | smallest effect |",
        "| --- | --- | --- | --- | --- |",
    ]
    for figure in FIGURES:
        bounds = [document["aa_tests"][0]["cells"][0]["ratio_interval"][figure] for document in studies]
        hits = sum(low <= 1 <= high for low, high in bounds)
        low, high = binomial_interval(hits, len(studies))
        noises = [document["noise"]["cells"][0] for document in studies]
        spread, effect = (
            sorted(noise[name][figure] for noise in noises)[len(noises) // 2] for name in ("spread", "smallest_effect")
        )
        lines.append(
            f"| {NAMES[figure]} | {hits} of {len(studies)} | {100 * low:.1f} to {100 * high:.1f} % | "
            f"{100 * spread:.1f} % | {effect:.2f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=100, help="how many A/A studies; 100 by default")
    parser.add_argument(
        "--minutes", type=float, default=20, help="start no study after this many minutes; 20 by default"
    )
    parser.add_argument("--write", action="store_true", help="write docs/bench/short.md")
    options = parser.parse_args()
    subprocess.run(["make", "-s", "-C", CLIENT_TESTS, "build/solotest"], check=True)
    load, began, studies = os.getloadavg()[0], time.monotonic(), []
    while len(studies) < options.studies and time.monotonic() - began < 60 * options.minutes:
        with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()):
            studies.append(study(pathlib.Path(directory)))
    seconds = time.monotonic() - began
    lines = table(studies)
    failed = sum(document["aa_tests"][0]["holds"] is False for document in studies)
    lines += [
        "",
        f"Spread and smallest effect are medians. {failed} of {len(studies)} studies were labelled, because their "
        "three intervals together do not hold 1; 5 of 100 are expected at most.",
    ]
    hits = [int(line.split("|")[2].split()[0]) for line in lines[2:5]]
    met = all(100 * each >= LEAST * len(studies) for each in hits)
    lines += ["", f"At least {LEAST} of 100 for each figure: {'met' if met else 'MISSED'}."]
    if len(studies) < options.studies:
        lines += ["", f"Only {len(studies)} of {options.studies} studies: {options.minutes:g} minutes were over."]
    print("\n".join(lines))
    if options.write:
        write_section(
            "aa_pairs",
            "A/A studies of real Redis servers",
            f"`tests/bench/aa_pairs.py --write`, {time.strftime('%Y-%m-%d')}: {len(studies)} studies in "
            f"{seconds / 60:.0f} minutes. Each measures the same arm twice in each of {ROUNDS} rounds. A run starts a "
            f"Redis, fills it with {LOAD['key_count']:,} records of {LOAD['value_size']:,} bytes and reads "
            f"{LOAD['requests']:,} of them at {LOAD['rate']:,}/s; nothing is discarded.\n\n"
            + describe(load)
            + "\n".join(lines),
        )


if __name__ == "__main__":
    main()
