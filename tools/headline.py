# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The headline study: a density search for each row of tools/headline.yml, and the tables of docs/headline.md.

`measure` runs playbooks/density.yml row by row, and playbooks/plan.yml after each. The searches restore the machine.
The same command continues after an interruption, or where the time of a row was over, and leaves the other rows alone.
`page` writes the tables and docs/bench/headline.md, and keeps the documents of finished rows in docs/bench/headline.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import math
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from headline_rows import ROOT, HeadlineError, Published, Results, Row, chosen, rows
from headline_tables import answer, bench, tables, written

# pylint: disable=wrong-import-order
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError

ROWS = ROOT / "tools" / "headline.yml"
INVENTORY = ROOT / "inventories" / "headline" / "hosts.yml"
PAGE = ROOT / "docs" / "headline.md"
PUBLISHED = ROOT / "docs" / "bench" / "headline"
BENCH = PUBLISHED.with_suffix(".md")
# Where a tuned machine keeps what it was before.
RECORDS = Path("/var/lib/memstretch")

# What a row takes besides its search: the site check, preparing the servers, restoring the machine, the plan.
AROUND_MINUTES = 5
# The shortest search that is worth beginning: the objective, and a probe of each profile.
SHORTEST_MINUTES = 5

# ---- the measurement


class Study:
    """Measures the rows.

    Args:
        results: where the results are.
        inventory: of the machine and its servers.
        variables: more arguments of ansible-playbook -e, of the user.
        lock: an open file that is locked; the playbooks keep it, so the lock lasts until the last one has ended.
    """

    def __init__(self, results: Results, inventory: Path, variables: t.Sequence[str], lock: int) -> None:
        self.results, self._inventory, self._variables, self._lock = results, inventory, variables, lock

    def measure(self, wanted: t.Sequence[Row], minutes: float) -> list[str]:
        """Measure the rows that are not decided, in their order, and return why any of them is not finished.

        Args:
            minutes: for all of them. What a row does not use is left for the next ones.
        """
        end, problems = time.monotonic() + 60 * minutes, []
        open_rows = [row for row in wanted if self.results.of(row).needs_time]
        say(f"{len(open_rows)} of {len(wanted)} rows to measure, until {_clock(minutes)} at the latest")
        for number, row in enumerate(open_rows):
            left = (end - time.monotonic()) / 60
            share = search_minutes(left, [each.minutes for each in open_rows[number:]])
            if share is None:
                problems.append(f"no time was left for {', '.join(each.name for each in open_rows[number:])}")
                break
            say(
                f"row {number + 1} of {len(open_rows)}, {row.name}: {', '.join(row.profiles)}, until "
                f"{_clock(share + AROUND_MINUTES)} at the latest; {left:.0f} minutes left for all rows"
            )
            search = {"density_id": self.results.search_id(row), "density_minutes": share}
            if self._play("density", {**row.all_variables, **search}, row.servers):
                problems.append(f"the search of {row.name} failed")
        for row in wanted:
            if self.results.of(row).finished and not self._is_planned(row):
                problems.append(f"the plan of {row.name} failed")
        return problems + self._restore(wanted)

    def _is_planned(self, row: Row) -> bool:
        """Make the plan of a measured row, with its objective and its time in DRAM, unless there is one."""
        found = self.results.of(row)
        if row.overcommit:  # its sizes are given
            return True
        if found.plan or not found.density or "calibration" not in found.density:
            return True
        calibration = found.density["calibration"]
        known = {
            "density_plan_name": self.results.plan_id(row),
            "density_plan_baseline_run": calibration["run_id"],
            **{f"latency_benchmark_slo_{name}": value for name, value in calibration["slo"].items()},
        }
        return not self._play("plan", {**row.all_variables, **known}, row.servers)

    def _restore(self, wanted: t.Sequence[Row]) -> list[str]:
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
        return run_to_its_end(command, environment, (self._lock,))


@contextlib.contextmanager
def locked(directory: Path) -> t.Iterator[int]:
    """Lock a directory of results, and return the file descriptor of the lock.

    Raises:
        HeadlineError: a study works there; after a kill -9 of this program that may be its last playbook.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".headline.lock", "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeadlineError(
                f"another study works in {directory}, or a playbook of one that was killed "
                "(pgrep -af ansible-playbook); wait for its end, or interrupt it, so that it restores the machine"
            ) from None
        yield file.fileno()


def run_to_its_end(command: t.Sequence[str], environment: t.Mapping[str, str], kept: t.Collection[int] = ()) -> int:
    """Run a program and return its exit status.

    A program that is interrupted restores the machine. It gets Ctrl-C from the terminal, and SIGTERM is passed on to
    it as an interrupt. In both cases this waits for its end, and then raises KeyboardInterrupt.

    Args:
        kept: file descriptors that the program keeps open.
    """
    process: subprocess.Popen[bytes] | None = None
    interrupted = False

    # It raises nothing, so that no signal can end the wait for the program, however early it comes.
    def note(number: int, _frame: t.Any) -> None:
        nonlocal interrupted
        interrupted = True
        if number == signal.SIGTERM and process is not None:
            process.send_signal(signal.SIGINT)

    before = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        process = subprocess.Popen(command, env=environment, pass_fds=kept)
        if interrupted:  # before it could get the signal
            process.send_signal(signal.SIGINT)
        status = process.wait()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    if interrupted:
        raise KeyboardInterrupt
    return status


def search_minutes(left: float, wanted: t.Sequence[float]) -> float | None:
    """Return the minutes for the search of the next row, None if it is too late for one.

    The first rows matter most, so a row gets the minutes that it asks for, as long as there are so many. If there are
    enough for all rows, each gets as many times more.

    Args:
        left: minutes for all rows that are left.
        wanted: the minutes that each of these rows asks for.
    """
    if round(left, 1) < AROUND_MINUTES + SHORTEST_MINUTES:
        return None
    share = min(left, wanted[0] * max(1.0, left / sum(wanted)))
    return round(max(SHORTEST_MINUTES, share - AROUND_MINUTES), 1)


def _clock(minutes: float) -> str:
    """Return the local time in this many minutes."""
    return time.strftime("%H:%M", time.localtime(time.time() + 60 * minutes))


def say(text: str) -> None:
    print(f"== headline: {text}", flush=True)


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
        published = Published(PUBLISHED)
        for row in all_rows:
            published.keep(results.of(row))
        kept = [published.of(row) for row in all_rows]
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tables(kept)), encoding="utf-8")
        BENCH.write_text(bench(kept), encoding="utf-8")
        return 0
    if not math.isfinite(arguments.minutes) or arguments.minutes < AROUND_MINUTES + SHORTEST_MINUTES:
        raise HeadlineError(
            f"--minutes: {arguments.minutes:g} is not allowed; the minimum is {AROUND_MINUTES + SHORTEST_MINUTES}"
        )
    wanted = chosen(all_rows, arguments.only)
    with locked(results.directory) as lock:
        problems = Study(results, arguments.inventory, arguments.variables, lock).measure(wanted, arguments.minutes)
    print("\n".join(["", *answer([results.of(row) for row in all_rows]), ""]))
    for problem in problems:
        say(f"{problem}; run the same command again to continue")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (HeadlineError, RunError) as error:
        sys.exit(f"headline: {error}")
    except KeyboardInterrupt:
        say("interrupted; run the same command again to continue")
        sys.exit(130)
