# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: terse
type: stdout
short_description: Ansible's default output without lines for included files
version_added: 0.1.0
description:
  - The same as P(ansible.builtin.default#callback), but included files are only mentioned with C(-v). The role
    P(memstretch.density.latency_benchmark#role) includes one file for each phase, and each of these lines would name
    every host of the fleet.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - Choose it with C(stdout_callback = memstretch.density.terse) in the section C([defaults]) of ansible.cfg.
author:
  - The memstretch.density contributors (@memstretch)
"""

import typing as t

from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback.default import CallbackModule as Default


class CallbackModule(Default):
    """Omits the output about included files."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "memstretch.density.terse"

    def v2_runner_on_ok(self, result: t.Any) -> None:
        # An include has no result of its own, but the default callback prints its banner.
        if self._display.verbosity == 0 and isinstance(result.task, TaskInclude):
            return
        shown = self.get_option("display_ok_hosts")
        # The purpose of a debug task is its output, so it is shown even if display_ok_hosts is off. So are warnings.
        worth_showing = result.task.action in ("debug", "ansible.builtin.debug") or bool(result.result.get("warnings"))
        self.set_option("display_ok_hosts", shown or worth_showing)
        try:
            super().v2_runner_on_ok(result)
        finally:
            self.set_option("display_ok_hosts", shown)

    def v2_playbook_on_include(self, included_file: t.Any) -> None:
        if self._display.verbosity > 0:
            super().v2_playbook_on_include(included_file)
