# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exact distribution of the client's requests over the keys (docs/latency-rules.md)."""

from __future__ import annotations

import collections
import math
import typing as t

# floor(100 V) for V in [0, 1]; 100 itself has no probability.
PULLS = 100


class Band(t.NamedTuple):
    """A number of keys with the same probability of access each."""

    keys: float
    probability: float


def pulls(influence: float) -> dict[float, int]:
    """Return the fractions by which a key is pulled to the middle, each with its number among 100 equally likely pulls.

    Args:
        influence: BIAS of the client, the width of the bell; 0 does not pull.
    """
    if influence == 0:
        return {0.0: PULLS}
    return collections.Counter(math.exp(-((x - 50) ** 2) / (2 * influence**2)) for x in range(PULLS))


def weights(keys: int, influence: float) -> list[int]:
    """Return for each key how many of keys * 100 equally likely draws choose it. Exact, but slow above 10^5 keys."""
    found, half = [0] * keys, keys // 2
    for fraction, count in pulls(influence).items():
        for key in range(keys):
            found[key + int(fraction * (half - key))] += count
    return found


def bands(keys: int, influence: float) -> list[Band]:
    """Return the same with the keys that are equally likely together."""
    exact = collections.Counter(weights(keys, influence))
    return [Band(count, weight / (PULLS * keys)) for weight, count in exact.items()]


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
