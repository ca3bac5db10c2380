# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exact distribution of the client's requests over the keys, to compare access_model with."""

from __future__ import annotations

import collections
import math
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.access_model import Band, pulls


def weights(keys: int, influence: float) -> list[int]:
    """Return for each key how many of keys * 100 equally likely draws choose it. Exact, but slow above 10^5 keys."""
    found, half = [0] * keys, keys // 2
    for fraction, count in pulls(influence).items():
        for key in range(keys):
            found[key + int(fraction * (half - key))] += count
    return found


def share_of_hottest(spread: t.Sequence[Band], keys: float) -> float:
    """Return the share of requests for this number of hottest keys."""
    found = 0.0
    for band in sorted(spread, key=lambda each: each.probability, reverse=True):
        taken = min(band.keys, keys)
        found += taken * band.probability
        keys -= taken
    return min(1.0, found)


def hottest_for(spread: t.Sequence[Band], share: float) -> float:
    """Count how many of the hottest keys receive this share of the requests."""
    found = 0.0
    for band in sorted(spread, key=lambda each: each.probability, reverse=True):
        mass = band.keys * band.probability
        if mass >= share:
            return found + (share / band.probability if band.probability else 0)
        share -= mass
        found += band.keys
    return found


def realised_hot_set(
    spread: t.Sequence[Band], requests: int, shares: t.Sequence[float] = (0.5, 0.9, 0.99)
) -> dict[str, t.Any]:
    """Return the hot set that the client will report after this many requests.

    It is smaller than hottest_for(), because chance picks some keys more often. The number of requests for a key is
    treated as Poisson distributed.

    Returns:
        C(distinct_keys), and C(keys): how many of the most used keys received each of the shares.
    """
    tally: dict[int, float] = collections.defaultdict(float)
    for band in spread:
        expected = requests * band.probability
        reach = int(10 * math.sqrt(expected) + 20)
        for count in range(max(1, int(expected) - reach), int(expected) + reach):
            tally[count] += (
                band.keys * math.exp(count * math.log(expected) - expected - math.lgamma(count + 1)) if expected else 0
            )
    realised = [Band(keys, count / requests) for count, keys in tally.items()]
    return {"distinct_keys": sum(tally.values()), "keys": [hottest_for(realised, share) for share in shares]}
