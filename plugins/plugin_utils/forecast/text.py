# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as text for the terminal."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import clock, grid

_REASONS_SHOWN = 2


def lines(document: t.Mapping[str, t.Any]) -> list[str]:
    """Return the plan: the fleets under each profile, the largest fleet that meets the SLO, the time, and notes."""
    load, slo, duration = document["load"], document["slo"], document["duration"]
    machines = ", ".join(
        f"{name} ({size_text(each['dram_bytes'])}, {each['cpus']} CPUs)" for name, each in document["machines"].items()
    )
    found = [
        "",
        f"Plan for {machines}",
        f"Each VM: {size_text(document['vm_bytes'])}, {load['key_count']:,} keys of {load['value_size']:,} bytes, "
        f"{load['rate']:g} requests/s. "
        f"SLO: avg <= {slo['avg_us']:g} us and p99 <= {slo['p99_us']:g} us",
        "",
        "Forecast by a model (docs/plan.md): the worst cell, on the machine with the worst figures",
        *grid(_COLUMNS, document["fleets"]),
        "",
    ]
    for each in document["fleets"]:
        shown = each["reasons"][:_REASONS_SHOWN]
        more = len(each["reasons"]) - len(shown)
        found += [
            f"  {each['profile']}, {each['size']} VMs: {text}"
            for text in [*shown, *([f"... and {more} more"] if more else []), *each["warnings"]]
        ]
    found += [
        "",
        "Largest fleet that should fit and meet the SLO: "
        + ", ".join(
            f"{profile} {'unknown' if size is None else size}" for profile, size in document["largest"].items()
        ),
        f"Time: {duration['runs']} runs of {duration['phases']} phases, {clock(duration['run_seconds'])} each, "
        f"{clock(duration['seconds'])} together",
        *(f"Note: {note}" for note in document["notes"]),
        "Nothing was changed.",
    ]
    return found


def _span(fleet: t.Mapping[str, t.Any], name: str, show: t.Callable[[float], str], pick: t.Callable = max) -> str:
    """Return the worst value of the cells; "-" without a forecast."""
    values = [cell[name] for cell in fleet["cells"]]
    return "-" if not values else "beyond" if any(value is None for value in values) else show(pick(values))


_COLUMNS = (
    ("profile", lambda fleet: fleet["profile"]),
    ("VMs", lambda fleet: str(fleet["size"])),
    ("need", lambda fleet: size_text(fleet["needs_bytes"])),
    ("DRAM", lambda fleet: size_text(fleet["dram_bytes"])),
    ("beyond it", lambda fleet: fleet["tier"] + (f" {size_text(fleet['tier_bytes'])}" if fleet["tier_bytes"] else "")),
    ("CPUs", lambda fleet: "-" if fleet["cpus_needed"] is None else f"{fleet['cpus_needed']:.1f}"),
    ("hits", lambda fleet: _span(fleet, "hit_rate", lambda value: f"{100 * value:.1f} %", min)),
    ("page-ins/s", lambda fleet: _span(fleet, "page_ins_per_second", lambda value: f"{value:,.0f}")),
    ("avg us", lambda fleet: _span(fleet, "avg_us", lambda value: f"{value:,.0f}")),
    ("p99 us", lambda fleet: _span(fleet, "p99_us", lambda value: f"{value:,.0f}")),
    ("SLO", lambda fleet: fleet["verdict"]),
)
