# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of the role throughput_benchmark and of its playbook."""

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, number
from ansible_collections.memstretch.density.plugins.plugin_utils.study import arms
from ansible_collections.memstretch.density.plugins.plugin_utils.study.options import RANGES
from ansible_collections.memstretch.density.plugins.plugin_utils.throughput import figures, steps


def _checked(function: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
    """Return a filter whose error for a wrong setting is one of Ansible."""

    @functools.wraps(function)
    def checked(*values: t.Any, **options: t.Any) -> t.Any:
        try:
            return function(*values, **options)
        except SettingError as error:
            raise AnsibleFilterError(str(error)) from error

    return checked


@_checked
def throughput_steps(
    settings: t.Mapping[str, t.Any], memory: t.Mapping[str, t.Any] | None = None, dram: t.Any = None
) -> dict[str, t.Any]:
    """Return the steps, the settings that they were made from, and with a memory the cases that do not fit into it."""
    complete = steps.with_data(settings)
    wanted = steps.make_steps(complete)
    if memory is None:
        return {"steps": wanted, "left_out": [], "settings": complete}
    swap = sum(area["size_bytes"] - area["used_bytes"] for area in memory["swap"]["areas"])
    room = steps.room(memory["memory"]["available_bytes"], swap, dram)
    fitting, left_out = steps.select(steps.with_hot_part(wanted, dram, complete), room)
    return {"steps": fitting, "left_out": left_out, "settings": complete}


@_checked
def throughput_schedule(profiles: t.Any, rounds: t.Any = 3) -> list[dict[str, t.Any]]:
    """Return the arm, the profile and the round of each part of the measurement, in order."""
    count = number("throughput_rounds", rounds, RANGES["study_rounds"])
    order = arms.schedule(arms.profile_arms("profiles", profiles, at_least=1), "interleaved", count)
    return [
        {
            "name": figures.cell_name(arm.name, round_number),
            "arm": arm.name,
            "profile": arm.variables["profile"],
            "round": round_number,
        }
        for arm, round_number in order
    ]


def throughput_document(
    results: t.Sequence[t.Mapping[str, t.Any]],
    steps_done: t.Sequence[t.Mapping[str, t.Any]],
    about: t.Mapping[str, t.Any],
) -> dict[str, dict[str, t.Any]]:
    """Return the result of an arm in a round, by its name."""
    return {figures.cell_name(about["arm"], about["round"]): figures.cell(about, steps_done, results)}


class FilterModule:
    """Filters of the role throughput_benchmark and of its playbook."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {
            "throughput_steps": throughput_steps,
            "throughput_schedule": throughput_schedule,
            "throughput_document": throughput_document,
        }
