# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The swappiness of the control groups of a fleet that has no DRAM budget.

In version 1 each group keeps the memory.swappiness that its parent had at its creation, and vm.swappiness acts on the
root group alone. A fleet that lives through several profiles would keep that of the first one. So the groups that hold
nothing but servers of the role redis and VMs of the role vm_fleet are given the vm.swappiness of the host. Others are
left alone, and so are those that have it already, such as the groups of a budget.
"""

from __future__ import annotations

import fnmatch
import os
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import CGROUP_V1, group_of_process
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, set_kernel_file
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.redis.process import SERVER_EXECUTABLES
from ansible_collections.memstretch.density.plugins.module_utils.redis.texts import MARKER, UNIT
from ansible_collections.memstretch.density.plugins.module_utils.vm.owner import OWNER_FILE

HOST = "/proc/sys/vm/swappiness"
_KNOB = "memory.swappiness"


class GroupError(Exception):
    """The swappiness of a group cannot be set; the text is for the user."""


class FleetGroups:
    """The groups of the fleet and their swappiness.

    Args:
        record: of the values that they had.
        tuned: the record of the module host_settings, which has the swappiness of the host before the first profile.
        restore: whether the values that they had are wanted, and not the swappiness of the host.
        root: the directory with the host's files; tests use another one than /.
    """

    def __init__(self, record: HostRecord, tuned: HostRecord, restore: bool, root: str = "/") -> None:
        self._record, self._restore, self._files = record, restore, HostFiles(root)
        self._recorded: dict[str, int] | None = (record.read() or {}).get("originals")
        # A group that has gone needs nothing: a new one of its name has the value of its parent.
        kept = {group: value for group, value in (self._recorded or {}).items() if self._value(group) is not None}
        if restore:
            self._originals, values = kept, kept
        else:
            host = self._files.number(HOST)
            values = {} if host is None else dict.fromkeys(own_groups(self._files), host)
            self._originals = {**self._new_originals(values, _original(tuned)), **kept}
        present = {group: self._value(group) for group in values}
        # Each group whose swappiness has to change, with the present value and the wanted one.
        self._wanted = {
            group: (now, values[group]) for group, now in present.items() if now is not None and now != values[group]
        }

    def _new_originals(self, values: t.Mapping[str, int], of_host: int | None) -> dict[str, int]:
        """Return what the groups would have without the profile, where that differs from the host's value.

        A group that was made under the profile has its value from there, and would have had that of the host.
        """
        found = {}
        for group, host in values.items():
            now = self._value(group)
            original = of_host if now == host else now
            if original is not None and original != host:
                found[group] = original
        return found

    def change_needed(self) -> bool:
        """Decide whether a group or the record has to change."""
        if self._restore:
            return bool(self._wanted) or self._recorded is not None
        return bool(self._wanted) or self._originals != (self._recorded or {})

    def apply(self) -> None:
        """Set what is wanted. The caller holds the lock of the record since before it constructed this object.

        Raises:
            GroupError: the kernel refuses a value.
        """
        if not self._restore:
            self._record.write({"originals": self._originals})
        for group, (_now, value) in self._wanted.items():
            self._set(group, value)
        if self._restore:
            self._record.remove()

    def differences(self) -> list[str]:
        """Return what is not in force, as messages."""
        return [f"{_knob(group)} is {now} and not {value}" for group, (now, value) in self._wanted.items()]

    def _set(self, group: str, value: int) -> None:
        try:
            set_kernel_file(self._files.path(_knob(group)), str(value))
        except FileNotFoundError:
            return  # its last process has ended
        except OSError as error:
            raise GroupError(f"the kernel refuses {value} for {_knob(group)}: {error.strerror}") from error
        if self._value(group) not in (None, value):
            raise GroupError(f"{_knob(group)} is {self._value(group)} after {value} was written")

    def _value(self, group: str) -> int | None:
        return self._files.number(_knob(group))


def _original(tuned: HostRecord) -> int | None:
    """Return the swappiness that the host had before a profile changed it; None if none has."""
    value = ((tuned.read() or {}).get("originals") or {}).get(HOST)
    return int(value) if value else None


def _knob(group: str) -> str:
    return f"{CGROUP_V1}{group}/{_KNOB}"


def own_groups(files: HostFiles) -> list[str]:
    """Return the groups of version 1, below the root of the memory controller, that hold nothing but the fleet."""
    if not files.exists(CGROUP_V1):
        return []
    owned: dict[str, bool] = {}
    for pid in filter(str.isdigit, files.names("/proc")):
        group = group_of_process(files, int(pid))
        if group and group != "/":
            owned[group] = owned.get(group, True) and _is_fleet(files, pid, group)
    return sorted(group for group, is_own in owned.items() if is_own)


def _is_fleet(files: HostFiles, pid: str, group: str) -> bool:
    """Decide whether a process is a server of the role redis or a VM of the role vm_fleet."""
    return (
        fnmatch.fnmatch(os.path.basename(group), UNIT.replace("@", "@*"))
        or _is_server(files, pid)
        or _is_vm(files, pid)
    )


def _is_server(files: HostFiles, pid: str) -> bool:
    """Decide whether a process is a server of the role redis that no systemd has started."""
    try:
        program = os.path.basename(os.readlink(files.path(f"/proc/{pid}/exe"))).replace(" (deleted)", "")
        directory = os.readlink(files.path(f"/proc/{pid}/cwd"))
        # In a container the same path is another directory.
        here = os.readlink(files.path(f"/proc/{pid}/ns/mnt")) == os.readlink(files.path("/proc/self/ns/mnt"))
    except OSError:
        return False  # it has ended, or is a thread of the kernel
    above = [directory, os.path.dirname(directory), os.path.dirname(os.path.dirname(directory))]
    return here and program in SERVER_EXECUTABLES and any(files.exists(os.path.join(each, MARKER)) for each in above)


def _is_vm(files: HostFiles, pid: str) -> bool:
    """Decide whether a process is a VM whose disk is a clone in the directory of a fleet."""
    arguments = (files.text(f"/proc/{pid}/cmdline") or "").split("\0")
    if not os.path.basename(arguments[0]).startswith("qemu"):
        return False
    paths = (text for argument in arguments for text in argument.replace('"', ",").replace("=", ",").split(","))
    return any(
        fnmatch.fnmatch(path, "/*/clone-*.qcow2") and files.exists(os.path.join(os.path.dirname(path), OWNER_FILE))
        for path in paths
    )
