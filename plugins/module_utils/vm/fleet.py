# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet of VMs on one host: compare what exists with what is wanted, and apply the difference."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.memstretch.density.plugins.module_utils.vm.belongings import is_own
from ansible_collections.memstretch.density.plugins.module_utils.vm.definitions import paths_in
from ansible_collections.memstretch.density.plugins.module_utils.vm.disk_users import DiskUsers
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import POLL_S, Domain, VmHost, VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.image import GoldenImage, ImageChains
from ansible_collections.memstretch.density.plugins.module_utils.vm.networks import FleetNetworks
from ansible_collections.memstretch.density.plugins.module_utils.vm.owner import OWNER_FILE, OwnerFile, Ownership
from ansible_collections.memstretch.density.plugins.module_utils.vm.template import (
    Template,
    Vm,
    disk_path,
    files_of,
    seed_of,
)

_SHARED_FILES = re.compile(r"seed-[0-9a-f]+\.iso|\.clone\.qcow2")
# Sources of a VM's address, the most reliable first: whether libvirt's own DHCP assigns it, or somebody else.
_ASSIGNED_HERE = ("lease",)
_ASSIGNED_ELSEWHERE = ("agent", "arp")


class Action(t.NamedTuple):
    """What is done to one VM."""

    vm: Vm
    operations: tuple[str, ...]  # in this order: stop, undefine, delete, clone, define, start

    def __str__(self) -> str:
        return f"{self.vm.name}: {', '.join(self.operations)}"


class Fleet:
    """The VMs of one fleet on one host.

    C(vms) are the VMs that the fleet should have here, C(domains) all VMs of the host, and C(members) those of them
    that carry the fleet's mark and have the UUID that follows from its salt.
    """

    def __init__(self, name: str, vms: t.Sequence[Vm], directory: str, host: VmHost) -> None:
        self.name, self.directory, self.host = name, directory, host
        self.owner = OwnerFile(directory)
        self._new_salt = secrets.token_hex(16)
        self._unsalted_vms = vms
        self.refresh()

    def refresh(self) -> None:
        """Read the owner file and the host's VMs."""
        self.ownership = self.owner.read()
        self.domains: dict[str, Domain] = self.host.domains()
        owned = self.ownership is not None and self.ownership.fleet == self.name
        self.salt = self.ownership.salt if owned and self.ownership else self._new_salt
        self.members = self._find_members()
        self.vms = [vm._replace(salt=self.salt) for vm in self._unsalted_vms]
        recorded = self.ownership.networks if owned and self.ownership else ()
        self.networks = FleetNetworks(self.name, self.salt, recorded, self.host)

    def _find_members(self) -> dict[str, Domain]:
        found = {}
        for each in self._marked():
            vm = Vm(self.name, each.name, each.mark.number if each.mark else 0, self.salt)
            if each.uuid == vm.uuid:
                found[each.name] = each
        return found

    def _marked(self) -> t.Iterator[Domain]:
        """Yield the VMs that carry the mark of a fleet of this name, copies of its VMs among them."""
        return (each for each in self.domains.values() if each.mark and each.mark.fleet == self.name)

    def _has_disk_here(self, domain: Domain) -> bool:
        directory = os.path.realpath(self.directory)
        return any(os.path.dirname(path) == directory and path.endswith(".qcow2") for path in files_of(domain.xml))

    # --- checks before any change ------------------------------------------------------------------------------

    def refuse_conflicts(self, needs_directory: bool) -> None:
        """Raise VmHostError for a VM or a directory of somebody else where the fleet needs its own."""
        self._refuse_lost_owner_file()
        self._refuse_other_directory(needs_directory)
        conflicts = [*self._conflicts_with_others(), *self._renamed_members()]
        if conflicts:
            raise VmHostError(
                "; ".join(conflicts) + ". Nothing was changed. Choose another name for the fleet or for its VMs"
            )

    def _refuse_lost_owner_file(self) -> None:
        lost = sorted(each.name for each in self._marked() if self._has_disk_here(each))
        if self.ownership is None and lost:
            raise VmHostError(
                f"directory: the owner file {self.owner.path} is missing or empty, but VMs have disks there and carry "
                f"the mark of fleet {self.name}: {', '.join(lost)}. Without the salt in that file nothing shows that "
                "they are this fleet's. Nothing was changed. Put the file back from a backup. Without one, undefine "
                f"these VMs with virsh, remove {self.directory} by hand, and run this again"
            )

    def _refuse_other_directory(self, needed: bool) -> None:
        if self.ownership:
            if self.ownership.fleet != self.name:
                raise VmHostError(
                    f"directory: {self.directory} exists and belongs to fleet {self.ownership.fleet}; "
                    "choose another one"
                )
        elif needed and os.path.isdir(self.directory) and set(os.listdir(self.directory)) - {OWNER_FILE}:
            raise VmHostError(f"directory: {self.directory} exists and was not made for a fleet; choose another one")

    def _conflicts_with_others(self) -> t.Iterator[str]:
        others = list(self._others())
        for vm in self.vms:
            for other in others:
                if other.name == vm.name:
                    same = "name"
                elif other.uuid == vm.uuid:
                    same = "UUID"
                elif vm.mac in other.macs:
                    same = "MAC address"
                else:
                    continue
                copy = ", although it carries its mark: it is a copy, or of another fleet of that name"
                carries = copy if other.mark and other.mark.fleet == self.name else ""
                yield (
                    f"VM {other.name} ({other.uuid}) has the {same} of {vm.name} but is not in fleet {self.name}"
                    f"{carries}"
                )

    def _renamed_members(self) -> t.Iterator[str]:
        names = {vm.number: vm.name for vm in self.vms}
        for each in self.members.values():
            number = each.mark.number if each.mark else 0
            name = names.get(number, each.name)
            if name != each.name:
                yield (
                    f"VM {each.name} has number {number} of fleet {self.name}, which is now to be called {name}; "
                    "remove the fleet first"
                )

    def refuse_changed_base(self, template: Template) -> None:
        """Raise VmHostError if the golden image has changed since a VM was cloned from it: the clone is corrupt."""
        for name, each in self.members.items():
            mark = each.mark
            if (
                mark
                and os.path.exists(template.disk(Vm(self.name, name, mark.number)))
                and mark.base == template.base
                and mark.base_state != template.base_state
            ):
                raise VmHostError(
                    f"golden image: {template.base} has changed since {name} was cloned from it, so the clones' disks "
                    "are corrupt. Remove the fleet (state: absent) and create it again. Never write to a golden image, "
                    "and never boot it"
                )

    def refuse_shared_disks(self, actions: t.Sequence[Action], chains: ImageChains) -> None:
        """Raise VmHostError if somebody else uses a disk that would be replaced or deleted."""
        owners = {
            disk_path(self.directory, action.vm): action.vm.name
            for action in actions
            if {"clone", "delete"} & set(action.operations)
        }
        disks = [path for path in owners if os.path.lexists(path)]
        if not disks:
            return
        names = sorted(os.listdir(self.directory))
        others = [os.path.join(self.directory, name) for name in names if not self._is_own_file(name)]
        own = set(owners.values()) & set(self.members)
        users = DiskUsers(self.host, chains, others, self.domains, own)
        conflicts = [f"{path} of {owners[path]} {user}" for path, user in users.of(disks).items()]
        if conflicts:
            raise VmHostError(
                "; ".join(conflicts) + f", which is not in fleet {self.name} or stays. Nothing was changed. Give the "
                "other one a disk of its own (qemu-img convert copies one with all that is below it), or remove it, "
                "and run this again"
            )

    def _others(self) -> t.Iterator[Domain]:
        return (each for each in self.domains.values() if each.name not in self.members)

    def with_old_keys(self, template: Template) -> list[str]:
        """Return the running VMs that differ from the template in their seed disk alone: other keys."""
        return [vm.name for vm in self.vms if self._has_old_seed(vm, template)]

    def _has_old_seed(self, vm: Vm, template: Template) -> bool:
        domain = self.members.get(vm.name)
        if domain is None or domain.mark is None or not domain.running:
            return False
        seed = seed_of(domain.xml)
        # Only one seed in place of another: a VM that gets its first seed, or loses it, is another VM.
        if not seed or not template.seed or seed == template.seed:
            return False
        return domain.mark.digest == template._replace(seed=seed).digest(vm)

    # --- the difference ----------------------------------------------------------------------------------------

    def actions(self, template: Template | None, state: str, surplus: str) -> list[Action]:
        """Return the changes that bring every VM to its state; a VM that needs none is left out.

        Args:
            template: None if no VM should exist.
        """
        vms = self.vms if template else []
        found = [self._action(vm, template, state) for vm in vms] if template else []
        names = {vm.name for vm in vms}
        for each in sorted(self.members.values(), key=lambda each: each.mark.number if each.mark else 0):
            if each.name not in names:
                found.append(self._surplus_action(each, "absent" if state == "absent" else surplus))
        return [action for action in found if action.operations]

    def _action(self, vm: Vm, template: Template, state: str) -> Action:
        domain = self.members.get(vm.name)
        running = domain is not None and domain.running
        mark = domain.mark if domain else None
        cloned = os.path.exists(template.disk(vm)) and mark is not None and mark.base == template.base
        # Other keys are no reason to stop a VM that runs: somebody else may be using it.
        current = mark is not None and (mark.digest == template.digest(vm) or self._has_old_seed(vm, template))
        if state == "stopped" and running and current:
            return Action(vm, ("stop",))
        if running and current and cloned and not (domain and domain.paused and state == "started"):
            return Action(vm, ())
        operations = ["stop"] if running and not (current and cloned) else []
        operations += [] if cloned else ["clone"]
        operations += [] if current else ["define"]
        if state == "started" or (state == "present" and "stop" in operations):
            operations.append("start")
        return Action(vm, tuple(operations))

    def _surplus_action(self, domain: Domain, surplus: str) -> Action:
        vm = Vm(self.name, domain.name, domain.mark.number if domain.mark else 0, self.salt)
        if surplus == "absent":
            return Action(vm, ("undefine", "delete"))
        return Action(vm, ("stop",) if domain.running else ())

    def files(self, keep_owner: bool = False) -> list[str]:
        """Return the names of the fleet's files in its directory, without those that somebody else's VM uses.

        Args:
            keep_owner: leave out the owner file: something that it records stays.
        """
        if self.ownership is None or self.ownership.fleet != self.name:
            return []
        used = {path for each in self._others() for xml in self.host.definitions(each) for path in paths_in(xml)}
        return sorted(
            name
            for name in os.listdir(self.directory)
            if self._is_own_file(name)
            and not (keep_owner and name == OWNER_FILE)
            and os.path.realpath(os.path.join(self.directory, name)) not in used
        )

    def _is_own_file(self, name: str) -> bool:
        if name in (OWNER_FILE, f"{OWNER_FILE}.new") or _SHARED_FILES.fullmatch(name):
            return True
        disks = self.ownership.disks if self.ownership else ()
        return any(name in (f"clone-{disk}.qcow2", f".clone-{disk}.new") or is_own(name, disk) for disk in disks)

    # --- the changes -------------------------------------------------------------------------------------------

    def record(self, actions: t.Sequence[Action], networks: t.Sequence[str]) -> None:
        """Write the salt, and the names of the disks and networks that will be made, to the owner file."""
        old = self.ownership or Ownership(self.name, self.salt)
        disks = [action.vm.name for action in actions if "clone" in action.operations]
        ownership = old._replace(
            disks=tuple(dict.fromkeys([*old.disks, *disks])),
            networks=tuple(dict.fromkeys([*old.networks, *networks])),
        )
        if ownership != self.ownership:
            self.owner.write(ownership)
            self.ownership = ownership

    def apply(
        self,
        actions: t.Sequence[Action],
        template: Template | None,
        image: GoldenImage | None,
        parallel: int,
        stop_timeout: float,
    ) -> None:
        """Perform the actions on several VMs at a time. The owner file must be locked, and record() called.

        Args:
            template, image: not needed for actions that only stop and remove VMs.
            parallel: how many VMs at a time.

        Raises:
            VmHostError: one or more VMs failed. The actions on all other VMs were performed.
        """
        first = os.path.join(self.directory, ".clone.qcow2")
        if image and any("clone" in action.operations for action in actions):
            image.clone(first)  # once: all new clones are equal, and a copy costs less than qemu-img
        try:
            with ThreadPoolExecutor(max_workers=parallel) as pool:
                failures = list(pool.map(lambda action: self._try(action, template, stop_timeout, first), actions))
        finally:
            if os.path.exists(first):
                os.unlink(first)
        failed = [failure for failure in failures if failure]
        if failed:
            raise VmHostError(f"{len(failed)} of {len(actions)} VMs failed: " + "; ".join(failed))

    def _try(self, action: Action, template: Template | None, stop_timeout: float, first: str) -> str:
        """Perform an action, and return its error or an empty string."""
        try:
            for operation in action.operations:
                self._perform(operation, action.vm, template, stop_timeout, first)
        except (VmHostError, OSError) as error:
            return f"{action.vm.name}: {error}"
        return ""

    def _perform(self, operation: str, vm: Vm, template: Template | None, stop_timeout: float, first: str) -> None:
        disk = disk_path(self.directory, vm)
        if operation == "stop":
            self.host.stop(vm.name, stop_timeout)
        elif operation == "undefine":
            self.host.stop(vm.name, 0)  # its disk is deleted too: it has nothing to save
            self.host.undefine(vm.name)
        elif operation == "delete":
            self._remove_belongings(vm)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(disk)
        elif operation == "clone":
            # Renamed when it is complete: an interrupted run leaves no partial disk under that name.
            self._remove_belongings(vm)  # of a disk that this one replaces
            self._copy_variables(vm, template)
            self._copy(first, disk, vm)
        elif operation == "define" and template:
            self.host.define(template.xml(vm))
        elif operation == "start":
            self.host.start(vm.name)

    def _remove_belongings(self, vm: Vm) -> None:
        for name in os.listdir(self.directory):
            if is_own(name, vm.name):
                os.unlink(os.path.join(self.directory, name))

    def _copy_variables(self, vm: Vm, template: Template | None) -> None:
        """Give a clone the firmware variables of its master. Without them libvirt makes the firmware's own."""
        source, target = template.variables(vm) if template else ("", "")
        if source and os.path.exists(source):
            self._copy(source, target, vm)

    def _copy(self, source: str, target: str, vm: Vm) -> None:
        new = os.path.join(self.directory, f".clone-{vm.name}.new")
        shutil.copyfile(source, new)
        os.chmod(new, 0o600)
        os.replace(new, target)

    def remove_files(self, keep_owner: bool) -> None:
        """Remove the fleet's files, and the directory unless it holds other files. The owner file must be locked."""
        # The owner file goes last: after an interruption the next run still finds the fleet.
        for name in sorted(self.files(keep_owner), key=lambda name: name == OWNER_FILE):
            os.unlink(os.path.join(self.directory, name))
        if os.path.isdir(self.directory) and not os.listdir(self.directory):
            os.rmdir(self.directory)

    # --- the result --------------------------------------------------------------------------------------------

    def states(self) -> dict[str, str]:
        """Return the state of each VM of the fleet by name: running, paused or shut off."""
        return {
            name: "paused" if each.paused else "running" if each.running else "shut off"
            for name, each in self.members.items()
        }

    def states_after(self, actions: t.Sequence[Action]) -> dict[str, str]:
        """Return the states that the actions will lead to."""
        found = self.states()
        for action in actions:
            if "delete" in action.operations:
                del found[action.vm.name]
            else:
                found[action.vm.name] = "running" if "start" in action.operations else "shut off"
        return found

    def addresses(self, network: t.Mapping[str, t.Any], timeout: float) -> dict[str, str]:
        """Return the address of each running VM that has one; wait until all have one or the timeout is over."""
        sources = self._address_sources(network)
        running = [vm for vm in self.vms if vm.name in self.members and self.members[vm.name].running]
        waiting = running if sources else []
        found: dict[str, str] = {}
        deadline = time.monotonic() + timeout
        while True:
            for vm in waiting:
                for source in sources:
                    addresses = self.host.addresses(vm, source)
                    if addresses:
                        found[vm.name] = addresses[0]
                        break
            waiting = [vm for vm in waiting if vm.name not in found]
            if not waiting or time.monotonic() >= deadline:
                return found
            time.sleep(POLL_S)

    def _address_sources(self, network: t.Mapping[str, t.Any]) -> tuple[str, ...]:
        if network["type"] == "user":
            return ()  # the host sees none
        if network["type"] == "bridge":
            return _ASSIGNED_ELSEWHERE
        # The network of a fleet is there by now, unless this is check mode.
        created_later = bool(network.get("address"))
        here = created_later or self.host.network_addresses(network["name"]) is not None
        return _ASSIGNED_HERE if here else _ASSIGNED_ELSEWHERE

    def describe(self, template: Template | None, addresses: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
        """Return the VMs as the module vm_fleet documents them."""
        user = template is not None and template.network["type"] == "user"
        return [
            {
                "name": vm.name,
                "number": vm.number,
                "mac": vm.mac,
                "running": vm.name in self.members and self.members[vm.name].running,
                "address": "127.0.0.1" if user else addresses.get(vm.name, ""),
                "port": template.port(vm) if user and template else 22,
            }
            for vm in self.vms
        ]
