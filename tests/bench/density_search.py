# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how often a search finds a known density: the intervals of N90, N50 and of the ratio of two profiles.

python tests/bench/density_search.py [--searches N] [--write]

Ctrl-C evaluates what was measured so far.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import pathlib
import random
import signal
import statistics
import sys
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".ansible" / "collections"), str(ROOT / "tests")]

from synthetic_densities import WORLDS, Fleet, World, holds, search  # noqa: E402

RATIOS = (1.0, 1.33, 2.0)


def measure(world: World, number: int) -> dict[str, t.Any]:
    """Return what one search of two profiles found, and what it should have found."""
    chance = random.Random(f"{world.name} {number}")
    middle = math.exp(chance.uniform(math.log(3), math.log(30)))
    times = RATIOS[number % len(RATIOS)]
    fleets = {"dram": Fleet(world, middle, chance), "zram": Fleet(world, middle * times, chance)}
    began = time.process_time()
    found = search({name: fleet.probe for name, fleet in fleets.items()})["density"]
    seconds = time.process_time() - began
    arms = [_arm(each, fleet) for each, fleet in zip(found, fleets.values())]
    (base, base_most), (ours, our_most) = (
        (fleet.density(), fleet.density(stretch=world.undecided)) for fleet in fleets.values()
    )
    ratio = None
    if base and found[1]["ratio"]:
        ratio = holds(found[1]["ratio"]["interval"], ours / base_most, our_most / base)
    plain = found[1]["ratio"] and found[1]["ratio"]["estimate"]
    return {"arms": arms, "ratio": ratio, "plain": plain is not None, "seconds": seconds}


def _measure_task(task: tuple[World, int]) -> dict[str, t.Any]:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return measure(*task)


def _arm(found: dict[str, t.Any], fleet: Fleet) -> dict[str, t.Any]:
    truth, passes = fleet.density(), found["passes"]
    low, high = passes["n90_interval"]
    return {
        "n90": holds(passes["n90_interval"], truth),
        "too_high": low > truth,
        "too_low": high is not None and high < truth,
        "n50": holds(passes["n50_interval"], fleet.density(0.5)),
        "not_fails": holds(found["not_fails"]["n90_interval"], fleet.density(stretch=fleet.world.undecided)),
        "error": passes["n90"] / truth if truth else None,
        "width": (high or 100) / max(low, 1),
        "probes": found["probes"],
        "known": found["stopped_by"] == "factor",
    }


def row(world: World, results: t.Sequence[dict[str, t.Any]]) -> str:
    """Return the line of the table for a world."""
    arms = [arm for each in results for arm in each["arms"]]

    def share(values: t.Iterable[bool | None]) -> str:
        known = [value for value in values if value is not None]
        return f"{100 * sum(known) / len(known):.1f} %"

    def median(name: str) -> float:
        return statistics.median(arm[name] for arm in arms if arm[name] is not None)

    cells = [
        world.name,
        str(len(arms)),
        *(share(arm[name] for arm in arms) for name in ("n90", "too_high", "too_low", "not_fails", "n50")),
        share(each["ratio"] for each in results),
        f"{median('error'):.2f}",
        f"{median('width'):.2f}",
        f"{statistics.fmean(arm['probes'] for arm in arms):.0f}",
        share(arm["known"] for arm in arms),
    ]
    return f"| {' | '.join(cells)} |"


_COLUMNS = (
    *("world", "searches", "N90 held", "too high", "too low", "N90 that does not fail held", "N50 held", "ratio held"),
    *("N90 / truth, median", "width, median", "probes", "known within 1.25"),
)
HEADER = f"| {' | '.join(_COLUMNS)} |\n{'| --- ' * len(_COLUMNS)}|"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--searches", type=int, default=1000, help="the number of searches in all worlds; 1000 by default"
    )
    parser.add_argument("--write", action="store_true", help="write the table of docs/bench/density_search.md")
    options = parser.parse_args()
    pairs = max(1, options.searches // 2 // len(WORLDS))
    found: dict[World, list[dict[str, t.Any]]] = {world: [] for world in WORLDS}
    tasks = [(world, number) for number in range(pairs) for world in WORLDS]
    with multiprocessing.Pool() as pool:
        try:
            for (world, number), result in zip(tasks, pool.imap(_measure_task, tasks)):
                found[world].append(result)
                if world is WORLDS[-1]:
                    print(f"{len(tasks) - len(WORLDS) * (number + 1)} left", end="\r", flush=True)
        except KeyboardInterrupt:
            pool.terminate()
    every = [result for results in found.values() for result in results]
    lines = [row(world, results) for world, results in found.items()] + [row(World("**all**", 0), every)]
    print(HEADER, *lines, sep="\n")
    seconds = sum(each["seconds"] for each in every)
    probes = sum(arm["probes"] for each in every for arm in each["arms"])
    took = f"{1000 * seconds / probes:.0f} ms of CPU time for each probe"
    print(took)
    if options.write:
        path = ROOT / "docs" / "bench" / "density_search.md"
        text = path.read_text(encoding="utf-8")
        head, rest = text.split("<!-- table -->\n")[0], text.split("<!-- end of table -->\n")[1]
        day = f"{2 * len(every)} searches, {time.strftime('%Y-%m-%d')}, {took}:"
        table = "\n".join([day, "", HEADER, *lines])
        path.write_text(f"{head}<!-- table -->\n{table}\n\n<!-- end of table -->\n{rest}", encoding="utf-8")


if __name__ == "__main__":
    main()
