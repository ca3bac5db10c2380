# SPDX-License-Identifier: GPL-3.0-or-later
"""What a sequence makes of its playbooks' ends. Each playbook here records a synthetic run instead of measuring one."""

from __future__ import annotations

import json
import os

import pytest
from synthetic_fleets import begun_run, edit_run, record_run

from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.study.child_playbooks import Interrupted
from ansible_collections.memstretch.density.plugins.plugin_utils.study.sequence import Sequence, choose

ABOUT = {"arm": "zram", "round": 1}


class Playbooks:
    """Does what the next of its acts says when site.yml is run, and nothing otherwise."""

    def __init__(self, *acts):
        self.acts, self.ran, self.said = list(acts), [], []
        self.interrupted = False
        self.restoring = {}

    def run(self, name, variables, quiet=False):
        self.ran.append((name, variables.get("run_id")))
        if name in self.restoring:
            return self.restoring[name].pop(0)()
        return self.acts.pop(0)(variables["run_id"]) if name == "site" else 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def say(self, line):
        self.said.append(line)


@pytest.fixture
def measure(tmp_path, config, make_result):
    """A function that returns an act: a run is recorded as far as skip allows."""

    def act(change=lambda phase, result: result, skip=(), to=None, published=True, status=0, why=None):
        def run(run_id):
            begun = begun_run(tmp_path / (to or run_id), config, ["a", "b"])
            begun["resumed"] = (tmp_path / (to or run_id)).exists()
            directory = record_run(
                begun,
                lambda phase, number, host: change(phase, make_result(phase, number)),
                skip={
                    *skip,
                    *(index for index in range(1, 14) if begun["resumed"] and is_kept(directory_of(begun), index)),
                },
            )[0]
            if why:
                edit_run(directory, lambda run: run.update(instead_of={"run_id": run_id, "reason": why}))
            if published:
                publish(directory, lambda line: None)
            return status

        return run

    def directory_of(begun):
        return RunDirectory(str(tmp_path), begun["run_id"])

    def is_kept(directory, index):
        (phase,) = [each for each in directory.read_json("run.json")["phases"] if each["index"] == index]
        return directory.read_phase(phase) is not None

    return act


def invalid(phase, result):
    return {**result, "settings": {**result["settings"], "rate": 999}} if phase["index"] == 3 else result


def interrupt(run_id):
    raise Interrupted


def nothing(run_id):
    return 2


@pytest.fixture
def begin(tmp_path):
    """A function that begins a session of a sequence whose playbooks act as told."""

    def make(*acts, document=None):
        document = {"schema": 1, "id": "s", "restored": None} if document is None else document
        sequence = Sequence(RunDirectory(str(tmp_path), "s"), "study.json", document, hypervisors=False)
        (tmp_path / "s").mkdir(exist_ok=True)
        sequence.playbooks = Playbooks(*acts)
        return sequence

    return make


def ledger(sequence):
    return [(each["run_id"], each["state"], each["verdict"]) for each in sequence.document["attempts"]]


def until_valid(sequence, limit=3):
    return sequence.measure_until_valid("z", ABOUT, {"profile": "zram"}, limit)


def test_a_valid_run_is_measured_once(begin, measure):
    sequence = begin(measure())
    outcome = until_valid(sequence)
    assert (outcome["run_id"], outcome["state"], outcome["verdict"]) == ("z", "finished", "pass")
    assert ledger(sequence) == [("z", "finished", "pass")]
    assert RunDirectory(sequence.directory.results_dir, "s").read_json("study.json")["attempts"][0]["round"] == 1


def test_an_invalid_run_is_repeated_as_a_new_one_and_kept(begin, measure, tmp_path):
    sequence = begin(measure(invalid), measure())
    outcome = until_valid(sequence)
    assert (outcome["run_id"], outcome["state"]) == ("z-attempt2", "finished")
    assert ledger(sequence) == [("z", "invalid", "invalid"), ("z-attempt2", "finished", "pass")]
    assert "measured with rate 999" in sequence.document["attempts"][0]["reason"]
    assert (tmp_path / "z" / "phases" / "03-i0-r100-1.json").exists()
    # Both start alike: what the first has set up is removed.
    assert sequence.playbooks.ran == [("site", "z"), ("teardown", None), ("site", "z-attempt2")]
    assert "Attempt 1 is not valid" in " ".join(sequence.playbooks.said)


def test_the_attempts_end(begin, measure):
    sequence = begin(*[measure(invalid)] * 3)
    assert until_valid(sequence)["state"] == "invalid"
    assert [run_id for run_id, _state, _verdict in ledger(sequence)] == ["z", "z-attempt2", "z-attempt3"]
    assert sequence.invalid_attempts("z-attempt3") == 3
    # A later session with a larger limit goes on counting.
    later = begin(measure(), document=sequence.document)
    assert until_valid(later, 4)["run_id"] == "z-attempt4"


def test_a_run_that_fails_is_never_repeated(begin, measure, make_result):
    def slow(phase, result):
        return make_result(phase, 0, values=[10**7] * 1000) if phase["kind"] == "iteration" else result

    sequence = begin(measure(slow))
    assert until_valid(sequence)["verdict"] == "fail"
    assert ledger(sequence) == [("z", "finished", "fail")]


def test_a_finished_run_is_not_measured_again_by_a_later_session(begin, measure):
    """Its session was interrupted after the run was judged, and before its caller had noted the result."""
    sequence = begin(measure())
    first = until_valid(sequence)
    later = begin(document=sequence.document)
    again = until_valid(later)
    assert later.playbooks.ran == [] and "seconds" not in again
    assert (again["run_id"], again["verdict"]) == (first["run_id"], first["verdict"])
    assert ledger(later) == [("z", "finished", "pass")] and later.document["attempts"][0]["seconds"] is not None


def interrupted_sequence(begin, measure):
    """Return a sequence that was interrupted in the middle of its run."""

    def part(run_id):
        measure(skip=range(8, 14), published=False)(run_id)
        raise Interrupted

    sequence = begin(part)
    with pytest.raises(Interrupted):
        until_valid(sequence)
    return sequence


def test_an_interrupted_run_is_continued_as_the_same_attempt(begin, measure):
    sequence = interrupted_sequence(begin, measure)
    assert ledger(sequence) == [("z", "interrupted", None)]
    later = begin(measure(), document=sequence.document)
    assert until_valid(later)["run_id"] == "z"
    assert ledger(later) == [("z", "finished", "pass")]


def test_an_interrupted_run_that_cannot_be_continued_stays_in_the_ledger(begin, measure):
    sequence = interrupted_sequence(begin, measure)
    later = begin(measure(to="z-attempt2", why="the data of its fill is gone"), document=sequence.document)
    assert until_valid(later)["run_id"] == "z-attempt2"
    assert ledger(later) == [("z", "interrupted", None), ("z-attempt2", "finished", "pass")]
    assert later.document["attempts"][0]["reason"] == (
        "interrupted; it could not be continued, because the data of its fill is gone"
    )


def test_a_session_that_was_killed_loses_no_attempt(begin, measure):
    """Its ledger is empty, but the directories of its attempts are there."""
    measure(skip=range(8, 14), published=False)("z")
    sequence = begin(measure(to="z-attempt2", why="the settings of the hosts have changed"))
    assert until_valid(sequence)["run_id"] == "z-attempt2"
    assert [run_id for run_id, _state, _verdict in ledger(sequence)] == ["z", "z-attempt2"]


def test_a_run_that_was_measured_but_not_judged_is_judged_and_not_measured_again(begin, measure):
    measure(published=False)("z")
    sequence = begin()
    assert until_valid(sequence)["verdict"] == "pass"
    assert sequence.playbooks.ran == []


def test_an_error_before_anything_was_measured_is_an_attempt(begin, measure):
    sequence = begin(nothing)
    assert until_valid(sequence)["state"] == "failed"
    later = begin(measure(), document=sequence.document)
    assert until_valid(later)["run_id"] == "z-attempt2"
    assert ledger(later) == [("z", "failed", None), ("z-attempt2", "finished", "pass")]


def test_an_error_before_a_second_attempt_begins_is_not_the_first_one_again(begin, measure):
    """The first one is invalid; taken for the second one, it would be repeated for ever."""
    sequence = begin(measure(invalid), nothing)
    assert until_valid(sequence)["state"] == "failed"
    assert ledger(sequence) == [("z", "invalid", "invalid"), ("z-attempt2", "failed", None)]


def test_an_interruption_before_anything_was_measured_is_none(begin, measure):
    sequence = begin(interrupt)
    with pytest.raises(Interrupted):
        until_valid(sequence)
    assert ledger(sequence) == []
    later = begin(measure(), document=sequence.document)
    assert until_valid(later)["run_id"] == "z"


def test_an_error_after_the_last_phase_does_not_hide_the_verdict(begin, measure):
    """The phases are measured, so this is no reason to measure them again."""
    sequence = begin(measure(status=2))
    outcome = until_valid(sequence)
    assert (outcome["state"], outcome["verdict"]) == ("finished", "pass")


def test_an_interruption_says_at_once_what_is_left_to_do(begin, measure):
    sequence = begin(measure())
    sequence._explain_interruption()
    assert sequence.playbooks.said[-1] == "== Interrupted: nothing was changed on the hosts"
    until_valid(sequence)
    sequence._explain_interruption()
    said = " ".join(sequence.playbooks.said)
    assert "the hosts are restored. Please wait" in said and "teardown.yml removes the VMs" in said
    assert "restore.yml" not in said, "there are no hypervisors"


def test_hosts_that_a_killed_session_has_left_changed_are_restored_by_the_next_one(begin, measure):
    killed = begin(measure())
    until_valid(killed)
    assert killed.directory.read_json("study.json")["restored"] is False
    for document, restored in ((killed.document, True), ({"restored": None}, False)):
        following = begin(document={"schema": 1, "id": "s", **document})
        with following:
            pass
        assert (("teardown", None) in following.playbooks.ran) is restored


def raise_interrupted():
    raise Interrupted


@pytest.mark.parametrize(
    "restoring, restored", [((lambda: 0,), True), ((raise_interrupted, lambda: 0), True), ((lambda: 2,), False)]
)
def test_the_hosts_are_restored_also_when_that_is_interrupted(begin, measure, restoring, restored):
    sequence = begin(measure())
    sequence.playbooks.restoring["teardown"] = list(restoring)
    until_valid(sequence)
    if restored:
        sequence._restore()
    else:
        with pytest.raises(RunError, match="run: ansible-playbook playbooks/teardown.yml"):
            sequence._restore()
    assert sequence.document["restored"] is restored and not sequence.playbooks.restoring["teardown"]
    assert "step 1 of 1: teardown.yml removes the VMs" in " ".join(sequence.playbooks.said)
    assert ("== The hosts are restored" in sequence.playbooks.said) is restored


@pytest.mark.skipif(os.geteuid() != 0, reason="a directory of another user needs root")
@pytest.mark.parametrize("wanted", [None, "study-1"])
def test_a_study_that_somebody_else_has_planted_is_not_continued(tmp_path, wanted):
    """Its settings are those of the next study, so that it would be taken for an unfinished one."""
    tmp_path.chmod(0o1777)
    definition = {"arms": ["dram", "zram"]}
    directory, document = choose(str(tmp_path), "study.json", "study", "study-1", definition, True)
    directory.make()
    directory.write_json("study.json", {**document, "runs": [{"run_id": "x", "verdict": "pass"}]})
    assert choose(str(tmp_path), "study.json", "study", wanted, definition, True)[1]["runs"]

    os.chown(directory.path, 1000, 1000)
    if wanted:
        with pytest.raises(RunError, match="belongs to user 1000, so nothing was read or written there"):
            choose(str(tmp_path), "study.json", "study", wanted, definition, True)
    else:
        new, document = choose(str(tmp_path), "study.json", "study", wanted, definition, True)
        assert new.run_id != "study-1" and document["runs"] == []


def test_the_error_of_a_host_does_not_steer_the_terminal(begin):
    sequence = begin()
    result = json.dumps({"msg": "no\x1b]0;owned\x07\nVerdict: PASS"})
    sequence._note(f"fatal: [a]: FAILED! => {result}")
    assert sequence._error == "a: no?]0;owned?\n    Verdict: PASS"
    sequence._note("[ERROR]: no\x1b[2J")
    assert sequence._error == "no?[2J"
