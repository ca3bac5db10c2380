# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as text for the terminal."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import clock, grid
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted

_Document = t.Mapping[str, t.Any]

# What the fleet consists of, and what measures whether a fleet is fast enough.
REDIS, VM, UNIT = "Redis server", "VM", "unit"
_MEASURES = {REDIS: "density.yml", VM: "site.yml", UNIT: "density.yml"}


def answer(document: _Document) -> str:
    """Return the plan in one sentence: how many fit under each profile."""
    server = document["server"]
    numbers = _numbers(document, "servers")
    kind, size = server["kind"], size_text(server["bytes"])
    fit = f"{_place(document)}: {numbers} of these {kind}s ({size} each) fit by capacity; "
    if server["waiting_percent"] is None:
        return f"{fit}whether they are fast enough is measured by {_MEASURES[kind]}."
    return (
        f"{fit}with {_numbers(document, 'within_waiting')} each is forecast to wait for page-ins at most "
        f"{server['waiting_percent']:g} % of the time."
    )


def _numbers(document: _Document, name: str) -> str:
    return ", ".join(
        f"{profile} {'unknown' if found[name] is None else format(found[name], ',')}"
        for profile, found in document["capacity"].items()
    )


def _place(document: _Document) -> str:
    """Return where the fleet is to fit: the budget if all profiles have the same one, or else the machines."""
    machines = document["machines"]
    budgets = {found["budget_bytes"] for found in document["capacity"].values()}
    if len(budgets) == 1 and (budget := budgets.pop()) is not None:
        each = f" on each of {counted(len(machines), 'machine')}" if len(machines) > 1 else ""
        return f"Within {size_text(budget)} of DRAM{each}"
    memory = size_text(sum(each["memory_bytes"] for each in machines.values()))
    if len(machines) == 1:
        return f"On {next(iter(machines))}, which has {memory} of memory"
    return f"On {counted(len(machines), 'machine')}, which have {memory} of memory together"


def lines(document: _Document) -> list[str]:
    """Return the plan: the answer, the fleets under each profile, why not more fit, the time, and notes."""
    duration = document["duration"]
    return [
        "",
        document["answer"],
        "",
        _of_server(document),
        "",
        *grid(_COLUMNS if document["server"]["watched"] is None else _WATCHED_COLUMNS, document["fleets"]),
        "",
        *_reasons(document),
        "",
        f"Time of a study: {counted(duration['runs'], 'run')} of {counted(duration['phases'], 'phase')}, "
        f"{clock(duration['run_seconds'])} each, {clock(duration['seconds'])} together",
        *(f"Note: {note}" for note in document["notes"]),
        "Nothing was changed.",
    ]


def _reasons(document: _Document) -> list[str]:
    """Return why fleets do not fit: for each profile the first that does not, and those that were asked for."""
    found = []
    for profile, capacity in document["capacity"].items():
        fleets = {each["size"]: each["reasons"] for each in document["fleets"] if each["profile"] == profile}
        if capacity["servers"] is not None and capacity["ended_by"]:
            fleets[capacity["servers"] + 1] = [capacity["ended_by"]]
        found += [f"  {profile}, {size:,}: {reason}" for size in sorted(fleets) for reason in fleets[size]]
    return found


def _of_server(document: _Document) -> str:
    """Return what each of the fleet takes, and where that is from."""
    load, server = document["load"], document["server"]
    source = "the whole VM, and QEMU" if server["kind"] == VM else "its records, and what Redis adds"
    if server["measured_by"]:
        source = f"measured by {server['measured_by']}"
    records = f"{load['key_count']:,} keys of {load['value_size']:,} bytes, and its"
    if server["watched"] is not None:
        source = f"the mean of {server['watched']:,} that {server['measured_by']} saw"
        records = "Its"
    return (
        f"Each {server['kind']}: {size_text(server['bytes'])} ({source}), of which "
        f"{size_text(server['resident_bytes'])} cannot leave DRAM. {records} pages compress "
        f"{document['compression']:.2f}:1 in zram and zswap."
    )


def _known(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


_COLUMNS = (
    ("profile", lambda fleet: fleet["profile"]),
    ("servers", lambda fleet: f"{fleet['size']:,}"),
    ("need", lambda fleet: size_text(fleet["needs_bytes"])),
    ("DRAM", lambda fleet: size_text(fleet["dram_bytes"])),
    ("beyond it", lambda fleet: fleet["tier"] + (f" {size_text(fleet['tier_bytes'])}" if fleet["tier_bytes"] else "")),
    ("", lambda fleet: fleet["verdict"]),
)
_WATCHED_COLUMNS = (
    *_COLUMNS[:-1],
    ("page-ins/s", lambda fleet: _known(fleet["page_ins_per_second"], ",.0f")),
    ("waiting, %", lambda fleet: _known(fleet["waiting_percent"], ".3g")),
    _COLUMNS[-1],
)
