# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
import time
import typing as t

from ansible import release
from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.plugin_utils import collection, selftest
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    Task,
    own_directory,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study.child_playbooks import (
    ChildPlaybooks,
    Interrupted,
    refuse_questions,
)

NAME = "selftest"
FILE = f"{NAME}.json"


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Run the checks of the self-test on hosts, restore what they changed, and write what they found."""
    refuse_questions()
    began = time.monotonic()
    if task.check_mode:
        with tempfile.TemporaryDirectory(prefix="selftest-") as path:
            _run_checks(RunDirectory.at(path), options, check=True)
            return _conclude(RunDirectory.at(path), options, None, began)
    directory = own_directory("results_dir", options["results_dir"], NAME)
    directory.make()
    with directory.lock():
        parts = _empty_parts(directory)
        try:
            _run_checks(parts, options, check=False)
        finally:
            result = _conclude(parts, options, directory, began)
            shutil.rmtree(parts.path)
    return result


def _empty_parts(directory: RunDirectory) -> RunDirectory:
    """Return the directory of the hosts' findings, without what a self-test has left that was killed."""
    parts = RunDirectory(directory.path, "parts")
    if parts.exists():
        shutil.rmtree(parts.path)
    os.mkdir(parts.path, mode=0o700)
    return parts


def _run_checks(parts: RunDirectory, options: t.Mapping[str, t.Any], check: bool) -> None:
    """Run the checks, and restore the hosts, also after an interruption."""
    variables = {
        "selftest_hosts": options["hosts"],
        "selftest_checks": [name for name in selftest.CHECKS if name in options["checks"]],
        "selftest_directory": parts.path,
    }

    def explain() -> None:
        playbooks.say("")
        playbooks.say("== Interrupted: the running check ends now, then the hosts are restored. Please wait")

    playbooks = ChildPlaybooks(lambda line: None, explain)
    with playbooks:
        try:
            playbooks.run("parts/selftest", variables, check=check, limited=False)
        finally:
            if not check:
                _put_back(playbooks, variables)


def _put_back(playbooks: ChildPlaybooks, variables: t.Mapping[str, t.Any]) -> None:
    try:
        status = playbooks.run("parts/selftest_put_back", variables, limited=False)
    except Interrupted:  # from now on, signals are ignored
        status = playbooks.run("parts/selftest_put_back", variables, limited=False)
    if playbooks.interrupted:  # Ansible no longer shows a result
        playbooks.say(
            "== Some hosts could not be restored; run the same command again to retry"
            if status
            else "== The hosts are restored"
        )


def _conclude(
    parts: RunDirectory, options: t.Mapping[str, t.Any], directory: RunDirectory | None, began: float
) -> dict[str, t.Any]:
    """Show what was found, write it to the directory if there is one, and fail if a check failed.

    Args:
        parts: the findings of the hosts.
        options: of the action.
        directory: of the file; None in check mode.
        began: when the self-test began, on the monotonic clock.
    """
    seconds = round(time.monotonic() - began, 1)
    checks, check_mode = options["checks"], directory is None
    hosts = {host: selftest.recorded(parts, host) for host in options["hosts"]}
    judged = {host: selftest.judge(found, checks, check_mode) for host, found in hosts.items()}
    for host, found in hosts.items():
        for line in selftest.lines(host, found, judged[host]):
            Display().display(line)
    Display().display(f"The self-test took {seconds:.0f} s")
    result: dict[str, t.Any] = {"changed": False, "selftest": {"failed": selftest.failures(judged), "path": None}}
    if directory is None:
        Display().display("Check mode: only checks that change nothing have run, and no file was written")
    else:
        document = selftest.document(hosts, checks, options["host_names"], _controller(), seconds)
        directory.write_text(FILE, json.dumps(document, indent=1, sort_keys=True) + "\n")
        result["selftest"]["path"] = directory.file(FILE)
        result["changed"] = True
        Display().display(f"Send this file with a bug report: {directory.file(FILE)}")
    failed = result["selftest"]["failed"]
    if failed:
        total = sum(map(len, judged.values()))
        result.update(failed=True, msg=f"{len(failed)} of {total} checks failed: {', '.join(failed)}")
    return result


def _controller() -> dict[str, t.Any]:
    """Tell when the self-test ran, and the versions of the controller."""
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "collection": collection.version(),
        "ansible_core": release.__version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
    }
