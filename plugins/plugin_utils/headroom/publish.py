# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Headroom as text and as a page."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom.answer import NEAR, OVER, SAFE, UNKNOWN
from ansible_collections.memstretch.density.plugins.plugin_utils.report import html, index
from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.section import Chart, Section, Table
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, utc

# The chart of a host has at most so many lines, those of the units that use most memory.
CHARTED = 60
# From here on, the endurance that a drive has used is named as a doubt.
WORN_PERCENT = 80
FILE = "headroom.json"
_WORST_FIRST = (OVER, NEAR, UNKNOWN, SAFE)

_Document = t.Mapping[str, t.Any]


def lines(document: _Document) -> list[str]:
    """Return the whole answer as text, the sentence of each host first."""
    found = [host["sentence"] for host in document["hosts"].values()]
    for shown in sections(document):
        found += report_text.section(shown)
    return found


def write(directory: RunDirectory, document: _Document, text: t.Sequence[str]) -> bool:
    """Write the files of the result and its row in the index; return whether one changed."""
    directory.make()
    changed = directory.write_json(FILE, document)
    changed |= directory.write_text("headroom.txt", "\n".join(text).strip() + "\n")
    first = min(document["hosts"].values(), key=lambda host: _WORST_FIRST.index(host["verdict"]))
    page = html.experiments_page(directory.run_id, sections(document), first["sentence"], _verdict(document, first))
    changed |= directory.write_text("report.html", page)
    verdicts = [(name, host["verdict"]) for name, host in document["hosts"].items()]
    changed |= index.enter(directory, "report.html", document["made_at"], first["sentence"], verdicts)
    return changed


def _verdict(document: _Document, worst: _Document) -> html.Verdict:
    """Return the verdict at the top: the worst one, why it is, and how many hosts have which."""
    counts = collections.Counter(host["verdict"] for host in document["hosts"].values())
    numbers = ", ".join(f"{counts[each]} {each}" for each in _WORST_FIRST if counts[each])
    of_hosts = f" {len(document['hosts'])} hosts: {numbers}." if len(document["hosts"]) > 1 else ""
    word, reason = worst["verdict"], worst["reason"]
    return html.Verdict(word, index.COLOURS[word], f"{reason[:1].upper()}{reason[1:]}.{of_hosts}")


def sections(document: _Document) -> list[Section]:
    """Return the part of each host, as it is shown to people, the worst verdict first."""
    worst_first = sorted(document["hosts"].items(), key=lambda each: _WORST_FIRST.index(each[1]["verdict"]))
    return [_section(number, name, host, document["wishes"]) for number, (name, host) in enumerate(worst_first)]


def _section(number: int, name: str, host: _Document, wishes: _Document) -> Section:
    tables = [_forecast_table(host), _host_table(host), _units_table(host)] if host["units"] else [_host_table(host)]
    return Section(
        f"headroom-{number}",
        f"{name}: {host['verdict']}",
        _sentences(host, wishes),
        [*host["assumed"], *_doubts(host)],
        tables,
        _charts(number, name, host),
        answer=host["sentence"],
    )


def _sentences(host: _Document, wishes: _Document) -> list[str]:
    found = [f"Verdict: {host['verdict']}, because {host['reason']}."]
    more = host["more"]
    if more:
        found.append(
            f"In other words: ram_allocation_ratio {more['ram_allocation_ratio']:.2f} (OpenStack), "
            f"memoryOvercommitPercentage {more['memoryOvercommitPercentage']} (KubeVirt). A unit may wait for page-ins "
            f"at most {wishes['waiting']:g} % of the time, and {wishes['reserve']:g} % of the DRAM is left free."
        )
    found += _n_plus_1(host["n_plus_1"])
    found += _exactness(host)
    cost = host["cost"]
    found.append(
        f"The look took {cost['seconds']:,.0f} s, with {cost['cpu_s']:.2f} s of CPU time of its own and "
        f"{cost['kernel_cpu_s']:.2f} s of the kernel's."
    )
    return found + _other_hours(host)


def _other_hours(host: _Document) -> list[str]:
    """Return what the watch knows of other hours than that of the look."""
    watch, active = host["watch"], host["active_half_hour"]
    if watch is None:
        return ["It is one look, and no watch runs there: nothing is known of other hours (headroom_watch: present)."]
    found = []
    if active:
        found += _half_hour(active, host["used_bytes"])
    worst = watch["worst_hour"]
    if worst is None:
        return [*found, f"The watch runs only since {utc(watch['since'])}: the worst hour is not known yet."]
    found.append(
        f"The worst hour since {utc(watch['since'])} began at {utc(worst['began_at'])}: tasks waited for memory in "
        f"{_share(worst['memory_some_share'])} of it, with {_rate(worst['page_ins'])} page-ins/s and "
        f"{_rate(worst['refaults'])} refaults/s. The look says nothing about other hours."
    )
    return found


def _half_hour(active: _Document, used: int) -> list[str]:
    """Return the bounds of what was accessed within half an hour, each only if it says something."""
    parts = []
    if active["low_bytes"] is not None:
        parts.append(f"at least {size_text(active['low_bytes'])}, which the look saw")
    if active["high_bytes"] < used:
        parts.append(f"at most {size_text(active['high_bytes'])}, because the rest was beyond DRAM all the time")
    return [f"Of {size_text(used)}, there were accessed within half an hour {', and '.join(parts)}."] if parts else []


def _share(share: float | None) -> str:
    return "an unknown part" if share is None else f"{100 * share:.2g} %"


def _rate(rate: float | None) -> str:
    return "unknown" if rate is None else f"{rate:,.3g}"


def _exactness(host: _Document) -> list[str]:
    """Return how exact active memory is, and what would make it more exact."""
    error, wanted = host["error_percent"], host["cost"]["wanted_cpu_percent"]
    if error is None:
        return []
    found = f"The active memory of each unit is known within {error:g} % of its memory, at 95 %."
    if wanted is not None:
        found += f" For about 5 % a look would take {wanted:g} % of a CPU: headroom_cpu_percent."
    return [found]


def _n_plus_1(found: _Document | None) -> list[str]:
    if found is None:
        return []
    if found["fits"] is None:
        return [f"Whether the units of {found['failed']} would fit here is unknown: {found['reason']}."]
    if found["fits"]:
        caused = found["forecast"]["page_ins_per_second"]
        return [f"If {found['failed']} failed, its units would fit here too, at about {caused:,.0f} page-ins/s."]
    return [f"If {found['failed']} failed, its units would not fit here."]


def _doubts(host: _Document) -> list[str]:
    doubts = [f"{unit['name']}: {unit['reason']}" for unit in host["units"] if unit["reason"] and host["method"]]
    doubts += [f"{name} has ended during the look, and is left out" for name in host["ended"]]
    doubts += [f"{name} has started during the look: its memory counts as the host's own" for name in host["started"]]
    doubts += [
        f"the drive {drive['name']} says that {drive['worn_percent']} % of its endurance is used, and swap writes to it"
        for drive in host["drives"]
        if (drive["worn_percent"] or 0) >= WORN_PERCENT
    ]
    if len(host["numa_nodes"]) > 1:
        doubts.append("the host has several NUMA nodes, and the forecast is for all of them together")
    return doubts


def _forecast_table(host: _Document) -> Table:
    more = host["more"]
    rows = []
    if more:
        cases = [("now", host["now"]), ("one more", more["one_more"])]
        if more["count"] > 1:
            cases.append((f"{more['count']} more", more["forecast"]))
        for title, found in cases:
            waiting = found["worst_unit_per_second"] * host["page_in_us"] / 1e4
            rows.append(
                (
                    title,
                    "all of it" if found["age_seconds"] is None else _age(found),
                    f"{found['page_ins_per_second']:,.0f}",
                    f"{waiting:.3g}",
                    size_text(found["evicted_bytes"]),
                )
            )
    headings = ("units", "what stays in DRAM", "page-ins/s", "waiting of the worst unit, %", "beyond DRAM")
    return Table("forecast", headings, rows)


def _age(found: _Document) -> str:
    seconds = f"{found['age_seconds']:,.0f} s" if found["age_seconds"] >= 10 else f"{found['age_seconds']:.2g} s"
    if found["thrashes"]:
        return f"less than what was used within {seconds}"
    return f"what was used within {seconds}{', continued' if found['beyond'] else ''}"


def _host_table(host: _Document) -> Table:
    rates, psi = host["measured"], host["psi"].get("memory") or {}
    rows = [
        ("DRAM", _size(host["dram_bytes"])),
        ("the host's own", _size(host["own_bytes"])),
        ("given to units", _size(host["given_bytes"])),
        ("used by units", _size(host["used_bytes"])),
        ("of this pinned", _size(host["pinned_bytes"])),
        *(
            (f"{tier['kind']} {tier['name']}", f"{_size(tier['used_bytes'])} of {_size(tier['size_bytes'])}")
            for tier in host["tiers"]
        ),
        *(
            (f"endurance used of {drive['name']}", f"{drive['worn_percent']} %")
            for drive in host["drives"]
            if drive["worn_percent"] is not None
        ),
        ("compression", "-" if not host["compression"] else f"{host['compression']:.3g}:1"),
        ("page-in", "-" if host["page_in_us"] is None else f"{host['page_in_us']:g} us"),
        *(
            (title, "unknown" if rates[name] is None else f"{rates[name]:,.4g}")
            for title, name in (
                ("page-ins/s", "page_ins"),
                ("refaults/s", "refaults"),
                ("major faults/s", "major_faults"),
                ("CPUs of kswapd", "kswapd_cpu_share"),
            )
        ),
        *((f"PSI memory {name.replace('_', ' ')}, %", f"{value:g}") for name, value in sorted(psi.items())),
    ]
    return Table("the host while it was looked at", ("figure", "value"), rows)


def _units_table(host: _Document) -> Table:
    ages = sorted({age["seconds"] for unit in host["units"] for age in unit["ages"]})
    headings = ("unit", "given", "in DRAM", "beyond", "pinned", *(f"active {age:,} s" for age in ages))
    rows = []
    for unit in host["units"]:
        known = {age["seconds"]: age for age in unit["ages"]}
        rows.append(
            (
                unit["name"],
                _size(unit["given_bytes"]),
                _size(unit["resident_bytes"]),
                _size(unit["swapped_bytes"]),
                _size(unit["pinned_bytes"]),
                *(_active(known.get(age)) for age in ages),
            )
        )
    return Table("active memory of each unit, with its interval at 95 %", headings, rows)


def _active(age: _Document | None) -> str:
    if age is None:
        return "unknown"
    unit, name = (2**30, "GiB") if age["active_bytes"] >= 2**30 else (2**20, "MiB")
    error = max(age["high_bytes"] - age["active_bytes"], age["active_bytes"] - age["low_bytes"])
    return f"{age['active_bytes'] / unit:,.3g} ± {error / unit:,.2g} {name}"


def _size(value: float | None) -> str:
    return "unknown" if value is None else size_text(value)


def _charts(number: int, name: str, host: _Document) -> list[Chart]:
    largest = sorted(host["units"], key=lambda unit: -unit["stretchable_bytes"])[:CHARTED]
    series = [
        {
            "name": unit["name"],
            "points": [[age["seconds"], round(age["active_bytes"] / 2**20, 2)] for age in unit["ages"]],
        }
        for unit in largest
        if unit["ages"]
    ]
    if not series:
        return []
    return [
        Chart(
            f"headroom-{number}-ages",
            f"Active memory of each unit of {name} by age; the table below has the same figures",
            "accessed within, s",
            "active memory, MiB",
            series,
            log_x=True,
        )
    ]
