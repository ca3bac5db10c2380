# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A density in words, from density.json: the same on the terminal and on the page. headline.py has its sentence."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import grid, microseconds
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted

_Found = t.Mapping[str, t.Any]


def size(estimate: _Found, name: str = "n90") -> str:
    """Return a number of hosts and its interval, such as C(31 (28 to 33)).

    Args:
        estimate: C(passes), C(not_fails) or C(if_discarded_failed) of a profile.
        name: C(n90) or C(n50).
    """
    low, high = estimate[f"{name}_interval"]
    return f"{estimate[name]} ({f'{low} to {high}' if high is not None else f'{low} or more'})"


def density(found: _Found) -> str:
    """Return the density of a profile, and the one that does not fail if that is another."""
    passes, not_fails = size(found["passes"]), size(found["not_fails"])
    return passes if passes == not_fails else f"{passes}, undecided up to {not_fails}"


def ratio(found: _Found) -> str:
    """Compute how many times as many hosts a profile carries as the first one, such as C(1.33 (1.20 to 1.45))."""
    if found["ratio"] is None:
        return "-"
    low, high = found["ratio"]["interval"]
    span = f"{low:.2f} to {high:.2f}" if high is not None else f"{low:.2f} or more" if low else "unknown"
    if found["ratio"]["indicative"]:
        return f"indicative: {span}"
    estimate = found["ratio"]["estimate"]
    return span if estimate is None else f"{estimate:.2f} ({span})"


def closed(share: _Found | None) -> str:
    """Return the share of a gap that a profile closes, such as C(63 % (55 to 70 %))."""
    if share is None:
        return "-"
    if not share["gap"]:
        return "no certain gap"
    span = (
        "no interval"
        if share["interval"] is None
        else "{:.0f} to {:.0f} %".format(*(100 * end for end in share["interval"]))
    )
    return f"{100 * share['estimate']:.0f} % ({span})"


def _overcommitted(document: _Found) -> list[str]:
    """Return the table of the fleets of given sizes; nothing for a search."""
    columns = (
        ("profile", lambda row: row["name"]),
        ("hosts", lambda row: str(row["size"])),
        ("x what fits", lambda row: f"{row['times']:.2f}"),
        ("probes", lambda row: str(row["probes"])),
        ("worst host's avg us", lambda row: microseconds(row["avg_us"])),
        ("p99", lambda row: microseconds(row["p99_us"])),
        ("CPU us/request", lambda row: microseconds(row["cpu_us"])),
        ("gap closed, avg", lambda row: closed(row["closed"] and row["closed"]["avg_us"])),
        ("p99", lambda row: closed(row["closed"] and row["closed"]["p99_us"])),
        ("", lambda row: row["why_not"]),
    )
    rows, first = document.get("overcommit"), document["density"][0]["name"]
    if not rows:
        return []
    heading = (
        f"Means over the probes of a size; the gap is between {first} and DRAM alone with half of the hosts that fit:"
    )
    return ["", heading, *grid(columns, rows)]


def stopped(found: _Found, definition: _Found) -> str:
    """Explain why a profile was not probed any more."""
    probes = counted(found["probes"], "probe")
    factor = f"a factor of {definition['factor']:g}"
    return {
        "factor": f"known within {factor} after {probes}",
        "probes": f"the budget of {probes} is used, and the interval is wider than {factor}",
        "target": f"enough is known for the target, {definition.get('target', 0):g} times as many, after {probes}",
        "minutes": f"the time is used after {probes}, and the interval is wider than {factor}",
        "invalid": f"stopped after {probes}: too many could not be judged",
        None: f"not finished, {probes} so far",
    }[found["stopped_by"]]


def of_all(found: t.Sequence[_Found]) -> list[str]:
    """Return the labels that all profiles of a search share."""
    return [label for label in found[0]["labels"] if all(label in each["labels"] for each in found)]


def notes(found: _Found, shared: t.Collection[str] = ()) -> list[str]:
    """Return the sentences that a density must not be read without.

    Args:
        found: an entry of C(density).
        shared: labels that are shown elsewhere.
    """
    lines = []
    if found["passes"]["n90_interval"][1] is None:
        lines.append(
            "its interval ends above the largest fleet that is allowed (density_max), so the density may be larger"
        )
    if found["discarded"]:
        lines.append(
            f"{found['discarded']} of {counted(found['attempts'], 'attempt')} could not be judged and had to be "
            f"repeated; if all of them had failed, the density would be {size(found['if_discarded_failed'])}"
        )
    if found["stopped_by"] == "invalid":
        lines.append("too many probes could not be judged in any of their attempts; see their reasons")
    lines += [
        f"{each['name']} missed the SLO in all {counted(each['probes'], 'probe')} that held it, while most other "
        "hosts met it: it is sick, and limits the density more than the profile does"
        for each in found["sick"]
    ]
    return [*lines, *(label for label in found["labels"] if label not in shared)]


def lines(document: _Found) -> list[str]:
    """Return the densities, how certain they are, and the probes, as tables for the terminal."""
    slo, found, definition = document["slo"], document["density"], document["definition"]
    shared = of_all(found)
    columns = (
        ("profile", lambda each: each["name"]),
        ("density N90", density),
        (f"x {found[0]['name']}", ratio),
        ("N50", lambda each: size(each["passes"], "n50")),
        ("", lambda each: f"{'indicative; ' if each['indicative'] else ''}{stopped(each, definition)}"),
    )
    curve = (
        ("profile", lambda row: row["name"]),
        ("hosts", lambda row: str(row["size"])),
        ("passed", outcomes),
        ("within SLO", lambda row: str(row["hosts_within_slo"])),
        ("avg us", lambda row: microseconds(row["avg_us"])),
        ("p99", lambda row: microseconds(row["p99_us"])),
        ("worst host's", lambda row: microseconds(row["worst_host_p99_us"])),
        ("", lambda row: f"lost {', '.join(row['lost'])}" if row["lost"] else ""),
    )
    return [
        "",
        f"Density: the largest fleet whose hosts all meet avg <= {slo['avg_us']:g} us and p99 <= {slo['p99_us']:g} us",
        "in 90 % of its probes (N90), with 95 % intervals; N50: in half of them",
        *([f"{document['derived']}."] if document["derived"] else []),
        *grid(columns, found),
        "",
        "Probes (worst cell of each; median over the valid probes of a size):",
        *grid(curve, [{**row, "name": each["name"]} for each in found for row in each["curve"]]),
        *_overcommitted(document),
        *(f"  note: {label}" for label in document["labels"]),
        *(f"  note: {text}" for text in shared),
        *(f"  {each['name']}: {text}" for each in found for text in notes(each, shared)),
    ]


def outcomes(row: _Found) -> str:
    """Describe how the probes of a size ended."""
    judged = row["passed"] + row["undecided"] + row["failed"]
    others = [f"{row[name]} {name}" for name in ("undecided", "invalid") if row[name]]
    return ", ".join([f"{row['passed']} of {judged}", *others])
