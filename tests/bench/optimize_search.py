# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how often a search finds the setting that matters, and how often it proposes one where none does.

python tests/bench/optimize_search.py [--searches N] [--write]

The hosts are simulated; the code of the search is that of the playbook.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
import time
import typing as t

from machine import SHORT, write_section

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".ansible" / "collections"))

from synthetic_hosts import BAD_FOR_P99, FINDS, FINDS_NONE, World, search

ROOT = pathlib.Path(__file__).resolve().parents[2]

TEXT = """\
`tests/bench/optimize_search.py` simulates hosts on which the effect of each candidate is known, and searches them
with the code of `playbooks/study.yml -e kind=optimize`, with its default rounds. Each host has four settings with
three candidates each, and two cells. The logarithm of a run's average varies by what the line of the table says,
and that of its p99 by half as much again. Rounds differ by 20 % for all of their runs. In the first worlds one
candidate takes 20 % off the average and the p99; in the last ones none has an effect. The one that takes 20 % off
the average and adds 60 % to the p99 must not be proposed.

- **found**: the candidate that matters is proposed; **alone**: and nothing else. The target is 90 % where runs
  vary by at most 10 %.
- **others**: a candidate without an effect, or with a smaller one, is proposed.
- **nothing proposed**: the target is 95 % where no setting matters.
- **smallest effect**: what the searches state that they find with a probability of 80 %, after the correction. 20
  % off is an effect of 1.25: a site whose smallest effect is larger misses it often, and states so.

Not simulated: settings whose effects depend on each other, and a site whose noise changes during the search.
"""
_COLUMNS = (
    "world",
    "searches",
    "found",
    "alone",
    "others",
    "nothing proposed",
    "smallest effect, median",
    "runs, median",
)
HEADER = f"| {' | '.join(_COLUMNS)} |\n{'| --- ' * len(_COLUMNS)}|"


class Found(t.NamedTuple):
    """What a search has proposed, the smallest effect that it states, and its runs."""

    proposed: list[str]
    smallest_effect: float | None
    runs: int


def measure(world: World, searches: int) -> list[Found]:
    """Return the findings of this many searches in a world."""
    found = []
    for seed in range(searches):
        result, host = search(world, seed)
        found.append(Found(result["proposed"], result["smallest_effect"], len(host.runs)))
    return found


def row(world: World, found: t.Sequence[Found]) -> str:
    """Return the line of the table for a world."""
    truth = [world.truth] if world.truth else []

    def share(hits: t.Iterable[bool]) -> str:
        return f"{100 * sum(hits) / len(found):.1f} %"

    effects = [each.smallest_effect for each in found if each.smallest_effect is not None]
    cells = [
        world.name,
        str(len(found)),
        share(set(truth) <= set(each.proposed) for each in found) if truth else "",
        share(each.proposed == truth for each in found) if truth else "",
        share(bool(set(each.proposed) - set(truth)) for each in found),
        share(not each.proposed for each in found),
        f"{statistics.median(effects):.2f}",
        f"{statistics.median(each.runs for each in found):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=200, help="searches in each world; 200 by default")
    parser.add_argument("--write", action="store_true", help=f"write the section of {SHORT.relative_to(ROOT)}")
    options = parser.parse_args()
    began, lines = time.monotonic(), [HEADER]
    print(HEADER)
    for world in (*FINDS, BAD_FOR_P99, *FINDS_NONE):
        lines.append(row(world, measure(world, options.searches)))
        print(lines[-1], flush=True)
    print(f"{time.monotonic() - began:.0f} s")
    if options.write:
        day = f"{options.searches} searches in each world, {time.strftime('%Y-%m-%d')}:"
        write_section(
            "optimize_search",
            "How often a search for better settings finds the one that matters",
            "\n".join([TEXT, day, "", *lines]),
        )


if __name__ == "__main__":
    main()
