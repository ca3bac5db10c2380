# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a host can no longer meet its objective."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.module_utils.solotest.futility import (
    Watch,
    cannot_pass,
    lower_bound,
)
from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram

SLO = {"avg_us": 50, "p99_us": 300}


def latency(lower, upper):
    return {"intended": Histogram.from_values(upper).figures(), "server": Histogram.from_values(lower).figures()}


def test_a_host_cannot_pass_any_more_once_its_lower_bound_is_too_large_for_all_its_requests():
    slow = lower_bound(latency([60_000] * 100, [90_000] * 100))
    assert cannot_pass(slow, 100, SLO, 1) and not cannot_pass(slow, 200, SLO, 1)
    tail = lower_bound(latency([0] * 97 + [400_000] * 3, [400_000] * 100))
    assert cannot_pass(tail, 200, SLO, 1) and not cannot_pass(tail, 300, SLO, 1)


def test_one_host_of_several_cannot_pass_once_clustered_slow_requests_are_significant_too():
    def hopeless(slow, hosts):
        return cannot_pass(lower_bound(latency([0] * 1900 + [400_000] * slow, [400_000] * 2000)), 2000, SLO, hosts)

    assert not hopeless(20, 1) and hopeless(21, 1)
    assert not hopeless(69, 10) and hopeless(80, 10)
    assert not hopeless(80, 1000), "the worst of more hosts has more slow requests by chance"


def test_a_request_without_a_lower_bound_counts_as_nothing():
    assert lower_bound(latency([60_000] * 10, [90_000] * 100)).sum_ns == 600_000


def test_the_iterations_of_a_cell_count_together_and_those_of_another_do_not():
    watch, slow = Watch(SLO, 300, 1), latency([80_000] * 100, [90_000] * 100)
    assert not watch.add("one", slow) and not watch.add("other", slow)
    assert watch.add("one", slow)
