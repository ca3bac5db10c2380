# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of the headline study, tools/headline.yml, and what is known about each."""

from __future__ import annotations

import json
import os
import sys
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".ansible" / "collections"))
# pylint: disable=wrong-import-position
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory  # noqa: E402
from ansible_collections.memstretch.density.plugins.plugin_utils.study import density_result  # noqa: E402

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
    overcommit: list[float]
    target: float | None
    minutes: float
    expected: str

    @property
    def all_variables(self) -> dict[str, t.Any]:
        """The variables of the playbooks for this row."""
        aim: dict[str, t.Any] = {"density_overcommit": self.overcommit} if self.overcommit else {}
        if self.target:
            aim = {"density_target": self.target}
        return {
            **self.variables,
            **aim,
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
        dram: summary.json of the run in DRAM alone that its objective comes from; None without one.
    """

    row: Row
    density: _Document | None
    plan: _Document | None
    machine: str
    dram: _Document | None

    @property
    def finished(self) -> bool:
        """Whether the search has a result."""
        return bool(self.density and self.density["finished"] and self.density.get("density"))

    @property
    def needs_time(self) -> bool:
        """Whether there is something left to measure: its time was over before its question was answered."""
        return not self.finished or bool(t.cast("_Document", self.density).get("out_of_time"))

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
        machine, dram = "", None
        if density and "calibration" in density:
            run_id = density["calibration"]["run_id"]
            machine, dram = _machine(self._read(run_id, "run.json") or {}), self._read(run_id, "summary.json")
        return Found(row, density, self._read(self.plan_id(row), "plan.json"), machine, dram)

    def _read(self, name: str, file: str) -> _Document | None:
        directory = RunDirectory(str(self.directory), name)
        return directory.read_json(file) if os.path.exists(directory.file(file)) else None


class Published:
    """The documents of finished rows, in the repository next to the page whose tables they make.

    Args:
        directory: with a file for each row.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, found: Found) -> None:
        """Keep what the tables show of a row, if it is finished; an earlier result of the row is replaced."""
        if found.finished:
            dram = {"cpu": (found.dram or {}).get("cpu")}
            document = {**found._asdict(), "dram": dram}
            del document["row"]
            self._directory.mkdir(parents=True, exist_ok=True)
            self._file(found.row).write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def of(self, row: Row) -> Found:
        """Return what is known about a row."""
        if not self._file(row).exists():
            return Found(row, None, None, "", None)
        kept = json.loads(self._file(row).read_text(encoding="utf-8"))
        # What an earlier version has concluded from the probes may be wrong.
        density_result.conclude(kept["density"])
        return Found(row, **kept)

    def _file(self, row: Row) -> Path:
        return self._directory / f"{row.name}.json"


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
        if entry["overcommit"] and entry["target"]:
            raise HeadlineError(f"{path}: {entry['name']} has overcommit and target; only a search has a target")
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
