# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which playbook is changing a host. Another one is refused before it changes anything.

A playbook changes a host in many modules and measures in between, so a lock of one process cannot keep another playbook
away. A claim is a file on the host that says which playbook holds it. It ends with that playbook, which its controller
can tell, or an hour after the last change, because no other controller can; a boot removes it.
"""

from __future__ import annotations

import json
import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import (
    private_directory,
    remove_file,
    write_file,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.locks import locked

# Longer than anything that a playbook does between two changes of a host, except to measure.
LEASE_S = 3600.0
FILE = "claim.json"


class Claimant(t.NamedTuple):
    """The playbook that asks.

    Args:
        controller: identifies the machine and its boot, on which a process is looked for.
        process: the outermost ansible-playbook, as C(pid:start).
        ancestors: this ansible-playbook and all processes above it.
        text: for the user of another playbook.
    """

    controller: str
    process: str
    ancestors: list[str]
    text: str


class Claim:
    """The claim on this host."""

    def __init__(self, directory: str | None = None, now: t.Callable[[], float] = time.time) -> None:
        self._path = os.path.join(directory or private_directory(), FILE)
        self._now = now

    def take(self, claimant: Claimant, replaces: str, keep: bool = True) -> dict[str, t.Any] | None:
        """Claim the host, and return None; or return the claim of another playbook, which stays.

        Args:
            replaces: the process of a playbook that has ended; C(any) takes over every claim.
            keep: whether to write the claim; False only looks.
        """
        with locked(f"the claim {self._path}"):
            held = self.read()
            if held and not self._is_free(held, claimant) and replaces not in (held["process"], "any"):
                return held
            mine = {"controller": claimant.controller, "process": claimant.process, "text": claimant.text}
            since = held["since"] if held and held["process"] == claimant.process else self._now()
            if keep:
                write_file(self._path, json.dumps({**mine, "since": since, "renewed": self._now()}) + "\n", 0o600)
        return None

    def release(self, claimant: Claimant) -> None:
        """Give the claim up, if this playbook has it; one that was started by another playbook leaves it to that."""
        with locked(f"the claim {self._path}"):
            held = self.read()
            this = claimant.ancestors[0]
            if held and (held["controller"], held["process"]) == (claimant.controller, this):
                remove_file(self._path)

    def _is_free(self, held: dict[str, t.Any], claimant: Claimant) -> bool:
        ours = held["controller"] == claimant.controller and held["process"] in claimant.ancestors
        return ours or not 0 <= self._now() - held["renewed"] < LEASE_S

    def read(self) -> dict[str, t.Any] | None:
        """Return the claim, or None if there is none."""
        try:
            with open(self._path, encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None
