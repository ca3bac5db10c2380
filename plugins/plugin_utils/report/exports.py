# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exports of a run: tables as CSV, and OpenMetrics for the textfile collector of Prometheus' node_exporter."""

from __future__ import annotations

import datetime
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import open_metrics as metrics
from ansible_collections.memstretch.density.plugins.plugin_utils.report.csv_table import table
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import (
    FAIL,
    INVALID,
    UNDECIDED,
    UPPER,
    VERDICTS,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.cell import CellDetails
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_phase import LATENCIES

_FIGURES = ("count", "avg_us", "min_us", "p50_us", "p95_us", "p99_us", "p999_us", "max_us")
_BRIEF = ("hosts", "avg_ms", "min_ms", "p95_ms", "p99_ms", "max_ms")
_INTERVALS = {"avg_us": "average", "p99_us": "p99", "max_us": "maximum"}
_HOST_FIGURES = {"avg_us": "average", "p99_us": "p99"}
_LATENCY_FIGURES = {
    "avg_us": "average",
    "p50_us": "p50",
    "p95_us": "p95",
    "p99_us": "p99",
    "p999_us": "p99.9",
    "max_us": "maximum",
}

_Labels = metrics.Labels


def write(directory: RunDirectory, summary: t.Mapping[str, t.Any], details: t.Mapping[str, CellDetails]) -> bool:
    """Write the exports of a run, each of them atomically, and return whether a file changed."""
    changed = directory.write_text("cells.csv", cells_csv(summary))
    changed |= directory.write_text("hosts.csv", hosts_csv(summary, details))
    return directory.write_text("metrics.prom", open_metrics(summary, details)) or changed


def cells_csv(summary: t.Mapping[str, t.Any]) -> str:
    """Return one line for each cell. A field is empty if its figure is unknown."""
    names = (
        "run_id",
        "profile",
        "verdict",
        "influence",
        "read_mix",
        "cell_verdict",
        "valid",
        "iterations",
        "indicative",
        "hosts_expected",
        "hosts_within_slo",
        "hosts_fail",
        "hosts_undecided",
        "within_slo",
        "overlap",
        "achieved_rate_ratio",
        "worst_host",
    )
    header = [
        *names,
        *(f"{latency}_{figure}" for latency in LATENCIES for figure in _FIGURES),
        *(f"{UPPER}_{figure}_{end}" for figure in _INTERVALS for end in ("low", "high")),
        *(f"brief_{figure}" for figure in _BRIEF),
    ]
    rows = []
    for cell in summary["cells"]:
        known = {
            **summary,
            **cell,
            "hosts_expected": summary["fleet"]["expected"],
            "verdict": summary["verdict"],
            "cell_verdict": cell["verdict"],
            "hosts_fail": cell["hosts"][FAIL],
            "hosts_undecided": cell["hosts"][UNDECIDED],
            "worst_host": cell["worst_host"] and cell["worst_host"]["name"],
        }
        interval = cell["interval"] or {}
        rows.append(
            [
                *(known[name] for name in names),
                *(cell[latency].get(figure) for latency in LATENCIES for figure in _FIGURES),
                *(value for figure in _INTERVALS for value in interval.get(figure, (None, None))),
                *(cell["brief"][figure] for figure in _BRIEF),
            ]
        )
    return table(header, rows)


def hosts_csv(summary: t.Mapping[str, t.Any], details: t.Mapping[str, CellDetails]) -> str:
    """Return one line for each cell and host: its latency over all iterations, and its answer."""
    header = (
        "run_id",
        "profile",
        "influence",
        "read_mix",
        "cell_valid",
        "host",
        "iterations",
        "avg_us",
        "p99_us",
        "max_us",
        "lower_avg_us",
        "lower_p99_us",
        "lost_requests",
        "answer",
    )
    return table(
        header,
        [
            [
                summary["run_id"],
                summary["profile"],
                cell["influence"],
                cell["read_mix"],
                cell["valid"],
                host["name"],
                host["iterations"],
                host["avg_us"],
                host["p99_us"],
                host["max_us"],
                host["lower"]["avg_us"],
                host["lower"]["p99_us"],
                host["lost"],
                host["answer"] if cell["valid"] else INVALID,
            ]
            for cell in summary["cells"]
            for host in details[configuration.cell_name(cell)].hosts
        ],
    )


def open_metrics(summary: t.Mapping[str, t.Any], details: t.Mapping[str, CellDetails]) -> str:
    """Return the run as OpenMetrics text.

    The samples have the profile as a label, not the name of the run, so that a series continues from run to run.
    """
    run = {"profile": summary["profile"]}
    cells = [
        ({**run, "influence": f"{cell['influence']:g}", "read_mix": f"{cell['read_mix']:g}"}, cell)
        for cell in summary["cells"]
    ]
    families = [
        *_run_families(run, summary),
        *_cell_families(cells),
        *_latency_families(cells),
        *_host_families(cells, details),
        *_memory_families(run, summary, cells),
        metrics.cost_family("vm_cost_per_month", summary.get("cost"), lambda arm: {"profile": arm}),
    ]
    return metrics.document(families)


def _run_families(run: _Labels, summary: t.Mapping[str, t.Any]) -> list[str]:
    fleet, slo, finished = summary["fleet"], summary["slo"], summary["finished_at"]
    return [
        metrics.family(
            "run_info",
            "The newest run under this profile.",
            [({**run, "run_id": summary["run_id"], "config_hash": summary["config_hash"][:12]}, 1)],
        ),
        metrics.family(
            "run_finished_timestamp_seconds",
            "When the newest run under this profile ended, since the epoch.",
            [(run, finished and datetime.datetime.fromisoformat(finished.replace("Z", "+00:00")).timestamp())],
            unit="seconds",
        ),
        metrics.family(
            "run_verdict",
            "1 for the verdict of the run, 0 for the others.",
            [({**run, "verdict": each}, int(each == summary["verdict"])) for each in VERDICTS],
        ),
        metrics.family(
            "fleet_hosts",
            "Hosts of the fleet.",
            [({**run, "state": state}, fleet[state]) for state in ("expected", "reported")],
        ),
        metrics.family(
            "slo_seconds",
            "SLO of each host.",
            [({**run, "figure": text}, _seconds(slo[name])) for name, text in _HOST_FIGURES.items()],
            unit="seconds",
        ),
    ]


def _cell_families(cells: t.Sequence[tuple[_Labels, t.Mapping[str, t.Any]]]) -> list[str]:
    return [
        metrics.family(
            "cell_valid",
            "1 if all iterations of the cell are valid.",
            [(labels, int(cell["valid"])) for labels, cell in cells],
        ),
        metrics.family(
            "cell_hosts_within_slo",
            "Hosts that meet the SLO.",
            [(labels, cell["hosts_within_slo"]) for labels, cell in cells],
        ),
        metrics.family(
            "cell_hosts",
            "Hosts by their answer: they pass, they fail, or they are undecided.",
            [
                ({**labels, "answer": answer}, count)
                for labels, cell in cells
                for answer, count in cell["hosts"].items()
            ],
        ),
        metrics.family(
            "cell_overlap_ratio",
            "Share of an iteration in which all hosts were under load, the lowest of the cell.",
            [(labels, cell["overlap"]) for labels, cell in cells],
        ),
    ]


def _latency_families(cells: t.Sequence[tuple[_Labels, t.Mapping[str, t.Any]]]) -> list[str]:
    by_latency = [({**labels, "latency": latency}, cell[latency]) for labels, cell in cells for latency in LATENCIES]
    return [
        metrics.family(
            "latency_seconds",
            "Figure of the fleet's latency, all samples merged.",
            [
                ({**labels, "figure": text}, _seconds(figures.get(name)))
                for labels, figures in by_latency
                for name, text in _LATENCY_FIGURES.items()
            ],
            unit="seconds",
        ),
        metrics.family(
            "intended_bound_seconds",
            "Bounds of the 95 % interval of a figure of the fleet's latency, every delay included.",
            [
                ({**labels, "figure": text, "bound": bound}, _seconds(cell["interval"][name][number]))
                for labels, cell in cells
                if cell["interval"]
                for name, text in _INTERVALS.items()
                for number, bound in enumerate(("low", "high"))
            ],
            unit="seconds",
        ),
    ]


def _host_families(
    cells: t.Sequence[tuple[_Labels, t.Mapping[str, t.Any]]], details: t.Mapping[str, CellDetails]
) -> list[str]:
    return [
        metrics.family(
            "host_intended_seconds",
            "Latency of each host, every delay included.",
            [
                ({**labels, "host": host["name"], "figure": text}, _seconds(host[name]))
                for labels, cell in cells
                for host in details[configuration.cell_name(cell)].hosts
                for name, text in _HOST_FIGURES.items()
            ],
            unit="seconds",
        )
    ]


def _memory_families(
    run: _Labels, summary: t.Mapping[str, t.Any], cells: t.Sequence[tuple[_Labels, t.Mapping[str, t.Any]]]
) -> list[str]:
    """Return the charged DRAM of the fleet and the memory pressure of its machines."""
    dram = summary["dram"] or {}
    by_machine = [
        ({**labels, "machine": machine}, pressure)
        for labels, cell in cells
        for machine, pressure in (cell.get("pressure") or {}).items()
    ]
    return [
        metrics.family(
            "dram_bytes",
            "DRAM of the fleet: its budget, the most and the mean that it was charged.",
            [({**run, "kind": kind}, dram.get(f"{kind}_bytes")) for kind in ("budget", "charged", "mean")],
            unit="bytes",
        ),
        metrics.family(
            "compression_ratio",
            "How many times smaller zram and zswap made what they hold.",
            [(run, dram.get("compression_ratio"))],
            unit="ratio",
        ),
        metrics.family(
            "page_ins_per_second",
            "Pages that were read back from the tier of a machine, the mean over the cell's iterations.",
            [(labels, pressure["page_ins"]) for labels, pressure in by_machine],
        ),
        metrics.family(
            "pressure_stalled_ratio",
            "Share of the time in which some task waited for memory or for I/O (PSI), the mean over the iterations.",
            [
                ({**labels, "resource": resource}, _share(pressure[f"psi_{resource}"]))
                for labels, pressure in by_machine
                for resource in ("memory", "io")
            ],
            unit="ratio",
        ),
    ]


def _share(percent: float | None) -> float | None:
    return None if percent is None else float(f"{percent / 100:.9g}")


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else float(f"{microseconds / 1e6:.9g}")
