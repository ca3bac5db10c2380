# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import shlex
import time
import typing as t

from ansible.errors import AnsibleActionFail

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils import host_clock
from ansible_collections.memstretch.density.plugins.plugin_utils.host_action import HostAction
from ansible_collections.memstretch.density.plugins.plugin_utils.run import clocks, endpoint, schedule_answer


class ActionModule(HostAction):
    """Run the module on the host and return only what schedule_answer accepts of its answer.

    A client is released without the module, since a shell writes a small file sooner than Python starts. C(role) says
    whether this is the C(client) of the host, its C(observer), or a C(machine) that is only recorded.
    """

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        given = self._task.args
        if given["state"] == "asked":
            return {**super().run(tmp, task_vars), **self._ask_endpoint(given, task_vars)}
        role, name = given.get("role", "client"), (task_vars or {}).get("inventory_hostname")
        marks = {"schedule_role": role, "schedule_host": str(self._task.delegate_to or name)}
        if given["state"] == "released":
            return {**self._release(given), **marks}
        result = {**super().run(tmp, task_vars), **self.ask(task_vars, self._accepted)}
        clock = self._clock() if "collected" in result else None  # a client that is overloaded ends late
        if clock:
            result["collected_clock"] = clock._asdict()
        if "job" in result:
            result["stop_command"] = self._stop_command(result["job"])
        return {**result, **marks}

    def _ask_endpoint(self, given: t.Mapping[str, t.Any], task_vars: t.Any) -> dict[str, t.Any]:
        """Compare the clock of the host with the controller's, and ask the Redis that it will load for its state.

        An impossible CPU is refused here, before the fill empties the Redis.
        """
        client = given.get("client")
        if not client:
            return {"changed": False, **host_clock.figures(host_clock.compare(self))}
        try:
            names = {"endpoint": endpoint.name(client), "observer": endpoint.observer(given.get("observer"), client)}
        except SettingError as error:
            raise AnsibleActionFail(str(error)) from None
        clock = host_clock.figures(host_clock.compare(self))
        asked = {name: given[name] for name in ("state", "client", "password") if given.get(name)}
        answer = self.ask(task_vars, lambda answer: endpoint.state(answer, {**names, **clock}), module_args=asked)
        return {**answer, **clock}

    def _accepted(self, answer: dict[str, t.Any]) -> dict[str, t.Any]:
        state = self._task.args["state"]
        if state == "launched":
            return schedule_answer.launched(answer, time.time())
        if state == "collected":
            return schedule_answer.collected(answer, time.time())
        return schedule_answer.plain(answer)

    def _release(self, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        start = shlex.quote(os.path.join(schedule_answer.job(given["job"])["path"], "schedule.start"))
        at = float(given["start_at"]) + float(given.get("clock_correction") or 0)
        done = self._low_level_execute_command(
            f"umask 077; printf '%s\\n' {at:.6f} > {start}.new && mv {start}.new {start}"
        )
        if done["rc"] != 0:
            raise AnsibleActionFail(f"the client cannot be released: {schedule_answer.text_of(done['stderr'])}")
        return {"changed": False}

    def _clock(self) -> clocks.Reading | None:
        before = time.time()
        answer = self._low_level_execute_command(clocks.COMMAND, sudoable=False)
        return clocks.read(before, time.time(), answer["stdout"])

    def _stop_command(self, job: t.Mapping[str, t.Any]) -> list[str] | None:
        """Return the command of the controller that ends what was launched; None with a connection of another kind.

        After Ctrl-C there is no time for a task, and no process of Ansible left that could run one.
        """
        connection = self._connection
        script = f"rm -f {shlex.quote(os.path.join(job['path'], 'schedule'))}"
        if job["pid"]:
            pid = job["pid"]
            script += f'; case "$(cat /proc/{pid}/comm 2>/dev/null)" in solotest*) kill {pid};; esac'
        wanted: str = f"/bin/sh -c {shlex.quote(script)}"
        if connection.become:
            wanted = connection.become.build_become_command(wanted, connection._shell)
        transport = connection.transport.rpartition(".")[2]
        if transport == "local":
            return ["/bin/sh", "-c", wanted]
        if transport == "ssh":
            host = connection.get_option("host") or self._play_context.remote_addr
            command = connection._build_command(connection.get_option("ssh_executable"), "ssh", host, wanted)
            return [word.decode() if isinstance(word, bytes) else word for word in command]
        return None
