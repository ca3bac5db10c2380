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

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".ansible" / "collections"), str(ROOT / "tests")]

from synthetic_hosts import BAD_FOR_P99, FINDS, FINDS_NONE, World, search  # noqa: E402

PAGE = ROOT / "docs" / "bench" / "optimize_search.md"
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
    """Return what this many searches in a world have found."""
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
    parser.add_argument("--write", action="store_true", help=f"write the table of {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    began, lines = time.monotonic(), [HEADER]
    print(HEADER)
    for world in (*FINDS, BAD_FOR_P99, *FINDS_NONE):
        lines.append(row(world, measure(world, options.searches)))
        print(lines[-1], flush=True)
    print(f"{time.monotonic() - began:.0f} s")
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        head, rest = text.split("<!-- table -->\n")[0], text.split("<!-- end of table -->\n")[1]
        day = f"{options.searches} searches in each world, {time.strftime('%Y-%m-%d')}:"
        table = "\n".join([day, "", *lines])
        PAGE.write_text(f"{head}<!-- table -->\n{table}\n\n<!-- end of table -->\n{rest}", encoding="utf-8")


if __name__ == "__main__":
    main()
