# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: terse
type: stdout
short_description: Ansible's default output, shortened to one line where that is enough
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - The same as P(ansible.builtin.default#callback), but tasks that changed nothing or were skipped are shown only if
    O(display_ok_hosts) or O(display_skipped_hosts) is set to true. Hundreds of lines would bury the
    answer.
  - A failure that the playbook expects and handles (a rescue) is one line that says so.
  - Included files are only mentioned with C(-v). The role
    P(memstretch.density.latency_benchmark#role) includes one file for each phase, and each of these lines would name
    every host of the fleet.
  - A failure of one of this collection's own modules, of an assertion, or of a fact that its roles set is one line, its
    message, with the reason and the remedy. With C(-v), it is the whole result.
  - The last lines of a playbook that failed say why, and what to do about it. There is one line for each reason, with
    the hosts that it is true for.
  - A play has a heading as soon as one of its tasks has something to show, or after a second. Many short plays only
    prepare others. With C(-v), each play has its heading at once.
  - The recap has one line for all hosts on which nothing was changed and nothing failed, if they are more than eight.
    With C(-v), each host has its line.
  - Each line is written at once, also into a pipe or a file, so that long work shows its progress there.
  - A teardown prints one line at its end, unless something failed. With C(-v), it prints what any playbook does.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - Choose it with C(stdout_callback = memstretch.density.terse) in the section C([defaults]) of ansible.cfg.
author:
  - The memstretch.density contributors (@memstretch)
"""

import copy
import io
import os
import sys
import time
import typing as t

from ansible import constants
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback.default import CallbackModule as Default

from ansible_collections.memstretch.density.plugins.plugin_utils import failures
from ansible_collections.memstretch.density.plugins.plugin_utils.collection import ROOT
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted

# The playbook of which only failures are shown.
_QUIET = "teardown.yml"

# Actions whose results have nothing to say but their message.
_SPEAKING = ("ansible.builtin.assert", "ansible.builtin.fail")
_SET_FACT = "ansible.builtin.set_fact"

# Up to so many hosts that have nothing to report have a line each in the recap.
_QUIET_HOSTS = 8

# Seconds after which a play gets its heading, even if it has nothing to show yet.
_HEADING_AFTER_S = 1.0


class CallbackModule(Default):
    """Omits included files, the headings of plays without output, a teardown, and results of our tasks that failed."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "memstretch.density.terse"

    def __init__(self) -> None:
        super().__init__()
        self._quiet = False
        self._reasons: dict[str, str] = {}  # by host, why its last task failed
        self._without_heading = False
        self._play_began = 0.0

    def set_options(self, *args: t.Any, **kwargs: t.Any) -> None:
        super().set_options(*args, **kwargs)
        for name in ("display_ok_hosts", "display_skipped_hosts"):
            if self.get_option_and_origin(name)[1] == "default":
                self.set_option(name, False)

    def v2_playbook_on_start(self, playbook: t.Any) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)
        super().v2_playbook_on_start(playbook)
        self._quiet = self._display.verbosity == 0 and os.path.basename(playbook._file_name) == _QUIET

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        self._play, self._play_began = play, time.monotonic()
        self._without_heading = not self._quiet
        if self._display.verbosity:
            self._show_heading()

    def _show_heading(self) -> None:
        if self._without_heading:
            self._without_heading = False
            super().v2_playbook_on_play_start(self._play)

    def _print_task_banner(self, task: t.Any) -> None:
        self._show_heading()
        super()._print_task_banner(task)

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        if time.monotonic() - self._play_began >= _HEADING_AFTER_S:
            self._show_heading()
        super().v2_playbook_on_task_start(task, is_conditional)

    def v2_playbook_on_no_hosts_matched(self) -> None:
        if self._display.verbosity:
            super().v2_playbook_on_no_hosts_matched()

    def v2_runner_item_on_ok(self, result: t.Any) -> None:
        if not self._quiet or result.result.get("warnings"):
            super().v2_runner_item_on_ok(result)

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        answer = result.result
        if not ignore_errors:
            self._reasons[result.host.name] = failures.reason(answer)
        action = result.task.resolved_action or result.task.action
        is_ours = (
            "memstretch.density." in action or action in _SPEAKING or (action == _SET_FACT and _is_here(result.task))
        )
        # A loop has a message for each item, and a module that crashed has details beyond its message.
        has_more = "results" in answer or "module_stderr" in answer or not answer.get("msg")
        if self._display.verbosity or has_more or not is_ours:
            super().v2_runner_on_failed(result, ignore_errors)
            return
        if self._last_task_banner != result.task._uuid:
            self._print_task_banner(result.task)
        self._handle_warnings(answer)
        if _is_rescued(result.task):
            line = f"handled: [{self.host_label(result)}]: {failures.reason(answer)}"
            self._display.display(line, color=constants.COLOR_SKIP)
            return
        brief = {**answer, "msg": failures.reason(answer)}
        shown = self._dump_results({name: brief[name] for name in ("changed", "msg") if name in brief})
        line = f"fatal: [{self.host_label(result)}]: FAILED! => {shown}"
        self._display.display(line, color=constants.COLOR_ERROR, stderr=self.get_option("display_failed_stderr"))
        if ignore_errors:
            self._display.display("...ignoring", color=constants.COLOR_SKIP)

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        hosts = [stats.summarize(host) for host in stats.processed]
        if not self._quiet or any(each["failures"] or each["unreachable"] for each in hosts):
            self._recap(stats)
            self._show_reasons(stats)
            return
        changed = sum(each["changed"] for each in hosts)
        self._display.display(f"Teardown: done, changed={changed} on {counted(len(hosts), 'host')}")

    def _recap(self, stats: t.Any) -> None:
        """Show the recap: an inventory of a ramp has more than a hundred hosts that are only named."""
        quiet = [
            host
            for host, counts in ((host, stats.summarize(host)) for host in stats.processed)
            if not any(counts[each] for each in ("changed", "failures", "unreachable", "rescued", "ignored"))
        ]
        shown = copy.copy(stats)
        if self._display.verbosity == 0 and len(quiet) > _QUIET_HOSTS:
            shown.processed = {host: 1 for host in stats.processed if host not in quiet}
        super().v2_playbook_on_stats(shown)
        if len(shown.processed) < len(stats.processed):
            self._display.display(f"{counted(len(quiet), 'other host')}: ok, nothing was changed")

    def _show_reasons(self, stats: t.Any) -> None:
        """Say at the end why hosts failed: the lines that said it first may be far above."""
        # A failure that was rescued is none.
        failed = [host for host in stats.processed if stats.failures.get(host) or stats.dark.get(host)]
        for line in failures.lines({host: self._reasons[host] for host in failed if host in self._reasons}):
            self._display.display(line, color=constants.COLOR_ERROR, stderr=self.get_option("display_failed_stderr"))

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        if not result.task.ignore_unreachable:
            self._reasons[result.host.name] = failures.reason(result.result, unreachable=True)
        super().v2_runner_on_unreachable(result)

    def v2_runner_on_ok(self, result: t.Any) -> None:
        if self._quiet and not result.result.get("warnings"):
            return
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


def _is_rescued(task: t.Any) -> bool:
    """Decide whether a rescue handles the failure of a task: it is in the block of one, at any depth."""
    part, above = task, task._parent
    while above is not None:
        rescue = getattr(above, "rescue", None)
        if rescue and any(each._uuid == part._uuid for each in above.block):
            return True
        part, above = above, above._parent
    return False


def _is_here(task: t.Any) -> bool:
    """Decide whether a task is in a file of this collection; elsewhere, its user needs to see its place."""
    return os.path.realpath(task.get_path()).startswith(f"{os.path.realpath(ROOT)}{os.sep}")
