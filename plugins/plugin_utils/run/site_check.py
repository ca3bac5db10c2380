# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site check: whether a host is steady enough for a study, from some blocks of load on a small Redis.

The noise is the standard deviation of the logarithm of a figure from block to block, by successive differences, so a
slow drift does not count. It is uncertain with few blocks, so the upper limit of its 90 % interval is used. It is not
divided by the root of the number of blocks, since regimes last longer than a block. The check is a gate, not a
forecast: the A/A test of a study shows what the study could really see.
"""

from __future__ import annotations

import math
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
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import smallest_effect

FIGURES = ("avg_us", "p99_us")
# A study of one round has no noise of its own to compare with.
ROUNDS = Range(int, 2, 1000, "rounds of the study")
RANGES: Ranges = {
    "max_stolen": Range(float, 0, 1, "share of the CPU time"),
    "max_gap": Range(float, 0, 1e9, "share of the SLO's p99"),
}

# The quantile of the normal distribution with 10 % below it.
_Z10 = -1.2815515655446004

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


def noise(values: t.Sequence[float]) -> float:
    """Return the upper limit of the noise: a standard deviation of logarithms.

    Args:
        values: a figure of each block, at least three.
    """
    logs = [math.log(value) for value in values]
    squares = [(later - earlier) ** 2 for earlier, later in zip(logs, logs[1:])]
    size = len(logs)
    # The estimate by successive differences has this many degrees of freedom (J. von Neumann and others, Annals of
    # Mathematical Statistics 12, 1941).
    freedom = 2 * (size - 1) ** 2 / (3 * size - 4)
    # Wilson and Hilferty's approximation of the chi-squared quantile.
    low = freedom * (1 - 2 / (9 * freedom) + _Z10 * math.sqrt(2 / (9 * freedom))) ** 3
    return math.sqrt(statistics.fmean(squares) / 2 * freedom / low)


def median(measured: _Document, figure: str) -> float:
    """Return the median of a figure over the blocks."""
    return statistics.median(block[figure] for block in measured["blocks"])


def judge(measured: _Document, slo_p99_us: float, rounds: int, limits: Limits = LIMITS) -> dict[str, t.Any]:
    """Compute what a study on a host can see, and why the host is too noisy.

    Args:
        measured: what result() accepted as C(site_noise).
        slo_p99_us: of the study.
        rounds: of the study, at least two.
        limits: what makes the host too noisy.

    Returns:
        C(median_us), C(noise) and C(smallest_effect), by figure. C(gap_us), the median distance of the bounds of p99,
        None if unknown. C(stolen). C(awake). C(reasons) why the host is too noisy, none if it is steady enough.
        C(doubts), where the limits allow more than the usual ones do, and the host needs it.
    """
    blocks = measured["blocks"]
    noises = {figure: noise([block[figure] for block in blocks]) for figure in FIGURES}
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
        "noise": {figure: round(each, 4) for figure, each in noises.items()},
        "smallest_effect": {figure: round(smallest_effect(each, rounds), 3) for figure, each in noises.items()},
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
        median_us, effect = each["median_us"], each["smallest_effect"]
        stolen = "unknown" if each["stolen"] is None else f"{each['stolen']:.1%}"
        gap = "unknown" if each["gap_us"] is None else f"{each['gap_us']:,.0f} us apart"
        found.append(
            f"Site check of {name}: avg {median_us['avg_us']:,.1f} us, p99 {median_us['p99_us']:,.1f} us, bounds of "
            f"p99 {gap}, stolen CPU time {stolen}{_IDLE.get(each.get('awake'), '')}. With {check['rounds']} rounds, a "
            f"study can see a factor of {effect['avg_us']:.2f} in the average and {effect['p99_us']:.2f} in the p99."
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
