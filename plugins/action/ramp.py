# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private. Conduct a ramp on a host, show its windows while it goes on, and write its record."""

from __future__ import annotations

import os
import re
import shlex
import signal
import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.plugin_utils.density import live
from ansible_collections.memstretch.density.plugins.plugin_utils.density.objective import (
    Objective,
    Plateau,
    beside_idle,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import Figures, windows
from ansible_collections.memstretch.density.plugins.plugin_utils.host_action import HostAction
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp import stream
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp.plan import has_vms
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp.record import (
    LONGEST_LINE,
    LONGEST_STREAM,
    Record,
    accepted,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import (
    AbsolutePath,
    Fields,
    MeasurementError,
    Whole,
    failure_message,
    message,
    outcome,
    refuse,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError

_POLL_S = 2.0
# A conductor that has written nothing for so long is dead: its longest window takes less.
_SILENT_SECONDS = 4000.0
# It ends everything within this time, and VMs and containers within the second one.
_END_SECONDS = 20.0
_SLOW_END_SECONDS = 200.0
# What is removed at the end can be no other directory of the host.
_DIRECTORY = re.compile(r"(/[\w-]+)+/memstretch-[0-9]+/ramp-\w+", re.ASCII)
_JOB = Fields({"path": AbsolutePath(), "pid": Whole(2, 2**31 - 1)})


class _Interrupted(Exception):
    """Ctrl-C or SIGTERM."""


class ActionModule(HostAction):
    """Launch the conductor with the module, then read its stream with a shell.

    A shell costs the host a few milliseconds for a look, a module half a second of CPU time, which would disturb what
    is measured. Each look renews the conductor's lease. Nothing but what record.accepted() accepts is taken from it.
    """

    # Its name on each line, if there are several machines.
    _machine = ""

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        given, host = self._task.args, str((task_vars or {}).get("inventory_hostname"))
        several = len((task_vars or {}).get("groups", {}).get("hypervisors", [])) > 1
        self._machine = host if several else ""
        record = Record(given["arm"], int(given["round"]), given["plan"])
        launched = self.ask(task_vars, self._launched)
        path = launched.pop("path", None)
        if path is None:
            return {**result, **launched}
        try:
            self._follow(path, host, record, RunDirectory.at(given["directory"]), given["file"])
        except (MeasurementError, RunError) as error:
            raise AnsibleActionFail(str(error)) from error
        end = record.document["end"]
        failed = end["kind"] in ("error", "interrupted")
        return {**result, **launched, "failed": failed, "msg": live.end_line(end)[len(live.MARK) :], "end": end}

    def _launched(self, answer: dict[str, t.Any]) -> dict[str, t.Any]:
        """Return the C(path) of the ramp, unless the launch failed, or nothing was launched in check mode.

        Raises:
            MeasurementError: it is not the directory of a ramp.
        """
        accepted = outcome(answer)
        if answer.get("unreachable"):
            accepted["msg"] = failure_message(answer)
        elif "failed" not in accepted and not self._task.check_mode:
            accepted["path"] = _JOB.check("job", answer.get("job"))["path"]
            if not _DIRECTORY.fullmatch(accepted["path"]):
                refuse("job.path", accepted["path"], "the directory of a ramp")
        return accepted

    def _follow(self, path: str, host: str, record: Record, directory: RunDirectory, file: str) -> None:
        """Show and keep what the conductor writes, until its end."""
        before = {each: signal.signal(each, _interrupt) for each in (signal.SIGTERM, signal.SIGINT)}
        looks = self._looks(path)
        self._show(live.HEADER)
        try:
            try:
                self._take(looks, host, record, directory, file)
            except _Interrupted:
                for each in before:
                    signal.signal(each, signal.SIG_IGN)
                self._shell(f"echo interrupted >{shlex.quote(os.path.join(path, 'stop'))}")
                plan = self._task.args["plan"]
                slow = has_vms(plan["servers"]) or plan.get("image")
                seconds = _SLOW_END_SECONDS if slow else _END_SECONDS
                self._take(self._looks(path, seconds), host, record, directory, file, again=True)
                raise AnsibleActionFail("the ramp was interrupted") from None
        finally:
            self._shell(f"rm -rf {shlex.quote(path)}")
            for each, handler in before.items():
                signal.signal(each, handler)

    def _take(
        self,
        looks: t.Iterator[list[str]],
        host: str,
        record: Record,
        directory: RunDirectory,
        file: str,
        again: bool = False,
    ) -> None:
        for lines in looks:
            for text in lines:
                event, found = accepted(text, host)
                if again and event != "end":
                    continue
                record.add(event, found)
                if event == "window":
                    self._show(self._line(record.document))
                elif event == "note":
                    self._show(found["text"])
                elif event == "touch":
                    self._show(f"all servers were touched at once and looked at for {len(found['touch']['seconds'])} s")
                elif event == "end":
                    self._show(live.end_line(found["end"]))
                    break
            # Once a look: a host could write lines by the thousand.
            directory.write_json(file, record.document)
            if record.document["end"]:
                return

    def _show(self, text: str) -> None:
        Display().display(live.marked(text, self._machine))

    def _line(self, record: t.Mapping[str, t.Any]) -> str:
        """Return the last window of a record as a line, next to the objective of the plan."""
        aim = self._task.args["plan"]["objective"]
        found = aim.get("plateau")
        plateau = found and Plateau(Figures(found["avg_us"], found["p99_us"], 0), found["fits"])
        *before, last = record["windows"]
        # Only windows that DRAM carries say how fast it is; the others would be merged again for each line.
        needed = [each for each in before if plateau and each["n"] <= plateau.fits]
        return live.line(beside_idle(windows({**record, "windows": [*needed, last]}), plateau)[-1], Objective.of(aim))

    def _looks(self, path: str, silent: float = _SILENT_SECONDS) -> t.Iterator[list[str]]:
        """Look at the stream again and again, and yield its new whole lines, if there are any.

        Raises:
            MeasurementError: there is nothing to read, or nothing comes any more.
        """
        offset, rest, heard = 0, b"", time.monotonic()
        while True:
            done = self._shell(stream.look(path, offset))
            if done["rc"] != 0:
                raise MeasurementError(f"the stream of the ramp cannot be read: {message(done['stderr'], 400)}")
            new = stream.piece(done["stdout"])
            offset += len(new)
            *whole, rest = (rest + new).split(b"\n")
            if len(rest) > LONGEST_LINE or offset > LONGEST_STREAM:
                raise MeasurementError(
                    f"the stream of the ramp is longer than {LONGEST_STREAM // 2**20} MiB, or a line of it is longer "
                    f"than {LONGEST_LINE // 2**20} MiB"
                )
            if whole:
                heard = time.monotonic()
                yield [line.decode("utf-8", "replace") for line in whole]
            elif time.monotonic() - heard > silent:
                raise MeasurementError(f"the conductor of the ramp has written nothing for {silent:g} s")
            time.sleep(_POLL_S)

    def _shell(self, command: str) -> dict[str, t.Any]:
        return self._low_level_execute_command(command)


def _interrupt(_number: int, _frame: t.Any) -> None:
    raise _Interrupted
