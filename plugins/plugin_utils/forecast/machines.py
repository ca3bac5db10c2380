# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines that a plan is made for, from what a playbook found on each host of the inventory."""

from __future__ import annotations

import typing as t

_Machine = t.Mapping[str, t.Any]


def distinct(hosts: t.Mapping[str, _Machine]) -> dict[str, dict[str, t.Any]]:
    """Return C(record) and C(arms) of each machine, by its first host: several Redis instances on one count once.

    The settings of an arm are plain values; in a profile each is {value, reason, since}, or the value or choices.
    """
    found: dict[str, dict[str, t.Any]] = {}
    seen: set[str] = set()
    for host, given in hosts.items():
        boot_id = given["record"]["kernel"]["boot_id"]
        if boot_id not in seen:
            seen.add(boot_id)
            found[host] = {
                "record": given["record"],
                "arms": {profile: _plain(arm) for profile, arm in given["arms"].items()},
            }
    return found


def _plain(arm: _Machine) -> dict[str, t.Any]:
    def value_of(entry: t.Any) -> t.Any:
        value = entry["value"] if isinstance(entry, dict) else entry
        return value[0] if isinstance(value, list) and value else value

    plain = {section: {name: value_of(each) for name, each in arm[section].items()} for section in ("sysctl", "sysfs")}
    return {**arm, **plain}
