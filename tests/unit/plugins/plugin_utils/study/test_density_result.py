# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.study import density_result


def probe(size, outcome, p99, within):
    return {
        "arm": "dram",
        "size": size,
        "outcome": outcome,
        "lost": [],
        "labels": [],
        "slo": {"avg_us": 50, "p99_us": 500},
        "hosts_within_slo": within,
        "avg_us": p99 / 4,
        "p99_us": p99,
        "worst_host_p99_us": 2 * p99,
    }


def test_the_figures_of_an_invalid_probe_are_no_figures():
    document = {
        "definition": {"arms": [{"name": "dram"}], "maximum": 3, "start": 2, "repeats": 1},
        "runs": [
            probe(2, "pass", 100, 2),
            probe(3, "invalid", 900000, 0),
            probe(3, "pass", 160, 3),
        ],
    }
    density_result.conclude(document)
    (found,) = document["density"]
    assert found["density"] == 3
    last = found["curve"][-1]
    assert (last["p99_us"], last["worst_host_p99_us"], last["hosts_within_slo"], last["invalid"]) == (160, 320, 3, 1)

    document["runs"].pop()
    density_result.conclude(document)
    assert document["density"][0]["curve"][-1]["p99_us"] is None
