# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how often a search finds a known density: the intervals of N90, N50 and of the ratio of two profiles.

python tests/bench/density_search.py [--searches N] [--targets N] [--write]

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


class Claim(t.NamedTuple):
    """Searches with a target: a profile that carries C(times) as many hosts, and its disturbed probes."""

    target: float
    times: float
    softness: float
    lapse: float
    maximum: int


CLAIMS = (
    Claim(2.5, 2.9, 0.03, 0.0, 56),
    Claim(2.5, 2.9, 0.05, 0.0, 56),
    Claim(2.5, 3.1, 0.1, 0.0, 56),
    Claim(3.5, 4.2, 0.05, 0.0, 72),
    Claim(2.5, 1.9, 0.05, 0.0, 56),
    Claim(2.5, 2.4, 0.03, 0.0, 56),
    Claim(2.5, 2.6, 0.08, 0.0, 56),
    Claim(2.5, 3.2, 0.25, 0.0, 56),
    Claim(2.5, 3.2, 0.05, 0.12, 56),
)
FITTING, FIRST_SOFTNESS, CLAIM_PROBES = 17, 0.025, 40


def claimed(claim: Claim, number: int) -> tuple[str, float, int, int]:
    """Return what a search says of its target, the planted multiple, and the probes of both profiles."""
    chance = random.Random(f"{claim} {number}")
    middle = FITTING + 0.5
    dram = Fleet(World("", FIRST_SOFTNESS), middle, chance)
    zram = Fleet(World("", claim.softness, claim.lapse), middle * claim.times, chance)
    fleets = {"dram": dram.probe, "zram": zram.probe}
    found = search(fleets, claim.maximum, target=claim.target, start=FITTING, probes=CLAIM_PROBES)["density"]
    low, high = found[1]["ratio"]["interval"]
    said = "reached" if low >= claim.target else "missed" if high is not None and high < claim.target else "open"
    return said, zram.density() / dram.density(), found[0]["probes"], found[1]["probes"]


def _claimed_task(task: tuple[Claim, int]) -> tuple[str, float, int, int]:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return claimed(*task)


CLAIM_COLUMNS = (
    *("target", "softness", "disturbed", "planted multiple, median", "searches", "reached", "missed", "open"),
    *("probes of dram, median", "of the other, median"),
)


def claim_row(claim: Claim, results: t.Sequence[tuple[str, float, int, int]]) -> str:
    """Return the line of the second table for searches with a target."""
    said = [each[0] for each in results]
    multiple, first, other = (statistics.median(each[place] for each in results) for place in (1, 2, 3))
    cells = [f"{claim.target:g}", f"{claim.softness:g}", f"{claim.lapse:.0%}", f"{multiple:.2f}", str(len(said))]
    cells += [str(said.count(name)) for name in ("reached", "missed", "open")] + [f"{first:.0f}", f"{other:.0f}"]
    return f"| {' | '.join(cells)} |"


def claim_table(searches: int, pool: t.Any) -> list[str]:
    """Return the second table, of this many searches in all."""
    each = max(1, searches // len(CLAIMS))
    lines = [f"| {' | '.join(CLAIM_COLUMNS)} |", "| --- " * len(CLAIM_COLUMNS) + "|"]
    for claim in CLAIMS:
        lines.append(claim_row(claim, pool.map(_claimed_task, [(claim, number) for number in range(each)])))
        print(lines[-1], flush=True)
    return lines


def written(text: str, name: str, lines: t.Sequence[str]) -> str:
    """Return the page with another table between its marks."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    head, rest = text.split(begin)[0], text.split(end)[1]
    return "\n".join([f"{head}{begin}{lines[0]}", *lines[1:], "", f"{end}{rest}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--searches", type=int, default=1000, help="the number of searches in all worlds; 1000 by default"
    )
    parser.add_argument("--targets", type=int, default=0, help="only this many searches with a target")
    parser.add_argument("--write", action="store_true", help="write the table of docs/bench/density_search.md")
    options = parser.parse_args()
    page = ROOT / "docs" / "bench" / "density_search.md"
    if options.targets:
        with multiprocessing.Pool() as pool:
            table = claim_table(options.targets, pool)
        if options.write:
            day = [f"{time.strftime('%Y-%m-%d')}:", ""]
            page.write_text(written(page.read_text(encoding="utf-8"), "targets", day + table), encoding="utf-8")
        return
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
        day = f"{2 * len(every)} searches, {time.strftime('%Y-%m-%d')}, {took}:"
        text = page.read_text(encoding="utf-8")
        page.write_text(written(text, "table", [day, "", *HEADER.splitlines(), *lines]), encoding="utf-8")


if __name__ == "__main__":
    main()
