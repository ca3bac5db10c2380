# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An SLO that comes from the machine itself: a multiple of what its DRAM alone does with half of the hosts that fit.

Half, because a fleet that fills the DRAM already waits for reclaim. The worst host counts, since all hosts must meet
the SLO, and the upper bound, since that is what must be within it.
"""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import PASS
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import evaluate

# The value of the variable slo that asks for it.
CALIBRATED = "calibrated"
PROFILE = "dram"
# A run of the calibration cannot miss its SLO.
NO_SLO = {"avg_us": 1e9, "p99_us": 1e9}
VARIABLES = {
    "latency_benchmark_slo_avg_us": NO_SLO["avg_us"],
    "latency_benchmark_slo_p99_us": NO_SLO["p99_us"],
    "latency_benchmark_iterations": 3,
}
# A fleet of this share of the hosts that fit is taken as half of them.
_HALF = (0.4, 0.6)

_Document = t.Mapping[str, t.Any]


class InDram(t.NamedTuple):
    """What DRAM alone did with a fleet.

    Attributes:
        run_id: the run.
        hosts: the size of the fleet.
        avg_us, p99_us: the upper bounds of the worst host in the worst cell.
        charged_bytes, budget_bytes: of all hosts together; None without a DRAM budget.
    """

    run_id: str
    hosts: int
    avg_us: float
    p99_us: float
    charged_bytes: int | None
    budget_bytes: int | None


def in_dram(directory: RunDirectory) -> InDram:
    """Read what a run under C(PROFILE) measured.

    Raises:
        RunError: it cannot be used, because a host died, nothing was measured, or the fleet does not fit.
    """
    summary, details = evaluate(directory, NO_SLO)
    hosts = [host for cell in details.values() for host in cell.hosts]
    if summary["verdict"] != PASS or not hosts:
        why = "; ".join(summary["reasons"][:3]) or "nothing was measured"
        raise RunError(
            f"the SLO cannot be calibrated in DRAM, because {directory.run_id} is {summary['verdict']}: {why}. Measure "
            f"it again with resume=false, or with a smaller fleet"
        )
    dram = summary["dram"] or {}
    return InDram(
        directory.run_id,
        summary["fleet"]["expected"],
        max(host["upper"]["avg_us"] for host in hosts),
        max(host["upper"]["p99_us"] for host in hosts),
        dram.get("charged_bytes"),
        dram.get("budget_bytes"),
    )


def fitting(found: InDram, maximum: int) -> int:
    """Count how many hosts fit into the DRAM budget; without one, the largest fleet."""
    if not found.charged_bytes or not found.budget_bytes:
        return maximum
    return max(1, min(maximum, found.budget_bytes * found.hosts // found.charged_bytes))


def calibrate(
    measure: t.Callable[[int], RunDirectory], factor: float, maximum: int, first: int | None = None
) -> dict[str, t.Any]:
    """Measure DRAM with half of the hosts that fit, and return the document() of the SLO.

    Args:
        measure: measures a fleet of this size under C(PROFILE) and returns the run.
        factor: the SLO is this multiple of what DRAM does.
        maximum: the largest fleet.
        first: the first size to measure; if it turns out to be half of what fits, no other is measured.

    Raises:
        RunError: see in_dram().
    """
    found = in_dram(measure(min(first or 1, maximum)))
    fits = fitting(found, maximum)
    half = max(1, fits // 2)
    if found.hosts != half and not _HALF[0] <= found.hosts / fits <= _HALF[1]:
        found = in_dram(measure(half))
    return document(found, factor, fits)


def document(found: InDram, factor: float, fits: int) -> dict[str, t.Any]:
    """Return the SLO and how it was derived: C(slo), C(factor), C(fitting) (hosts), and the fields of InDram."""
    slo = {name: _rounded(factor * getattr(found, name)) for name in ("avg_us", "p99_us")}
    return {"slo": slo, "factor": factor, "fitting": fits, **found._asdict()}


def _rounded(value: float) -> float:
    """Return a value with three significant digits, since it is not known more precisely."""
    return float(f"{value:.3g}")


def variables(calibration: _Document) -> dict[str, float]:
    """Return the variables of a run with the SLO of a calibration."""
    return {f"latency_benchmark_slo_{name}": value for name, value in calibration["slo"].items()}


def sentence(calibration: _Document) -> str:
    """Describe how the SLO was derived."""
    budget = calibration["budget_bytes"]
    share = (
        f"{calibration['hosts']} of the {calibration['fitting']} hosts that fit into {size_text(budget)}"
        if budget
        else f"{calibration['hosts']} of {calibration['fitting']} hosts"
    )
    slo, factor = calibration["slo"], calibration["factor"]
    return (
        f"The SLO is avg {slo['avg_us']:,.10g} us and p99 {slo['p99_us']:,.10g} us: {factor:g} times what DRAM alone "
        f"does with {share} (avg {calibration['avg_us']:,.0f} us and p99 {calibration['p99_us']:,.0f} us, the highest "
        f"of any host in {calibration['run_id']})"
    )
