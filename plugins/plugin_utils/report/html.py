# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run, or a comparison of runs, as one HTML file that needs nothing else: templates, style, script and ECharts of files/report."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import typing as t

import jinja2
from markupsafe import Markup

from ansible_collections.memstretch.density.plugins.plugin_utils import collection
from ansible_collections.memstretch.density.plugins.plugin_utils.report import charts as report_data
from ansible_collections.memstretch.density.plugins.plugin_utils.report import experiments
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import CellDetails

_FILES = os.path.join(collection.ROOT, "files", "report")

_RUN_SECTIONS = (
    ("figures", "Figures"),
    ("percentiles", "Percentiles"),
    ("hosts", "Hosts"),
    ("time", "Over time"),
    ("validity", "Trust"),
    ("settings", "Settings"),
    ("reproduce", "Reproduce"),
)
_COMPARISON_SECTIONS = (
    ("ratios", "Ratios"),
    ("figures", "Figures"),
    ("percentiles", "Percentiles"),
    ("runs", "Runs"),
    ("settings", "Settings"),
)
_DENSITY_SECTIONS = (("curve", "Curve"), ("sure", "How sure"), ("probes", "Probes"))

# Sections of a host's record that describe its state at that moment, not how it was set up.
_PASSING = (
    "free_bytes",
    "available_bytes",
    "uptime_s",
    "pages_shared",
    "pages_sharing",
    "full_scans",
    "boot_id",
    "hugepages_free",
    "used_bytes",
)


# What decides how the memory of a host behaves; the rest of a record is in a table that is closed.
_MAIN_SETTINGS = (
    "kernel.release",
    "kernel.cmdline",
    "memory.total_bytes",
    "swap.areas",
    "swap.zswap",
    "swap.zram",
    "thp.enabled",
    "thp.defrag",
    "ksm.run",
    "mglru",
    "numa.demotion_enabled",
    "cpu.governors",
    "cpu.model",
    "cpu.online",
    "imdt.detected",
    "cgroup.memory_max_bytes",
    "sysctl.vm.swappiness",
    "sysctl.vm.page-cluster",
    "sysctl.vm.watermark_scale_factor",
    "sysctl.vm.dirty_bytes",
    "sysctl.kernel.numa_balancing",
    "nvme.io_queue_depth",
)


def run_page(
    run: t.Mapping[str, t.Any],
    summary: t.Mapping[str, t.Any],
    details: t.Mapping[str, CellDetails],
    charts: report_data.RunCharts,
    beside: t.Sequence[experiments.Section] = (),
) -> str:
    """Return the page of a run.

    Args:
        run: run.json.
        summary: summary.json.
        details: what evaluate() returned beside the summary.
        charts: has seen all phases.
        beside: the experiments whose results are in the run's directory.
    """
    data = {**charts.document(summary, details), **_lines(beside)}
    load = run["config"].get("load", {})
    return _render(
        "run.html.j2",
        data,
        _with_cost(
            (*_RUN_SECTIONS[:-2], *((each.name, each.title) for each in beside), *_RUN_SECTIONS[-2:]),
            summary.get("cost"),
            "validity",
        ),
        beside=beside,
        summary=summary,
        sentence=_sentence(summary),
        indicative=_indicative(summary),
        intervals=any(cell["interval"] for cell in summary["cells"]),
        load=f"{load['rate']:g} requests/s, {load['key_count']:,} keys of {load['value_size']:,} bytes"
        if load
        else "not announced",
        cells=data["cells"],
        heat=data["heat"],
        phases=charts.phases,
        thinned=any(cell["of"] > len(cell["hosts"]) for cell in data["cells"]),
        worst_hosts=report_data.WORST_HOSTS,
        checks=_checks(run, summary, charts.phases),
        groups=_groups(run.get("hosts", {})),
        settings=_settings(run.get("hosts", {})),
        main_settings=_main_settings(_settings(run.get("hosts", {}))),
        variables=json.dumps(_variables(run["config"]), indent=2),
        versions=_versions(run, charts.phases),
        command=run.get("command"),
        inventory=_inventory(run),
    )


def experiments_page(run_id: str, shown: t.Sequence[experiments.Section]) -> str:
    """Return the page of experiments that belong to no run."""
    return _render(
        "experiments.html.j2",
        {"kind": "experiments", **_lines(shown)},
        [(each.name, each.title) for each in shown],
        run_id=run_id,
        beside=shown,
    )


def _lines(shown: t.Sequence[experiments.Section]) -> dict[str, t.Any]:
    """Return what the page's script draws of experiments."""
    return {"lines": [dataclasses.asdict(chart) for each in shown for chart in each.charts]}


def comparison_page(document: t.Mapping[str, t.Any], curves: t.Sequence[t.Mapping[str, CellDetails]]) -> str:
    """Return the page of a comparison.

    Args:
        document: comparison.json.
        curves: for each run of it, in its order, what evaluate() returned beside the summary.
    """
    names = run_names(document["runs"])
    by_cell: dict[str, list[dict[str, t.Any]]] = {}
    for row in document["cells"]:
        by_cell.setdefault(report_data.cell_title(row), []).append(row)
    others = [run for run in document["runs"] if run["run_id"] != document["baseline"]]
    data = {
        "kind": "comparison",
        "slo": document["slo"],
        "baseline": names[document["baseline"]],
        "profiles": [{"name": names[run["run_id"]]} for run in others],
        "ratios": [_bars(title, rows, name, others) for title, rows in by_cell.items() for name, dummy in _FIGURES],
        "cells": [
            {
                "title": title,
                "curves": [
                    {
                        "name": names[run["run_id"]],
                        "points": report_data.curve(detail[_cell_name(rows[0])].merged["response"]),
                    }
                    for run, detail in zip(document["runs"], curves)
                    if _cell_name(rows[0]) in detail
                ],
            }
            for title, rows in by_cell.items()
        ],
    }
    sections = _with_cost(_COMPARISON_SECTIONS, document.get("cost"), "runs")
    return _render(
        "comparison.html.j2",
        data,
        sections,
        comparison=document,
        names=names,
        by_cell=by_cell,
        highlights=_highlights(document, names),
    )


def density_page(
    document: t.Mapping[str, t.Any],
    reason: t.Callable[[t.Mapping[str, t.Any]], str],
    contradictions: t.Callable[[t.Mapping[str, t.Any]], list[str]],
) -> str:
    """Return the page of a search for the density.

    Args:
        document: density.json.
        reason: says why a density is not larger.
        contradictions: says where a density is not monotonic.
    """
    found = document["density"]
    data = {
        "kind": "density",
        "slo": document["slo"],
        "maximum": document["definition"]["maximum"],
        "profiles": [
            {
                "name": each["name"],
                "density": each["density"],
                "curve": [
                    [
                        row["size"],
                        report_data.short(row["worst_host_p99_us"]),
                        row["hosts_within_slo"],
                        row["passed"] > row["failed"],
                        f"{row['passed']} of {row['passed'] + row['failed']} probes passed",
                    ]
                    for row in each["curve"]
                ],
            }
            for each in found
        ],
    }
    sections = _with_cost(_DENSITY_SECTIONS, document.get("cost"), "sure")
    return _render(
        "density.html.j2", data, sections, density=document, found=found, reason=reason, contradictions=contradictions
    )


_HOSTS_LISTED = 24

_FIGURES = (("avg_us", "average"), ("p99_us", "p99"), ("max_us", "maximum"))


def _with_cost(sections: t.Sequence[tuple[str, str]], cost: t.Any, before: str) -> list[tuple[str, str]]:
    """Return the sections of a page, with one on the cost if there is something to say."""
    return [
        each
        for section in sections
        for each in ([("cost", "Cost"), section] if cost and section[0] == before else [section])
    ]


def _cell_name(row: t.Mapping[str, t.Any]) -> str:
    return report_data.configuration.cell_name(row)


def _bars(
    title: str, rows: t.Sequence[t.Mapping[str, t.Any]], name: str, others: t.Sequence[t.Mapping[str, t.Any]]
) -> dict[str, t.Any]:
    """Return the bars of one figure in one cell: a ratio for each run but the first."""
    by_run = {row["run_id"]: row for row in rows}
    found = [by_run.get(run["run_id"]) for run in others]
    return {
        "title": title,
        "figure": name,
        "values": [row and row["ratio"][name] for row in found],
        "intervals": [row and (row.get("ratio_interval") or {}).get(name) for row in found],
    }


def run_names(runs: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, str]:
    """Return what each run is called in a chart: its name, which is its profile if it has none, with the run's own where one comes twice."""
    names = [run["name"] for run in runs]
    return {
        run["run_id"]: run["name"] if names.count(run["name"]) == 1 else f"{run['name']} ({run['run_id']})"
        for run in runs
    }


def _highlights(document: t.Mapping[str, t.Any], names: t.Mapping[str, str]) -> list[str]:
    """Return a sentence for each run: the span of its ratios over the cells."""
    sentences = []
    for run in document["runs"]:
        rows = [row for row in document["cells"] if row["run_id"] == run["run_id"]]
        if run["run_id"] == document["baseline"] or not rows:
            continue
        spans = []
        for name, text in _FIGURES:
            values = [row["ratio"][name] for row in rows if row["ratio"][name] is not None]
            if values:
                low, high = f"{min(values):.1f}", f"{max(values):.1f}"
                spans.append(f"{text} {low}×" if low == high else f"{text} {low} to {high}×")
        sentences.append(f"{names[run['run_id']]} against {names[document['baseline']]}: {', '.join(spans)}.")
    return sentences


def _render(
    template: str, data: t.Mapping[str, t.Any], sections: t.Sequence[tuple[str, str]], **variables: t.Any
) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FILES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        version=collection.version(),
        sections=sections,
        css=Markup(_text("report.css")),
        script=Markup(_text("report.js")),
        echarts=Markup(_unpacked("echarts", "echarts.min.js.gz")),
        # A text may hold "</script>": what could end the element is written as an escape of JSON.
        data=Markup(
            json.dumps(data, separators=(",", ":"), ensure_ascii=False)
            .replace("<", "\\u003c")
            .replace("\u2028", "\\u2028")
        ),
        **variables,
    )


def _text(*names: str) -> str:
    with open(os.path.join(_FILES, *names), encoding="utf-8") as stream:
        return stream.read()


def _unpacked(*names: str) -> str:
    with gzip.open(os.path.join(_FILES, *names), "rt", encoding="utf-8") as stream:
        return stream.read()


def _sentence(summary: t.Mapping[str, t.Any]) -> str:
    slo, cells, expected = summary["slo"], summary["cells"], summary["fleet"]["expected"]
    objective = f"average ≤ {slo['avg_us']:g}\u00a0µs and p99 ≤ {slo['p99_us']:g}\u00a0µs"
    if summary["verdict"] == "invalid":
        return f"This run cannot be judged: what follows makes its figures doubtful. They are shown, but they prove nothing about {objective}."
    missed = [cell for cell in cells if not cell["within_slo"]]
    if not missed:
        return f"All {expected} hosts meet {objective} in every one of {len(cells)} cells."
    worst = min(missed, key=lambda cell: cell["hosts_within_slo"])
    return (
        f"{objective[0].upper()}{objective[1:]} is missed in {len(missed)} of {len(cells)} cells; "
        f"at worst ({report_data.cell_title(worst)}) {worst['hosts_within_slo']} of {expected} hosts meet it."
    )


def _indicative(summary: t.Mapping[str, t.Any]) -> str:
    fewest = min((cell["iterations"] for cell in summary["cells"]), default=0)
    return "" if fewest >= 10 else f"Indicative only: {fewest} iterations of a cell, a claim takes at least 10."


def _checks(
    run: t.Mapping[str, t.Any], summary: t.Mapping[str, t.Any], phases: t.Sequence[t.Mapping[str, t.Any]]
) -> list[tuple[bool, str]]:
    """Return what a sceptic asks, each with whether all is well."""
    limits = run["config"]["validity"]
    loads = [phase for phase in phases if phase["kind"] == "iteration"]
    planned = sum(1 for phase in run["phases"] if phase["kind"] == "iteration")
    failed = summary["fleet"]["failed"]
    invalid = [phase for phase in loads if not phase["valid"]]
    checks = [
        (
            not failed,
            f"Every host reported in every phase ({summary['fleet']['expected']} hosts)."
            if not failed
            else f"{len(failed)} of {summary['fleet']['expected']} hosts were lost: {', '.join(failed[:8])}{' ...' if len(failed) > 8 else ''}.",
        ),
        (len(loads) == planned, f"{len(loads)} of {planned} iterations were measured."),
        (
            not invalid,
            "All iterations are valid."
            if not invalid
            else f"{len(invalid)} of {len(loads)} iterations are not valid; the table says why.",
        ),
    ]
    overlaps = [phase["overlap"] for phase in loads if phase["overlap"] is not None]
    if overlaps:
        good = min(overlaps) >= limits["min_overlap"]
        checks.append(
            (
                good,
                f"All hosts were under load at the same time for at least {100 * min(overlaps):.1f} % of each iteration "
                f"({100 * limits['min_overlap']:g} % is needed).",
            )
        )
    rates = [phase["rate"] for phase in loads if phase["rate"] is not None]
    if rates:
        checks.append(
            (
                min(rates) >= limits["min_rate_ratio"],
                f"Each host got at least {100 * min(rates):.1f} % of its requests per second "
                f"({100 * limits['min_rate_ratio']:g} % is needed).",
            )
        )
    stolen = sum(phase["steal_ticks"] for phase in loads)
    checks.append(
        (
            not stolen,
            "No CPU time was stolen by a hypervisor above."
            if not stolen
            else f"{stolen} ticks of CPU time were stolen by a hypervisor above; part of the latency may be its doing.",
        )
    )
    for cell in summary["cells"]:
        warm = cell.get("warm_up") or {}
        if warm.get("too_short"):
            checks.append(
                (
                    False,
                    f"{report_data.cell_title(cell)}: the warm-up was too short, the average still changed by "
                    f"{100 * warm['change']:+.0f} % during the first iteration.",
                )
            )
    if summary["cells"] and not any((cell.get("warm_up") or {}).get("too_short") for cell in summary["cells"]):
        checks.append((True, "No cell was still warming up in its first iteration."))
    return checks


def _groups(hosts: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the hosts by their settings."""
    groups: dict[str, dict[str, t.Any]] = {}
    for name, record in sorted(hosts.items()):
        groups.setdefault(record.get("settings_digest") or name, {"names": [], "record": record})["names"].append(name)
    return list(groups.values())[:8]


def _settings(hosts: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[tuple[str, list[str]]]:
    """Return each setting with its value in each group of hosts."""
    flat = [dict(_flatten(group["record"])) for group in _groups(hosts)]
    names = list(dict.fromkeys(name for each in flat for name in each))
    return [(name, [each.get(name, "–") for each in flat]) for name in names]


def _main_settings(settings: t.Sequence[tuple[str, t.Any]]) -> list[str]:
    return [
        name for name, dummy in settings if any(name == each or name.startswith(f"{each}.") for each in _MAIN_SETTINGS)
    ]


def _flatten(value: t.Any, name: str = "") -> t.Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key not in (*_PASSING, "settings_digest", "unreadable"):
                yield from _flatten(each, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        for number, each in enumerate(value):
            yield from _flatten(each, f"{name}.{each.get('name', each.get('id', number))}")
    elif value not in (None, [], ""):
        text = (
            "yes"
            if value is True
            else "no"
            if value is False
            else ", ".join(map(str, value))
            if isinstance(value, list)
            else str(value)
        )
        if name.endswith("_bytes") and isinstance(value, int) and value > 10**6:
            text = f"{value:,} ({value / 2**30:.1f} GiB)"
        yield name, text


def _variables(config: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the variables that make a run of the same configuration."""
    named = {**config.get("load", {}), **config.get("matrix", {}), **config["validity"]}
    return {
        "profile": config["profile"],
        **{f"latency_benchmark_{name}": value for name, value in named.items()},
        "latency_benchmark_slo_avg_us": config["slo"]["avg_us"],
        "latency_benchmark_slo_p99_us": config["slo"]["p99_us"],
    }


def _inventory(run: t.Mapping[str, t.Any]) -> str:
    """Return the groups, and of each host its address and its Redis, as a file of hosts; of a large group the first."""
    if "inventory" not in run:
        return ""
    addresses, fleet = run["inventory"]["addresses"], run.get("fleet", {})
    lines = []
    for name, hosts in run["inventory"]["groups"].items():
        lines.append(f"[{name}]  # {len(hosts)} {'host' if len(hosts) == 1 else 'hosts'}")
        for host in hosts[:_HOSTS_LISTED]:
            address = f" ansible_host={addresses[host]}" if host in addresses else ""
            redis = f"  # Redis at {fleet[host]['endpoint']}" if name == "fleet" and host in fleet else ""
            lines.append(f"{host}{address}{redis}")
        if len(hosts) > _HOSTS_LISTED:
            lines.append(f"# and {len(hosts) - _HOSTS_LISTED} more, which are in the run's own run.json")
        lines.append("")
    return "\n".join(lines).strip()


def _versions(run: t.Mapping[str, t.Any], phases: t.Sequence[t.Mapping[str, t.Any]]) -> list[tuple[str, str]]:
    client = next((phase["client"] for phase in phases if phase["client"]), None)
    redis = sorted({each["redis_version"] for each in run.get("fleet", {}).values() if each.get("redis_version")})
    kernels = sorted({record["kernel"]["release"] for record in run.get("hosts", {}).values() if record.get("kernel")})
    found = [
        ("Hash of the configuration", run["config_hash"]),
        *run.get("versions", {}).items(),
        (
            "Client",
            f"{client['name']} {client['version']}, {client['compiler']}, hiredis {client['hiredis']}"
            if client
            else "",
        ),
        ("Redis", ", ".join(redis)),
        ("Kernel", ", ".join(kernels)),
    ]
    return [(name, value) for name, value in found if value]
