# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd services, and what starts them: read whether they run and are enabled, and set both."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_checked
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import SettingsError
from ansible_collections.memstretch.density.plugins.module_utils.host.systemd import booted

STOPPED = {"active": False, "enabled": False}
# The kinds of units that start a service again when it has been stopped. Their names are written with the kind.
_TRIGGERS = (".socket", ".timer", ".path")


class Services:
    """The services of this host. A host without systemd has none.

    Args:
        run_command: AnsibleModule.run_command.
        systemd: whether systemd manages the host; detected if not given.
    """

    def __init__(self, run_command: RunCommand, systemd: bool | None = None) -> None:
        self._run_command = run_command
        self.systemd = booted() if systemd is None else systemd

    def state(self, name: str) -> dict[str, bool] | None:
        """Check whether a service is C(active) now and C(enabled) at boot; None if there is no such unit."""
        if not self.systemd:
            return None
        shown = self._systemctl("show", "--property=LoadState,ActiveState,UnitFileState", _unit(name))
        data = dict(line.partition("=")[::2] for line in shown.splitlines())
        if data.get("LoadState") in ("not-found", None):
            return None
        return {
            "active": data.get("ActiveState") in ("active", "activating", "reloading"),
            "enabled": data.get("UnitFileState") in ("enabled", "enabled-runtime"),
        }

    def triggers(self, name: str) -> list[str]:
        """Return the sockets, timers and paths that start a service now, or will after a boot."""
        if self.state(name) is None:
            return []
        units = self._systemctl("show", "--property=TriggeredBy", _unit(name)).strip().partition("=")[2].split()
        return [unit for unit in units if unit.endswith(_TRIGGERS) and self.state(unit) not in (None, STOPPED)]

    def set_state(self, name: str, state: t.Mapping[str, bool]) -> None:
        """Start or stop, enable or disable a service. Raises SettingsError with the output of systemctl."""
        present = self.state(name)
        if present is None:
            raise SettingsError(f"the service {name} cannot be restored: this host no longer has its unit")
        if present["enabled"] != state["enabled"]:
            self._systemctl("enable" if state["enabled"] else "disable", _unit(name))
        if present["active"] != state["active"]:
            self._systemctl("start" if state["active"] else "stop", _unit(name))

    def reload_udev(self) -> None:
        """Make udev read its rules again."""
        if self.systemd:
            run_checked(self._run_command, ["udevadm", "control", "--reload"], SettingsError)

    def _systemctl(self, *arguments: str) -> str:
        return run_checked(self._run_command, ["systemctl", *arguments], SettingsError)


def _unit(name: str) -> str:
    return name if name.endswith(_TRIGGERS) else f"{name}.service"


def describe(state: t.Mapping[str, bool] | None) -> str:
    """Return a service's state as text: running, enabled, running and enabled, stopped, absent."""
    if state is None:
        return "absent"
    words = [word for word, key in (("running", "active"), ("enabled", "enabled")) if state[key]]
    return " and ".join(words) or "stopped"
