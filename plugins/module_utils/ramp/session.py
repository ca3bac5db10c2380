# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of a ramp on its machine, and the launch of its conductor.

=============== ==================================================================================================
stream          one JSON line a window, and one for the end
lease           touched by the controller; the ramp ends if it is not
stop            written by the controller: the ramp ends, and this is why
clients.lease   touched by the conductor; the clients end if it is not
PORT.1.redis    what a server, its fill and its client print; for a VM its number is there in place of the port
PORT.1.conf     what a container is configured with, and beside it the number of its process
=============== ==================================================================================================

It is in /run or /tmp, so nothing is left of it after a boot.
"""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.background import detach
from ansible_collections.memstretch.density.plugins.module_utils.host.files import private_directory
from ansible_collections.memstretch.density.plugins.module_utils.host.locks import lock_if_free, open_lock, wait_for
from ansible_collections.memstretch.density.plugins.module_utils.ramp import containers, groups, vms
from ansible_collections.memstretch.density.plugins.module_utils.ramp.conductor import LEASE, Conductor, remove
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import Plan
from ansible_collections.memstretch.density.plugins.module_utils.ramp.servers import refuse_taken_ports

_LOCK = "ramp.lock"
# The conductor before this one ends as soon as its stream was read.
_LOCK_SECONDS = 5.0


def launch(plan: Plan) -> dict[str, t.Any]:
    """Start the conductor of a ramp in the background.

    Returns:
        C(path), its directory, and C(pid).

    Raises:
        BudgetError: the plan does not fit the machine's swap or its control groups.
        VmHostError: its VMs do not exist, or run.
        ServerError: podman or the image of its containers is missing, or the port of a server is taken.
        LockError: another ramp runs on this machine.
    """
    lock = open_lock(os.path.join(private_directory(), _LOCK))
    try:
        wait_for(lock, time.monotonic() + _LOCK_SECONDS, "a ramp on this machine")
        _sweep()
        groups.areas(plan.tier)
        plan = containers.prepared(plan)
        refuse_taken_ports(plan)
        fleet, outside = vms.groups_of(plan)
        directory = tempfile.mkdtemp(prefix="ramp-", dir=private_directory())
        with open(os.path.join(directory, LEASE), "w", encoding="ascii"):
            pass
        return {"path": directory, "pid": detach(lambda: _conduct(plan, directory, fleet, outside))}
    finally:
        os.close(lock)  # the conductor has inherited it


def check(plan: Plan) -> None:
    """Check that the servers of a plan can have their ports, long before its launch.

    Raises:
        ServerError: one is taken.
    """
    lock = open_lock(os.path.join(private_directory(), _LOCK))
    try:
        # A ramp that has not ended yet, and what a killed one has left, have the same ports. The launch looks again.
        if lock_if_free(lock) and not _left():
            refuse_taken_ports(plan)
    finally:
        os.close(lock)


def _conduct(plan: Plan, directory: str, fleet: groups.RampGroup, outside: groups.RampGroup) -> None:
    conductor = Conductor(plan, directory, fleet, outside)
    conductor.run()
    conductor.linger()  # with the lock, so that the next ramp does not remove what was not read yet


def _sweep() -> None:
    """Remove what a conductor left that was killed by SIGKILL.

    Its servers and clients have died with it, but no containers and no VMs.
    """
    left = _left()
    if left and containers.is_installed():
        containers.sweep()
    for directory in glob.glob(os.path.join(glob.escape(private_directory()), "ramp-*")):
        with contextlib.suppress(NotADirectoryError):
            remove(directory)
    for group in left:
        group.destroy()


def _left() -> list[groups.ContainerGroup]:
    """Return the control groups of a ramp that are there."""
    return [group for group in map(groups.ContainerGroup, (groups.FLEET, groups.REFERENCES)) if group.exists()]
