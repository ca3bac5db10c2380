# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The headline: a density for each row of tools/headline.yml, and the tables of docs/bench/headline.md.

`measure` runs playbooks/density.yml row by row. The same command continues after an interruption. `page` keeps what the
finished rows say in docs/bench/headline, and writes the page.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / ".ansible" / "collections"))
from ansible_collections.memstretch.density.plugins.plugin_utils.density import sentence
from ansible_collections.memstretch.density.plugins.plugin_utils.density.answer import answer

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "tools" / "headline.yml"
INVENTORY = ROOT / "inventories" / "ramp" / "hosts.yml"
KEPT = ROOT / "docs" / "bench" / "headline"
PAGE = KEPT.with_suffix(".md")

# Limits in microseconds, by which the ramps are judged a second time: those of the source, and twice idle DRAM.
SOURCE = {"kind": "absolute", "avg_us": 50, "p99_us": 300}
# The latency is shown for fleets of so many times what fits into DRAM, from windows of at most so much more or less.
TIMES, NEAR = (2, 3, 3.5), 0.08
# What a shell says of a program that Ctrl-C has ended.
INTERRUPTED = 130
# The profile whose gap to DRAM others close.
SLOW = "swap_2018"

_Document = dict[str, t.Any]


class Row(t.NamedTuple):
    """One row; tools/headline.yml explains the fields."""

    name: str
    values: str
    variables: _Document


def rows(path: Path) -> list[Row]:
    """Return the rows of a file."""
    return [Row(**each) for each in yaml.safe_load(path.read_text(encoding="utf-8"))]


# ---- the measurement


def measure(wanted: t.Sequence[Row], results: Path, inventory: Path, minutes: float, extra: t.Sequence[str]) -> int:
    """Measure the rows that are not finished. None is begun once the minutes are over.

    Returns:
        The exit status: 0 if all are finished.
    """
    end = time.monotonic() + 60 * minutes
    for row in wanted:
        if is_finished(results, row):
            say(f"{row.name} is finished")
            continue
        if time.monotonic() > end:
            say(f"no time was left for {row.name}; run the same command again to continue")
            return 1
        say(row.name)
        variables = {**row.variables, "results_dir": str(results), "density_id": f"headline-{row.name}"}
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory)]
        command += [str(ROOT / "playbooks" / "density.yml"), "-e", json.dumps(variables)]
        status = run_to_its_end([*command, *(word for each in extra for word in ("-e", each))])
        if status:
            how = "was interrupted" if status == INTERRUPTED else "failed"
            say(f"{row.name} {how}; run the same command again to continue")
            return status
    return 0


def is_finished(results: Path, row: Row) -> bool:
    """Decide whether a row was measured to its end."""
    path = results / f"headline-{row.name}" / "density.json"
    return path.exists() and bool(json.loads(path.read_text(encoding="utf-8"))["finished"])


def run_to_its_end(command: t.Sequence[str]) -> int:
    """Run a program and return its exit status. One that is interrupted restores the machine; this waits for that.

    Returns:
        INTERRUPTED if there was a signal.
    """
    interrupted: list[int] = []

    # It raises nothing, so that no signal can end the wait for the program, which has the same from the terminal.
    def note(number: int, _frame: t.Any) -> None:
        interrupted.append(number)
        if number == signal.SIGTERM:
            process.send_signal(signal.SIGINT)

    environment = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), **os.environ}
    with subprocess.Popen(command, env=environment) as process:
        before = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            status = process.wait()
            return INTERRUPTED if interrupted and status else status
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def say(text: str) -> None:
    print(f"== headline: {text}", flush=True)


# ---- the page


def keep(results: Path, row: Row, directory: Path) -> None:
    """Keep what a finished row says: its answer, and that by limits in microseconds."""
    source = results / f"headline-{row.name}"
    found = json.loads((source / "density.json").read_text(encoding="utf-8"))
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((source / "ramps").glob("*.json"))]
    # The ramps are judged again, so that all rows say what the present rules say.
    found.update(answer(found["definition"], records))
    absolute = [SOURCE]
    if found["plateau"]:
        absolute.append(
            {"kind": "absolute", **{name: round(2 * found["plateau"][name]) for name in SOURCE if "us" in name}}
        )
    kept = {
        "machine": machine(),
        "measured_at": time.strftime("%Y-%m-%d", time.gmtime(found["measured_at"])),
        "density": {name: value for name, value in found.items() if name not in ("site_checks", "runs")},
        "absolute": [
            {
                "objective": aim,
                "arms": [_short(arm) for arm in answer({**found["definition"], "objective": aim}, records)["arms"]],
            }
            for aim in absolute
        ],
    }
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(kept, separators=(",", ":"), sort_keys=True) + "\n"
    (directory / f"{row.name}.json").write_text(text, encoding="utf-8")


def _short(arm: t.Mapping[str, t.Any]) -> _Document:
    """Return what a table by limits in microseconds shows of an arm."""
    if arm["density"] is None:
        return {"name": arm["name"], "density": "-", "ratio": "-"}
    return {"name": arm["name"], "density": sentence.count(arm), "ratio": sentence.ratio(arm) or "-"}


def machine() -> str:
    """Return what this machine is."""
    models = [line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if "model name" in line]
    model = models[0].partition(": ")[2] if models else platform.machine()
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}"


def page(wanted: t.Sequence[Row], directory: Path) -> str:
    """Return the page, from what was kept."""
    measured = [row for row in wanted if (directory / f"{row.name}.json").exists()]
    lines = [
        "# The headline: figures",
        "",
        "`make headline-page` writes this page from the results that it keeps in `docs/bench/headline`. "
        "[The headline](../headline.md) has the method.",
        "",
    ]
    for row in measured:
        each = json.loads((directory / f"{row.name}.json").read_text(encoding="utf-8"))
        lines += [f"## Values {row.values}, {row.name}", "", f"{each['machine']}, {each['measured_at']}.", ""]
        lines += [f"- {line}" for line in _sentences(each["density"])]
        lines += ["", *_table(_ANSWER, [_answer(found) for found in each["density"]["arms"]]), ""]
        beyond = _beyond(each["density"])
        lines += [*_table(_BEYOND, beyond), ""] if beyond else []
        lines += ["By limits in microseconds:", "", *_table(_ABSOLUTE, _absolute(each)), ""]
    waiting = [row.name for row in wanted if row not in measured]
    lines += [f"Not measured yet: {', '.join(waiting)}."] if waiting else []
    return "\n".join(lines).rstrip() + "\n"


_ANSWER = (
    "profile",
    "density",
    "how sure",
    "x DRAM",
    "average / p99",
    "what ends it",
    "limits 10 % tighter, wider",
)
_BEYOND = (
    "x what fits",
    "servers",
    "profile",
    "average, x references",
    "p99, x references",
    "gap closed, average",
    "p99",
)
_ABSOLUTE = ("at most, average / p99 us", "profile", "density", "x DRAM")


def _sentences(density: _Document) -> list[str]:
    said = [(sentence.sentence(density), sentence.details(density)), *sentence.others(density)]
    return [*(" ".join(each).strip() for each in said), *(f"note: {note}" for note in sentence.notes(density))]


def _answer(arm: _Document) -> list[str]:
    if arm["density"] is None:
        return [arm["name"], *["-"] * (len(_ANSWER) - 1)]
    found = arm["latency"]
    moved = ", ".join(str(each["density"]) for each in arm["sensitivity"])
    latency = f"{found['avg_us']:,.0f} / {found['p99_us']:,.0f} us"
    return [
        arm["name"],
        sentence.count(arm),
        sentence.sure(arm),
        sentence.ratio(arm) or "-",
        latency,
        sentence.ending(arm),
        moved,
    ]


def _absolute(kept: _Document) -> list[list[str]]:
    return [
        [f"{each['objective']['avg_us']} / {each['objective']['p99_us']}", arm["name"], arm["density"], arm["ratio"]]
        for each in kept["absolute"]
        for arm in each["arms"]
    ]


def _beyond(density: _Document) -> list[list[str]]:
    """Return the latency beyond what fits into DRAM, and the share of the gap to DRAM that a profile closes."""
    arms = [arm for arm in density["arms"] if arm["density"] is not None]
    if len(arms) < 2:
        return []
    found = []
    for times in TIMES:
        size = round(times * arms[0]["density"])
        of = {arm["name"]: latency(arm, size) for arm in arms[1:]}
        for name, each in of.items():
            slow = of.get(SLOW)
            shown = [each] * 2 if isinstance(each, str) else [f"{value:.2f}" for value in each]
            found.append([f"{times:g}", str(size), name, *shown, *closed(slow, each)])
    return found


def latency(arm: _Document, size: int) -> tuple[float, float] | str:
    """Return average and p99 at a size as multiples of the references, or why there are none."""
    if all(ramp["wall"] is not None and ramp["wall"] <= size for ramp in arm["rounds"]):
        return "does not fit"
    near = [
        point
        for ramp in arm["rounds"]
        for point in ramp["points"]
        if abs(point["size"] / size - 1) <= NEAR and not point["disturbed"] and point["references"]
    ]
    if not near:
        return "not seen"
    average, p99 = (
        statistics.median(_best(each["fleet"])[name] / _best(each["references"])[name] for each in near)
        for name in ("avg_us", "p99_us")
    )
    return average, p99


def _best(of: _Document) -> _Document:
    return of.get("punctual") or of["upper"]


def closed(slow: tuple[float, float] | str | None, each: tuple[float, float] | str) -> list[str]:
    """Return the share of the gap between the slow profile and DRAM that another one closes, for average and p99."""
    if not isinstance(slow, tuple) or not isinstance(each, tuple) or slow == each:
        return ["-", "-"]
    return [
        f"{(worst - value) / (worst - 1):.0%}".replace("%", " %") if worst > 1 else "-"
        for worst, value in zip(slow, each)
    ]


def _table(titles: t.Sequence[str], body: t.Iterable[t.Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(each)} |" for each in (titles, ["---"] * len(titles), *body)]


# ---- the commands


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["measure", "page"])
    parser.add_argument("--rows", type=Path, default=ROWS, help="file with the rows")
    parser.add_argument("--only", default="", help="names of rows, separated by commas")
    parser.add_argument("--minutes", type=float, default=120, help="no row is begun once they are over (120)")
    parser.add_argument("--inventory", type=Path, default=INVENTORY, help="the machine and its servers")
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="directory of the results")
    parser.add_argument("-e", dest="variables", action="append", default=[], help="as of ansible-playbook")
    given = parser.parse_args()
    known, names = rows(given.rows), [name for name in given.only.split(",") if name]
    unknown = sorted(set(names) - {row.name for row in known})
    if unknown:
        parser.error(f"--only: {', '.join(unknown)} is not a row; the rows are {', '.join(row.name for row in known)}")
    wanted = [row for row in known if not names or row.name in names]
    results = given.results.absolute()
    if given.command == "measure":
        return measure(wanted, results, given.inventory, given.minutes, given.variables)
    for row in wanted:
        if is_finished(results, row):
            keep(results, row, KEPT)
    PAGE.write_text(page(known, KEPT), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
