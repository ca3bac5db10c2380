# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
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
    sleeps on the controller until the phase should be over, and a look is a mere "cat" of the job's file.
    """

    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        dummy, options = self.validate_argument_spec(ARGUMENTS)
        job_id = options["job"].get("ansible_job_id")
        if not job_id:
            raise AnsibleActionFail("job: is not the registered result of an asynchronous memstretch.density.solotest")
        async_dir = self._remote_expand_user(self.get_shell_option("async_dir", default="~/.ansible_async"))
        job_file = shlex.quote(self._connection._shell.join_path(async_dir, job_id))
        time.sleep(max(0.0, options["not_before"] - time.time()))
        deadline = time.monotonic() + options["timeout"]
        while (answer := self._look(job_id, job_file)) is None:
            if time.monotonic() > deadline:
                raise AnsibleActionFail(
                    f"the client did not end within {options['timeout']:g} s after the phase should have been over; "
                    f"job {job_id} may still run on the host"
                )
            time.sleep(POLL_SECONDS)
        self._low_level_execute_command(f"rm -f {job_file}")
        return {**result, **answer, "ansible_job_id": job_id}

    def _look(self, job_id: str, job_file: str) -> dict[str, t.Any] | None:
        """Return what the module returned, or None while it runs.

        The wrapper of asynchronous modules keeps C(started) in the file as long as the module runs; then the
        module's own result takes its place.
        """
        seen = self._low_level_execute_command(f"cat {job_file}")
        if seen["rc"] != 0:
            raise AnsibleActionFail(f"job {job_id} cannot be found on the host: {seen['stderr'].strip()}")
        try:
            answer = json.loads(seen["stdout"])
        except ValueError:
            raise AnsibleActionFail(f"job {job_id} left no result that can be read: {seen['stdout'][:200]!r}") from None
        return None if "started" in answer else answer
