# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet of VMs on one host: what is there, what is wanted, and the steps between."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.memstretch.density.plugins.module_utils.vm.host import POLL_S, Known, VmHost, VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.template import Plan, Vm, console_path, disk_path

# Says that a directory was made for a fleet, and for which.
OWNER_FILE = ".memstretch-fleet"
_OUR_FILES = re.compile(r"^(clone-.+\.(qcow2|console)|seed-[0-9a-f]+\.iso|\.clone\.qcow2|\.clone-.+\.new)$")
LOCK_S = 600


class Step(t.NamedTuple):
    """What is done to one VM; the actions in this order."""

    vm: Vm
    actions: tuple[str, ...]  # of stop, undefine, delete, clone, define, start

    def __str__(self) -> str:
        return f"{self.vm.name}: {', '.join(self.actions)}"


class Fleet:
    """The VMs of one fleet on one host."""

    def __init__(self, name: str, vms: t.Sequence[Vm], directory: str, host: VmHost) -> None:
        self.name, self.vms, self.directory, self.host = name, vms, directory, host
        self.known = host.known()
        self.ours = {each.name: each for each in self.known.values() if each.mark and each.mark.fleet == name}

    # --- what must not be -------------------------------------------------------------------------------------

    def refuse_strangers(self) -> None:
        """Raise VmHostError if a VM of somebody else stands where one of ours would, or the directory is not ours."""
        strangers = [each for each in self.known.values() if each.name not in self.ours]
        problems = []
        for vm in self.vms:
            for other in strangers:
                reason = (
                    "name"
                    if other.name == vm.name
                    else "UUID"
                    if other.uuid == vm.uuid
                    else "MAC address"
                    if vm.mac in other.macs
                    else ""
                )
                if reason:
                    problems.append(
                        f"VM {other.name} ({other.uuid}) has the {reason} of our {vm.name} and is not of fleet {self.name}"
                    )
        wanted = {vm.number: vm.name for vm in self.vms}
        for each in self.ours.values():
            name = wanted.get(each.mark.number if each.mark else 0, each.name)
            if name != each.name:
                problems.append(
                    f"VM {each.name} has the number of what is now to be called {name} in fleet {self.name}; remove the fleet first"
                )
        if problems:
            raise VmHostError(
                "; ".join(problems) + ". Nothing was touched; choose another name for the fleet or its VMs"
            )
        owner = self._owner()
        if os.path.isdir(self.directory) and owner != self.name and (owner or os.listdir(self.directory)):
            reason = f"belongs to fleet {owner}" if owner else "was not made for a fleet"
            raise VmHostError(f"directory: {self.directory} is there and {reason}; choose another")

    def refuse_changed_base(self, plan: Plan) -> None:
        """Raise VmHostError if the golden image is not what the clones were made of: their disks would be garbage."""
        for name, each in self.ours.items():
            mark = each.mark
            if (
                mark
                and os.path.exists(plan.disk(Vm(self.name, name, mark.number)))
                and mark.base == plan.base
                and mark.base_state != plan.base_state
            ):
                raise VmHostError(
                    f"golden image: {plan.base} has changed since {name} was cloned from it, so that the clones' disks are no longer whole. Remove the fleet "
                    "(state absent) and make it anew; a golden image must never be written to or booted itself"
                )

    def _owner(self) -> str:
        try:
            with open(os.path.join(self.directory, OWNER_FILE), encoding="utf-8") as file:
                return file.read().strip()
        except FileNotFoundError:
            return ""

    # --- what is to be done -----------------------------------------------------------------------------------

    def steps(self, plan: Plan | None, state: str, surplus: str) -> list[Step]:
        """Return what would bring every VM to its state; nothing for those that are right."""
        wanted = {} if state == "absent" else {vm.name: vm for vm in self.vms}
        found = [self._step(vm, t.cast(Plan, plan), state) for vm in wanted.values()]
        for each in sorted(self.ours.values(), key=lambda each: each.mark.number if each.mark else 0):
            if each.name not in wanted:
                found.append(self._surplus(each, "absent" if state == "absent" else surplus))
        return [step for step in found if step.actions]

    def _step(self, vm: Vm, plan: Plan, state: str) -> Step:
        known = self.ours.get(vm.name)
        running = known is not None and known.running
        mark = known.mark if known else None
        cloned = os.path.exists(plan.disk(vm)) and mark is not None and mark.base == plan.base
        right = mark is not None and mark.digest == plan.digest(vm)
        if state == "stopped" and running and right:
            return Step(vm, ("stop",))
        if running and right and cloned and not (known and known.paused and state == "started"):
            return Step(vm, ())
        actions = ["stop"] if running and not (right and cloned) else []
        actions += [] if cloned else ["clone"]
        actions += [] if right else ["define"]
        if state == "started" or (state == "present" and "stop" in actions):
            actions.append("start")
        return Step(vm, tuple(actions))

    def _surplus(self, known: Known, surplus: str) -> Step:
        vm = Vm(self.name, known.name, known.mark.number if known.mark else 0)
        if surplus == "absent":
            return Step(vm, ("undefine", "delete"))
        return Step(vm, ("stop",) if known.running else ())

    def leftovers(self) -> list[str]:
        """Return the files of this fleet that are there."""
        if self._owner() != self.name:
            return []
        return sorted(name for name in os.listdir(self.directory) if _OUR_FILES.match(name) or name == OWNER_FILE)

    # --- the doing --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self) -> t.Iterator[None]:
        """Make the directory, and let one process at a time change the fleet."""
        os.makedirs(self.directory, mode=0o711, exist_ok=True)
        descriptor = os.open(os.path.join(self.directory, OWNER_FILE), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            deadline = time.monotonic() + LOCK_S
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise VmHostError(
                            f"another process has been changing fleet {self.name} for {LOCK_S} s; wait for it, then run this again"
                        ) from None
                    time.sleep(POLL_S)
            os.pwrite(descriptor, f"{self.name}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def play(
        self,
        steps: t.Sequence[Step],
        plan: Plan | None,
        parallel: int,
        stop_timeout: float,
        template: t.Callable[[str], None],
    ) -> None:
        """Do the steps, so many VMs at a time.

        Args:
            template: makes an empty clone of the golden image at a path. It is called once: at their birth all clones are equal.

        Raises:
            VmHostError: one or more VMs failed; the others were done.
        """
        first = os.path.join(self.directory, ".clone.qcow2")
        if any("clone" in step.actions for step in steps):
            template(first)
        try:
            with ThreadPoolExecutor(max_workers=parallel) as pool:
                failures = list(pool.map(lambda step: self._try(step, plan, stop_timeout, first), steps))
        finally:
            if os.path.exists(first):
                os.unlink(first)
        failed = [failure for failure in failures if failure]
        if failed:
            raise VmHostError(f"{len(failed)} of {len(steps)} VMs failed: " + "; ".join(failed))

    def _try(self, step: Step, plan: Plan | None, stop_timeout: float, first: str) -> str:
        try:
            for action in step.actions:
                self._do(action, step.vm, plan, stop_timeout, first)
        except (VmHostError, OSError) as error:
            return f"{step.vm.name}: {error}"
        return ""

    def _do(self, action: str, vm: Vm, plan: Plan | None, stop_timeout: float, first: str) -> None:
        disk, console = disk_path(self.directory, vm), console_path(self.directory, vm)
        if action == "stop":
            self.host.stop(vm.name, stop_timeout)
        elif action == "undefine":
            self.host.stop(vm.name, 0)  # its disk goes as well
            self.host.undefine(vm.name)
        elif action == "delete":
            for path in (disk, console):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        elif action == "clone":
            # Whole or not there: an interrupted run leaves no half a disk under its name.
            new = os.path.join(self.directory, f".clone-{vm.name}.new")
            shutil.copyfile(first, new)
            os.chmod(new, 0o600)
            os.replace(new, disk)
        elif action == "define":
            self.host.define(t.cast(Plan, plan).xml(vm))
        elif action == "start":
            self.host.start(vm.name)

    def remove_files(self) -> None:
        """Remove what was made for the fleet; files of others and with them the directory stay."""
        for name in self.leftovers():
            os.unlink(os.path.join(self.directory, name))
        if os.path.isdir(self.directory) and not os.listdir(self.directory):
            os.rmdir(self.directory)


def wait_for_addresses(host: VmHost, vms: t.Sequence[Vm], sources: t.Sequence[str], timeout: float) -> dict[str, str]:
    """Return the address of each VM that has one, as soon as all have one or the time is over."""
    found: dict[str, str] = {}
    deadline = time.monotonic() + timeout
    while True:
        for vm in vms:
            if vm.name not in found:
                for source in sources:
                    addresses = host.addresses(vm.name, source)
                    if addresses:
                        found[vm.name] = addresses[0]
                        break
        if len(found) == len(vms) or time.monotonic() >= deadline:
            return found
        time.sleep(POLL_S)
