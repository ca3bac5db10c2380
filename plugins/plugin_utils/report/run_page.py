# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a run."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import headline, html, pressure_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.charts import WORST_HOSTS, RunCharts
from ansible_collections.memstretch.density.plugins.plugin_utils.report.section import Section
from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import STEADY_FIGURES, unsteady
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted
from ansible_collections.memstretch.density.plugins.plugin_utils.run import charged_dram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import FAIL, PASS, UNDECIDED
from ansible_collections.memstretch.density.plugins.plugin_utils.run.cell import ITERATIONS_FOR_A_CLAIM, CellDetails
from ansible_collections.memstretch.density.plugins.plugin_utils.run.configuration import cell_title

_SECTIONS = (
    ("percentiles", "Percentiles"),
    ("figures", "Figures"),
    ("hosts", "Hosts"),
    ("time", "Over time"),
    ("validity", "Validity"),
)
_LAST_SECTIONS = (
    ("settings", "Settings"),
    ("reproduce", "Reproduce"),
)

# Keys of a host's record that describe its momentary state, not its configuration.
_TRANSIENT = (
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

# Settings that decide how the memory of a host behaves; the others are in a table that is closed at first.
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
    "cpu.idle",
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

# The largest number of columns in the table of settings, and of hosts of a group in the inventory.
_GROUPS_SHOWN = 8
_HOSTS_LISTED = 24

# A host that achieves less than this share of its rate is overloaded, or its client is.
_RATE_KEPT = 0.99

# A CPU that is stolen for this share of the time delays about as large a share of the requests: a tenth of those that a
# p99 leaves out.
_STOLEN_KEPT = 0.001

_Mapping = t.Mapping[str, t.Any]
_Check = t.Tuple[bool, str]


def run_page(
    run: _Mapping,
    summary: _Mapping,
    details: t.Mapping[str, CellDetails],
    charts: RunCharts,
    experiment_sections: t.Sequence[Section] = (),
) -> str:
    """Return the page of a run.

    Args:
        run: run.json.
        summary: summary.json.
        details: the details of its cells, as evaluate() returned them.
        charts: has all phases of the run.
        experiment_sections: the experiments in the directory of the run.
    """
    data = {**charts.document(summary, details), "lines": html.line_charts(experiment_sections)}
    sections = [*_SECTIONS, *((each.name, each.title) for each in experiment_sections), *_LAST_SECTIONS]
    groups = _groups(run.get("hosts", {}))
    settings = _settings(groups)
    return html.render(
        "run.html.j2",
        data,
        html.with_cost(sections, summary.get("cost"), "validity"),
        experiment_sections=experiment_sections,
        summary=summary,
        headline=headline.run(summary),
        sentence=_sentence(summary),
        indicative=_indicative(summary),
        intervals=any(cell["interval"] for cell in summary["cells"]),
        load=_load(run["config"].get("load", {})),
        cells=data["cells"],
        heat=data["heat"],
        phases=charts.phases,
        has_charged=any(any((phase["over_time"] or {}).get("charged_mb", ())) for phase in charts.phases),
        pressure_headings=pressure_text.headings(),
        pressure_rows=pressure_text.rows(summary["cells"]),
        thinned=any(cell["of"] > len(cell["hosts"]) for cell in data["cells"]),
        worst_hosts=WORST_HOSTS,
        checks=_checks(run, summary, charts.phases),
        groups=groups,
        settings=settings,
        main_settings=[name for name, _values in settings if _is_main_setting(name)],
        variables=json.dumps(_variables(run["config"]), indent=2),
        versions=_versions(run, charts.phases),
        command=run.get("command"),
        inventory=_inventory(run),
    )


def _load(load: _Mapping) -> str:
    if not load:
        return "not recorded (ad-hoc run)"
    return f"{load['rate']:g} requests/s, {load['key_count']:,} keys of {load['value_size']:,} bytes"


def _sentence(summary: _Mapping) -> str:
    """Return the verdict as a sentence."""
    slo, cells, expected = summary["slo"], summary["cells"], summary["fleet"]["expected"]
    limits = f"average ≤ {slo['avg_us']:g}\u00a0µs and p99 ≤ {slo['p99_us']:g}\u00a0µs"
    if summary["verdict"] == "invalid":
        return (
            f"This run is not valid, for the reasons below. Its figures are shown, but they do not prove whether the "
            f"hosts meet the SLO ({limits})."
        )
    missed = [cell for cell in cells if not cell["within_slo"]]
    if summary["verdict"] == PASS:
        who, where = f"All {expected} hosts meet", f"all {len(cells)} cells"
        if expected == 1:
            who = "The only host meets"
        if len(cells) == 1:
            where = f"the only cell ({cell_title(cells[0])})"
        return f"{who} the SLO ({limits}) in {where}."
    if summary["verdict"] == UNDECIDED:
        return (
            f"Whether all hosts meet the SLO ({limits}) is undecided in {_of_cells(missed, cells)}: with the "
            f"delays of the clients they miss it, without them they may meet it. See the reasons below for what to do."
        )
    if charged_dram.is_too_large(summary):
        return f"The fleet does not fit into its DRAM budget, so the run fails whatever its latency (SLO: {limits})."
    died = summary["fleet"]["failed"]
    if died:
        return f"The SLO ({limits}) is missed: {headline.dead(summary['fleet'], 8)}."
    worst = min(missed, key=lambda cell: cell["hosts_within_slo"])
    if not worst["hosts"][FAIL]:
        return (
            f"The SLO ({limits}) is missed in {_of_cells(missed, cells)}. In the worst cell ({cell_title(worst)}) all "
            f"hosts together miss it, and none stands out."
        )
    return (
        f"The SLO ({limits}) is missed in {_of_cells(missed, cells)}. "
        f"In the worst cell ({cell_title(worst)}), {worst['hosts_within_slo']} of {counted(expected, 'host')} meet it."
    )


def _of_cells(some: t.Sequence[_Mapping], cells: t.Sequence[_Mapping]) -> str:
    return f"{len(some)} of {counted(len(cells), 'cell')}"


def _indicative(summary: _Mapping) -> str:
    fewest = min((cell["iterations"] for cell in summary["cells"]), default=0)
    if fewest >= ITERATIONS_FOR_A_CLAIM:
        return ""
    return (
        f"Indicative only: a cell has {counted(fewest, 'iteration')}, "
        f"but a claim needs at least {ITERATIONS_FOR_A_CLAIM}."
    )


def _checks(run: _Mapping, summary: _Mapping, phases: t.Sequence[_Mapping]) -> list[_Check]:
    """List the conditions that make the figures trustworthy, and whether each one is met."""
    iterations = [phase for phase in phases if phase["kind"] == "iteration"]
    expected = sum(1 for phase in run["phases"] if phase["kind"] == "iteration")
    return [
        _lost_hosts(summary["fleet"]),
        (len(iterations) == expected, f"{len(iterations)} of {counted(expected, 'iteration')} measured."),
        _invalid_iterations(iterations),
        *_load_checks(run["config"]["validity"], iterations),
        _stolen_time(iterations),
        *_steady(summary["cells"]),
    ]


def _lost_hosts(fleet: _Mapping) -> _Check:
    failed = fleet["failed"]
    if not failed:
        return True, f"Every host reported in every phase ({counted(fleet['expected'], 'host')})."
    names = ", ".join(failed[:8]) + (" ..." if len(failed) > 8 else "")
    return False, f"Lost: {names}, {len(failed)} of {counted(fleet['expected'], 'host')}."


def _invalid_iterations(iterations: t.Sequence[_Mapping]) -> _Check:
    invalid = [phase for phase in iterations if not phase["valid"]]
    if not invalid:
        return True, "All iterations are valid."
    return False, f"Not valid: {len(invalid)} of {counted(len(iterations), 'iteration')}; the table has the reasons."


def _load_checks(limits: _Mapping, iterations: t.Sequence[_Mapping]) -> list[_Check]:
    """Decide whether all hosts were loaded at the same time, and at the rate of the run."""
    checks = []
    overlaps = [phase["overlap"] for phase in iterations if phase["overlap"] is not None]
    if overlaps:
        text = (
            f"All hosts were under load at the same time for at least {100 * min(overlaps):.1f} % of each iteration "
            f"({100 * limits['min_overlap']:g} % is required)."
        )
        checks.append((min(overlaps) >= limits["min_overlap"], text))
    rates = [phase["rate"] for phase in iterations if phase["rate"] is not None]
    if rates:
        checks.append((min(rates) >= _RATE_KEPT, f"Each host achieved at least {100 * min(rates):.1f} % of its rate."))
    return checks


def _stolen_time(iterations: t.Sequence[_Mapping]) -> _Check:
    stolen = max((phase["stolen"] for phase in iterations), default=0)
    if not stolen:
        return True, "No CPU time was stolen by a hypervisor."
    share = f"A hypervisor stole up to {100 * stolen:.2g} % of the time of a CPU in an iteration"
    if stolen <= _STOLEN_KEPT:
        return True, f"{share}; up to {100 * _STOLEN_KEPT:g} % is too little to change a p99."
    return False, f"{share}, which may explain a part of the latency ({100 * _STOLEN_KEPT:g} % is accepted)."


def _steady(cells: t.Sequence[_Mapping]) -> list[_Check]:
    """Name what rose or fell during a cell, so that its figures depend on when it was measured."""
    tested = [cell["steady"] for cell in cells if cell.get("steady")]
    if not tested:
        return [(True, "The series are too short to test for a steady state.")] if cells else []
    smallest = [
        f"{name} {100 * max(test[figure]['smallest_change'] for test in known):.0f} %"
        for figure, name in STEADY_FIGURES.items()
        if (known := [test for test in tested if test[figure]])
    ]
    fine = f"No cell left its steady state. The smallest change that would be noticed: {', '.join(smallest)}."
    return [(False, sentence) for sentence in unsteady(cells)] or [(True, fine)]


def _groups(hosts: t.Mapping[str, _Mapping]) -> list[dict[str, t.Any]]:
    """Return the hosts grouped by their settings."""
    groups: dict[str, dict[str, t.Any]] = {}
    for name, record in sorted(hosts.items()):
        groups.setdefault(record.get("settings_digest") or name, {"names": [], "record": record})["names"].append(name)
    return list(groups.values())[:_GROUPS_SHOWN]


def _settings(groups: t.Sequence[_Mapping]) -> list[tuple[str, list[str]]]:
    """Return each setting with its value in each group of hosts."""
    flat = [dict(_flatten(group["record"])) for group in groups]
    names = list(dict.fromkeys(name for each in flat for name in each))
    return [(name, [each.get(name, "–") for each in flat]) for name in names]


def _is_main_setting(name: str) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in _MAIN_SETTINGS)


def _flatten(value: t.Any, name: str = "") -> t.Iterator[tuple[str, str]]:
    """Yield the settings of a record as dotted names with their values as text."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key not in (*_TRANSIENT, "settings_digest", "unreadable"):
                yield from _flatten(each, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        for number, each in enumerate(value):
            yield from _flatten(each, f"{name}.{each.get('name', each.get('id', number))}")
    elif value not in (None, [], ""):
        yield name, _value_text(name, value)


def _value_text(name: str, value: t.Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if name.endswith("_bytes") and isinstance(value, int) and value > 10**6:
        return f"{value:,} ({value / 2**30:.1f} GiB)"
    return str(value)


def _variables(config: _Mapping) -> dict[str, t.Any]:
    """Return the variables for another run of the same configuration."""
    named = {**config.get("load", {}), **config.get("matrix", {}), **config["validity"]}
    return {
        "profile": config["profile"],
        **{f"latency_benchmark_{name}": value for name, value in named.items()},
        "latency_benchmark_stop_when_failed": config.get("stop_when_failed", False),
        "latency_benchmark_slo_avg_us": config["slo"]["avg_us"],
        "latency_benchmark_slo_p99_us": config["slo"]["p99_us"],
    }


def _inventory(run: _Mapping) -> str:
    """Return an inventory with the groups and the addresses of their hosts; of a large group only the first hosts."""
    if "inventory" not in run:
        return ""
    addresses, fleet = run["inventory"]["addresses"], run.get("fleet", {})
    lines = []
    for name, hosts in run["inventory"]["groups"].items():
        lines.append(f"[{name}]  # {counted(len(hosts), 'host')}")
        for host in hosts[:_HOSTS_LISTED]:
            address = f" ansible_host={addresses[host]}" if host in addresses else ""
            redis = f"  # Redis at {fleet[host]['endpoint']}" if name == "fleet" and host in fleet else ""
            lines.append(f"{host}{address}{redis}")
        if len(hosts) > _HOSTS_LISTED:
            lines.append(f"# and {len(hosts) - _HOSTS_LISTED} more; run.json lists all of them")
        lines.append("")
    return "\n".join(lines).strip()


def _versions(run: _Mapping, phases: t.Sequence[_Mapping]) -> list[tuple[str, str]]:
    """Return the hash of the configuration and the versions of everything that took part."""
    client = next((phase["client"] for phase in phases if phase["client"]), None)
    redis = sorted({each["redis_version"] for each in run.get("fleet", {}).values() if each.get("redis_version")})
    kernels = sorted({record["kernel"]["release"] for record in run.get("hosts", {}).values() if record.get("kernel")})
    found = [("Hash of the configuration", run["config_hash"]), *run.get("versions", {}).items()]
    if client:
        name = f"{client['name']} {client['version']}"
        found.append(("Client", f"{name}, {client['compiler']}, hiredis {client['hiredis']}"))
    found += [("Redis", ", ".join(redis)), ("Kernel", ", ".join(kernels))]
    return [(name, value) for name, value in found if value]
