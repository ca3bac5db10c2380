# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of a VM as text for the terminal, and its sentences for pages."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import grid
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted

_Document = t.Mapping[str, t.Any]


def lines(document: _Document | None) -> list[str]:
    """Return the table of a cost document and what it means; no lines without a document."""
    if not document:
        return []
    prices, baseline = document["prices"], document["baseline"]
    example = "EXAMPLE prices, not a quotation; " if prices["example"] else ""
    against = f"; savings against {baseline['name']} with {baseline['vms']} VMs" if baseline and baseline["vms"] else ""
    spare = f"  N+1: with room for the VMs of one failed server out of {prices['servers']}"
    return [
        "",
        f"Cost of a VM ({example}{basis(prices)}{against}):",
        *grid(_COLUMNS, document["arms"]),
        *(f"  {arm['name']}: no cost per VM, {arm['why']}" for arm in document["arms"] if arm["why"]),
        *(f"  {sentence}" for sentence in sentences(document)),
        *([spare] if prices["servers"] else []),
    ]


def basis(prices: _Document) -> str:
    """Return what the costs are based on: currency, date and source of the prices, and months."""
    source = f" ({prices['source']})" if prices["source"] else ""
    return f"{prices['currency']}, prices of {prices['date']}{source}, {prices['months']:g} months"


def sentences(document: _Document) -> list[str]:
    """Return what the costs of the arms mean, next to the baseline."""
    prices, baseline = document["prices"], document["baseline"]
    found = []
    for arm in document["arms"]:
        name = arm["name"]
        if arm["servers_for_same_fleet"] is not None:
            found.append(
                f"{name}: the same fleet on {counted(arm['servers_for_same_fleet'], 'server')} instead of "
                f"{prices['servers']:,} under {baseline['name']}, for {arm['same_fleet_month']:,.2f} a month instead "
                f"of {prices['servers'] * baseline['server_month']:,.2f}; both have room for the VMs of a failed server"
            )
        if arm["dram_instead_gb"] is not None:
            found.append(
                f"{name}: as many VMs in DRAM alone would need {arm['dram_instead_gb']:,.1f} GB more DRAM in the "
                f"server, for {arm['dram_instead_gb'] * prices['dram_per_gb']:,.2f}; {_break_even(arm, prices)}"
            )
        if arm["target_server_ratio"] is not None:
            found.append(
                f"{name}: a VM costs {prices['target_saving']:.0%} less if the server, with its memory, licences and "
                f"power, costs {arm['target_server_ratio']:.2f} times that of {baseline['name']}: a price of "
                f"{arm['target_server_price']:,.2f} for 'server'"
            )
    return found


def _break_even(arm: _Document, prices: _Document) -> str:
    """Say from which price of DRAM an arm pays."""
    even = arm["break_even_dram_per_gb"]
    if even <= 0:
        return f"{arm['name']} costs less whatever DRAM costs"
    price = prices["dram_per_gb"]
    which = "cheaper" if price > even else "dearer"
    return f"{arm['name']} is {which}, since it pays from {even:,.2f} for a GB of DRAM on, and one costs {price:,.2f}"


def _figure(value: float | None, text: str = "{:,.2f}") -> str:
    return "-" if value is None else text.format(value)


def _span(ends: t.Sequence[float | None] | None, text: str = "{:,.2f}") -> str:
    """Return an interval behind a figure; an open end is three dots."""
    return f" ({' to '.join('...' if end is None else text.format(end) for end in ends)})" if ends else ""


_COLUMNS = (
    ("profile", lambda arm: arm["name"]),
    ("VMs", lambda arm: _figure(arm["vms"], "{}") + _span(arm["vms_interval"], "{}")),
    ("DRAM GB", lambda arm: f"{arm['dram_gb']:,.1f}"),
    ("its share", lambda arm: _figure(arm["dram_share"], "{:.0%}")),
    ("tier GB", lambda arm: f"{arm['tier_gb']:,.1f}"),
    ("server/month", lambda arm: _figure(arm["server_month"])),
    ("VM/month", lambda arm: _figure(arm["per_vm_month"]) + _span(arm["per_vm_month_interval"])),
    ("VM/month N+1", lambda arm: _figure(arm["per_vm_month_with_head_room"])),
    ("saving", lambda arm: _figure(arm["saving"], "{:.1%}") + _span(arm["saving_interval"], "{:.1%}")),
    ("tier breaks even at /GB", lambda arm: _figure(arm["break_even_tier_per_gb"])),
    ("drives last", lambda arm: _figure(arm["drive_life_years"], "{:,.3g} years")),
)
