# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from synthetic_fleets import latencies

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_sum import LATENCIES, FleetSum, pack


def summed(hosts):
    total = FleetSum()
    for number, latency in enumerate(hosts):
        total.add(f"vm{number}", latency, pack(latency))
    return total.counts()


def expected(hosts):
    return {name: Histogram.from_figures(*(each[name] for each in hosts if name in each)).counts for name in LATENCIES}


def test_the_sum_is_that_of_the_decoded_histograms():
    hosts = [
        {
            name: Histogram.from_values(latencies(average_us=5.0 ** (1 + number % 7), seed=number)).figures()
            for name in LATENCIES
        }
        for number in range(20)
    ]
    del hosts[3]["wakeup"], hosts[3]["server"]  # of a Unix socket
    hosts[4]["server"] = Histogram().figures()
    assert summed(hosts) == expected(hosts)


def test_a_sum_may_be_larger_than_a_lane():
    whole = Histogram()
    whole.add(20_000, 2**31)
    whole.add(2**62, 5)
    hosts = [dict.fromkeys(LATENCIES, whole.figures())] * 3
    assert summed(hosts)["intended"] == expected(hosts)["intended"] == {slot: 3 * n for slot, n in whole.counts.items()}


def test_a_histogram_that_no_lane_can_hold_is_not_packed():
    whole = Histogram()
    whole.add(20_000, 2**32)
    assert pack({"intended": whole.figures()}) is None
