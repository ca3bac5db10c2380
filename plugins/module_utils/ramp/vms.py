# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The VMs of a ramp. A VM joins by starting; its Redis is its own, and its client runs on the hypervisor.

libvirt works in a thread for each VM, since a start takes seconds, and the conductor looks at the machine meanwhile.
"""

from __future__ import annotations

import os
import threading
import time
import typing as t
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.memstretch.density.plugins.module_utils.host.background import is_running
from ansible_collections.memstretch.density.plugins.module_utils.host.children import KILLED_FIRST
from ansible_collections.memstretch.density.plugins.module_utils.host.files import set_kernel_file
from ansible_collections.memstretch.density.plugins.module_utils.options import first_names
from ansible_collections.memstretch.density.plugins.module_utils.ramp import groups
from ansible_collections.memstretch.density.plugins.module_utils.ramp.kernel_words import KernelWords
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import Plan, Server
from ansible_collections.memstretch.density.plugins.module_utils.ramp.servers import Login, ServerError, answers
from ansible_collections.memstretch.density.plugins.module_utils.redis.connection import Refused
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import Domain, VmHost, VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.partition import group_of
from ansible_collections.memstretch.density.plugins.module_utils.vm.template import Vm

_URI = "qemu:///system"
_PID_FILES = "/run/libvirt/qemu"
# An emulated VM boots in a minute on an idle machine. A boot of many at once within a budget takes longer.
_BOOT_SECONDS = 600.0
_ANSWER_SECONDS = 5.0
_POLL_S, _PID_S = 0.25, 0.002
# libvirt notices the end of a VM within this time.
_NOTICED_SECONDS = 5.0
_STOPPED_AT_ONCE = 32
# So many VMs are named in an error.
_SHOWN = 3


def groups_of(plan: Plan) -> tuple[groups.RampGroup, groups.RampGroup]:
    """Return the control group with the budget of a ramp, and that of its references.

    Raises:
        VmHostError: libvirt does not answer, or its VMs cannot take part.
    """
    if not plan.has_vms:
        kind = groups.ContainerGroup if plan.image else groups.RampGroup
        return kind(groups.FLEET), kind(groups.REFERENCES)
    fleet = groups.Partition(partition_of(plan, VmHost(_URI).domains()))
    return fleet, groups.Beside(fleet)


def partition_of(plan: Plan, domains: t.Mapping[str, Domain]) -> str:
    """Return the control group of the partition that has the VMs of a fleet.

    Args:
        plan: of the ramp.
        domains: what libvirt has.

    Raises:
        VmHostError: a VM does not exist or runs, or they are in several partitions.
    """
    everybody = [server.name for server in (*plan.servers, *plan.references)]
    # Those of somebody else are left alone, whatever an inventory says.
    strange = [name for name in everybody if name not in domains or not domains[name].mark]
    if strange:
        raise VmHostError(
            f"libvirt has no such VMs of a fleet of this collection: {first_names(strange, _SHOWN)}. "
            "playbooks/fleet.yml creates them"
        )
    running = [name for name in everybody if domains[name].running]
    if running:
        raise VmHostError(
            f"these VMs run: {first_names(running, _SHOWN)}. A ramp starts its VMs itself, so shut them down first: "
            "playbooks/fleet.yml -e vm_fleet_state=stopped"
        )
    found = {ET.fromstring(domains[server.name].xml).findtext("./resource/partition") or "" for server in plan.servers}
    if len(found) > 1:
        raise VmHostError(
            f"the VMs of the fleet are in several partitions of libvirt ({', '.join(sorted(found))}); a budget is that "
            "of one (vm_fleet_partition)"
        )
    return group_of(found.pop())


class VmServer:
    """A VM, from its start on.

    Args:
        server: of the plan.
        password: of its Redis.
        admit: refuses a process that is in the wrong control group.

    Attributes:
        login: how to reach its Redis.
        pid: of its process, 0 as long as it is not known.
        was_killed: whether its process has ended without a word to libvirt, as when the kernel kills it.
    """

    def __init__(self, server: Server, password: str, admit: t.Callable[[int], None]) -> None:
        self._name, self._admit = server.name, admit
        self.login = Login((server.address, server.port), password)
        self.pid, self.was_killed = 0, False
        self._ended = self._answers = self._stopped = False
        self._error = ""
        self._thread = threading.Thread(target=self._join, daemon=True)
        self._thread.start()

    def _join(self) -> None:
        try:
            self._start()
        except Exception as error:
            self._error = f"{self._name}: {error}"

    def _start(self) -> None:
        host = VmHost(_URI)
        pid = self._run(host)
        self._admit(pid)
        self.pid = pid
        deadline = time.monotonic() + _BOOT_SECONDS
        while not self._stopped and is_running(pid):
            # Where libvirt assigns addresses, this may be another one than at the time of the inventory.
            for address in host.addresses(Vm("", self._name, 0), "lease")[:1]:
                self.login = Login((address, self.login.address[1]), self.login.password)
            refused = "nobody"
            try:
                if answers(self.login, _ANSWER_SECONDS):
                    self._answers = True
                    return
            except Refused as error:
                refused = str(error)
            if time.monotonic() > deadline:
                address, port = self.login.address
                raise VmHostError(
                    f"its Redis has not answered at {address} port {port} within {_BOOT_SECONDS:g} s, but {refused}. "
                    "It must start at boot, listen there (redis_bind) and have latency_benchmark_password"
                )
            time.sleep(_POLL_S)

    def _run(self, host: VmHost) -> int:
        """Start it and return the number of its process.

        Raises:
            VmHostError: it does not start, and not because the kernel kills it.
        """
        kernel, pid = KernelWords(self._name), 0
        with ThreadPoolExecutor(1) as pool:
            start = pool.submit(host.start, self._name)
            # Memory may run out already while QEMU starts; those who were there go on.
            while not pid and not start.done():
                time.sleep(_PID_S)
                pid = self._killed_first()
        error = start.exception()
        if error and not (pid and kernel.on(pid, True)):
            raise error
        return pid or self._killed_first()

    def _killed_first(self) -> int:
        """Let the kernel kill its process before all others; return its number, 0 if there is none yet."""
        try:
            with open(os.path.join(_PID_FILES, f"{self._name}.pid"), encoding="ascii") as file:
                pid = int(file.read() or 0)
            if pid:
                set_kernel_file(f"/proc/{pid}/oom_score_adj", str(KILLED_FIRST))
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return pid

    def ready(self) -> bool:
        """Return whether its Redis answers.

        Raises:
            ServerError: it cannot.
        """
        if self._error:
            raise ServerError(self._error)
        return self._answers

    def ended(self) -> bool:
        """Return whether its process has ended."""
        if self.pid and not self._ended and not is_running(self.pid):
            self.was_killed = self._has_crashed()
            self._ended = True
        return self._ended

    def _has_crashed(self) -> bool:
        host, deadline = VmHost(_URI), time.monotonic() + _NOTICED_SECONDS
        while (crashed := host.has_crashed(self._name)) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return bool(crashed)

    def how(self) -> str:
        """Return how it ended."""
        return "without a shutdown" if self.was_killed else "by a shutdown"

    def says(self) -> str:
        """Return where QEMU's own words are."""
        return f"QEMU's messages are in /var/log/libvirt/qemu/{self._name}.log"

    def stop(self, seconds: float) -> None:
        """Shut it down, and switch it off if it still runs after so many seconds.

        Raises:
            VmHostError: libvirt cannot.
        """
        self._stopped = True
        self._thread.join()
        VmHost(_URI).stop(self._name, seconds)


def stop(servers: t.Sequence[VmServer], seconds: float, meanwhile: t.Callable[[], None]) -> None:
    """Shut VMs down, several at a time.

    Args:
        servers: the VMs.
        seconds: after so many a VM is switched off.
        meanwhile: called again and again until all have ended.

    Raises:
        ServerError: a VM may run on.
    """
    if not servers:
        return
    with ThreadPoolExecutor(_STOPPED_AT_ONCE) as pool:
        stops = [pool.submit(server.stop, seconds) for server in servers]
        while not all(each.done() for each in stops):
            meanwhile()
    errors = [str(error) for error in (each.exception() for each in stops) if error]
    if errors:
        raise ServerError("; ".join(errors[:_SHOWN]))
