# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring one Redis server that runs as a daemon into a state: what the modules redis_daemon and redis_daemons do."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand
from ansible_collections.memstretch.density.plugins.module_utils.options import Range, SettingError, number
from ansible_collections.memstretch.density.plugins.module_utils.redis.config import Config, ConfigError
from ansible_collections.memstretch.density.plugins.module_utils.redis.daemon import Daemon, DaemonError, actions_for

ARGUMENTS: dict[str, t.Any] = {
    "config": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["started", "stopped", "restarted"], "default": "started"},
    "executable": {"type": "str", "default": "redis-server"},
    "username": {"type": "str", "default": "default"},
    "password": {"type": "str", "no_log": True},
    "timeout": {"type": "int", "default": 30},
    "cgroup": {"type": "str", "default": ""},
}
TIMEOUT = Range(int, 1, 3600, "seconds")


def check_options(options: t.Mapping[str, t.Any]) -> None:
    """Check the options of one daemon.

    Raises:
        SettingError: one of them is not allowed.
    """
    number("timeout", options["timeout"], TIMEOUT)
    if not os.path.isabs(options["config"]):
        raise SettingError(f"config: {options['config']!r} is not an absolute path")
    if not re.match(r"^(/?[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*)?$", options["cgroup"]):
        raise SettingError(f"cgroup: {options['cgroup']!r} is not the path of a control group, such as fleet")


class Module(t.Protocol):
    """What is used of an AnsibleModule."""

    check_mode: bool
    run_command: RunCommand

    def get_bin_path(self, arg: str) -> str | None:
        """Return the path of a program."""


def bring(module: Module, options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Compare the server with the options, apply the difference, and return the result.

    Returns:
        The result of the module, with C(failed) and C(msg) if it failed.
    """
    try:
        return _bring(module, options)
    except (ConfigError, DaemonError, SettingError, OSError) as error:
        return {"failed": True, "msg": str(error)}


def _bring(module: Module, options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    check_options(options)
    state = options["state"]
    daemon = Daemon(
        config=Config(options["config"]),
        executable=module.get_bin_path(options["executable"]) or options["executable"],
        username=options["username"],
        password=options["password"],
        timeout=options["timeout"],
        cgroup=options["cgroup"],
        run_command=module.run_command,
    )
    if state != "stopped" and not (module.check_mode and not daemon.config.exists):
        daemon.config.require()
    with daemon.locked():
        process = daemon.find()
        current = daemon.is_current(process)
        before = {
            "state": "started" if process else "stopped",
            "configuration": "current" if current else "outdated",
        }
        actions, reason = actions_for(state, process, current, daemon.is_in_cgroup(process))
        if actions:
            process = None if module.check_mode else daemon.apply(actions, process)
        elif process:
            daemon.wait(process)
        info = daemon.info() if process else {}
    after = {"state": "stopped" if state == "stopped" else "started", "configuration": "current"}
    return {
        "changed": bool(actions),
        "diff": {"before": before, "after": after},
        "state": after["state"],
        "actions": actions,
        "reason": reason,
        "pid": process.pid if process else None,
        "version": info.get("redis_version"),
        "run_id": info.get("run_id"),
        "used_memory": int(info["used_memory"]) if "used_memory" in info else None,
    }
