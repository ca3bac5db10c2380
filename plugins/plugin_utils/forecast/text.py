# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as text for the terminal."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.tier import TAILS
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
        f"Each VM: {size_text(document['vm_bytes'])}{' (measured)' if document['vm_bytes_measured'] else ''}, "
        f"{load['key_count']:,} keys of {load['value_size']:,} bytes, {load['rate']:g} requests/s. "
        f"SLO: avg <= {slo['avg_us']:g} us and p99 <= {slo['p99_us']:g} us",
        "A request in DRAM takes " + _time(document["base"]),
        *(f"A page-in from {kind} takes {_time(figures)}" for kind, figures in document["tiers"].items()),
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
        *tier_lines(document.get("needed_tiers", [])),
        *pool_lines(document["pools"]),
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


def _time(figures: t.Mapping[str, t.Any]) -> str:
    """Return an average and a p99, and whether they are an example, which was not measured here."""
    example = "; these are examples: docs/plan.md shows how to set or measure them" if figures["example"] else ""
    return f"{figures['avg_us']:,.1f} us on average, p99 {figures['p99_us']:,.1f} us{example}"


def pool_lines(pools: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the best sizes of zswap's pool, and how to set them; nothing if no profile needs one."""
    found = [
        f"  {each['profile']}, {each['size']} VMs: {size_text(each['bytes'])}, {each['percent']} % of the memory of "
        f'{each["machine"]}; max_pool_percent: "{{percent:{each["bytes"] >> 20}M}}"'
        for each in pools
        if each["bytes"]
    ]
    return ["", "The size of zswap's pool that serves these fleets best:", *found] if found else []


def tier_lines(needed: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the slowest tiers that meet the SLO: a table with a row for each cell; nothing if none was asked for."""
    if not needed:
        return []
    rows = [{**each, **cell} for each in needed for cell in each["cells"]]
    found = ["", "The slowest tier that meets the SLO, as average / p99 of a page-in in us, by how long its tail is:"]
    found += grid(_TIER_COLUMNS, rows) if rows else []
    for each in needed:
        limits = {limit["tail"]: limit for limit in each["all_cells"]}
        if limits:
            best = limits.get(TAILS[1]) or next(iter(limits.values()))
            most = max(cell["page_ins_per_second"] for cell in each["cells"])
            found.append(
                f"  {each['profile']}, {each['size']} VMs: a tier that pages in within {best['avg_us']:,.1f} us on "
                f"average and {best['p99_us']:,.1f} us at p99, {most:,.0f} times a second, meets the SLO in every cell"
            )
        elif any(cell["limits"] == [] for cell in each["cells"]):
            found.append(f"  {each['profile']}, {each['size']} VMs: no tier is fast enough for every cell")
    return found


def _limit(cell: t.Mapping[str, t.Any], tail: float) -> str:
    if cell["limits"] is None:
        return "any"
    limit = next((each for each in cell["limits"] if each["tail"] == tail), None)
    return f"{limit['avg_us']:,.1f} / {limit['p99_us']:,.1f} ({limit['decided_by']})" if limit else "none"


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

_TIER_COLUMNS = (
    ("profile", lambda row: row["profile"]),
    ("VMs", lambda row: str(row["size"])),
    ("tier", lambda row: row["tier"]),
    ("influence", lambda row: f"{row['influence']:g}"),
    ("GET %", lambda row: f"{row['read_mix']:g}"),
    ("page-ins/s", lambda row: f"{row['page_ins_per_second']:,.0f}"),
    *((f"p99 = {tail} x avg", lambda row, tail=tail: _limit(row, tail)) for tail in TAILS),
)
