# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.run.time_series import merged


def test_merging_weights_by_requests_and_keeps_the_worst():
    hosts = [
        {"series": {"interval_s": 1, "points": [[100, 10, 20, 30]]}},
        {"series": {"interval_s": 1, "points": [[300, 50, 60, 70], [1, 2, 3, 4]]}},
        {},
    ]
    assert merged(hosts) == {"interval": 1, "points": [[400, 40, 60, 70], [1, 2, 3, 4]]}
    assert merged([{"series": None}]) is None


def test_series_of_different_intervals_are_brought_to_the_longest():
    """The client doubles the interval of a loop without an end: one host ended just before, another one just after."""
    short = {"series": {"interval_s": 0.1, "points": [[10, 1.0, 2.0, 3.0], [30, 2.0, 4.0, 9.0], [0, 0, 0, 0]]}}
    long = {"series": {"interval_s": 0.2, "points": [[40, 1.0, 5.0, 6.0], [40, 3.0, 4.0, 5.0], [10, 1.0, 1.0, 1.0]]}}
    other = {"series": {"interval_s": 0.15, "points": [[1, 1000.0, 1000.0, 1000.0]]}}

    for hosts in ([short, long, other], [other, long, short]):
        assert merged(hosts) == {
            "interval": 0.2,
            "points": [[80, 1.375, 5.0, 9.0], [40, 3.0, 4.0, 5.0], [10, 1.0, 1.0, 1.0]],
        }
