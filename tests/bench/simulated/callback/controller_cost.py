# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: controller_cost
type: aggregate
short_description: Write what each task cost the controller
description:
  - For tests/bench. Writes one line of JSON for each task of a playbook, with the seconds of CPU time that this process
    and its workers took for it, and how often variables of a host were looked up for another host (C(hostvars)).
requirements:
  - Enable it with C(callbacks_enabled), and set SIMULATED_COSTS to the path of the file.
author:
  - The memstretch.density contributors (@memstretch)
"""

import json
import multiprocessing
import os
import pathlib
import resource

from ansible.plugins.callback import CallbackBase
from ansible.vars.hostvars import HostVars

# Workers are forked from this process, so all of them count here.
_LOOKUPS = multiprocessing.Value("Q")
_raw_get = HostVars.raw_get


def _counted(self, host_name):
    with _LOOKUPS.get_lock():
        _LOOKUPS.value += 1
    return _raw_get(self, host_name)


class CallbackModule(CallbackBase):
    """Writes a line for each task when the next one begins."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "controller_cost"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        HostVars.raw_get = _counted
        self._task = "start"
        self._before = (0.0, 0)
        self._lines = pathlib.Path(os.environ["SIMULATED_COSTS"])
        self._lines.write_text("", encoding="utf-8")

    def v2_playbook_on_task_start(self, task, is_conditional):
        self._end(task.get_name())

    def v2_playbook_on_stats(self, stats):
        self._end("end")

    def _end(self, following):
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        now = (sum(each.ru_utime + each.ru_stime for each in used), _LOOKUPS.value)
        line = {"task": self._task, "cpu_s": now[0] - self._before[0], "hostvars": now[1] - self._before[1]}
        with self._lines.open("a", encoding="utf-8") as file:
            print(json.dumps({**line, "rss_mb": used[0].ru_maxrss / 1000}), file=file)
        self._task, self._before = following, now
