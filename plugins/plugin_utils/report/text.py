# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The terminal output of runs: the lines while one is measured, the final table, comparisons and experiments."""

from __future__ import annotations

import operator
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.section import Section
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import PASS, UPPER
from ansible_collections.memstretch.density.plugins.plugin_utils.run.cell import ITERATIONS_FOR_A_CLAIM
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import PAIRS_FOR_AN_INTERVAL

# Heading and contents of each column, for a cell of the summary.
_COLUMNS = (
    ("influence", lambda cell: f"{cell['influence']:g}"),
    ("GET %", lambda cell: f"{cell['read_mix']:g}"),
    ("avg us", lambda cell: microseconds(cell[UPPER]["avg_us"])),
    ("p50", lambda cell: microseconds(cell[UPPER]["p50_us"])),
    ("p95", lambda cell: microseconds(cell[UPPER]["p95_us"])),
    ("p99", lambda cell: microseconds(cell[UPPER]["p99_us"])),
    ("p99.9", lambda cell: microseconds(cell[UPPER]["p999_us"])),
    ("max", lambda cell: microseconds(cell[UPPER]["max_us"])),
    ("within SLO", lambda cell: f"{cell['hosts_within_slo']} of {cell['_expected']}"),
    ("worst host", lambda cell: _worst(cell["worst_host"])),
    ("rate", lambda cell: _share(cell["achieved_rate_ratio"])),
    ("overlap", lambda cell: _share(cell["overlap"])),
    ("", lambda cell: "" if cell["verdict"] == PASS else cell["verdict"].upper()),
)
_BRIEF_COLUMNS = (
    ("influence", lambda cell: f"{cell['influence']:g}"),
    ("GET %", lambda cell: f"{cell['read_mix']:g}"),
    ("hosts", lambda cell: str(cell["brief"]["hosts"])),
    ("avg ms", lambda cell: _ms(cell["brief"]["avg_ms"])),
    ("min", lambda cell: _ms(cell["brief"]["min_ms"])),
    ("p95", lambda cell: _ms(cell["brief"]["p95_ms"])),
    ("p99", lambda cell: _ms(cell["brief"]["p99_ms"])),
    ("max", lambda cell: _ms(cell["brief"]["max_ms"])),
)
# An objective of this size cannot be missed: the largest that the options allow.
_NO_OBJECTIVE_US = 1e9
_COMPARISON_COLUMNS = (
    ("influence", lambda row: f"{row['influence']:g}"),
    ("GET %", lambda row: f"{row['read_mix']:g}"),
    ("profile", lambda row: row["name"]),
    ("avg us", lambda row: microseconds(row[UPPER]["avg_us"])),
    ("x", lambda row: _times(row, "avg_us")),
    ("p99 us", lambda row: microseconds(row[UPPER]["p99_us"])),
    ("x", lambda row: _times(row, "p99_us")),
    ("max us", lambda row: microseconds(row[UPPER]["max_us"])),
    ("x", lambda row: _times(row, "max_us")),
    (
        "page-ins/s",
        lambda row: "unknown" if row["page_ins_per_second"] is None else f"{row['page_ins_per_second']:,.0f}",
    ),
    ("within SLO", lambda row: str(row["hosts_within_slo"])),
    ("", lambda row: "INVALID" if not row["valid"] else "indicative" if row["indicative"] else ""),
)
_NOISE_COLUMNS = (
    ("influence", lambda row: f"{row['influence']:g}"),
    ("GET %", lambda row: f"{row['read_mix']:g}"),
    ("", operator.itemgetter("name")),
    ("avg", operator.itemgetter("avg_us")),
    ("p99", operator.itemgetter("p99_us")),
    ("max", operator.itemgetter("max_us")),
)
# The figures that are tested for a steady state.
STEADY_FIGURES = {
    "avg_us": "the average",
    "p99_us": "the p99",
    "page_ins_within": "page-ins per second",
    "page_ins": "the page-ins of an iteration",
}
# The terminal shows at most this many reasons; summary.json has all of them.
_REASONS_SHOWN = 12


def opening(run: t.Mapping[str, t.Any]) -> list[str]:
    """Return the lines that announce a run."""
    config, slo, load = run["config"], run["config"]["slo"], run["config"]["load"]
    todo = [phase for phase in run["phases"] if not phase["finished"]]
    seconds = sum(phase["seconds"] for phase in todo)
    return [
        f"{'Resuming run' if run['resumed'] else 'Run'} {run['run_id']}: profile {config['profile']}",
        *_notes(run["labels"]),
        f"fleet of {len(run['expected'])}: {load['key_count']:,} keys of {load['value_size']:,} bytes "
        f"(compressibility {load['compressibility']:g}) and "
        f"{load['rate']:g} requests/s each; SLO avg <= {slo['avg_us']:g} us, p99 <= {slo['p99_us']:g} us",
        f"{len(todo)} of {counted(len(run['phases']), 'phase')} to measure, about {clock(seconds)} of load; "
        f"results in {run['directory']}",
    ]


def beginning(phase: t.Mapping[str, t.Any], elapsed: float, remaining: float) -> str:
    """Return the line that announces a phase."""
    return (
        f"{_where(phase)}  running for {clock(phase['seconds'])} | "
        f"elapsed {clock(elapsed)}, remaining about {clock(remaining)}"
    )


def outcome(document: t.Mapping[str, t.Any]) -> list[str]:
    """Return the fleet's figures of a finished phase, and why it is not valid."""
    phase = document["phase"]
    hosts = f"{len(document['hosts'])}/{counted(len(document['expected']), 'host')}"
    if phase["kind"] == "fill":
        fills = [each["fill"] for each in document["hosts"].values()]
        keys, longest = sum(fill["keys"] for fill in fills), max((fill["seconds"] for fill in fills), default=0)
        figures = f"{hosts}, {keys:,} keys written in {longest:.1f} s"
    elif not document["hosts"]:
        figures = hosts
    else:
        latency = document["merged"][UPPER]
        figures = (
            f"{hosts}: avg {microseconds(latency['avg_us'])}, p99 {microseconds(latency['p99_us'])}, "
            f"max {microseconds(latency['max_us'])} us | "
            f"rate {_share(document['achieved_rate_ratio'])}, overlap {_share(document['overlap'])}"
        )
    lines = [f"{_where(phase)}  {figures}" + ("" if document["valid"] else "  INVALID")]
    died = [f"{host} died under the load: {document['failed'][host]}" for host in document["died"]]
    return lines + [
        f"{'':8}{reason}" for reason in (*_cut([*document["reasons"], *died]), *document.get("warnings", []))
    ]


def table(summary: t.Mapping[str, t.Any], directory: str, more: t.Sequence[str] = ()) -> list[str]:
    """Return the final table and the verdict of a run.

    Args:
        summary: summary.json.
        directory: its directory.
        more: lines to show between the table and the verdict.
    """
    fleet = summary["fleet"]
    cells = [{**cell, "_expected": fleet["expected"]} for cell in summary["cells"]]
    return [
        "",
        f"Run {summary['run_id']}: profile {summary['profile']}",
        *_notes(summary["labels"]),
        "",
        f"Latency of the fleet ({fleet['reported']} of {counted(fleet['expected'], 'host')} merged, every delay "
        f"included), in microseconds:",
        *grid(_COLUMNS, cells),
        "",
        "Service time as the brief of 2018 gives it (means of the hosts' figures), in milliseconds:",
        *grid(_BRIEF_COLUMNS, cells),
        *more,
        "",
        *_placement(summary["placement"]),
        *(f"DRAM: {line}" for line in _charged(summary["dram"])),
        *(f"Warning: {sentence}" for sentence in unsteady(cells)),
        _objective(summary["slo"])
        + (f"; fewer than {ITERATIONS_FOR_A_CLAIM} iterations: indicative" if _is_indicative(cells) else ""),
        *(f"  - {reason}" for reason in _cut(summary["reasons"])),
        f"Verdict: {summary['verdict'].upper()}{_remark(summary['labels'])}   ({directory}/summary.json)",
    ]


def _objective(slo: t.Mapping[str, float]) -> str:
    """Return the objective in words. The largest one stands for a run that only measures."""
    if min(slo["avg_us"], slo["p99_us"]) >= _NO_OBJECTIVE_US:
        return "SLO: none, this run only measures"
    return f"SLO: avg <= {slo['avg_us']:g} us and p99 <= {slo['p99_us']:g} us for every host"


def comparison(document: t.Mapping[str, t.Any]) -> list[str]:
    """Return the table of a comparison, and the verdicts, notes and other differences of its runs."""
    first = document["runs"][0]
    baseline = first["name"] if len(first["parts"]) > 1 else first["run_id"]
    lines = [
        "",
        f"Latency of the fleet, and its ratio (x) to {baseline}:",
        *grid(_COMPARISON_COLUMNS, document["cells"]),
        "",
        *(
            [
                f"indicative: a ratio has an interval only with {PAIRS_FOR_AN_INTERVAL} or more runs of each profile "
                f"(study_rounds)"
            ]
            if any(row["indicative"] for row in document["cells"])
            else ["In brackets: 95 % interval over the runs. If it includes 1, the difference is not significant."]
        ),
        *_corrected(document["cells"]),
        *_certainty(document),
        _objective(document["slo"]),
    ]
    lines += _notes(document["labels"])
    runs = document["runs"]
    of_all = [label for label in runs[0]["labels"] if all(label in run["labels"] for run in runs)]
    lines += ["All runs:", *_notes(of_all)] if of_all else []
    for run in runs:
        parts = f"run{'s' if len(run['parts']) > 1 else ''} {', '.join(run['parts'])}"
        lines.append(f"  {run['name']}: {run['verdict'].upper()}, {counted(run['fleet'], 'host')}, {parts}")
        lines += [f"    DRAM: {line}" for line in _charged(run["dram"])]
        lines += [f"  {note}" for note in _notes([label for label in run["labels"] if label not in of_all])]
        lines += [
            f"    differs from {document['baseline']}: {text}"
            for text in document["differences"].get(run["run_id"], [])
        ]
    return lines


def _corrected(rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Explain what a star means, if the table has ratios that could have one."""
    tests = sum(row["significant"]["avg_us"] is not None for row in rows)
    if not tests:
        return []
    return [
        f"*: significant also after Holm's correction for all {tests} ratios of that figure; the probability of even "
        f"one false star is at most 5 % for each figure."
    ]


def _certainty(document: t.Mapping[str, t.Any]) -> list[str]:
    """Return the A/A tests of a comparison, how much its runs vary, and the smallest effect that it could have seen."""
    lines = [aa_sentence(test) for test in document["aa_tests"]]
    noise = document["noise"]
    if noise:
        rows = []
        for cell in noise["cells"]:
            key = (cell["influence"], cell["read_mix"])
            rows += [
                {**row, **{name: _percent(spread) for name, spread in row["spread"].items()}}
                for row in document["cells"]
                if (row["influence"], row["read_mix"]) == key
            ]
            smallest = {name: f"{effect:.2f}" for name, effect in cell["smallest_effect"].items()}
            rows.append({**cell, "name": "smallest effect", **smallest})
        lines += ["", "Run-to-run spread of each profile, and the smallest effect:", *grid(_NOISE_COLUMNS, rows)]
        lines += ["", noise_sentence(noise), ""]
    return lines


def aa_sentence(test: t.Mapping[str, t.Any]) -> str:
    """Return the outcome of an A/A test."""
    which = f"A/A test: {test['arm']} is {test['repeats']} again"
    if test["holds"] is None:
        return f"{which}; it has an interval only with {PAIRS_FOR_AN_INTERVAL} or more runs of each (study_rounds)."
    held = f"{test['hold_1']} of {test['intervals']} intervals of their ratio include 1"
    outside = f" (not {'; '.join(_cut(test['outside']))})" if test["outside"] else ""
    if test["holds"]:
        chance = ", no more than chance leaves out" if outside else ""
        return f"{which}, and {held}{outside}{chance}."
    return f"{which}, and only {held}{outside}: the site is not as steady as the intervals claim."


def noise_sentence(noise: t.Mapping[str, t.Any]) -> str:
    """Describe how the smallest effect was found."""
    names = ", ".join(noise["arms"])
    source = f"the A/A arms {names}" if noise["source"] == "aa" else f"the pairs of {names}"
    return (
        f"The spread is the standard deviation of the logarithm over the runs of a profile. The smallest effect is the "
        f"ratio (or 1 / ratio) that {noise['rounds']} rounds find with a probability of 80 %, if runs differ as "
        f"much as in {source}, without what rounds have in common. It is for a single ratio; a star needs a larger one."
    )


def section(shown: Section) -> list[str]:
    """Return the section of an experiment: its answer, tables, sentences and doubts."""
    lines = ["", f"{shown.title}:", *([shown.answer] if shown.answer else [])]
    for each in shown.tables:
        columns = [(heading, operator.itemgetter(place)) for place, heading in enumerate(each.headings)]
        lines += ["", f"{each.title[:1].upper()}{each.title[1:]}:", *grid(columns, each.rows)]
    lines += ["", *shown.sentences]
    return lines + [f"  - DOUBTFUL: {text}" for text in _cut(shown.doubts)]


def unsteady(cells: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return a sentence for each figure that changed while a cell was measured."""
    return [
        f"{configuration.cell_title(cell)}: not in a steady state; {_change(STEADY_FIGURES[figure], test)}."
        for cell in cells
        for figure, test in (cell.get("steady") or {}).items()
        if test and not test["steady"]
    ]


def _change(name: str, test: t.Mapping[str, t.Any]) -> str:
    moved = f"{name} {'rose' if test['change'] > 0 else 'fell'} by {100 * abs(test['change']):.0f} %"
    if "iteration" not in test:
        return f"{moved} from the first to the last iteration"
    how = f"in a step at {100 * test['step_at']:.0f} % of" if test["step_at"] else "during"
    return f"{moved} {how} iteration {test['iteration']}"


def _is_indicative(cells: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
    return any(cell["iterations"] < ITERATIONS_FOR_A_CLAIM for cell in cells)


def _placement(placement: t.Mapping[str, t.Any]) -> list[str]:
    """Return a line on the placement of the clients, since only figures of the same placement are comparable."""
    hosts = [f"{how} on {count}" for how, count in placement["shares_cpu"].items() if count]
    requested = "" if placement["requested"] is None else f"{placement['requested']} requested; "
    return [f"Client's CPU: {requested}shared with Redis {', '.join(hosts)} of the hosts"] if hosts else []


def _charged(dram: t.Mapping[str, t.Any] | None) -> list[str]:
    """Return a line on the charged DRAM of a run; nothing if it had no DRAM budget."""
    if not dram:
        return []
    taken = "an unknown part" if dram["charged_bytes"] is None else size_text(dram["charged_bytes"])
    text = f"the fleet took {taken} of its budget of {size_text(dram['budget_bytes'])}"
    if dram["compression_ratio"]:
        text += f"; compressed {dram['compression_ratio']:.2f}:1"
    return [text + ("; DOES NOT FIT" if dram["fits"] is False else "")]


def clock(seconds: float) -> str:
    """Return a duration as 1:05 or 2:01:05."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _where(phase: t.Mapping[str, t.Any]) -> str:
    width = len(str(phase["of"]))
    return f"[{phase['index']:{width}}/{phase['of']}] {configuration.describe(phase):<36}"


def _notes(labels: t.Sequence[str]) -> list[str]:
    return [f"  note: {label}" for label in labels]


def _remark(labels: t.Sequence[str]) -> str:
    """Return the note behind the verdict, or where to find the notes if there are several."""
    return f" ({labels[0]})" if len(labels) == 1 else f" (see the {len(labels)} notes above)" if labels else ""


def _cut(reasons: t.Sequence[str]) -> list[str]:
    shown = list(reasons[:_REASONS_SHOWN])
    return shown + ([f"... and {len(reasons) - len(shown)} more"] if len(reasons) > len(shown) else [])


def grid(columns: t.Sequence[tuple[str, t.Callable[[t.Any], str]]], rows: t.Sequence[t.Any]) -> list[str]:
    """Return rows as the lines of a table. A column is its heading and a function that returns its text for a row."""
    text = [[heading for heading, _fill in columns]] + [[fill(row) for _heading, fill in columns] for row in rows]
    widths = [max(len(line[column]) for line in text) for column in range(len(columns))]
    return ["  " + "  ".join(f"{each:>{width}}" for each, width in zip(line, widths)).rstrip() for line in text]


def microseconds(value: float | None) -> str:
    """Return a time as text; "-" if it is unknown."""
    return "-" if value is None else f"{value:,.1f}"


def _times(row: t.Mapping[str, t.Any], figure: str) -> str:
    """Return the ratio of a figure, with its interval if it has one."""
    value = row["ratio"][figure]
    if value is None:
        return "-"
    interval = row["ratio_interval"]
    star = "*" if row["significant"][figure] else ""
    return f"{value:.2f}{star}" + (f" ({interval[figure][0]:.2f} to {interval[figure][1]:.2f})" if interval else "")


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _worst(host: t.Mapping[str, t.Any] | None) -> str:
    return "-" if host is None else f"{host['name']} {microseconds(host['avg_us'])} / {microseconds(host['p99_us'])}"
