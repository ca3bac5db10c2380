# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.action import study
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import Arm
from ansible_collections.memstretch.density.plugins.plugin_utils.study.sequence import FAILED, FINISHED, INVALID


class Sequence:
    """Says what came of each measurement in turn, and remembers what was asked for."""

    def __init__(self, *states):
        self.states, self.asked, self.said = list(states), [], []

    def measure(self, run_id, variables, clean):
        self.asked.append((run_id, clean))
        return {"state": self.states.pop(0), "verdict": None, "note": "redis01 was late"}

    def announce(self, text):
        self.said.append(text)


@pytest.mark.parametrize(
    "states, times",
    [
        ([FINISHED], 1),
        ([FAILED], 1),
        ([INVALID, FINISHED], 2),
        ([INVALID, INVALID], 2),
        ([INVALID, FAILED], 2),
    ],
)
def test_a_run_that_is_not_valid_is_taken_up_once_more(states, times):
    sequence = Sequence(*states)
    outcome = study._measured(sequence, "s-zram", Arm("zram", {"profile": "zram"}))
    assert outcome["state"] == states[-1]
    assert sequence.asked == [("s-zram", True), ("s-zram", False)][:times]
    assert ["redis01 was late" in text for text in sequence.said] == [True] * (times - 1)
