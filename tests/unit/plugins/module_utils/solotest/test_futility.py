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
    assert cannot_pass(slow, 100, SLO) and not cannot_pass(slow, 200, SLO)
    tail = lower_bound(latency([0] * 97 + [400_000] * 3, [400_000] * 100))
    assert cannot_pass(tail, 200, SLO) and not cannot_pass(tail, 300, SLO)


def test_a_request_without_a_lower_bound_counts_as_nothing():
    assert lower_bound(latency([60_000] * 10, [90_000] * 100)).sum_ns == 600_000


def test_the_iterations_of_a_cell_count_together_and_those_of_another_do_not():
    watch, slow = Watch(SLO, 300), latency([80_000] * 100, [90_000] * 100)
    assert not watch.add("one", slow) and not watch.add("other", slow)
    assert watch.add("one", slow)
