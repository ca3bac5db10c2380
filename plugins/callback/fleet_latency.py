# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_latency
type: aggregate
short_description: Merge the latencies of the fleet and write the files of the run
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Collects what P(memstretch.density.solotest#module) returns on each host, merges the histograms, and decides whether
    the phase is valid. Writes the files of the run, and prints a line when a phase begins and when it ends.
  - Also records hosts that failed or could not be reached.
  - Works with the role P(memstretch.density.latency_benchmark#role). In any other playbook, each task that returns a
    result of the module becomes a phase of an ad-hoc run called C(adhoc-<time>). The SLO of ad-hoc runs is set by the
    options below, and their table is printed at the end of the playbook. Tasks with the same influence and read mix are
    iterations of one cell. A host of the play that failed before is missing in each phase, so the run is invalid.
  - Sleeps while the schedule of a run lasts, so that C(ansible-playbook) takes no CPU from the fleet. Ctrl-C ends all
    clients and recorders on the hosts.
requirements:
  - Enable it with C(callbacks_enabled = memstretch.density.fleet_latency) in the section C([defaults]) of ansible.cfg.
options:
  results_dir:
    description: The directory for ad-hoc runs.
    type: path
    default: results
    env:
      - name: MEMSTRETCH_RESULTS_DIR
    ini:
      - section: callback_fleet_latency
        key: results_dir
  slo_avg_us:
    description: SLO of ad-hoc runs for the average latency, in microseconds.
    type: float
    default: 50
    env:
      - name: MEMSTRETCH_SLO_AVG_US
    ini:
      - section: callback_fleet_latency
        key: slo_avg_us
  slo_p99_us:
    description: SLO of ad-hoc runs for the 99th percentile of the latency, in microseconds.
    type: float
    default: 300
    env:
      - name: MEMSTRETCH_SLO_P99_US
    ini:
      - section: callback_fleet_latency
        key: slo_p99_us
author:
  - The memstretch.density contributors (@memstretch)
"""

import atexit
import os
import signal
import sys
import time
import typing as t

from ansible.plugins.callback import CallbackBase

from ansible_collections.memstretch.density.plugins.plugin_utils import failures, polling
from ansible_collections.memstretch.density.plugins.plugin_utils.recorder import adhoc
from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.run import RunRecorder
from ansible_collections.memstretch.density.plugins.plugin_utils.report import index
from ansible_collections.memstretch.density.plugins.plugin_utils.run import schedule_answer
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import failure_message
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_phase import is_gone

# Results are told apart by the module that made them, never by their keys: any host can return any key. The first three
# modules run on the controller only; of the others only what their actions accept of a host's answer is returned.
_RUN = "memstretch.density.benchmark_run"
_MOMENT = "memstretch.density.benchmark_schedule"
_REPORT = "memstretch.density.report"
_READING = "memstretch.density.host_memory_info"
_HOST = "memstretch.density.solotest_schedule"
_MEASURING = ("memstretch.density.solotest",)
# The actions that modules share.
_SHARED = (_REPORT, "memstretch.density.solotest")
# Modules that publish a page: where their result has its directory, and the files to open, the first one that exists.
_PUBLISHING: dict[str, tuple[str, tuple[str, ...]]] = {
    _REPORT: ("report", ("comparison.html", "report.html")),
    "memstretch.density.density": ("density", ("density.html",)),
    "memstretch.density.study": ("study", ("comparison.html", "optimize.txt")),
}


class CallbackModule(CallbackBase):
    """Passes the events of a playbook to the recorder of its run."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "memstretch.density.fleet_latency"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._recorder: RunRecorder | None = None
        self._adhoc: adhoc.Collector | None = None
        self._lost: dict[str, str] = {}  # the hosts of a play without a run that failed, with the message
        self._reported = False
        self._published: tuple[str, ...] = ()
        self._watches = False
        self._unrecorded = ""  # why a result was not
        self._pid = os.getpid()

    def v2_runner_on_ok(self, result: t.Any) -> None:
        self._guard(self._take, result)

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        self._guard(self._take_failure, result, False, ignore_errors)

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        self._guard(self._take_failure, result, True, bool(result.task.ignore_unreachable))

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        self._guard(self._end_adhoc_phase)
        self._lost = {}

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        polling.begin_task(task)
        self._guard(self._end_adhoc_phase)

    def v2_playbook_on_handler_task_start(self, task: t.Any) -> None:
        polling.begin_task(task)

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        self._guard(self._finish)
        if self._unrecorded:  # the line that said it first may be far above
            self._display.error(failures.with_remedy(self._unrecorded), wrap_text=False)

    def _guard(self, act: t.Callable, *arguments: t.Any) -> None:
        """Call act and report an error if it cannot record the event.

        Ansible would only warn about an exception. The playbook continues in either case; its report fails, because
        a file of the run is missing.
        """
        try:
            act(*arguments)
        except (OSError, RunError) as error:
            self._unrecorded = f"fleet_latency could not record this result: {error}"
            self._display.error(self._unrecorded, wrap_text=False)
        sys.stdout.flush()

    def _say(self, line: str) -> None:
        self._display.display(line)

    def _note_page(self, action: str, answer: dict[str, t.Any]) -> None:
        """Note the pages that an action has published."""
        key, names = _PUBLISHING.get(action, ("", ()))
        directory = (answer.get(key) or {}).get("directory")
        if directory:
            self._published = tuple(os.path.join(directory, name) for name in names)

    def _take(self, result: t.Any) -> None:
        action, answer = _action(result), result.result
        self._note_page(action, answer)
        if action == _RUN and "benchmark_run" in answer:
            self._begin_run(answer["benchmark_run"])
        elif action == _MOMENT and "benchmark_schedule" in answer and self._recorder:
            self._take_moment(self._recorder, answer["benchmark_schedule"])
        elif action == _REPORT and "verdict" in answer.get("report", {}):
            self._reported = True
        elif action == _HOST and self._recorder:
            self._take_host(result.host.name, answer)
        elif action == _READING:
            self._take_readings(answer)
        elif action in _MEASURING and answer.get("solotest"):
            self._take_measurement(result, answer["solotest"])

    def _begin_run(self, begun: dict[str, t.Any]) -> None:
        if self._recorder:
            self._recorder.close()
        self._reported = False
        self._recorder = RunRecorder(begun, self._say)

    def _take_moment(self, recorder: RunRecorder, moment: dict[str, t.Any]) -> None:
        """Do what a moment of the run means for the controller."""
        what = moment["moment"]
        if moment.get("fill"):
            recorder.begin_fill(moment["fill"], moment["at"])
        if what in ("planned", "resumed"):
            recorder.begin_schedule(moment["plan"])
        elif what == "started":
            recorder.start_schedule(moment["start_at"])
        elif what == "ended" and recorder.end_schedule():
            recorder.close()  # the run begins again, with the phases that are left
            self._recorder = None
        if what in ("followed", "resumed"):
            recorder.follow()

    def _take_host(self, name: str, answer: dict[str, t.Any]) -> None:
        """Take what was launched on a host, or collected from it, also of a loop over several."""
        if not self._recorder:
            return
        for each in answer.get("results", [answer]):
            role = each.get("schedule_role", "client")
            host = each.get("schedule_host", name) if role == "machine" else name
            if "collected" in each:
                self._recorder.launched.forget(host, role)
            if "job" in each:  # before its fill is written, which takes long enough to be interrupted
                self._watch_interrupts()
                self._recorder.launched.add(host, role, each["job"], each.get("stop_command"))
            if "collected" in each:
                clock = each.get("collected_clock")
                self._recorder.collect(host, role, schedule_answer.unpack(each["collected"]), clock)

    def _take_readings(self, answer: dict[str, t.Any]) -> None:
        """Take what a loop over the machines of the run has read."""
        if not self._recorder:
            return
        for each in answer.get("results", []):
            if not each.get("skipped"):
                self._recorder.add_reading(str(each["item"]), each)

    def _watch_interrupts(self) -> None:
        """End what was launched also when this playbook is ended in the middle of a task."""
        if self._watches:
            return
        self._watches = True
        atexit.register(self._stop)
        before = signal.getsignal(signal.SIGTERM)

        def terminate(number: int, frame: t.Any) -> None:
            self._stop()
            if callable(before):
                before(number, frame)
            else:
                os._exit(128 + number)

        signal.signal(signal.SIGTERM, terminate)

    def _stop(self) -> None:
        if self._recorder and os.getpid() == self._pid:
            self._recorder.stop()

    def _take_measurement(self, result: t.Any, measured: dict[str, t.Any]) -> None:
        if not self._recorder and measured["mode"] in ("test", "fill"):
            self._collector().add(result.host.name, result.task_name, measured)

    def _take_failure(self, result: t.Any, unreachable: bool, ignored: bool) -> None:
        action, answer, host = _action(result), result.result, result.host.name
        self._note_page(action, answer)
        if action == _REPORT and "verdict" in answer.get("report", {}):
            self._reported = True
            return
        partial = answer.get("solotest") if action in _MEASURING else None
        text = failure_message(answer)
        if self._recorder:
            if action == _READING:
                self._take_readings(answer)
                return
            if action == _HOST:
                self._take_host(host, answer)
            if action == _HOST and str(result.task.args.get("role", "client")) != "client":
                return
            # Its client had been launched: the machine died, or is too busy to answer.
            died = action == _HOST and unreachable and str(result.task.args.get("state")) == "collected"
            died = died or (action == _HOST and is_gone(answer))
            self._recorder.fail(host, text, partial, died)
            return
        if "results" not in answer and action in _MEASURING and _mode(result, partial) != "ping":
            self._collector().fail(host, result.task_name, text, partial)
        if not ignored:
            self._lost[host] = text

    def _collector(self) -> adhoc.Collector:
        if not self._adhoc:
            slo = {name: self.get_option(f"slo_{name}") for name in ("avg_us", "p99_us")}
            self._adhoc = adhoc.Collector(self.get_option("results_dir"), slo, time.time(), self._say)
        return self._adhoc

    def _end_adhoc_phase(self) -> None:
        if self._adhoc:
            self._adhoc.end_phase(self._lost)

    def _finish(self) -> None:
        if self._adhoc:
            self._adhoc.finish(self._lost)
        if self._recorder:
            if self._reported:
                self._recorder.end_schedule(is_over=False)
            else:
                self._recorder.finish()
                self._published = (self._recorder.directory.file("report.html"),)
            self._recorder.close()
        page = next((each for each in self._published if os.path.exists(each)), None)
        if page:
            everything = os.path.join(os.path.dirname(os.path.dirname(page)), index.FILE)
            self._say(f"Open {page}; all results: {everything}")


def _action(result: t.Any) -> str:
    """Return the fully qualified name of the module that made a result."""
    written: str = result.task.action
    known = (_RUN, _MOMENT, _HOST, _READING, *_MEASURING, *_PUBLISHING)
    if written in known or not any(written.endswith(each.rpartition(".")[2]) for each in known) and "{" not in written:
        return written
    resolved: str = result.task.resolved_action or written
    # ansible-core names the action, not the module.
    return f"memstretch.density.{written.rpartition('.')[2]}" if resolved in _SHARED else resolved


def _mode(result: t.Any, partial: dict[str, t.Any] | None) -> str:
    """Return the mode of a client that failed, even if it failed before it reported one."""
    return partial["mode"] if partial else str(result.task.args.get("mode", "test"))
