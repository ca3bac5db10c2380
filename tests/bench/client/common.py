# SPDX-License-Identifier: GPL-3.0-or-later
"""What the parts of the client's bench share: where things run, how they are run, and the table of bars."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "programs" / "solotest"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import stops
import truth
from servers import Connection, Redis
from sign_test import median_with_interval

# The other parts import these from here, since they are on the path only now.
__all__ = ["Connection", "Redis", "stops", "truth"]

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
TESTS = ROOT / "tests" / "programs" / "solotest"

KEYS = 1000
VALUE_SIZE = 1000
CPUS = sorted(os.sched_getaffinity(0))
REDIS_CPU = CPUS[-1]
OTHER_CPU = CPUS[0]
PLACES = {"same CPU": REDIS_CPU, "other CPU": OTHER_CPU}
PROGRAM = TESTS / "build" / "solotest"

MET = {True: "yes", False: "NO", None: ""}


class Table:
    """Rows of what was measured, its bar, and whether it is met; and the raw figures behind them."""

    def __init__(self):
        self.rows = []
        self.raw = []

    def add(self, what, value, target, met):
        """`met` is True, False, None for a figure without a bar, or a text."""
        self.rows.append((what, value, target, MET.get(met, met)))
        print("{:66} {:30} {:22} {}".format(*self.rows[-1]), flush=True)

    def note(self, what, figures):
        self.raw.append((what, figures))

    def add_ratio(self, what, ratios, least=None, unit="pairs"):
        """Add the median of the ratios of pairs, or of another unit.

        Its interval decides; a bar within the interval stays undecided.
        """
        value, low, high = median_with_interval(ratios)
        met = None
        if least is not None:
            met = True if low >= least else False if high < least else "undecided"
        wanted = "" if least is None else f">= {least:g}"
        self.add(what, f"{value:.3f} ({low:.3f} to {high:.3f}, {len(ratios)} {unit})", wanted, met)

    def totals(self):
        """Count the bars; name those that are missed, and those that the interval leaves open."""
        named = {word: [row[0] for row in self.rows if row[3] == word] for word in ("yes", "NO", "undecided")}
        lines = [f"{len(named['yes'])} bars met, {len(named['NO'])} missed, {len(named['undecided'])} undecided"]
        lines += [f"  {word}: {what}" for word in ("NO", "undecided") for what in named[word]]
        return "\n".join(lines)

    def markdown(self):
        lines = ["| what | measured | bar | met |", "| --- | --- | --- | --- |"]
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join(lines)


def solotest(*arguments, cpu=None):
    """Run the client and return its JSON."""
    placement = ["--cpu", str(cpu)] if cpu is not None else []
    done = subprocess.run(
        [PROGRAM, "--json", *placement, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"solotest {arguments}: {done.stderr}")
    return json.loads(done.stdout)


def pinned(command, cpu):
    """Run a command on one CPU and return its output."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=output,
            stderr=errors,
            preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
        )
        if process.wait() != 0:
            errors.seek(0)
            raise RuntimeError(f"{command} exits with {process.returncode}: {errors.read()[-500:]}")
        output.seek(0)
        return output.read()


def interleaved(repetitions, runs):
    """Run each of {name: function} in turn, again and again; return {name: [results]}."""
    results = {name: [] for name in runs}
    for _repetition in range(repetitions):
        for name, run in runs.items():
            results[name].append(run())
    return results


def places(table, what):
    """Yield the placements that this machine has, with their CPU."""
    for place, cpu in PLACES.items():
        if place == "other CPU" and len(CPUS) < 2:
            table.add(f"{what}, other CPU", "not measured: one CPU", "", None)
        else:
            yield place, cpu
