# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/headline.md."""

from __future__ import annotations

import statistics
import time
import typing as t

from headline_rows import Found, HeadlineError, Row

# pylint: disable=wrong-import-order
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report import density_text, headline

BEGIN, END = "<!-- headline.py -->\n", "<!-- end of headline.py -->\n"
# How far the density may be from what the plan expected.
PLAN_TOLERANCE = 0.15
REACHED, NOT_REACHED, UNDECIDED = "reached", "not reached", "undecided"

_Document = dict[str, t.Any]


def result(found: Found) -> str:
    """Check whether the target of a row was reached, by the interval of the best profile."""
    target, ratio = found.row.target, (found.best or {}).get("ratio")
    if target is None:
        return "-"
    if ratio is None:
        return UNDECIDED
    low, high = ratio["interval"]
    return REACHED if low >= target else NOT_REACHED if high is not None and high < target else UNDECIDED


def times(arm: _Document | None) -> str:
    """Return a multiple of the baseline with its interval."""
    ratio = (arm or {}).get("ratio")
    if ratio is None:
        return "-"
    low, high = ratio["interval"]
    span = f"{low:.2f} or more" if high is None else f"{low:.2f} to {high:.2f}"
    note = ", indicative" if ratio["indicative"] else ""
    return f"{span}{note}" if ratio["estimate"] is None else f"{ratio['estimate']:.2f} ({span}{note})"


def predicted(found: Found) -> str:
    """Return the densities that the plan expected, and how far they were off."""
    if not found.plan:
        return "-"
    texts = []
    for arm in found.arms:
        size = found.plan["largest"].get(arm["name"])
        texts.append(f"{arm['name']} {'unknown' if size is None else size}{_off(size, arm)}")
    return ", ".join(texts)


def _off(expected: int | None, arm: _Document) -> str:
    """Return how far the expected density is from the measured one, or from both ends if undecided probes allow two."""
    ends = sorted({arm["passes"]["n90"], arm["not_fails"]["n90"]})
    if expected is None or not ends[0]:
        return ""
    off = [expected / end - 1 for end in reversed(ends)]
    text = " to ".join(f"{each:+.0%}" for each in off)
    # Within the ends the sign changes, and nothing speaks against the plan.
    near = off[0] <= PLAN_TOLERANCE and off[-1] >= -PLAN_TOLERANCE
    return f" ({text})" if near else f" (**{text}**)"


# A fleet of this multiple of what fits into DRAM stores a fifth of its memory outside.
_STORES = 1.25


def compression(found: Found) -> str:
    """Return how well the values really compressed: the median of the probes that had to store many of them.

    A fleet that nearly fits into DRAM stores a few pages, which are not those of values.
    """
    document = found.density or {"runs": []}
    fewest = _STORES * document.get("calibration", {}).get("fitting", 0)
    stored = sorted(
        run["dram"]["compression_ratio"]
        for run in document["runs"]
        if run["size"] >= fewest and run.get("dram") and run["dram"].get("compression_ratio")
    )
    return f"{stored[len(stored) // 2]:.2f}:1" if stored else "-"


def objective(found: Found) -> str:
    slo = (found.density or {}).get("slo")
    return f"{slo['avg_us']:g} / {slo['p99_us']:g}" if slo else "-"


_COLUMNS: tuple[tuple[str, t.Callable[[Found], str]], ...] = (
    ("values", lambda found: found.row.values),
    ("measured", compression),
    ("influence", lambda found: f"{found.row.influence:g}"),
    ("profiles", lambda found: ", ".join(found.row.profiles)),
    ("objective, avg / p99 us", objective),
    ("density", lambda found: ", ".join(f"{arm['name']} {density_text.density(arm)}" for arm in found.arms) or "-"),
    ("best over the first", lambda found: times(found.best)),
    ("target", lambda found: "-" if found.row.target is None else f"{found.row.target:g}"),
    ("result", result),
    ("the plan expected", predicted),
)


def _probes(found: Found) -> list[list[str]]:
    """Return a line for each size that was probed under each profile of a row."""
    fitting = (found.density or {}).get("calibration", {}).get("fitting")
    lines = []
    for arm in found.arms:
        for point in arm["curve"]:
            outcomes = [f"{point[name]} {name}" for name in ("passed", "undecided", "failed", "invalid") if point[name]]
            lines.append(
                [
                    found.row.values,
                    f"{found.row.influence:g}",
                    arm["name"],
                    str(point["size"]),
                    f"{point['size'] / fitting:.2f}" if fitting else "-",
                    ", ".join(outcomes),
                    *(_figure(point[name]) for name in ("worst_host_avg_us", "worst_host_p99_us")),
                    *_swapped(found, arm["name"], point["size"]),
                ]
            )
    return lines


_PROBE_COLUMNS = (
    *("values", "influence", "profile", "servers", "x what fits", "probes", "avg us", "p99 us"),
    *("page-ins/s", "swapped MB", "of these compressed"),
)


def _swapped(found: Found, profile: str, size: int) -> list[str]:
    """Return the page-ins and what was swapped out, medians over the probes of a size for which they are known."""
    runs = [run for run in (found.density or {})["runs"] if run["arm"] == profile and run["size"] == size]
    # The study has one machine. Probes of an earlier version have no pressure.
    measured = [figures for run in runs for figures in run.get("pressure", {}).values()]
    texts = []
    for name in ("page_ins", "swap_used_mb", "compressed_mb"):
        known = [value for each in measured if (value := each.get(name)) is not None]
        texts.append(_figure(statistics.median(known) if known else None))
    return texts


def _figure(value: float | None, text: str = "{:,.0f}") -> str:
    return "-" if value is None else text.format(value)


def _table(columns: t.Sequence[str], lines: t.Iterable[t.Sequence[str]]) -> list[str]:
    return [_line(columns), _line(["---"] * len(columns)), *map(_line, lines)]


def _line(cells: t.Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def answer(all_found: t.Sequence[Found]) -> list[str]:
    """Return the table of the searches, that of the fleets of given overcommit, and what is planned."""
    searches = [found for found in all_found if found.finished and not found.row.overcommit]
    lines = [line for found in searches for line in (_sentence(found), "")]
    if searches:
        lines += _table(
            [name for name, _fill in _COLUMNS], ([fill(found) for _name, fill in _COLUMNS] for found in searches)
        )
    beyond = [line for found in all_found if found.finished and found.row.overcommit for line in _beyond(found)]
    if beyond:
        lines += ["", "### Latency beyond DRAM", "", *_table(_BEYOND_COLUMNS, beyond)]
    planned = [found.row for found in all_found if not found.finished]
    if planned:
        lines += ["", "### Planned, and not measured", ""] if lines else []
        lines += _table(_PLANNED_COLUMNS, map(_planned, planned))
    return lines


def _sentence(found: Found) -> str:
    """Return the answer of a search, as on its page."""
    sentences = headline.all_of_density(t.cast("_Document", found.density))
    return f"- values {found.row.values}, influence {found.row.influence:g}: {' '.join(sentences)}"


_PLANNED_COLUMNS = ("values", "influence", "profiles", "x what fits", "target", "minutes", "what decides")


def _planned(row: Row) -> list[str]:
    """Return the line of a row that is not measured yet."""
    fleets = ", ".join(f"{each:g}" for each in row.overcommit) or "-"
    target = "-" if row.target is None else f"{row.target:g}"
    return [row.values, f"{row.influence:g}", ", ".join(row.profiles), fleets, target, f"{row.minutes:g}", row.expected]


_BEYOND_COLUMNS = (
    *("values", "influence", "x what fits", "servers", "profile", "probes", "avg us", "p99 us", "CPU us a request"),
    *("gap closed, average", "p99", "both"),
)


def _beyond(found: Found) -> list[list[str]]:
    """Return the lines of a row of given overcommit: DRAM alone, then each size and profile."""
    row, density = found.row, t.cast("_Document", found.density)
    in_dram, calibration = cpu_of(found.dram), density["calibration"]
    half = [f"{calibration['hosts'] / calibration['fitting']:.2f}", str(calibration["hosts"]), "dram", "1"]
    figures = [_figure(calibration[name]) for name in ("avg_us", "p99_us")]
    lines = [[row.values, f"{row.influence:g}", *half, *figures, cpu(in_dram, None), "-", "-", "-"]]
    for each in density["overcommit"]:
        place = [f"{each['times']:.2f}", str(each["size"]), each["name"], str(each["probes"])]
        figures = [_figure(each[name]) for name in ("avg_us", "p99_us")]
        shares = [density_text.closed(each["closed"] and each["closed"][name]) for name in ("avg_us", "p99_us", "both")]
        if each["why_not"]:
            shares = [each["why_not"], "-", "-"]
        lines.append([row.values, f"{row.influence:g}", *place, *figures, cpu(each["cpu_us"], in_dram), *shares])
    return lines


def cpu_of(summary: _Document | None) -> float | None:
    """Return the CPU time of a request in a run, in microseconds; None if it is unknown."""
    return ((summary or {}).get("cpu") or {}).get("total_us")


def cpu(value: float | None, dram: float | None) -> str:
    """Return the CPU time of a request, and how many times that of DRAM alone it is."""
    if value is None:
        return "-"
    return f"{value:.0f} ({value / dram:.2f} x)" if dram else f"{value:.0f}"


_COST_COLUMNS = (
    *("values", "influence", "profile", "servers", "CPU us a request", "a VM a month", "95 % interval", "saving"),
    "95 % interval",
)


def _costs(found: Found) -> list[list[str]]:
    """Return a line for each profile of a search: what a request and a VM cost at its density."""
    paid = {arm["name"]: arm for arm in ((found.density or {}).get("cost") or {}).get("arms", [])}
    used = [_cpu_at_density(arm) for arm in found.arms]
    lines = []
    for arm, value in zip(found.arms, used):
        of_arm = paid.get(arm["name"], {})
        lines.append(
            [
                *(found.row.values, f"{found.row.influence:g}", arm["name"], str(arm["density"])),
                cpu(value, used[0] if arm is not found.arms[0] else None),
                _figure(of_arm.get("per_vm_month"), "{:,.2f}"),
                _ends(of_arm.get("per_vm_month_interval"), "{:,.2f}"),
                _figure(of_arm.get("saving"), "{:.0%}"),
                _ends(of_arm.get("saving_interval"), "{:.0%}"),
            ]
        )
    return lines


def _cpu_at_density(arm: _Document) -> float | None:
    """Return the CPU time of a request at the largest size up to the density that passed a probe, as for the cost."""
    points = [point for point in arm["curve"] if point["passed"] and point["size"] <= arm["density"]]
    return max(points, key=lambda point: point["size"])["cpu_us"] if points else None


def _ends(ends: t.Sequence[float | None] | None, text: str) -> str:
    return " to ".join("..." if end is None else text.format(end) for end in ends) if ends else "-"


def _prices(all_found: t.Iterable[Found]) -> str:
    """Return the prices of the first search that has some."""
    for found in all_found:
        paid = ((found.density or {}).get("cost") or {}).get("prices")
        if paid:
            return (
                f"Prices are examples, in {paid['currency']}: a server without its DRAM {paid['server']:,.0f}, "
                f"{paid['dram_gb']:g} GB of DRAM at {paid['dram_per_gb']:g} each, and {paid['tier_gb']:g} GB of drives "
                f"at {paid['tier_per_gb']:g} each where the profile swaps to them; "
                f"{paid['licences_per_month']:g} of licences a month, {paid['power_w']:g} W at "
                f"{paid['price_per_kwh']:g} a kWh; {paid['months']:g} months."
            )
    return ""


def _where(measured: t.Sequence[Found]) -> list[str]:
    """Return where, when and with how much DRAM rows were measured."""
    lines = []
    for machine in sorted({found.machine for found in measured}):
        of_machine = [t.cast("dict[str, t.Any]", found.density) for found in measured if found.machine == machine]
        days = sorted({time.strftime("%Y-%m-%d", time.gmtime(each["created_at"])) for each in of_machine})
        budgets = sorted({each["calibration"]["budget_bytes"] or 0 for each in of_machine if "calibration" in each})
        sizes = ", ".join(size_text(each) for each in budgets)
        lines += [f"Measured on {machine or 'an unknown machine'}, {', '.join(days)}, with {sizes} of DRAM.", ""]
    return lines


def tables(all_found: t.Sequence[Found]) -> str:
    """Return the tables of the page, as Markdown."""
    measured = [found for found in all_found if found.finished]
    lines = _where(measured)
    lines += answer(all_found)
    labels = sorted({label for found in measured for label in (found.density or {}).get("labels", [])})
    lines += ["", *(f"- {label}" for label in labels)] if labels else []
    searched = [found for found in measured if not found.row.overcommit]
    if searched:
        lines += ["", "### What a request and a VM cost", "", _prices(searched), ""]
        lines += _table(_COST_COLUMNS, [line for found in searched for line in _costs(found)])
    probes = [line for found in searched for line in _probes(found)]
    if probes:
        lines += ["", "### All probes", ""]
        lines += [
            "Average and p99 are the upper bounds of the worst server, medians over the probes of a size. So are the "
            "page-ins of the machine, and what is swapped out at the end: all of it, and the part in zram or zswap.",
            "",
        ]
        lines += _table(_PROBE_COLUMNS, probes)
    return "\n".join(lines) + "\n"


def bench(all_found: t.Sequence[Found]) -> str:
    """Return the page of the bench, which the sentences of other pages are checked against."""
    measured = [found for found in all_found if found.finished]
    searched = [found for found in measured if not found.row.overcommit]
    lines = ["# How far a present kernel stretches DRAM", ""]
    lines += [
        "`make headline-page` writes this page from the results kept in [headline](headline).",
        "[The headline](../headline.md) has their tables and the method.",
        "",
    ]
    lines += _where(measured)
    for found in searched:
        lines += [_sentence(found), f"  Values compressed {compression(found)}; {_spans(found)}.", ""]
    return "\n".join(lines).rstrip() + "\n"


def _spans(found: Found) -> str:
    """Return the densities of a row, and what the multiple is."""
    densities = ", ".join(f"{arm['name']} {density_text.density(arm)}" for arm in found.arms)
    return f"N90 with 95 % intervals: {densities}; the multiple: {times(found.best)}"


def written(page: str, new: str) -> str:
    """Return a page with new tables. Raises HeadlineError if it has no place for them."""
    before, begin, rest = page.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise HeadlineError(f"the page has no lines {BEGIN.strip()} and {END.strip()}")
    return before + begin + new + end + after
