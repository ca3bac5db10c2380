# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shlex
import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

# Seconds between two looks at a job that is late.
POLL_SECONDS = 0.3

ARGUMENTS = {
    "job": {"type": "dict", "required": True},
    "not_before": {"type": "float", "default": 0},
    "timeout": {"type": "float", "required": True},
}


class ActionModule(ActionBase):
    """Wait for a client that was started asynchronously, without disturbing what it measures.

    ansible.builtin.async_status with retries would start a Python on the measured host at every look. This
    sleeps on the controller until the phase should be over, then looks.
    """

    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        dummy, options = self.validate_argument_spec(ARGUMENTS)
        job = options["job"]
        if job.get("skipped") or "ansible_job_id" not in job:
            raise AnsibleActionFail("job: is not the registered result of an asynchronous memstretch.density.solotest")
        time.sleep(max(0.0, options["not_before"] - time.time()))
        deadline = time.monotonic() + options["timeout"]
        while True:
            status = self._status(job["ansible_job_id"], task_vars)
            if status.get("finished"):
                break
            if time.monotonic() > deadline:
                raise AnsibleActionFail(
                    f"the client did not end within {options['timeout']:g} s after the phase should have been over; "
                    f"job {job['ansible_job_id']} may still run on the host"
                )
            time.sleep(POLL_SECONDS)
        # async_status with mode=cleanup would cost another Python on the host for this one file.
        self._low_level_execute_command(f"rm -f {shlex.quote(status['results_file'])}", sudoable=True)
        return {**result, **status}

    def _status(self, job_id: str, task_vars: t.Any) -> dict[str, t.Any]:
        async_dir = self._remote_expand_user(self.get_shell_option("async_dir", default="~/.ansible_async"))
        status = self._execute_module(
            module_name="ansible.builtin.async_status",
            module_args={"jid": job_id, "mode": "status", "_async_dir": async_dir},
            task_vars=task_vars,
        )
        if not status.get("finished") and status.get("failed"):
            raise AnsibleActionFail(status.get("msg", "the job cannot be found on the host"))
        return {"results_file": self._connection._shell.join_path(async_dir, job_id), **status}
