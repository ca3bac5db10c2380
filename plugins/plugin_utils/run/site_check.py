# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site check: whether a host is steady enough for a study, from some blocks of load on a small Redis.

It is a gate for stolen CPU time and for a host that is plainly busy, not a forecast: a study's own rounds, references
and A/A test show what it can see.
"""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, Ranges
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import (
    Fields,
    Flag,
    Listed,
    Optional,
    Real,
    message,
    outcome,
)

FIGURES = ("avg_us", "p99_us")
RANGES: Ranges = {
    "max_stolen": Range(float, 0, 1, "share of the CPU time"),
    "max_gap": Range(float, 0, 1e9, "share of the SLO's p99"),
}

_IDLE = {True: ", CPUs awake when idle", False: ", CPUs asleep when idle"}
# One more thing to try if a host is too noisy and its CPUs sleep, although its kernel can keep them awake.
_STAY_AWAKE = ", or keep its CPUs awake (host_tuning_cpu_idle: awake), which sleep when they are idle"

_Document = t.Mapping[str, t.Any]


class Limits(t.NamedTuple):
    """What makes a host too noisy.

    Attributes:
        stolen: the largest share of CPU time that other machines may take.
        gap: how far the bounds of p99 may be apart, as a share of the SLO's p99.
    """

    stolen: float = 0.01
    gap: float = 0.2


# The usual limits. A user may allow more; then the result is labelled.
LIMITS = Limits()
_SITE_NOISE = Fields(
    {
        "blocks": Listed(
            Fields({"avg_us": Real(0.001), "p99_us": Real(0.001)}, {"lower_p99_us": Optional(Real())}), 1000, 3
        ),
        "stolen": Optional(Real(0, 1)),
        "awake": Optional(Flag()),
    }
)


def result(answer: _Document) -> dict[str, t.Any]:
    """Return the accepted part of what the module C(site_noise) returned on a host.

    Raises:
        MeasurementError: a key is missing or does not fit.
    """
    accepted = {**outcome(answer), "changed": False}
    if accepted.get("failed"):
        return accepted
    if "site_noise" in answer:
        accepted["site_noise"] = _SITE_NOISE.check("site_noise", answer["site_noise"])
    if "unmeasured" in answer:
        accepted["unmeasured"] = message(answer["unmeasured"])
    return accepted


def median(measured: _Document, figure: str) -> float:
    """Return the median of a figure over the blocks."""
    return statistics.median(block[figure] for block in measured["blocks"])


def judge(measured: _Document, slo_p99_us: float, limits: Limits = LIMITS) -> dict[str, t.Any]:
    """Find out why a host is too noisy.

    Args:
        measured: what result() accepted as C(site_noise).
        slo_p99_us: of the study.
        limits: what makes the host too noisy.

    Returns:
        C(median_us) by figure. C(gap_us), the median distance of the bounds of p99, None if unknown. C(stolen).
        C(awake). C(reasons) why the host is too noisy, none if it is steady enough. C(doubts), where the limits allow
        more than the usual ones do, and the host needs it.
    """
    blocks = measured["blocks"]
    gaps = [block["p99_us"] - block["lower_p99_us"] for block in blocks if block.get("lower_p99_us") is not None]
    gap = statistics.median(gaps) if len(gaps) == len(blocks) else None
    stolen = measured["stolen"]

    def beyond(allowed: Limits) -> dict[str, str]:
        also = _STAY_AWAKE if measured["awake"] is False else ""
        found = {}
        if stolen is not None and stolen > allowed.stolen:
            found["stolen"] = (
                f"{stolen:.1%} of its CPU time was stolen by other machines, more than {allowed.stolen:.0%}; give the "
                f"VM CPUs of its own, or use another machine{also}"
            )
        if gap is not None and gap > allowed.gap * slo_p99_us:
            found["gap"] = (
                f"the bounds of p99 are {gap:,.0f} us apart, more than {allowed.gap:.0%} of the SLO's {slo_p99_us:g} "
                f"us, so hosts may come out undecided; give the client a CPU of its own, or let it spin{also}"
            )
        return found

    reasons, usual = beyond(limits), beyond(LIMITS)
    return {
        "median_us": {figure: round(median(measured, figure), 1) for figure in FIGURES},
        "gap_us": gap and round(gap, 1),
        "stolen": stolen,
        "awake": measured["awake"],
        "reasons": list(reasons.values()),
        "doubts": [sentence for limit, sentence in usual.items() if limit not in reasons],
    }


def noisy(check: _Document) -> list[str]:
    """Explain why the hosts of a check are too noisy; none if all are steady enough."""
    return [f"{name}: {reason}" for name, each in sorted(check["hosts"].items()) for reason in each["reasons"]]


def doubtful(check: _Document) -> list[str]:
    """Find where the hosts of a check are noisier than the usual limits allow, although its own limits allow it."""
    return [f"{name}: {doubt}" for name, each in sorted(check["hosts"].items()) for doubt in each.get("doubts", [])]


def lines(checks: t.Iterable[_Document]) -> list[str]:
    """Return checks as text for terminal and page.

    Args:
        checks: what the action C(site_check) returned.
    """
    return [line for check in checks for line in _lines(check)]


def _lines(check: _Document) -> list[str]:
    found = []
    for name, each in sorted(check["hosts"].items()):
        median_us = each["median_us"]
        stolen = "unknown" if each["stolen"] is None else f"{each['stolen']:.1%}"
        gap = "unknown" if each["gap_us"] is None else f"{each['gap_us']:,.0f} us apart"
        found.append(
            f"Site check of {name}: avg {median_us['avg_us']:,.1f} us, p99 {median_us['p99_us']:,.1f} us, bounds of "
            f"p99 {gap}, stolen CPU time {stolen}{_IDLE.get(each.get('awake'), '')}."
        )
        found += [f"  TOO NOISY: {reason}" for reason in each["reasons"]]
        found += [f"  DOUBTFUL: {doubt}" for doubt in each.get("doubts", [])]
    return found + [f"Site check of {name}: not measured. {why}" for name, why in sorted(check["unmeasured"].items())]


def labels(checks: t.Sequence[_Document]) -> list[str]:
    """Return the sentences that a result must not be read without: where a check found the site noisy."""
    found = [f"the site was too noisy: {reason}" for check in checks for reason in noisy(check)]
    found += [f"the site was doubtful: {doubt}" for check in checks for doubt in doubtful(check)]
    return list(dict.fromkeys(found))


def added(document: dict[str, t.Any], check: _Document) -> list[str]:
    """Add a check to the document of a study, which has one for each session, and return its warnings.

    Args:
        document: of the study.
        check: what the action C(site_check) returned; empty if the site was not checked.
    """
    document.setdefault("site_checks", [])
    if not check:
        return []
    document["site_checks"].append(dict(check))
    return [f"WARNING: this site is too noisy, so do not trust small differences. {reason}" for reason in noisy(check)]
