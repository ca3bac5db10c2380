# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines of a density: each has ramps of its own, and what they say."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.ramp import record
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory


class Machine(t.NamedTuple):
    """One of them.

    Attributes:
        name: of the hypervisor.
        plan: of its ramps, from plan_of().
        directory: with its density.json and its records.
        document: its density.json.
    """

    name: str
    plan: dict[str, t.Any]
    directory: RunDirectory
    document: dict[str, t.Any]

    @property
    def label(self) -> str:
        """Return its name for the beginning of a line; empty for the only machine."""
        return f"{self.name}: " if "on" in self.document["definition"] else ""

    def has(self, file: str) -> bool:
        """Return whether a ramp is finished."""
        return os.path.exists(self.directory.file(file)) and record.is_finished(self.directory.read_json(file))

    def records(self) -> list[dict[str, t.Any]]:
        """Return the records of the finished ramps."""
        root = self.directory.file("ramps")
        files = [f"ramps/{name}" for name in sorted(os.listdir(root) if os.path.isdir(root) else ())]
        return [self.directory.read_json(file) for file in files if file.endswith(".json") and self.has(file)]

    def entry(self, arm: str) -> dict[str, t.Any]:
        """Return what is known of an arm."""
        return next((each for each in self.document["arms"] if each["name"] == arm), {"density": None})

    def found(self) -> dict[str, int | None]:
        """Return the density of each arm."""
        return {arm["name"]: arm["density"] for arm in self.document["arms"]}


def machines(directory: RunDirectory, document: dict[str, t.Any], hypervisors: t.Sequence[str]) -> list[Machine]:
    """Return the machines of a density: the only one has its directory, several have one each below it.

    Args:
        directory: of the density.
        document: its density.json.
        hypervisors: their names.
    """
    definition = document["definition"]
    if "plans" not in definition:
        return [Machine(hypervisors[0], definition["plan"], directory, document)]
    found = []
    for name, plan in definition["plans"].items():
        own: dict[str, t.Any] = {**definition, "plan": plan, "on": name}
        del own["plans"]
        kept: dict[str, t.Any] = {
            each: document[each] for each in ("schema", "kind", "created_at", "site_checks") if each in document
        }
        of_machine: dict[str, t.Any] = {**kept, "id": f"{document['id']}/{name}", "definition": own}
        found.append(Machine(name, plan, RunDirectory(directory.path, name), of_machine))
    return found
