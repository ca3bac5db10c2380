# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of a VM as text for the terminal."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import grid


def lines(document: t.Mapping[str, t.Any] | None) -> list[str]:
    """Return the table of a cost document; no lines without a document."""
    if not document:
        return []
    prices, baseline = document["prices"], document["baseline"]
    example = "EXAMPLE prices, not a quotation; " if prices["example"] else ""
    against = f"; savings against {baseline['name']} with {baseline['vms']} VMs" if baseline and baseline["vms"] else ""
    basis = f"{prices['currency']}, prices of {prices['date']}, {prices['months']:g} months"
    spare = f"  N+1: with room for the VMs of one failed server out of {prices['servers']}"
    return [
        "",
        f"Cost of a VM ({example}{basis}{against}):",
        *grid(_COLUMNS, document["arms"]),
        *(f"  {arm['name']}: no cost per VM, {arm['why']}" for arm in document["arms"] if arm["why"]),
        *(
            f"  {arm['name']}: a VM costs {prices['target_saving']:.0%} less if the server, with its memory, licences "
            f"and power, costs {arm['target_server_ratio']:.2f} times that of {baseline['name']}: a price of "
            f"{arm['target_server_price']:,.2f} for 'server'"
            for arm in document["arms"]
            if arm.get("target_server_ratio") is not None
        ),
        *([spare] if prices["servers"] else []),
    ]


def _figure(value: float | None, text: str = "{:,.2f}") -> str:
    return "-" if value is None else text.format(value)


def _span(ends: t.Sequence[float | None] | None, text: str = "{:,.2f}") -> str:
    """Return an interval behind a figure; an open end is three dots."""
    return f" ({' to '.join('...' if end is None else text.format(end) for end in ends)})" if ends else ""


_COLUMNS = (
    ("profile", lambda arm: arm["name"]),
    ("VMs", lambda arm: _figure(arm["vms"], "{}") + _span(arm["vms_interval"], "{}")),
    ("DRAM GB", lambda arm: f"{arm['dram_gb']:,.1f}"),
    ("tier GB", lambda arm: f"{arm['tier_gb']:,.1f}"),
    ("server/month", lambda arm: _figure(arm["server_month"])),
    ("VM/month", lambda arm: _figure(arm["per_vm_month"]) + _span(arm["per_vm_month_interval"])),
    ("VM/month N+1", lambda arm: _figure(arm["per_vm_month_with_head_room"])),
    ("saving", lambda arm: _figure(arm["saving"], "{:.1%}") + _span(arm["saving_interval"], "{:.1%}")),
    ("tier breaks even at /GB", lambda arm: _figure(arm["break_even_tier_per_gb"])),
    ("drives last", lambda arm: _figure(arm["drive_life_years"], "{:,.3g} years")),
)
