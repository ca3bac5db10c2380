# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redis instances as units of systemd."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_to_end

DIRECTORY = "/etc/systemd/system"
JOURNAL_LINES = 20
_ACTIVE = ("active", "activating", "reloading")


class UnitError(Exception):
    """A unit does not reach its state; the text is for the user and ends with its journal."""


class Unit:
    """One unit.

    Args:
        name: of the unit, with its suffix.
        run_command: AnsibleModule.run_command.
    """

    def __init__(self, name: str, run_command: RunCommand) -> None:
        self.name = name
        self._run_command = run_command
        status, output, errors = run_to_end(
            run_command, ["systemctl", "show", "--property=LoadState,ActiveState,UnitFileState,MainPID", name]
        )
        if status:
            raise UnitError(f"systemctl cannot show {name}: {errors.strip() or output.strip()}")
        found = dict(line.partition("=")[::2] for line in output.splitlines())
        self.exists = found.get("LoadState") not in ("not-found", None)
        self.active = found.get("ActiveState") in _ACTIVE
        self.enabled = found.get("UnitFileState") in ("enabled", "enabled-runtime")
        self.pid = int(found.get("MainPID") or 0) or None

    @property
    def state(self) -> dict[str, str]:
        """Build the diff."""
        return {
            "state": "started" if self.active else "stopped",
            "boot": "enabled" if self.enabled else "disabled",
        }

    def actions(self, run: bool, changed: bool) -> list[str]:
        """List what systemctl must do.

        Args:
            run: whether the unit must run, now and at boot.
            changed: whether its files have changed since it was started.
        """
        if not run:
            return (["stop"] if self.active else []) + (["disable"] if self.enabled else [])
        start = ["restart" if changed else ""] if self.active else ["start"]
        return [each for each in start if each] + ([] if self.enabled else ["enable"])

    def apply(self, actions: t.Sequence[str]) -> None:
        """Let systemctl do that.

        Raises:
            UnitError: one of the actions failed.
        """
        for action in actions:
            status, output, errors = run_to_end(self._run_command, ["systemctl", action, self.name])
            if status:
                text = errors.strip() or output.strip()
                raise UnitError(f"systemctl {action} {self.name} failed: {text}\n{self._journal()}")

    def _journal(self) -> str:
        command = ["journalctl", "--no-pager", "--output=cat", f"--lines={JOURNAL_LINES}", f"--unit={self.name}"]
        status, output, errors = run_to_end(self._run_command, command)
        return (
            f"Its journal cannot be read: {errors.strip()}" if status else f"Its journal ends with:\n{output.strip()}"
        )


def can_notify(executable: str) -> bool:
    """Check whether a server can tell systemd that it is ready. A script is taken to start one that can."""
    with open(executable, "rb") as file:
        content = file.read()
    return not content.startswith(b"\x7fELF") or b"sd_notify" in content


def reload(run_command: RunCommand) -> None:
    """Let systemd read its unit files again."""
    status, output, errors = run_to_end(run_command, ["systemctl", "daemon-reload"])
    if status:
        raise UnitError(f"systemctl daemon-reload failed: {errors.strip() or output.strip()}")
