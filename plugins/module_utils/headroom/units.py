# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The units of a host: the VMs of libvirt and QEMU, or the systemd units, control groups and processes that the user
names. Everything is read from files; no daemon is asked, and nothing is changed.

A VM of libvirt is in the state file that libvirt keeps for it in /run/libvirt/qemu, which names its process. Other VMs
are processes of QEMU that have a name on their command line, as on Proxmox.
"""

from __future__ import annotations

import collections
import fnmatch
import os
import re
import typing as t
import xml.etree.ElementTree as ET

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.vm import qemu

STATE_FILES = "/run/libvirt/qemu"
MOST_UNITS = 1000
LONGEST_NAME = 200
MOST_BYTES = 2**60
PROCESS = "process:"
# What a systemd unit that has processes can be.
UNIT_TYPES = (".service", ".scope", ".slice", ".socket", ".mount", ".swap")
_QEMU = re.compile(r"^(qemu-system-|qemu-kvm$|kvm$)")
_LIBVIRT_UNITS = {"b": 1, "bytes": 1, "KB": 1000, "KiB": 2**10, "k": 2**10, "MiB": 2**20, "M": 2**20, "GiB": 2**30}


class Unit(t.NamedTuple):
    """Something whose memory is looked at.

    Attributes:
        name: for people; different for each unit of a host.
        kind: C(vm), C(systemd unit), C(control group) or C(process).
        pids: its processes at this moment.
        given_bytes: the memory that a VM may use; None if nothing says it.
        balloon_bytes: what the balloon leaves of that to the VM; None if that is unknown.
    """

    name: str
    kind: str
    pids: tuple[int, ...]
    given_bytes: int | None = None
    balloon_bytes: int | None = None


class _Process(t.NamedTuple):
    pid: int
    name: str
    groups: tuple[str, ...]


def check(patterns: t.Sequence[str]) -> None:
    """Refuse patterns that name nothing.

    Raises:
        SettingError: a pattern is none of those that are documented.
    """
    for pattern in patterns:
        if not (
            re.match(r"^/\S", pattern)
            or pattern.endswith(UNIT_TYPES)
            or (pattern.startswith(PROCESS) and pattern != PROCESS)
        ):
            raise SettingError(
                f"units: {pattern!r} is not allowed; it must be a systemd unit such as redis@*.service, a control "
                f"group such as /kubepods/*, or a program such as {PROCESS}redis-server"
            )


def find(files: HostFiles, patterns: t.Sequence[str]) -> list[Unit]:
    """Return the units of this host, by name: its VMs, or what the patterns match.

    Raises:
        SettingError: there are too many, or a process is in two of them.
    """
    if not patterns:
        return _limited(_virtual_machines(files))
    processes = _processes(files)
    # By the path of the control group, or the number of the process.
    found: dict[str, Unit] = {}
    for pattern in patterns:
        if pattern.startswith(PROCESS):
            wanted = pattern[len(PROCESS) :]
            found.update(
                (str(each.pid), Unit(f"{each.name}-{each.pid}", "process", (each.pid,)))
                for each in processes
                if fnmatch.fnmatchcase(each.name, wanted[:15])  # the kernel keeps 15 characters of a name
            )
        else:
            found.update(_groups(processes, pattern))
    every = _told_apart(list(found.values()), list(found))
    _refuse_overlap(every)
    return _limited(every)


def started(before: t.Sequence[Unit], now: t.Sequence[Unit]) -> list[str]:
    """Return the names of the units that exist now, and of which no process was there before.

    A VM that was restarted meanwhile is one of them; the first of its processes has ended.
    """
    seen = {pid for unit in before for pid in unit.pids}
    return [unit.name for unit in now if not seen.intersection(unit.pids)]


def _limited(found: list[Unit]) -> list[Unit]:
    if len(found) > MOST_UNITS:
        raise SettingError(f"units: {len(found):,} match on this host; at most {MOST_UNITS:,} are looked at")
    return sorted(map(_plausible, found))


def _plausible(unit: Unit) -> Unit:
    """Return a unit whose name is a short line of text, and without a size that no host has.

    Any user of the host may have chosen them, and the controller refuses the whole look because of one.
    """
    name = "".join(each if each.isprintable() else "?" for each in unit.name[:LONGEST_NAME])
    sizes = [size if size is not None and size <= MOST_BYTES else None for size in unit[3:]]
    return Unit(name, unit.kind, unit.pids, *sizes)


def _told_apart(found: t.Sequence[Unit], longer: t.Sequence[str]) -> list[Unit]:
    """Return the units, those that share a name each with its longer one."""
    names = collections.Counter(each.name for each in found)
    return [each if names[each.name] == 1 else each._replace(name=name) for each, name in zip(found, longer)]


def _refuse_overlap(found: t.Sequence[Unit]) -> None:
    """Refuse units that share a process, since its memory would count several times."""
    owners: dict[int, str] = {}
    for unit in found:
        for pid in unit.pids:
            other = owners.setdefault(pid, unit.name)
            if other != unit.name:
                raise SettingError(
                    f"units: {other} and {unit.name} have process {pid} in common, whose memory would count twice; "
                    "name one of them only"
                )


def _groups(processes: t.Sequence[_Process], pattern: str) -> dict[str, Unit]:
    """Return the systemd units or control groups that match, by path, each with the processes in it and below it.

    A systemd unit below another one that matches is a part of that one.
    """
    pids: dict[str, set[int]] = {}
    for process in processes:
        for group in process.groups:
            parts = group.strip("/").split("/")
            if pattern.startswith("/"):
                depth = pattern.strip("/").count("/") + 1
                matches = len(parts) >= depth and _matches(parts[:depth], pattern)
            else:
                matching = [number for number, part in enumerate(parts, 1) if fnmatch.fnmatchcase(part, pattern)]
                depth, matches = min(matching, default=0), bool(matching)
            if matches:
                pids.setdefault("/" + "/".join(parts[:depth]), set()).add(process.pid)
    if pattern.startswith("/"):
        return {path: Unit(path, "control group", tuple(sorted(found))) for path, found in pids.items()}
    return {path: Unit(path.rpartition("/")[2], "systemd unit", tuple(sorted(found))) for path, found in pids.items()}


def _matches(parts: t.Sequence[str], pattern: str) -> bool:
    """Compare a path part by part, so that * does not match a slash."""
    return all(fnmatch.fnmatchcase(part, each) for part, each in zip(parts, pattern.strip("/").split("/")))


def _processes(files: HostFiles) -> list[_Process]:
    found = []
    for name in files.names("/proc"):
        if not name.isdigit():
            continue
        # The name of a group may have any character but the end of a line.
        lines = (files.text(f"/proc/{name}/cgroup") or "").split("\n")
        # In version 1, only the hierarchies of memory and of systemd show whose memory it is.
        groups = {
            path
            for number, controllers, path in (line.split(":", 2) for line in lines if line)
            if path != "/" and (number == "0" or "memory" in controllers.split(",") or controllers == "name=systemd")
        }
        found.append(_Process(int(name), files.text(f"/proc/{name}/comm") or "", tuple(sorted(groups))))
    return found


def _virtual_machines(files: HostFiles) -> list[Unit]:
    found = {}
    for name in files.names(STATE_FILES):
        if name.endswith(".xml"):
            unit = _from_state_file(files.raw(f"{STATE_FILES}/{name}") or b"")
            if unit and files.exists(f"/proc/{unit.pids[0]}"):
                found[unit.pids[0]] = unit
    for name in files.names("/proc"):
        if name.isdigit() and int(name) not in found:
            unit = _from_command_line(files, int(name))
            if unit:
                found[unit.pids[0]] = unit
    every = list(found.values())
    return _told_apart(every, [f"{each.name}-{each.pids[0]}" for each in every])


def _from_state_file(content: bytes) -> Unit | None:
    """Return a running VM from libvirt's state file of it; None for other files there, such as those of networks."""
    try:
        root = ET.fromstring(content)
    except ET.ParseError:
        return None  # it is being written, or it was removed
    domain = root.find("domain")
    pid = root.get("pid", "")
    if root.tag != "domstatus" or domain is None or not pid.isdigit() or pid == "0":
        return None
    return Unit(
        domain.findtext("name") or f"vm-{pid}",
        "vm",
        (int(pid),),
        _size(domain.find("memory")),
        _size(domain.find("currentMemory")),
    )


def _size(element: ET.Element | None) -> int | None:
    unit = _LIBVIRT_UNITS.get("" if element is None else element.get("unit", "KiB"))
    text = "" if element is None else (element.text or "").strip()
    return int(text) * unit if unit and text.isdigit() else None


def _from_command_line(files: HostFiles, pid: int) -> Unit | None:
    """Return a VM that QEMU runs without libvirt; None for another process."""
    words = [os.fsdecode(word) for word in (files.raw(f"/proc/{pid}/cmdline") or b"").split(b"\0")]
    if not _QEMU.match(os.path.basename(words[0])) or "-name" not in words[:-1]:
        return None
    name = re.sub(r"^guest=", "", words[words.index("-name") + 1].split(",")[0])
    return Unit(name or f"vm-{pid}", "vm", (pid,), _given(words))


def _given(words: t.Sequence[str]) -> int | None:
    """Return the memory on QEMU's command line, with that of its memory modules; None if it does not say it."""
    boot = qemu.boot_memory(next(_options(words, "-m"), ""))
    if boot is None:
        return None
    backends = map(qemu.parts, _options(words, "-object"))
    sizes = {each.get("id"): qemu.bytes_of(each.get("size", "")) for each in backends}
    devices = map(qemu.parts, _options(words, "-device"))
    return boot + sum(sizes.get(each.get("memdev")) or 0 for each in devices if each.get("") == "pc-dimm")


def _options(words: t.Sequence[str], name: str) -> t.Iterator[str]:
    return (value for each, value in zip(words, words[1:]) if each == name)
