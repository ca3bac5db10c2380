# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib

import jsonschema
import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.study import compared_arms
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import Arm, schedule
from ansible_collections.memstretch.density.plugins.plugin_utils.study.attempts import Ledger
from ansible_collections.memstretch.density.plugins.plugin_utils.study.sequence import choose
from ansible_collections.memstretch.density.tests.unit.fixtures.sites import NOISY_SITE

SCHEMA = json.loads((pathlib.Path(__file__).parents[5] / "docs/schemas/study.json").read_text(encoding="utf-8"))


class Sequence:
    """Returns the outcomes that it was given, one for each run."""

    def __init__(self, runs, **outcomes):
        self.document = {"runs": runs, "definition": {"rounds": 1}}
        self.outcomes, self.asked, self.invalid = outcomes, [], {}

    def measure_until_valid(self, run_id, about, variables, limit):
        self.asked.append((run_id, about["arm"], limit))
        return self.outcomes[about["arm"]]

    def invalid_attempts(self, run_id):
        return self.invalid.get(run_id, 0)

    def announce(self, text, left=0):
        pass

    def save(self):
        pass


def run(arm, state="pending"):
    return {"run_id": f"s-{arm}", "arm": arm, "round": 1, "state": state, "verdict": None, "note": ""}


ARMS = {name: Arm(name, {"profile": name}) for name in ("dram", "zram")}


def outcome(run_id, state):
    return {"run_id": run_id, "state": state, "verdict": None, "note": ""}


@pytest.mark.parametrize("state, finished", [("finished", True), ("invalid", False), ("failed", False)])
def test_the_run_that_counts_is_that_of_the_last_attempt(state, finished):
    sequence = Sequence(
        [run("dram"), run("zram")], dram=outcome("s-dram", "finished"), zram=outcome("s-zram-attempt2", state)
    )
    compared_arms.run_all(sequence, ARMS, 3)
    assert sequence.asked == [("s-dram", "dram", 3), ("s-zram", "zram", 3)]
    assert [each["run_id"] for each in sequence.document["runs"]] == ["s-dram", "s-zram-attempt2"]
    assert sequence.document["finished"] is finished


def test_a_run_without_attempts_left_is_not_measured_again():
    sequence = Sequence([run("dram", "finished"), run("zram", "invalid")], zram=outcome("s-zram-attempt4", "finished"))
    sequence.invalid["s-zram"] = 3
    compared_arms.run_all(sequence, ARMS, 3)
    assert sequence.asked == [] and sequence.document["finished"] is False
    compared_arms.run_all(sequence, ARMS, 4)
    assert sequence.asked == [("s-zram", "zram", 4)] and sequence.document["finished"] is True


@pytest.mark.parametrize("kind", ["study", "ablation"])
def test_the_document_fits_its_schema(kind, tmp_path):
    """From its beginning to its end, with a run that failed and one that was discarded."""
    definition = {"arms": [arm._asdict() for arm in ARMS.values()], "order": "interleaved", "rounds": 1}
    directory, document = choose(str(tmp_path), "study.json", kind, None, definition, True)
    compared_arms.enter_runs(document, schedule(list(ARMS.values()), "interleaved", 1))
    site_check.added(document, NOISY_SITE)
    jsonschema.validate(json.loads(json.dumps(document)), SCHEMA)
    names = {run["arm"]: run["run_id"] for run in document["runs"]}
    ended = {
        "dram": {**outcome(names["dram"], "finished"), "verdict": "pass", "seconds": 5.0},
        "zram": {**outcome(f"{names['zram']}-attempt2", "failed"), "seconds": 1.5},
    }
    sequence = Sequence([], **ended)
    sequence.document = document
    ledger = Ledger(document)
    ledger.enter({"arm": "zram", "round": 1}, {**outcome(names["zram"], "invalid"), "verdict": "invalid"})
    for arm, each in ended.items():
        ledger.enter({"arm": arm, "round": 1}, each)
    compared_arms.run_all(sequence, ARMS, 3)
    directory.make()
    found = compared_arms.conclude(directory, "study.json", document, None, lambda line: None)
    assert found["failed"]
    written = directory.read_json("study.json")
    jsonschema.validate(written, SCHEMA)
    assert {run["state"] for run in written["runs"]} == {"finished", "failed"}
    assert [each["state"] for each in written["attempts_summary"]["discarded"]] == ["invalid", "failed"]
    written["runs"][0]["state"] = "done"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(written, SCHEMA)
