# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.study import attempts
from ansible_collections.memstretch.density.plugins.plugin_utils.study.attempts import Ledger


def outcome(run_id, state="finished", verdict="pass", note="", seconds=10.0):
    return {"run_id": run_id, "state": state, "verdict": verdict, "note": note, "seconds": seconds}


@pytest.fixture
def document():
    """Two rounds of dram, and of swap, which had two invalid attempts and one that was interrupted."""
    made = {}
    ledger = Ledger(made)
    ledger.enter({"arm": "dram", "round": 1}, outcome("dram-1"))
    ledger.enter({"arm": "swap", "round": 1}, outcome("swap-1", "invalid", "invalid", "redis01: cut off"))
    ledger.enter({"arm": "swap", "round": 1}, outcome("swap-1-attempt2", "invalid", "invalid", "redis02: cut off"))
    ledger.enter({"arm": "swap", "round": 1}, outcome("swap-1-attempt3"))
    ledger.enter({"arm": "swap", "round": 2}, outcome("swap-2", "interrupted", None, "interrupted", None))
    ledger.enter({"arm": "swap", "round": 2}, outcome("swap-2-attempt2", verdict="fail"))
    ledger.enter({"arm": "dram", "round": 2}, outcome("dram-2", verdict="undecided"))
    return made


def test_every_attempt_is_kept(document):
    assert document["attempts"][2] == {
        "run_id": "swap-1-attempt2",
        "arm": "swap",
        "round": 1,
        "attempt": 2,
        "state": "invalid",
        "verdict": "invalid",
        "reason": "redis02: cut off",
        "seconds": 10.0,
    }
    assert [each["attempt"] for each in Ledger(document).of("swap-1")] == [1, 2, 3]
    assert Ledger(document).of("swap-1-attempt2") == Ledger(document).of("swap-1")
    assert Ledger(document).entry("dram-3") is None


def test_an_attempt_that_was_continued_is_one_attempt(document):
    ledger = Ledger(document)
    ledger.enter({"arm": "dram", "round": 3}, outcome("dram-3", "interrupted", None, "interrupted", 4.5))
    ledger.enter({"arm": "dram", "round": 3}, outcome("dram-3", seconds=2.0))
    (entry,) = ledger.of("dram-3")
    assert (entry["state"], entry["verdict"], entry["seconds"]) == ("finished", "pass", 6.5)


def test_the_bound_if_all_that_was_discarded_had_failed(document):
    summed = attempts.summary(document["attempts"])
    assert summed["groups"] == [
        {"arm": "dram", "attempts": 2, "judged": 2, "discarded": 0, "passed": 1, "passed_share": [0.5, 0.5]},
        {"arm": "swap", "attempts": 5, "judged": 2, "discarded": 3, "passed": 1, "passed_share": [0.2, 0.5]},
    ]
    assert [each["run_id"] for each in summed["discarded"]] == ["swap-1", "swap-1-attempt2", "swap-2"]


def test_attempts_are_counted_by_any_keys():
    made = {}
    for number, verdict in enumerate(("pass", "invalid", "invalid")):
        state = "invalid" if verdict == "invalid" else "finished"
        Ledger(made).enter({"arm": "zram", "size": 8 * (number > 0)}, outcome(f"n{number}", state, verdict))
    groups = attempts.summary(made["attempts"], ("arm", "size"))["groups"]
    assert [(each["size"], each["passed_share"]) for each in groups] == [(0, [1.0, 1.0]), (8, None)]
    assert "zram     8" in attempts.lines(attempts.summary(made["attempts"], ("arm", "size")))[4]


def test_the_terminal_names_what_was_discarded(document):
    text = "\n".join(attempts.lines(attempts.summary(document["attempts"])))
    assert "Attempts: 7, 3 discarded" in text
    assert f"swap         5          3  1 of 2{' ' * 30}1 of 5" in text
    assert "- swap-1 invalid after 0:10: redis01: cut off" in text
    assert "- swap-2 interrupted: interrupted" in text
    kept = [each for each in document["attempts"] if each["state"] == "finished"]
    assert attempts.lines(attempts.summary(kept)) == ["", "Attempts: 4, none discarded"]
    assert attempts.lines(attempts.summary([])) == []
