# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet between the probes of a density search, so that a probe touches only the hosts that it loads."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.study.attempts import FAILED
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_search import ATTEMPTS
from ansible_collections.memstretch.density.plugins.plugin_utils.study.sequence import Sequence


class RedisChange(t.NamedTuple):
    """What a probe must change first: hosts whose Redis it stops, then starts; and those that it keeps as they are."""

    stop: list[str]
    start: list[str]
    kept: list[str]


class RunningRedis:
    """The hosts whose Redis runs, and under which profile it was started.

    A Redis is kept from one probe to the next under the same profile. It is started again under another one, because
    its memory still lies as the earlier profile has placed it, and after it may have died.

    Args:
        hosts: of the fleet, in the order in which they are probed. No Redis runs yet.
    """

    def __init__(self, hosts: t.Sequence[str]) -> None:
        self._hosts = hosts
        self._arm: str | None = None
        self._running: set[str] = set()
        self._doubtful: set[str] = set()

    def change(self, arm: str, size: int) -> RedisChange:
        """Return what a probe of the first hosts must change."""
        wanted = self._hosts[:size]
        kept = [host for host in wanted if host in self._running - self._doubtful and arm == self._arm]
        return RedisChange(
            stop=[host for host in self._hosts if host in self._running and host not in kept],
            start=[host for host in wanted if host not in kept],
            kept=kept,
        )

    def probed(self, arm: str, size: int, lost: t.Collection[str]) -> None:
        """Note that a probe of the first hosts was measured, and which of them died under its load."""
        self._arm = arm
        self._running = set(self._hosts[:size])
        self._doubtful = set(lost)

    def failed(self, size: int) -> None:
        """Note that a probe of the first hosts ended with an error, so that no Redis may be kept."""
        self._running.update(self._hosts[:size])
        self._doubtful = set(self._hosts)


class _PreparedFleet:
    """A fleet whose hosts are prepared once; a probe touches those that it loads, and starts or stops what it must."""

    RESTARTED = ""  # what is started again after an error

    def __init__(self, sequence: Sequence) -> None:
        self._sequence = sequence

    def measure(self, run_id: str, arm: str, size: int, variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Measure a probe and return its outcome."""
        while True:
            keeps, change = self._change(arm, size)
            measured = self._sequence.measure_until_valid(
                run_id,
                {"arm": arm, "size": size},
                {**variables, **change},
                ATTEMPTS,
                clean=False,
                playbook="parts/probe",
            )
            if measured["state"] != FAILED or not keeps:
                return measured
            self._failed(size)
            self._sequence.announce(f"The probe failed; measuring it again with every {self.RESTARTED} started again")

    def _change(self, arm: str, size: int) -> tuple[bool, dict[str, t.Any]]:
        """Decide whether a probe of this size keeps anything as it is, and the variables of what it changes."""
        raise NotImplementedError

    def _failed(self, size: int) -> None:
        """Note that a probe ended with an error, so that nothing may be kept."""
        raise NotImplementedError


class StaticFleet(_PreparedFleet):
    """A fleet whose hosts are in the inventory. The Redis of those beyond the size of a probe is stopped."""

    RESTARTED = "Redis"

    def __init__(self, sequence: Sequence, hosts: t.Sequence[str]) -> None:
        super().__init__(sequence)
        self._hosts = hosts
        self._running = RunningRedis(hosts)
        self._prepared = False

    def prepare(self, size: int, variables: t.Mapping[str, t.Any]) -> None:
        """Prepare the hosts, once."""
        if not self._prepared:
            self._sequence.announce(f"Preparing {len(self._hosts)} hosts for all probes")
            self._sequence.prepare("parts/prepare_probes", {**variables, "probe_hosts": self._hosts})
            self._prepared = True

    def _change(self, arm: str, size: int) -> tuple[bool, dict[str, t.Any]]:
        change = self._running.change(arm, size)
        return bool(change.kept), {"probe_stop": change.stop, "probe_start": change.start}

    def _failed(self, size: int) -> None:
        self._running.failed(size)

    def probed(self, arm: str, size: int, lost: t.Collection[str]) -> None:
        """Note which Redis runs after a probe."""
        self._running.probed(arm, size, lost)


class VmFleet(_PreparedFleet):
    """A fleet of VMs, which is made as large as the largest probe so far. VMs beyond the size of a probe are stopped.

    A VM runs on from one probe to the next under the same profile. Under another one every VM is stopped before the
    hypervisors are tuned, because its memory still lies as the earlier profile has placed it, and after one has died.
    """

    RESTARTED = "VM"

    def __init__(self, sequence: Sequence) -> None:
        super().__init__(sequence)
        self._prepared = 0
        self._arm: str | None = None
        self._running = 0  # the first VMs, started under this arm

    def prepare(self, size: int, variables: t.Mapping[str, t.Any]) -> None:
        """Make the VMs that are still missing, and install in them what they need. No VM runs afterwards."""
        if size <= self._prepared:
            return
        self._sequence.announce(f"Preparing VMs {self._prepared + 1} to {size} for all probes")
        change = {"vm_fleet_surplus": "stopped", "probe_new": f"fleet[{self._prepared}:{size - 1}]"}
        self._sequence.prepare("parts/prepare_vms", {**variables, **change})
        self._prepared, self._running = size, 0

    def _change(self, arm: str, size: int) -> tuple[bool, dict[str, t.Any]]:
        kept = min(size, self._running) if arm == self._arm else 0
        started = f"fleet[{kept}:{size - 1}]" if kept < size else []
        return kept > 0, {
            "vm_fleet_surplus": "stopped",
            "probe_stop_vms": kept == 0,
            "vms_started": started,
            "probe_start": started,
        }

    def _failed(self, size: int) -> None:
        self._running = 0

    def probed(self, arm: str, size: int, lost: t.Collection[str]) -> None:
        """Note which VMs run after a probe, and whether they may run on."""
        self._arm, self._running = arm, 0 if lost else size
