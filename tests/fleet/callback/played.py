# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: played
type: aggregate
short_description: Write which task was played for which host
description:
  - For tests/fleet. Writes one line of JSON for each start of a worker process, that is for each task and host.
requirements:
  - Enable it with C(callbacks_enabled), and set PLAYED to the path of the file.
author:
  - The memstretch.density contributors (@memstretch)
"""

import json
import os

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    """Appends a line when a task begins for a host; playbooks run one after another."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "played"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook):
        self._playbook = os.path.splitext(os.path.basename(playbook._file_name))[0]
        self._write(task=None, host=None)

    def v2_runner_on_start(self, host, task):
        self._write(task=task.get_name(), host=host.get_name())

    def _write(self, **played):
        with open(os.environ["PLAYED"], "a", encoding="utf-8") as file:
            print(json.dumps({"playbook": self._playbook, **played}), file=file)
