# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site check: whether a host is steady enough for a study, from some blocks of load on a small Redis.

The noise is the standard deviation of the logarithm of a figure from block to block, by successive differences, so a
slow drift does not count. It is uncertain with few blocks, so the upper limit of its 90 % interval is used. It is not
divided by the root of the number of blocks, since regimes last longer than a block. The check is a gate, not a
forecast: what a study could really see, its own A/A test tells.
"""

from __future__ import annotations

import math
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import Range
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import (
    Fields,
    Listed,
    Optional,
    Real,
    message,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import smallest_effect

# Larger shares of stolen CPU time make a host too noisy.
MOST_STOLEN = 0.01
# The bounds of p99 may be this share of the SLO's p99 apart.
WIDEST_GAP = 0.2
FIGURES = ("avg_us", "p99_us")
# A study of one round has no noise of its own to compare with.
ROUNDS = Range(int, 2, 1000, "rounds of the study")

# The quantile of the normal distribution with 10 % below it.
_Z10 = -1.2815515655446004

_Document = t.Mapping[str, t.Any]

_SITE_NOISE = Fields(
    {
        "blocks": Listed(
            Fields({"avg_us": Real(0.001), "p99_us": Real(0.001)}, {"lower_p99_us": Optional(Real())}), 1000, 3
        ),
        "stolen": Optional(Real(0, 1)),
    }
)


def result(answer: _Document) -> dict[str, t.Any]:
    """Return the accepted part of what the module C(site_noise) returned on a host.

    Raises:
        MeasurementError: a key is missing or does not fit.
    """
    if answer.get("failed", False) is not False:
        return {"failed": True, "msg": message(answer.get("msg", "failed without a message"))}
    accepted: dict[str, t.Any] = {"changed": False}
    if "site_noise" in answer:
        accepted["site_noise"] = _SITE_NOISE.check("site_noise", answer["site_noise"])
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


def judge(measured: _Document, slo: _Document, rounds: int) -> dict[str, t.Any]:
    """Return what a study on a host can see, and why the host is too noisy.

    Args:
        measured: what result() accepted as C(site_noise).
        slo: avg_us and p99_us.
        rounds: of the study, at least two.

    Returns:
        C(median_us), C(noise) and C(smallest_effect), by figure. C(gap_us), the median distance of the bounds of p99,
        None if unknown. C(stolen). C(reasons), none if the host is steady enough.
    """
    blocks = measured["blocks"]
    noises = {figure: noise([block[figure] for block in blocks]) for figure in FIGURES}
    gaps = [block["p99_us"] - block["lower_p99_us"] for block in blocks if block.get("lower_p99_us") is not None]
    gap = statistics.median(gaps) if len(gaps) == len(blocks) else None
    reasons = []
    stolen = measured["stolen"]
    if stolen is not None and stolen > MOST_STOLEN:
        reasons.append(
            f"{stolen:.1%} of its CPU time was stolen by other machines, at most {MOST_STOLEN:.0%} is allowed; give "
            f"the VM CPUs of its own, or use another machine"
        )
    if gap is not None and gap > WIDEST_GAP * slo["p99_us"]:
        reasons.append(
            f"the bounds of p99 are {gap:,.0f} us apart, at most {WIDEST_GAP:.0%} of the SLO's {slo['p99_us']:g} us is "
            f"allowed, so hosts would come out undecided; give the client a CPU of its own, or let it spin"
        )
    return {
        "median_us": {figure: round(statistics.median(block[figure] for block in blocks), 1) for figure in FIGURES},
        "noise": {figure: round(each, 4) for figure, each in noises.items()},
        "smallest_effect": {figure: round(smallest_effect(each, rounds), 3) for figure, each in noises.items()},
        "gap_us": gap and round(gap, 1),
        "stolen": stolen,
        "reasons": reasons,
    }


def lines(hosts: t.Mapping[str, _Document], rounds: int) -> list[str]:
    """Return the check as text for the terminal."""
    found = []
    for name, each in sorted(hosts.items()):
        median, effect = each["median_us"], each["smallest_effect"]
        stolen = "unknown" if each["stolen"] is None else f"{each['stolen']:.1%}"
        gap = "unknown" if each["gap_us"] is None else f"{each['gap_us']:,.0f} us apart"
        found.append(
            f"Site check of {name}: avg {median['avg_us']:,.1f} us, p99 {median['p99_us']:,.1f} us, bounds of p99 "
            f"{gap}, stolen CPU time {stolen}. With {rounds} rounds, a study can see a factor of "
            f"{effect['avg_us']:.2f} on average and {effect['p99_us']:.2f} at p99."
        )
        found += [f"  TOO NOISY: {reason}" for reason in each["reasons"]]
    return found
