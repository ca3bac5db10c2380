# SPDX-License-Identifier: GPL-3.0-or-later
"""No host of a fleet holds a run up: each task that runs something on one has a time limit."""

from __future__ import annotations

import pathlib
import typing as t

import yaml

TASKS = pathlib.Path(__file__).resolve().parents[2] / "roles" / "latency_benchmark" / "tasks"
# The other modules of the role run on the controller, or on hypervisors that were given a DRAM budget.
ON_HOSTS = {"memstretch.density.solotest_schedule", "memstretch.density.host_memory_info"}


def tasks(document: list[dict[str, t.Any]]) -> t.Iterator[dict[str, t.Any]]:
    """Yield the tasks of a file, also those in blocks."""
    for each in document:
        yield each
        for part in ("block", "rescue", "always"):
            yield from tasks(each.get(part, []))


def test_a_task_on_a_host_has_a_time_limit():
    found = [task for path in TASKS.glob("*.yml") for task in tasks(yaml.safe_load(path.read_text(encoding="utf-8")))]
    on_hosts = [task for task in found if ON_HOSTS & task.keys()]
    assert len(on_hosts) >= 13 and [task["name"] for task in on_hosts if "timeout" not in task] == []


def test_nothing_else_is_released_before_the_clients():
    """A host that hangs would delay the clients beyond their start."""

    def released(file: str) -> t.Iterator[str]:
        for task in yaml.safe_load((TASKS / file).read_text(encoding="utf-8")):
            if task.get("memstretch.density.solotest_schedule", {}).get("state") == "released":
                yield task["name"]
            yield from released(imported) if (imported := task.get("ansible.builtin.import_tasks")) else ()

    assert list(released("schedule.yml")) == ["Release the client of every host"]
    first, *others = released("schedule_with_others.yml")
    assert first == "Release the client of every host" and len(others) == 2
