# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many runs, one after another. A document on disk records each of them, so that an interruption loses nothing."""

from __future__ import annotations

import json
import math
import os
import re
import time
import types
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import clock
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import message
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    RunDirectory,
    RunError,
    attempt_name,
    attempt_number,
    check_name,
    compact_utc,
    described_by,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.progress import finished_because
from ansible_collections.memstretch.density.plugins.plugin_utils.study.attempts import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    INVALID,
    Ledger,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.child_playbooks import (
    ChildPlaybooks,
    Interrupted,
    refuse_questions,
)

# States of a run, in addition to those of its newest attempt.
PENDING, SKIPPED = "pending", "skipped"
DONE = (FINISHED, SKIPPED)

_FATAL = re.compile(r"fatal: \[(?P<host>[^]]+)\]: \w+! => (?P<result>\{.*\})$")
_ERROR_LINE = re.compile(r"^(?:\x1b\[[0-9;]*m)*(?:fatal:|\[ERROR\]:|ERROR!)")


def _message(line: str) -> str:
    """Return an error that Ansible has printed, without the rest of a task's result.

    A host may have written it, for a module that is not this collection's: it must not steer the terminal.
    """
    found = _FATAL.match(line)
    if not found:
        return message(line.removeprefix("[ERROR]: "))
    try:
        return message(f"{found['host']}: {json.loads(found['result'])['msg']}")
    except (ValueError, KeyError):
        return message(line)


def common_settings(run: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the settings that all runs of a sequence share: the result of benchmark_run, without the profile.

    Raises:
        SettingError: run is not a result of benchmark_run.
    """
    if not {"config", "expected"} <= set(run):
        raise SettingError("run: must be the result of benchmark_run with state=checked")
    return {**{name: value for name, value in run["config"].items() if name != "profile"}, "fleet": run["expected"]}


def choose(
    results_dir: str, file_name: str, kind: str, wanted: str | None, definition: dict[str, t.Any], resume: bool
) -> tuple[RunDirectory, dict[str, t.Any]]:
    """Return the directory and the document of a new sequence of runs, or of an unfinished one with the same
    definition.

    Args:
        results_dir: parent directory of the runs.
        file_name: name of the document.
        kind: beginning of the name of a new sequence.
        wanted: name of the sequence, which is continued if it is unfinished or its time was over too early; if empty,
            the newest one is continued if it is unfinished and has the same definition.
        definition: arms, order, load and fleet of the sequence.
        resume: whether to continue an unfinished sequence.

    Raises:
        RunError: a sequence of that name is finished, has another definition or is somebody else's, or a document is
            damaged.
    """
    now = time.time()
    option = "density_id" if kind == "density" else "study_id"
    check_name(option, wanted)
    new = {
        **described_by(os.path.splitext(file_name)[0]),
        "kind": kind,
        "definition": definition,
        "created_at": now,
        "finished": False,
        "restored": None,
        "runs": [],
    }
    directory = RunDirectory(results_dir, wanted) if wanted else _newest(results_dir, file_name)
    if directory is None or not directory.exists():
        directory = directory or RunDirectory(results_dir, f"{kind}-{compact_utc(now)}")
        return directory, {**new, "id": directory.run_id}
    directory.refuse_others()
    document = directory.read_json(file_name)
    changes = configuration.differences(document["definition"], definition)
    if wanted and document.get("out_of_time") and not changes and resume:
        # Its time was over before its question was answered. Naming the study again grants it more time.
        document.update(finished=False, out_of_time=False, restored=None)
    if not changes and not document["finished"] and resume:
        return directory, document
    if not wanted:
        directory = RunDirectory(results_dir, f"{kind}-{compact_utc(now)}")
        return directory, {**new, "id": directory.run_id}
    if changes:
        raise RunError(
            f"{directory.path} exists and has other settings ({'; '.join(changes[:6])}); choose another {option}"
        )
    raise RunError(
        f"{directory.path} exists and "
        f"{'is finished' if document['finished'] else 'must not be resumed (resume: false)'}; choose another {option}"
    )


def _newest(results_dir: str, file_name: str) -> RunDirectory | None:
    """Return the directory below results_dir with the newest document, of those that are not somebody else's."""
    root = os.path.abspath(os.path.expanduser(results_dir))
    names = sorted(os.listdir(root)) if os.path.isdir(root) else []
    found = [RunDirectory(root, name) for name in names if os.path.isfile(os.path.join(root, name, file_name))]
    ours = (each for each in found if not each.whose())
    return max(ours, key=lambda each: os.path.getmtime(each.file(file_name)), default=None)


class Sequence:
    """Runs the playbook of a run many times. While it is open it holds the lock of its directory; when it closes, it
    restores the hosts.

    Args:
        directory: of the study.
        file_name: name of the study's document.
        document: from choose().
        hypervisors: whether the inventory has hosts to tune.
        quiet: whether the output of the runs is in the log only. That of checks, of preparations and of restoring is
            always; with -v, everything is shown.
        sets_up: whether the runs set up VMs or Redis instances, which must be removed at the end.
    """

    def __init__(
        self,
        directory: RunDirectory,
        file_name: str,
        document: dict[str, t.Any],
        hypervisors: bool,
        quiet: bool = False,
        sets_up: bool = True,
    ) -> None:
        self.directory = directory
        self.document = document
        self._file_name = file_name
        self._hypervisors = hypervisors
        self._quiet = quiet
        self._sets_up = sets_up
        self._lock: t.IO[str] | None = None
        self._hosts_changed = False
        self._variables: dict[str, t.Any] = {}
        self._error = ""
        self._took: list[float] = []
        self._began = time.monotonic()
        self.playbooks = ChildPlaybooks(self._note, self._explain_interruption)

    def __enter__(self) -> Sequence:
        refuse_questions()
        self.directory.make()
        self._lock = self.directory.lock()
        self.save()
        self.playbooks.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        try:
            # An earlier session may have been killed before it had restored the hosts.
            if self._hosts_changed or self.document.get("restored") is False:
                self._restore()
        finally:
            self.playbooks.__exit__()
            if self._lock:
                self._lock.close()

    def save(self) -> None:
        """Write the document."""
        self.directory.write_json(self._file_name, self.document)

    def say(self, line: str) -> None:
        """Show a line and log it."""
        self.playbooks.say(line)

    def _note(self, line: str) -> None:
        self.directory.append_log(line)
        if _ERROR_LINE.match(line):
            self._error = _message(re.sub(r"\x1b\[[0-9;]*m", "", line))[:500]

    def check(self, name: str, variables: t.Mapping[str, t.Any]) -> None:
        """Check that a run with these variables can start, before anything is touched.

        Raises:
            RunError: it cannot.
        """
        self._error = ""
        if self.playbooks.run("parts/check", {**variables, "results_dir": self.directory.results_dir}, quiet=True):
            raise RunError(f"{name} cannot run, and nothing was touched: {self._error or self._see_log}")

    def announce(self, text: str, left: int = 0, so_many: str = "", at_most: float = math.inf) -> None:
        """Show the next step, the elapsed time and, if the number of runs left is known, the remaining time.

        Args:
            text: the step.
            left: number of runs left, this one included; 0 if it is unknown.
            so_many: the same in words, if it is worth showing.
            at_most: seconds after which no more runs are begun.
        """
        times = [f"elapsed {clock(time.monotonic() - self._began)}", so_many]
        if self._took and left:
            times.append(f"remaining about {clock(min(left * sum(self._took) / len(self._took), at_most))}")
        self.say("")
        self.say(f"== {text} | {', '.join(filter(None, times))}")

    def prepare(
        self, playbook: str, variables: t.Mapping[str, t.Any], failure: str = "the hosts could not be prepared"
    ) -> None:
        """Run a playbook that changes the hosts and is not a run, such as one that prepares them for all runs.

        Args:
            playbook: path below playbooks/, without .yml.
            variables: extra variables.
            failure: the beginning of the error if it fails.

        Raises:
            RunError: it failed.
        """
        self._begin_change(variables)
        if self.playbooks.run(playbook, {**variables, "results_dir": self.directory.results_dir}, quiet=True):
            raise RunError(f"{failure}: {self._error or self._see_log}")

    def _begin_change(self, variables: t.Mapping[str, t.Any]) -> None:
        """Remember, also on disk, that the hosts must be restored."""
        self._hosts_changed, self._variables, self._error = True, dict(variables), ""
        if self.document.get("restored") is not False:
            self.document["restored"] = False
            self.save()

    @property
    def _see_log(self) -> str:
        return f"see {self.directory.file('log.txt')}"

    def measure(
        self, run_id: str, variables: t.Mapping[str, t.Any], clean: bool, playbook: str = "site"
    ) -> dict[str, t.Any]:
        """Run the playbook of a run, or return the result of an earlier session.

        A run that was interrupted is continued. If it cannot be, a new one is begun under the name of the next attempt.

        Args:
            run_id: name of the run.
            variables: extra variables.
            clean: whether to remove first what the previous run has set up, so that both start alike.
            playbook: path below playbooks/, without .yml.

        Returns:
            C(run_id) of what was measured, C(state), C(verdict) (None if there is none), C(seconds) (not for an earlier
            session) and C(note), the reason why the run is invalid or failed.
        """
        before = self._outcome(run_id)
        if before["state"] != FAILED:
            return before
        began = time.monotonic()
        if clean and self._hosts_changed:
            self._error = ""
            if self.playbooks.run("teardown", self._variables, quiet=True):
                raise RunError(f"teardown after the previous run failed: {self._error or self._see_log}")
        self._begin_change(variables)
        status = self.playbooks.run(
            playbook,
            {
                **variables,
                "run_id": run_id,
                "results_dir": self.directory.results_dir,
                "resume": True,
                "new_attempt": True,
                "slo_enforce": False,
            },
            quiet=self._quiet,
        )
        outcome = self._outcome(self._newest_attempt(run_id))
        if status and outcome["state"] == FINISHED and self._error:
            outcome["note"] = "; ".join(filter(None, (outcome["note"], f"the playbook failed: {self._error}")))
        outcome["seconds"] = round(time.monotonic() - began, 1)
        self._took.append(outcome["seconds"])
        return outcome

    def measure_until_valid(
        self,
        run_id: str,
        about: t.Mapping[str, t.Any],
        variables: t.Mapping[str, t.Any],
        limit: int,
        clean: bool = True,
        playbook: str = "site",
    ) -> dict[str, t.Any]:
        """Measure a run; as long as it is invalid, measure it again as a new run. Every attempt is in the ledger.

        Nothing is measured again because it failed or is undecided.

        Args:
            run_id: name of the run, or of any attempt at it.
            about: what the ledger calls it, such as C(arm) and C(round).
            variables: extra variables.
            limit: the most invalid attempts, those of earlier sessions included.
            clean: whether to remove first what the previous run has set up.
            playbook: path below playbooks/, without .yml.

        Returns:
            The outcome of the last attempt, as measure() returns it.
        """
        while True:
            attempt = self._next_attempt(run_id)
            try:
                outcome = self.measure(attempt, variables, clean, playbook)
            except Interrupted:
                attempt = self._newest_attempt(run_id)
                if self._directory(attempt).exists() and self._outcome(attempt)["state"] == FAILED:
                    self._enter(
                        about, {"run_id": attempt, "state": INTERRUPTED, "verdict": None, "note": "interrupted"}
                    )
                raise
            self._enter(about, outcome)
            if outcome["state"] != INVALID or self.invalid_attempts(run_id) >= limit:
                return outcome
            number = attempt_number(outcome["run_id"])
            self.announce(f"Attempt {number} is not valid ({outcome['note']}); measuring a new run instead")

    def invalid_attempts(self, run_id: str) -> int:
        """Count how many attempts at a run are invalid."""
        return sum(each["state"] == INVALID for each in Ledger(self.document).of(run_id))

    def _enter(self, about: t.Mapping[str, t.Any], outcome: t.Mapping[str, t.Any]) -> None:
        """Enter an attempt into the ledger, and before it those that were interrupted and could not be continued."""
        ledger, newest = Ledger(self.document), outcome["run_id"]
        for number in range(1, attempt_number(newest)):
            earlier = attempt_name(newest, number)
            if (ledger.entry(earlier) or {"state": INTERRUPTED})["state"] == INTERRUPTED:
                following = self._directory(attempt_name(newest, number + 1))
                why = (following.read_json("run.json").get("instead_of") or {}) if following.exists() else {}
                note = f"interrupted; it could not be continued, because {why.get('reason', 'its files are gone')}"
                ledger.enter(about, {"run_id": earlier, "state": INTERRUPTED, "verdict": None, "note": note})
        ledger.enter(about, outcome)
        self.save()

    def _next_attempt(self, run_id: str) -> str:
        """Return the name of the attempt that is finished or can be continued, or of a new one."""
        newest = self._newest_attempt(run_id)
        entry = Ledger(self.document).entry(newest)
        if entry is None or (entry["state"] != INVALID and self._directory(newest).exists()):
            return newest
        return attempt_name(newest, attempt_number(newest) + 1)

    def _newest_attempt(self, run_id: str) -> str:
        """Return the name of this attempt, or of a later one that is in the ledger or has a directory."""
        ledger, number = Ledger(self.document), attempt_number(run_id)

        def exists(name: str) -> bool:
            return ledger.entry(name) is not None or self._directory(name).exists()

        while exists(attempt_name(run_id, number + 1)):
            number += 1
        return attempt_name(run_id, number)

    def _directory(self, run_id: str) -> RunDirectory:
        return RunDirectory(self.directory.results_dir, run_id)

    def _outcome(self, run_id: str) -> dict[str, t.Any]:
        """Return the outcome of a run; it has failed if phases are left to measure."""
        directory = self._directory(run_id)
        if not os.path.exists(directory.file("run.json")) or not finished_because(
            directory, directory.read_json("run.json")
        ):
            return {"run_id": run_id, "state": FAILED, "verdict": None, "note": self._error}
        if not os.path.exists(directory.file("summary.json")):
            publish(directory, self.say)  # the playbook was killed after its last phase
        summary = directory.read_json("summary.json")
        state = INVALID if summary["verdict"] == "invalid" else FINISHED
        return {
            "run_id": run_id,
            "state": state,
            "verdict": summary["verdict"],
            "note": "; ".join(summary["reasons"][:3]),
        }

    def _restoring(self) -> dict[str, str]:
        """Return the playbooks that restore the hosts, and what each does."""
        steps = {}
        if self._sets_up:
            steps["teardown"] = "removes the VMs and the Redis instances that were set up"
        if self._hypervisors:
            steps["restore"] = "restores the settings of the hypervisors"
        return steps

    def _explain_interruption(self) -> None:
        """Show at once what is left to do, so that the user does not take the silence for a hang."""
        self.say("")
        if not self._hosts_changed:
            self.say("== Interrupted: nothing was changed on the hosts")
            return
        self.say("== Interrupted: the running playbook ends now, then the hosts are restored. Please wait. Left to do:")
        for name, text in self._restoring().items():
            self.say(f"   {name}.yml {text}")
        self.say("   What was measured is kept; run the same command again to continue")

    def _restore(self) -> None:
        steps, failed = self._restoring(), []
        self._error = ""
        for number, (name, text) in enumerate(steps.items(), 1):
            self.say("")
            self.say(f"== Restoring the hosts, step {number} of {len(steps)}: {name}.yml {text}")
            try:
                status = self.playbooks.run(name, self._variables, quiet=True)
            except Interrupted:  # from now on, signals are ignored
                status = self.playbooks.run(name, self._variables, quiet=True)
            if status:
                failed.append(name)
        self.document["restored"] = not failed
        self.save()
        if failed:
            message = f"restoring the hosts failed: {self._error}. Fix this, then run: " + ", ".join(
                f"ansible-playbook playbooks/{name}.yml" for name in failed
            )
            if self.playbooks.interrupted:  # Ansible no longer shows a result
                self.say(f"== {message}")
            raise RunError(message)
        self.say("== The hosts are restored")
