# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units of systemd: what they do now and at boot, and how to change that and change it back."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_checked
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import SettingsError
from ansible_collections.memstretch.density.plugins.module_utils.host.systemd import booted


class Services:
    """The units of this host; none where systemd does not run."""

    def __init__(self, run_command: RunCommand) -> None:
        self._run_command = run_command
        self.systemd = booted()

    def state(self, name: str) -> dict[str, bool] | None:
        """Return C(active), does it run, and C(enabled), will it start at boot; None if there is no such unit."""
        if not self.systemd:
            return None
        shown = self._systemctl("show", "--property=LoadState,ActiveState,UnitFileState", f"{name}.service")
        data = dict(line.partition("=")[::2] for line in shown.splitlines())
        if data.get("LoadState") in ("not-found", None):
            return None
        return {
            "active": data.get("ActiveState") in ("active", "activating", "reloading"),
            "enabled": data.get("UnitFileState") in ("enabled", "enabled-runtime"),
        }

    def reach(self, name: str, wanted: t.Mapping[str, bool]) -> None:
        """Bring a unit to that state. Raises SettingsError with what systemctl says."""
        present = self.state(name)
        if present is None:
            raise SettingsError(f"the service {name} cannot be brought back: its unit is gone from this host")
        if present["enabled"] != wanted["enabled"]:
            self._systemctl("enable" if wanted["enabled"] else "disable", f"{name}.service")
        if present["active"] != wanted["active"]:
            self._systemctl("start" if wanted["active"] else "stop", f"{name}.service")

    def reload_udev(self) -> None:
        """Have udev read its rules again."""
        if self.systemd:
            run_checked(self._run_command, ["udevadm", "control", "--reload"], SettingsError)

    def _systemctl(self, *words: str) -> str:
        return run_checked(self._run_command, ["systemctl", *words], SettingsError)


STOPPED = {"active": False, "enabled": False}


def in_words(state: t.Mapping[str, bool] | None) -> str:
    """Return a unit's state for people: running, enabled, running and enabled, stopped, absent."""
    if state is None:
        return "absent"
    words = [word for word, key in (("running", "active"), ("enabled", "enabled")) if state[key]]
    return " and ".join(words) or "stopped"
