# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys that the client chooses on a real Redis, compared with the exact distribution of its formula."""

from __future__ import annotations

import json
import subprocess

import hot_set
import pytest


@pytest.mark.parametrize("influence", [0, 10, 25])
def test_the_hot_set_is_that_of_the_formula(fleet, client, influence):
    fleet.add("a")
    port = str(fleet.servers["a"].port)
    subprocess.run([client, "fill", port, "10", "20000"], check=True, capture_output=True)
    options = ["--json", "--seed", "7", "--pacing", "none", "--pipeline", "32", "--requests", "40000"]
    command = [client, *options, "test", port, "10", "20000", str(influence)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    hot = json.loads(done.stdout)["test"]["hot_set"]
    expected = hot_set.realised_hot_set(hot_set.bands(20000, influence), 40000)
    assert hot["distinct_keys"] == pytest.approx(expected["distinct_keys"], rel=0.01)
    for name, keys in zip(("p50_keys", "p90_keys", "p99_keys"), expected["keys"]):
        assert hot[name] == pytest.approx(keys, rel=0.02), name
