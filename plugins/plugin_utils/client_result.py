# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The frame of actions that fetch the result of a client that was launched in the background."""

from __future__ import annotations

import shlex
import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.plugin_utils.run import clocks, measurement

# Seconds between two checks of a client that is late.
# What a login or sudo prints stands before this line.
BEGINS = "memstretch-result"
POLL_SECONDS = 0.25


def answer_of(answers: t.Mapping[str, t.Any], host: str) -> dict[str, t.Any]:
    """Return the answer of one host's client, out of the result of the module solotest_clients.

    If the module has failed, its result is that of each host.
    """
    nothing = {
        "failed": True,
        "msg": f"the client of {host} was not started: {answers.get('msg', 'no result is there')}",
    }
    return {**(answers.get("clients") or {}).get(host, nothing)}


class ClientResult(ActionBase):
    """Wait for a client that was launched in the background, without disturbing what it measures.

    This sleeps on the controller until the phase should be over, and reads the job's file with head: starting Python on
    the measured host would disturb the figures. The host is not trusted: a subclass sees only what measurement.result()
    accepts.
    """

    ARGUMENTS = {
        "job": {
            "type": "dict",
            "required": True,
            "options": {
                "path": {"type": "str", "required": True},
                "pid": {"type": "int", "required": True},
            },
        },
        "not_before": {"type": "float", "default": 0},
        "timeout": {"type": "float", "required": True},
    }
    REQUIRED_ONE_OF: tuple[tuple[str, ...], ...] = ()
    _supports_check_mode = True

    def job(self, options: t.Mapping[str, t.Any], host: str) -> dict[str, t.Any]:
        """Return the job of the client.

        Args:
            options: of the task, checked.
            host: name of the host.

        Raises:
            AnsibleActionFail: it was not launched.
        """
        job: dict[str, t.Any] = options["job"]
        return job

    def finish(
        self, options: t.Mapping[str, t.Any], accepted: dict[str, t.Any], clock: clocks.Reading | None
    ) -> dict[str, t.Any]:
        """Return the result of the task from its options, the accepted result of the client and the host's clock."""
        raise NotImplementedError

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(self.ARGUMENTS, required_one_of=self.REQUIRED_ONE_OF)
        try:
            job = measurement.job(self.job(options, (task_vars or {})["inventory_hostname"]))
        except measurement.MeasurementError as error:
            raise AnsibleActionFail(str(error)) from error
        path, pid = shlex.quote(job["path"]), job["pid"]
        time.sleep(max(0.0, options["not_before"] - time.time()))
        deadline = time.monotonic() + options["timeout"]
        while True:
            answer, clock = self._read(path)
            if answer is None and not self._is_running(pid):
                # The process may have written its result after the file was read, so read it once more.
                answer, clock = self._read(path)
                answer = answer or {"failed": True, "msg": f"the module's process {pid} ended without a result"}
            if answer is not None:
                break
            if time.monotonic() > deadline:
                raise AnsibleActionFail(
                    f"the client did not end within {options['timeout']:g} s after the expected end of the phase; "
                    f"process {pid} is still running on the host",
                    result={"host_hangs": True},
                )
            time.sleep(POLL_SECONDS)
        self._low_level_execute_command(f"rm -f {path}")
        return {**result, **self.finish(options, measurement.result(answer), clock)}

    def _read(self, path: str) -> tuple[t.Any, clocks.Reading | None]:
        """Return the job's result, or None if it is not there yet, and the host's clock, read in the same exchange."""
        before = time.time()
        # One byte more than is allowed shows that the file is too large.
        shown = self._low_level_execute_command(
            f"echo; echo {BEGINS}; head -c {measurement.MAX_BYTES + 1} {path} && echo && {clocks.COMMAND}"
        )
        after = time.time()
        if shown["rc"] != 0:
            reason = measurement.message(shown["stderr"].strip(), 400)
            raise AnsibleActionFail(f"the file for the result cannot be read: {reason}")
        text, _newline, clock = shown["stdout"].rpartition(BEGINS)[2].rstrip().rpartition("\n")
        if not text.strip():
            return None, None
        try:
            return measurement.parse(text), clocks.read(before, after, clock)
        except measurement.MeasurementError as error:
            raise AnsibleActionFail(f"the file for the result cannot be used: {error}") from None

    def _is_running(self, pid: int) -> bool:
        return self._low_level_execute_command(f"test -d /proc/{pid}")["rc"] == 0
