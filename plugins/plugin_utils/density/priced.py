# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a server costs at the density of each profile."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import drives
from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost

_Document = t.Mapping[str, t.Any]


def priced(answer: _Document, paid: _Document | None) -> dict[str, t.Any] | None:
    """Return the cost of a server under each profile with a density; None without prices.

    Args:
        answer: of the density.
        paid: from cost.prices().
    """
    arms = (
        [_arm(answer["definition"], arm, paid) for arm in answer["arms"] if arm["density"] is not None] if paid else []
    )
    return cost.document(paid, arms, arms[0].name) if paid and arms else None


def _arm(definition: _Document, arm: _Document, paid: _Document) -> cost.PricedArm:
    on_drives = drives(arm["tier"]["areas"])
    mixed = on_drives and len(on_drives) < len(arm["tier"]["areas"])
    unknown = mixed and paid["arms"].get(arm["name"], {}).get("tier_gb") is None and paid["tier_gb"] is None
    ratio = arm["ratio"]
    return cost.PricedArm(
        arm["name"],
        None if unknown else arm["density"],
        f"how much of its swap is a drive is unknown; set arms.{arm['name']}.tier_gb of the prices" if unknown else "",
        definition["budget_bytes"],
        arm["tier"]["bytes"] if on_drives else 0,
        (arm.get("drive") or {}).get("written_bytes_per_second"),
        vms_interval=tuple(arm["interval"] or arm["span"]),
        vms_ratio=ratio and {"estimate": ratio["ratio"], "interval": ratio["interval"] or ratio["span"]},
    )
