# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The headline study: a density search for each row of tools/headline.yml, and the tables of docs/headline.md.

`measure` runs playbooks/density.yml row by row, and playbooks/plan.yml after each. The searches restore the machine.
The same command continues after an interruption and leaves finished rows alone. `page` writes the tables.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".ansible" / "collections"))
# pylint: disable=wrong-import-position
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text  # noqa: E402
from ansible_collections.memstretch.density.plugins.plugin_utils.report import density_text  # noqa: E402
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError  # noqa: E402

ROWS = ROOT / "tools" / "headline.yml"
INVENTORY = ROOT / "inventories" / "headline" / "hosts.yml"
PAGE = ROOT / "docs" / "headline.md"
# Where a tuned machine keeps what it was before.
RECORDS = Path("/var/lib/memstretch")
BEGIN, END = "<!-- headline.py -->\n", "<!-- end of headline.py -->\n"

# What a row takes besides its search: the site check, preparing the servers, restoring the machine, the plan.
AROUND_MINUTES = 5
# The shortest search that is worth beginning: the objective, and a probe of each profile.
SHORTEST_MINUTES = 5
NOT_MEASURED = "not measured yet"
REACHED, NOT_REACHED, UNDECIDED = "reached", "not reached", "undecided"

_Document = dict[str, t.Any]


class HeadlineError(Exception):
    """The study cannot be made; the text is for the user."""


class Row(t.NamedTuple):
    """One row of the study; tools/headline.yml explains the fields."""

    name: str
    values: str
    compressibility: float
    influence: float
    servers: int
    profiles: list[str]
    variables: dict[str, t.Any]
    target: float | None
    expected: str

    @property
    def all_variables(self) -> dict[str, t.Any]:
        """The variables of the playbooks for this row."""
        return {
            **self.variables,
            "profiles": ",".join(self.profiles),
            "density_max": self.servers,
            "latency_benchmark_compressibility": self.compressibility,
            "latency_benchmark_influences": [self.influence],
        }


class Found(t.NamedTuple):
    """What is known about a row.

    Attributes:
        row: the row.
        density: density.json of its search; None before that has begun.
        plan: plan.json of its plan; None before that was made.
        machine: where it was measured.
    """

    row: Row
    density: _Document | None
    plan: _Document | None
    machine: str

    @property
    def finished(self) -> bool:
        """Whether the search has a result."""
        return bool(self.density and self.density["finished"] and self.density.get("density"))

    @property
    def arms(self) -> list[_Document]:
        """The densities found, the baseline first; empty without a result."""
        return t.cast("dict[str, t.Any]", self.density)["density"] if self.finished else []

    @property
    def best(self) -> _Document | None:
        """The density of the best profile but the baseline."""
        return max(self.arms[1:], key=lambda arm: arm["density"], default=None)


class Results:
    """The results of a study.

    Args:
        directory: where all runs are.
        study: the first part of the names of its searches.
    """

    def __init__(self, directory: Path, study: str) -> None:
        self.directory, self._study = directory, study

    def search_id(self, row: Row) -> str:
        return f"{self._study}-{row.name}"

    def plan_id(self, row: Row) -> str:
        return f"{self.search_id(row)}-plan"

    def of(self, row: Row) -> Found:
        """Return what is known about a row."""
        density = self._read(self.search_id(row), "density.json")
        machine = ""
        if density and "calibration" in density:
            machine = _machine(self._read(density["calibration"]["run_id"], "run.json") or {})
        return Found(row, density, self._read(self.plan_id(row), "plan.json"), machine)

    def _read(self, name: str, file: str) -> _Document | None:
        directory = RunDirectory(str(self.directory), name)
        return directory.read_json(file) if os.path.exists(directory.file(file)) else None


def _machine(run: _Document) -> str:
    """Return the processor and the kernel of the first host of a run that has a record."""
    for record in run.get("hosts", {}).values():
        if record.get("cpu") and record.get("kernel"):
            return f"{record['cpu']['model']}, {record['cpu']['online']} CPUs, Linux {record['kernel']['release']}"
    return ""


def rows(path: Path) -> list[Row]:
    """Return the rows of a file. Raises HeadlineError if it has a mistake."""
    found = []
    for entry in yaml.safe_load(path.read_text(encoding="utf-8")):
        if not isinstance(entry, dict) or set(entry) != set(Row._fields):
            raise HeadlineError(f"{path}: {entry!r} must be a dictionary with {', '.join(Row._fields)}")
        if not isinstance(entry["profiles"], list) or len(entry["profiles"]) < 2:
            raise HeadlineError(f"{path}: profiles of {entry['name']} must be a list of two or more")
        found.append(Row(**entry))
    if len({row.name for row in found}) < len(found):
        raise HeadlineError(f"{path}: two rows have the same name")
    return found


def chosen(all_rows: t.Sequence[Row], names: str) -> list[Row]:
    """Return the rows with these names, separated by commas; all of them without names."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = set(wanted) - {row.name for row in all_rows}
    if unknown:
        known = ", ".join(row.name for row in all_rows)
        raise HeadlineError(f"--only: {', '.join(sorted(unknown))} is not a row; it must be one of {known}")
    return [row for row in all_rows if not wanted or row.name in wanted]


# ---- the measurement


class Study:
    """Measures the rows.

    Args:
        results: where the results are.
        inventory: of the machine and its servers.
        variables: more arguments of ansible-playbook -e, of the user.
    """

    def __init__(self, results: Results, inventory: Path, variables: t.Sequence[str]) -> None:
        self.results, self._inventory, self._variables = results, inventory, variables

    def measure(self, wanted: t.Sequence[Row], minutes: float) -> list[str]:
        """Measure the rows that are not finished, and return why any of them is not.

        Args:
            minutes: for all of them. What a row does not use is left for the next ones.
        """
        end, problems = time.monotonic() + 60 * minutes, []
        open_rows = [row for row in wanted if not self.results.of(row).finished]
        for number, row in enumerate(open_rows):
            share = search_minutes((end - time.monotonic()) / 60, len(open_rows) - number)
            if share is None:
                problems.append(f"no time was left for {', '.join(each.name for each in open_rows[number:])}")
                break
            say(f"row {number + 1} of {len(open_rows)}, {row.name}: {', '.join(row.profiles)}, {share:.0f} minutes")
            search = {"density_id": self.results.search_id(row), "density_minutes": share}
            if self._play("density", {**row.all_variables, **search}, row.servers):
                problems.append(f"the search of {row.name} failed")
        for row in wanted:
            if self.results.of(row).finished and not self._is_planned(row):
                problems.append(f"the plan of {row.name} failed")
        return problems + self._put_back(wanted)

    def _is_planned(self, row: Row) -> bool:
        """Make the plan of a measured row, with its objective and its time in DRAM, unless there is one."""
        found = self.results.of(row)
        if found.plan or not found.density or "calibration" not in found.density:
            return True
        calibration = found.density["calibration"]
        known = {
            "density_plan_name": self.results.plan_id(row),
            "density_plan_baseline_run": calibration["run_id"],
            **{f"latency_benchmark_slo_{name}": value for name, value in calibration["slo"].items()},
        }
        return not self._play("plan", {**row.all_variables, **known}, row.servers)

    def _put_back(self, wanted: t.Sequence[Row]) -> list[str]:
        """Restore the machine if a search was killed before it could. Return what failed."""
        found = [self.results.of(row) for row in wanted]
        if not RECORDS.exists() or all(each.finished or not each.density for each in found):
            return []
        failed = [name for name in ("teardown", "restore") if self._play(name, {})]
        return [f"playbooks/{name}.yml failed" for name in failed]

    def _play(self, playbook: str, variables: t.Mapping[str, t.Any], servers: int | None = None) -> int:
        """Run a playbook and return its exit status. Raises KeyboardInterrupt, see run_to_its_end().

        Args:
            playbook: name without .yml.
            variables: extra variables.
            servers: the number of servers that it touches; all of them without one.
        """
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(self._inventory)]
        command += [str(ROOT / "playbooks" / f"{playbook}.yml")]
        if servers:
            command += ["--limit", f"localhost:hypervisors:fleet[0:{servers - 1}]"]
        for each in (json.dumps({"results_dir": str(self.results.directory), **variables}), *self._variables):
            command += ["-e", each]
        environment = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), **os.environ}
        return run_to_its_end(command, environment)


def run_to_its_end(command: t.Sequence[str], environment: t.Mapping[str, str]) -> int:
    """Run a program and return its exit status.

    A program that is interrupted restores the machine. It gets Ctrl-C from the terminal, and SIGTERM is passed on to
    it as an interrupt. In both cases this waits for its end, and then raises KeyboardInterrupt.
    """
    interrupted = False

    def pass_on(_number: int, _frame: t.Any) -> None:
        process.send_signal(signal.SIGINT)
        raise KeyboardInterrupt

    with subprocess.Popen(command, env=environment) as process:
        before = signal.signal(signal.SIGTERM, pass_on)
        try:
            while True:
                try:
                    status = process.wait()
                    break
                except KeyboardInterrupt:
                    interrupted = True
        finally:
            signal.signal(signal.SIGTERM, before)
    if interrupted:
        raise KeyboardInterrupt
    return status


def search_minutes(left: float, count: int) -> float | None:
    """Return the minutes for the search of the next row, None if it is too late for one.

    Args:
        left: minutes for all rows that are left.
        count: the number of these rows.
    """
    if round(left, 1) < AROUND_MINUTES + SHORTEST_MINUTES:
        return None
    return round(max(SHORTEST_MINUTES, left / count - AROUND_MINUTES), 1)


def say(text: str) -> None:
    print(f"== headline: {text}", flush=True)


# ---- the tables


def result(found: Found) -> str:
    """Return whether the target of a row was reached, by the interval of the best profile."""
    if not found.finished:
        return NOT_MEASURED
    target, ratio = found.row.target, (found.best or {}).get("ratio")
    if target is None:
        return "-"
    if ratio is None:
        return UNDECIDED
    low, high = ratio["interval"]
    return REACHED if low >= target else NOT_REACHED if high is not None and high < target else UNDECIDED


def times(arm: _Document | None) -> str:
    """Return a multiple of the baseline with its interval."""
    ratio = (arm or {}).get("ratio")
    if ratio is None:
        return "-"
    low, high = ratio["interval"]
    span = f"{low:.2f} or more" if high is None else f"{low:.2f} to {high:.2f}"
    note = ", indicative" if ratio["indicative"] else ""
    return f"{span}{note}" if ratio["estimate"] is None else f"{ratio['estimate']:.2f} ({span}{note})"


def predicted(found: Found) -> str:
    """Return the densities that the plan expected, and how far they were off."""
    if not found.plan:
        return "-" if found.finished else NOT_MEASURED
    texts = []
    for arm in found.arms:
        size = found.plan["largest"].get(arm["name"])
        off = f" ({size / arm['density'] - 1:+.0%})" if size is not None and arm["density"] else ""
        texts.append(f"{arm['name']} {'unknown' if size is None else size}{off}")
    return ", ".join(texts)


def compression(found: Found) -> str:
    """Return how well the values really compressed: the median of the probes that stored any."""
    stored = sorted(
        run["dram"]["compression_ratio"]
        for run in (found.density or {"runs": []})["runs"]
        if run.get("dram") and run["dram"].get("compression_ratio")
    )
    return f"{stored[len(stored) // 2]:.2f}:1" if stored else "-"


def objective(found: Found) -> str:
    slo = (found.density or {}).get("slo")
    return f"{slo['avg_us']:g} / {slo['p99_us']:g}" if found.finished and slo else "-"


_COLUMNS: tuple[tuple[str, t.Callable[[Found], str]], ...] = (
    ("values", lambda found: found.row.values),
    ("measured", compression),
    ("influence", lambda found: f"{found.row.influence:g}"),
    ("profiles", lambda found: ", ".join(found.row.profiles)),
    ("objective, avg / p99 us", objective),
    ("density", lambda found: ", ".join(f"{arm['name']} {density_text.density(arm)}" for arm in found.arms) or "-"),
    ("best over the first", lambda found: times(found.best) if found.finished else NOT_MEASURED),
    ("target", lambda found: "-" if found.row.target is None else f"{found.row.target:g}"),
    ("result", result),
    ("the plan expected", predicted),
)


def _probes(found: Found) -> list[list[str]]:
    """Return a line for each size that was probed under each profile of a row."""
    fitting = (found.density or {}).get("calibration", {}).get("fitting")
    lines = []
    for arm in found.arms:
        for point in arm["curve"]:
            outcomes = [f"{point[name]} {name}" for name in ("passed", "undecided", "failed", "invalid") if point[name]]
            lines.append(
                [
                    found.row.values,
                    f"{found.row.influence:g}",
                    arm["name"],
                    str(point["size"]),
                    f"{point['size'] / fitting:.2f}" if fitting else "-",
                    ", ".join(outcomes),
                    *(_figure(point[name]) for name in ("worst_host_avg_us", "worst_host_p99_us")),
                ]
            )
    return lines


_PROBE_COLUMNS = ("values", "influence", "profile", "servers", "x what fits", "probes", "avg us", "p99 us")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _table(columns: t.Sequence[str], lines: t.Iterable[t.Sequence[str]]) -> list[str]:
    return [_line(columns), _line(["---"] * len(columns)), *map(_line, lines)]


def _line(cells: t.Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def answer(all_found: t.Sequence[Found]) -> list[str]:
    """Return the table of the rows."""
    lines = ([fill(found) for _name, fill in _COLUMNS] for found in all_found)
    return _table([name for name, _fill in _COLUMNS], lines)


def tables(all_found: t.Sequence[Found]) -> str:
    """Return the tables of the page, as Markdown."""
    measured = [found for found in all_found if found.finished]
    lines = []
    for machine in sorted({found.machine for found in measured}):
        of_machine = [t.cast("dict[str, t.Any]", found.density) for found in measured if found.machine == machine]
        days = sorted({time.strftime("%Y-%m-%d", time.gmtime(each["created_at"])) for each in of_machine})
        budgets = sorted({each["calibration"]["budget_bytes"] or 0 for each in of_machine if "calibration" in each})
        sizes = ", ".join(size_text(each) for each in budgets)
        lines += [f"Measured on {machine or 'an unknown machine'}, {', '.join(days)}, with {sizes} of DRAM.", ""]
    lines += answer(all_found)
    labels = sorted({label for found in measured for label in (found.density or {}).get("labels", [])})
    lines += ["", *(f"- {label}" for label in labels)] if labels else []
    probes = [line for found in measured for line in _probes(found)]
    if probes:
        lines += ["", "### All probes", ""]
        lines += ["Average and p99 are the upper bounds of the worst server, medians over the probes of a size.", ""]
        lines += _table(_PROBE_COLUMNS, probes)
    return "\n".join(lines) + "\n"


def written(page: str, new: str) -> str:
    """Return a page with new tables. Raises HeadlineError if it has no place for them."""
    before, begin, rest = page.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise HeadlineError(f"the page has no lines {BEGIN.strip()} and {END.strip()}")
    return before + begin + new + end + after


# ---- the commands


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["measure", "page"])
    parser.add_argument("--rows", type=Path, default=ROWS, help="file with the rows")
    parser.add_argument("--only", default="", help="names of rows to measure, separated by commas")
    parser.add_argument("--minutes", type=float, default=120, help="for all rows that are not finished (120)")
    parser.add_argument("--inventory", type=Path, default=INVENTORY, help="the machine and its servers")
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="directory of the results")
    parser.add_argument("--study", default="headline", help="first part of the names of the searches")
    parser.add_argument("-e", dest="variables", action="append", default=[], help="as of ansible-playbook")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    all_rows = rows(arguments.rows)
    results = Results(arguments.results.absolute(), arguments.study)
    if arguments.command == "page":
        new = tables([results.of(row) for row in all_rows])
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), new), encoding="utf-8")
        return 0
    if not math.isfinite(arguments.minutes) or arguments.minutes < AROUND_MINUTES + SHORTEST_MINUTES:
        raise HeadlineError(
            f"--minutes: {arguments.minutes:g} is not allowed; the least is {AROUND_MINUTES + SHORTEST_MINUTES}"
        )
    study = Study(results, arguments.inventory, arguments.variables)
    problems = study.measure(chosen(all_rows, arguments.only), arguments.minutes)
    print("\n".join(["", *answer([results.of(row) for row in all_rows]), ""]))
    for problem in problems:
        say(f"{problem}; the same command continues")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (HeadlineError, RunError) as error:
        sys.exit(f"headline: {error}")
    except KeyboardInterrupt:
        say("interrupted; the same command continues")
        sys.exit(130)
