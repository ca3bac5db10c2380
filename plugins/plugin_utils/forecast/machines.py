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


def tiers(hosts: t.Mapping[str, _Machine], given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the cost of a page-in by kind of tier: as measured on the slowest host, unless the user gives another.

    Args:
        hosts: those whose page-ins were measured have C(page_in), from the module page_in_latency.
        given: what the user gives, figure by figure.
    """
    found: dict[str, t.Any] = {}
    measured = [page_in for host in hosts.values() if (page_in := host.get("page_in"))]
    for page_in in sorted(measured, key=lambda each: each["avg_us"]):
        found[page_in["tier"]] = {"avg_us": page_in["avg_us"], "p99_us": page_in["p99_us"]}
    for kind, figures in given.items():
        both = isinstance(figures, dict) and kind in found
        found[kind] = {**found[kind], **figures} if both else figures
    return found
