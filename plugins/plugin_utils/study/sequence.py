# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many runs, one after another, with a document that says what has been done, so that an interruption loses nothing."""

from __future__ import annotations

import os
import re
import time
import types
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import clock
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    SCHEMA,
    RunDirectory,
    RunError,
    check_name,
    compact_utc,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.child_playbooks import (
    ChildPlaybooks,
    refuse_questions,
)

# States of a run. One that is invalid or failed is taken up again when the sequence is resumed.
PLANNED, FINISHED, INVALID, FAILED, SKIPPED = "planned", "finished", "invalid", "failed", "skipped"
DONE = (FINISHED, SKIPPED)

_COMPLAINT = re.compile(r"^(?:\x1b\[[0-9;]*m)*(?:fatal:|\[ERROR\]:|ERROR!)")


def in_common(run: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the part of a plan that all its runs have in common: of what benchmark_run has checked, all but the profile.

    Raises:
        SettingError: it is something else.
    """
    if not {"config", "expected"} <= set(run):
        raise SettingError("run: it takes what benchmark_run returns with state=checked")
    return {**{name: value for name, value in run["config"].items() if name != "profile"}, "fleet": run["expected"]}


def choose(
    results_dir: str, file_name: str, kind: str, wanted: str | None, plan: dict[str, t.Any], resume: bool
) -> tuple[RunDirectory, dict[str, t.Any]]:
    """Return the directory of a new sequence of runs, or of an unfinished one of the same plan, and its document.

    Args:
        results_dir: where the directories of runs are.
        file_name: of the document.
        kind: what the name of a new one begins with.
        wanted: its name; if empty, the newest is continued where it is unfinished and of the same plan.
        plan: what is to be done.
        resume: whether an unfinished one is continued.

    Raises:
        RunError: the name is taken by something else, or a document is damaged.
    """
    now = time.time()
    check_name(f"{kind}_id", wanted)
    new = {
        "schema": SCHEMA,
        "kind": kind,
        "plan": plan,
        "created_at": now,
        "finished": False,
        "restored": None,
        "runs": [],
    }
    directory = RunDirectory(results_dir, wanted) if wanted else _newest(results_dir, file_name)
    if directory is None or not directory.exists():
        directory = directory or RunDirectory(results_dir, f"{kind}-{compact_utc(now)}")
        return directory, {**new, "id": directory.run_id}
    document = directory.read_json(file_name)
    changes = configuration.differences(document["plan"], plan)
    if not changes and not document["finished"] and resume:
        return directory, document
    if not wanted:
        directory = RunDirectory(results_dir, f"{kind}-{compact_utc(now)}")
        return directory, {**new, "id": directory.run_id}
    if changes:
        raise RunError(
            f"{directory.path} exists and is of another plan ({'; '.join(changes[:6])}); choose another {kind}_id"
        )
    raise RunError(
        f"{directory.path} exists and {'is finished' if document['finished'] else 'shall not be resumed'}; choose another {kind}_id"
    )


def _newest(results_dir: str, file_name: str) -> RunDirectory | None:
    """Return the directory below results_dir whose document was written last."""
    root = os.path.abspath(os.path.expanduser(results_dir))
    names = sorted(os.listdir(root)) if os.path.isdir(root) else []
    files = [os.path.join(root, name, file_name) for name in names if not os.path.islink(os.path.join(root, name))]
    found = max((file for file in files if os.path.isfile(file)), key=os.path.getmtime, default=None)
    return RunDirectory.at(os.path.dirname(found)) if found else None


class Sequence:
    """Plays site.yml many times. As a context it holds the lock of its directory, and puts the hosts back at its end, whatever that is.

    Args:
        directory: of the study.
        file_name: of its document.
        document: what choose() returned.
        hypervisors: whether the inventory has hosts that are tuned.
    """

    def __init__(self, directory: RunDirectory, file_name: str, document: dict[str, t.Any], hypervisors: bool) -> None:
        self.directory = directory
        self.document = document
        self._file_name = file_name
        self._hypervisors = hypervisors
        self._lock: t.IO[str] | None = None
        self._touched = False
        self._variables: dict[str, t.Any] = {}
        self._complaint = ""
        self._took: list[float] = []
        self._began = time.monotonic()
        self.playbooks = ChildPlaybooks(self._note)

    def __enter__(self) -> Sequence:
        refuse_questions()
        os.makedirs(self.directory.path, exist_ok=True)
        self._lock = self.directory.lock()
        self.save()
        self.playbooks.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        try:
            if self._touched:
                self._put_back()
        finally:
            self.playbooks.__exit__()
            self._lock.close()

    def save(self) -> None:
        """Write the document."""
        self.directory.write_json(self._file_name, self.document)

    def say(self, line: str) -> None:
        """Show a line and log it."""
        self.playbooks.say(line)

    def _note(self, line: str) -> None:
        self.directory.append_log(line)
        if _COMPLAINT.match(line):
            self._complaint = re.sub(r"\x1b\[[0-9;]*m", "", line)[:500]

    def check(self, name: str, variables: t.Mapping[str, t.Any]) -> None:
        """Make sure that a run with these variables can be begun, before anything is touched.

        Raises:
            RunError: it cannot.
        """
        if self.playbooks.play("parts/check_site", {**variables, "results_dir": self.directory.results_dir}):
            raise RunError(f"{name} cannot be run, and nothing was touched: {self._complaint or 'see above'}")

    def announce(self, text: str, left: int = 0) -> None:
        """Say what comes next, and how long all that is left may take, where it is known how many runs are left."""
        rest = f", remaining about {clock(left * sum(self._took) / len(self._took))}" if self._took and left else ""
        self.say("")
        self.say(f"== {text} | elapsed {clock(time.monotonic() - self._began)}{rest}")

    def measure(self, run_id: str, variables: t.Mapping[str, t.Any], clean: bool) -> dict[str, t.Any]:
        """Play site.yml, or take what an earlier session has measured.

        Args:
            run_id: name of the run.
            variables: what it is played with.
            clean: whether what the run before has set up is removed first, so that this one begins as that one did.

        Returns:
            C(state), C(verdict) (None if nothing was measured), C(seconds) and C(note), which says why the run is invalid or has failed.
        """
        before = self._outcome(run_id)
        if before["state"] == FINISHED:
            return before
        began = time.monotonic()
        if clean and self._touched and self.playbooks.play("teardown", self._variables):
            raise RunError(f"what the run before has set up could not be removed: {self._complaint}")
        self._touched, self._variables, self._complaint = True, dict(variables), ""
        status = self.playbooks.play(
            "site",
            {
                **variables,
                "run_id": run_id,
                "results_dir": self.directory.results_dir,
                "resume": True,
                "set_aside": True,
                "slo_enforce": False,
            },
        )
        outcome = self._outcome(run_id)
        if status and outcome["state"] == FINISHED:
            outcome.update(state=FAILED, note=self._complaint)
        outcome["seconds"] = round(time.monotonic() - began, 1)
        self._took.append(outcome["seconds"])
        return outcome

    def _outcome(self, run_id: str) -> dict[str, t.Any]:
        directory = RunDirectory(self.directory.results_dir, run_id)
        if not os.path.exists(directory.file("summary.json")):
            return {"state": FAILED, "verdict": None, "note": self._complaint}
        summary = directory.read_json("summary.json")
        state = INVALID if summary["verdict"] == "invalid" else FINISHED
        return {"state": state, "verdict": summary["verdict"], "note": "; ".join(summary["reasons"][:3])}

    def _put_back(self) -> None:
        self.say("")
        self.say("== Leaving the hosts as they were")
        self._complaint = ""
        failed = [
            name
            for name in ("teardown", *(["restore"] if self._hypervisors else []))
            if self.playbooks.play(name, self._variables)
        ]
        self.document["restored"] = not failed
        self.save()
        if failed:
            raise RunError(
                f"the hosts are not as they were: {self._complaint}. Put that right, then: "
                + ", ".join(f"ansible-playbook playbooks/{name}.yml" for name in failed)
            )
