# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on a disk, and why it must not be wiped. Nothing here writes.

A disk may be taken for swap if it is named by a stable path, is a whole disk that nothing uses or may soon use, and is
blank or carries only our own mark. All reasons against it are returned at once. There are two kinds of reasons: the
user can give up what is merely I(stored) on the disk by naming its fingerprint in the option C(overwrite); no option
overrides that something I(uses) the disk.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import stat
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.host.disks import disk_wwid, real_disks
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, mounts, swap_areas
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import (
    Disk,
    GuardError,
    device_number,
    number_text,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.loops import loops_on
from ansible_collections.memstretch.density.plugins.module_utils.swap.samples import (
    end,
    first_data,
    places,
    read,
    start,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.users import claims_on, pools_below

# Our marks: the label of every swap area that we make, and the names of our GPT partitions. The content of an encrypted
# partition cannot be read after a reboot, so only the partition's name can mark it, and it must hold no signature.
LABEL = "memstretch"
SWAP_PARTITION = "memstretch-swap"
CRYPT_PARTITION = "memstretch-crypt"
MAPPER_PREFIX = "memstretch-"
# An LVM group of the name memstretch has names with our prefix, too.
_MAPPER_NAME = re.compile(MAPPER_PREFIX + r"[0-9a-f]{8}$")

# Exit status of blkid --probe, see blkid(8).
_BLKID_NOTHING, _BLKID_AMBIVALENT = 2, 8
SYSTEM_MOUNTS = ("/", "/boot", "/boot/efi", "/usr", "/var", "/efi")
# udev and monitoring open every disk for a moment; a virtual machine or a database keeps it open.
_LINGERING_S = 1.0

# Where Debian and Ubuntu have the programs.
PACKAGES = {
    "blkid": "util-linux",
    "mkswap": "util-linux",
    "modprobe": "kmod",
    "partx": "util-linux",
    "sfdisk": "fdisk",
    "swapoff": "mount",
    "swapon": "mount",
    "wipefs": "util-linux",
}

WHOLE, PARTITIONS, CRYPT, BLANK, FOREIGN, UNKNOWN = "whole", "partitions", "crypt", "blank", "foreign", "unknown"


class TableError(GuardError):
    """A disk has a partition table that sfdisk cannot read."""


class Reason(t.NamedTuple):
    """Why a disk must not be wiped.

    Args:
        stored: it is only about what is on the disk, which its owner can give up.
    """

    text: str
    stored: bool = False


class Content(t.NamedTuple):
    """What a disk holds.

    Args:
        kind: one of the constants above.
        text: a description for the user.
        partitions: the number of our partitions.
    """

    kind: str
    text: str
    partitions: int = 0


class Guard:
    """Examines disks with the tools of util-linux; run_command is AnsibleModule's method.

    C(recorded) has the UUIDs of the swap areas and partitions that this host's record lists. An area with our mark and
    another UUID is not ours: another host may have made it, and swap onto it now.
    """

    def __init__(self, run_command: RunCommand, files: HostFiles) -> None:
        self.run_command, self.files = run_command, files
        self.recorded: set[str] = set()

    def reasons(self, disk: Disk, content: Content, claims: dict[str, t.Any]) -> list[Reason]:
        """Return all reasons why the disk must not be wiped.

        Args:
            content: the result of the method C(content).
            claims: what the disk must be according to the user: C(serial), C(size), C(min_size); None means any.
        """
        reasons = self.identity_reasons(disk, claims) + self._twin_reasons(disk)
        used = self._uses(disk)
        reasons += [Reason(text) for text in used]
        if content.kind == FOREIGN:
            reasons.append(Reason(f"holds {content.text}", stored=True))
        if content.kind == UNKNOWN:
            reasons.append(Reason(f"cannot be examined: {content.text}"))
        # Our own partitions do not matter. Partitions that only the kernel has do: they are in use, or the table has
        # just been lost.
        names = disk.partitions
        if names and content.kind in (BLANK, WHOLE):
            reasons.append(
                Reason(f"has no partition table, but the kernel still has its partitions ({', '.join(names)})")
            )
        if not used:
            reasons += [Reason(text) for text in claims_on(disk, self.run_command)]
        return reasons

    def identity_reasons(self, disk: Disk, claims: dict[str, t.Any]) -> list[Reason]:
        """Explain why the disk is not the one that the user means."""
        texts = []
        if disk.is_partition:
            texts.append("is a partition. Name the whole disk, which is then checked as a whole")
        if disk.is_made_of_others:
            texts.append("is built from other disks (device mapper or RAID). Name a disk that is not")
        if disk.read_only:
            texts.append("is read-only")
        if claims.get("serial") is not None and disk.serial != claims["serial"]:
            texts.append(f"has the serial number {disk.serial!r}, not {claims['serial']!r} (option serial)")
        if claims.get("size") is not None and disk.size != claims["size"]:
            texts.append(f"has {disk.size} bytes, not {claims['size']} (option size)")
        if disk.size < claims.get("min_size", 0):
            texts.append(f"has {size_text(disk.size)}, less than {size_text(claims['min_size'])} (option min_size)")
        return [Reason(text) for text in texts]

    def _twin_reasons(self, disk: Disk) -> list[Reason]:
        """Explain why the disk's path may name another disk: its identity is not its own."""
        names = [
            name for name in real_disks(self.files) if name != disk.name and disk_wwid(self.files, name) == disk.wwid
        ]
        if disk.wwid is None or not names:
            return []
        return [
            Reason(
                f"has the same identity ({disk.wwid}) as {', '.join(names)}: these are two paths to one disk or two "
                "drives with one serial number, and its path may name either of them"
            )
        ]

    def _uses(self, disk: Disk) -> list[str]:
        """Find what uses the disk now, except our own swap."""
        tree = disk.tree()
        texts = []
        mounts = [(where, tree[number]) for number, where in self.mounts() if number in tree]
        for where, name in mounts:
            inside = pools_below(self.files, where)
            system = ", from which this system runs" if where in SYSTEM_MOUNTS else ""
            texts.append(
                f"carries the file system on {where} ({name}){system}" + (f"; {inside} is on it" if inside else "")
            )
        ours = set()
        for area in swap_areas(self.files):
            number = device_number(area["name"]) if area["type"] == "partition" else None
            if number in tree:
                if read_label(area["name"]) == LABEL:
                    ours.add(number)
                else:
                    texts.append(f"is in use as swap that is not ours ({area['name']})")
        held = [name for number, name in tree.items() if name != disk.name and name not in disk.partitions]
        foreign = [name for name in held if not self.is_our_mapping(name)]
        loops = loops_on(self.files, set(tree))
        if loops:
            texts.append("is the backing device of " + ", ".join(loops))
        if foreign:
            texts.append(
                "is part of "
                + ", ".join(self.mapper_name(name) for name in foreign)
                + " (RAID, multipath, LVM or encryption)"
            )
        if not texts and not ours and not held:
            texts += self._opened(disk)
        return texts

    def _opened(self, disk: Disk) -> list[str]:
        """Find what holds the disk open; pools of ZFS or Btrfs and virtual machines are visible nowhere else."""
        texts = []
        for name in (disk.name, *disk.partitions):
            try:
                os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
            except OSError as error:
                texts.append(f"is in use by the kernel or by a program ({name}: {error.strerror})")
        users = self.processes(disk)
        if users:
            time.sleep(_LINGERING_S)
            users &= self.processes(disk)
        if users:
            texts.append("is open in " + ", ".join(sorted(users)))
        return texts

    def mounts(self) -> list[tuple[str, str]]:
        """Return all mounts, also those that only process 1 sees, as device number and directory."""
        found: dict[tuple[str, str], None] = {}
        for process in ("self", "1"):
            for mount in mounts(self.files, process):
                found[(mount.number, mount.place)] = None
                # Btrfs shows a device number of its own; the source names the disk.
                if mount.source.startswith("/dev/"):
                    found[(device_number(mount.source) or mount.number, mount.place)] = None
        return list(found)

    def mapper_name(self, name: str) -> str:
        return self.files.text(f"/sys/class/block/{name}/dm/name") or name

    def is_our_mapping(self, name: str) -> bool:
        """Check whether a device is our encrypted area: cryptsetup has opened it under a name that we give."""
        mapping = self.mapper_name(name)
        made_by = self.files.text(f"/sys/class/block/{name}/dm/uuid")
        return bool(_MAPPER_NAME.match(mapping)) and made_by == f"CRYPT-PLAIN-{mapping}"

    def processes(self, disk: Disk) -> set[str]:
        """Return the processes that have the disk or one of its partitions open."""
        numbers = {f"{disk.files.text(f'/sys/class/block/{name}/dev')}" for name in (disk.name, *disk.partitions)}
        found = set()
        # Not by the paths of the files: a program in a chroot or a container has its devices under other names. A
        # device may also stay mapped after its descriptor was closed.
        for link in (*glob.iglob("/proc/[0-9]*/fd/*"), *glob.iglob("/proc/[0-9]*/map_files/*")):
            try:
                if not os.readlink(link).startswith("/"):
                    continue  # a pipe, a socket
                status = os.stat(link)
            except OSError:
                continue  # the process has ended or has closed the file
            pid = link.split("/")[2]
            if stat.S_ISBLK(status.st_mode) and number_text(status.st_rdev) in numbers and int(pid) != os.getpid():
                found.add(f"{self.files.text(f'/proc/{pid}/comm')} (process {pid})")
        return found

    def content_if_readable(self, disk: Disk) -> Content:
        """Find what is on the disk, or UNKNOWN if it cannot be read: what uses the disk may explain that."""
        try:
            return self.content(disk)
        except (GuardError, OSError) as error:
            return Content(UNKNOWN, str(error))

    def content(self, disk: Disk) -> Content:
        """Find what is on the disk; it counts as ours only if every part is ours."""
        if not disk.size:
            raise GuardError(f"{disk.node} has no bytes: the drive is gone, or has no medium")
        found = self.signatures(disk.node)
        kinds = {entry["type"] for entry in found}
        if not found:
            data = first_data(disk.node, disk.size)
            if data is None:
                return Content(BLANK, "nothing")
            text = f"data of a format that wipefs does not know (in the {data.length} bytes at {data.offset})"
            return Content(FOREIGN, text)
        if kinds == {"swap"} and all(entry.get("label") == LABEL for entry in found):
            return self._recorded_content(Content(WHOLE, "our swap area"), found)
        if kinds <= {"gpt", "PMBR"}:
            try:
                partitions = self.table(disk)["partitions"]
            except TableError:
                return Content(FOREIGN, f"{describe(found)}, a partition table that sfdisk cannot read")
            names = [part.get("name", "") for part in partitions]
            if names == [CRYPT_PARTITION]:
                inside = self.signature_in_partition(disk)
                if inside is None:
                    return self._recorded_content(Content(CRYPT, "our partition for encrypted swap", 1), partitions)
                found.append(inside)
            if names and set(names) == {SWAP_PARTITION}:
                parts = [entry for name in disk.partitions for entry in self.signatures(f"/dev/{name}")]
                if all(entry["type"] == "swap" and entry.get("label") == LABEL for entry in parts):
                    ours = Content(PARTITIONS, f"{len(names)} of our swap partitions", len(names))
                    return self._recorded_content(ours, partitions + parts)
                found += parts
            return Content(
                FOREIGN,
                f"{describe(found)} with {len(names)} partitions" + (f" ({', '.join(names)})" if any(names) else ""),
            )
        return Content(FOREIGN, describe(found))

    def _recorded_content(self, ours: Content, entries: list[dict[str, t.Any]]) -> Content:
        """Return the content if this host's record lists the UUID of each entry, and otherwise a foreign one."""
        unknown = [str(entry.get("uuid", "none")).lower() for entry in entries]
        unknown = [identifier for identifier in unknown if identifier not in self.recorded]
        if not unknown:
            return ours
        text = (
            f"swap with our mark that this host's record does not list (UUID {unknown[0]}); another host may use it, "
            "or the record was lost"
        )
        return Content(FOREIGN, text)

    def fingerprint(self, disk: Disk) -> str:
        """Return a digest of what is on the disk: its signatures and all that C(content) reads to call it blank.

        It covers the signatures and the first and last 4 MiB of each partition.
        """
        digest = hashlib.sha256()
        for name in (disk.name, *disk.partitions):
            node = f"/dev/{name}"
            size = (self.files.number(f"/sys/class/block/{name}/size") or 0) * 512
            digest.update(json.dumps([size, self.signatures(node)], sort_keys=True).encode())
            for data in read(node, places(size) if name == disk.name else (start(size), end(size))):
                digest.update(data)
        # The dash keeps YAML from reading digits as a number.
        return f"{digest.hexdigest()[:8]}-{digest.hexdigest()[8:16]}"

    def signatures(self, node: str) -> list[dict[str, t.Any]]:
        """Return every signature that wipefs finds, not only the one that blkid reports as the type."""
        status, output, errors = run_to_end(self.run_command, ["wipefs", "--json", "--no-act", node])
        if status:
            raise GuardError(f"wipefs cannot examine {node}: {errors.strip() or status}")
        return json.loads(output)["signatures"] if output.strip() else []

    def signature_in_partition(self, disk: Disk) -> dict[str, t.Any] | None:
        """Return the signature in the first partition of the disk's table, or None if it holds none that is known.

        The partition is read through the disk: the kernel need not show it. What we have encrypted looks random.
        """
        table = self.table(disk)
        sector, part = table.get("sectorsize", 512), table["partitions"][0]
        place = ["--offset", str(part["start"] * sector), "--size", str(part["size"] * sector)]
        status, output, errors = run_to_end(
            self.run_command, ["blkid", "--probe", "--output", "export", *place, disk.node]
        )
        if status == _BLKID_NOTHING and not errors.strip():
            return None
        if status not in (0, _BLKID_AMBIVALENT):
            raise GuardError(f"blkid cannot examine the partition of {disk.node}: {errors.strip() or status}")
        tags = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
        found = tags.get("TYPE") or tags.get("PTTYPE") or "several signatures in its partition"
        return {"type": found, "label": tags.get("LABEL", ""), "uuid": tags.get("UUID", "")}

    def table(self, disk: Disk) -> dict[str, t.Any]:
        """Return the disk's partition table as sfdisk lists it. Raises TableError if it cannot be read."""
        if not find_tool("sfdisk"):
            raise GuardError(f"the partition table of {disk.node} cannot be read, because {lacks('sfdisk')}")
        status, output, errors = run_to_end(self.run_command, ["sfdisk", "--json", disk.node])
        if status:
            raise TableError(f"sfdisk cannot read the partition table of {disk.node}: {errors.strip() or status}")
        return {"partitions": [], **json.loads(output)["partitiontable"]}


def lacks(name: str) -> str:
    """Return the message on a system program that is missing."""
    return f"{name} is missing on this host; Debian and Ubuntu have it in the package {PACKAGES[name]}"


def find_tool(name: str) -> str | None:
    """Return the path of a system program, or None if it is missing."""
    paths = (os.path.join(directory, name) for directory in ("/usr/sbin", "/sbin", "/usr/bin", "/bin"))
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def describe(signatures: list[dict[str, t.Any]]) -> str:
    """Return signatures as a text that names each kind once."""
    texts = []
    for entry in signatures:
        text = {"PMBR": "gpt", "dos": "MBR"}.get(entry["type"], entry["type"])
        text += f" (label {entry['label']})" if entry.get("label") else ""
        if text not in texts:
            texts.append(text)
    return ", ".join(texts)


def read_label(path: str) -> str | None:
    """Return the label of the swap area on a device or in a file, or None if there is no swap area."""
    header = read_header(path)
    return header[1] if header else None


def read_header(path: str) -> tuple[str, str] | None:
    """Return UUID (32 hexadecimal digits) and label of the swap area on a device or in a file, or None."""
    try:
        # A pipe of that name would otherwise hold us up.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return header_in(descriptor)
    finally:
        os.close(descriptor)


def header_in(descriptor: int) -> tuple[str, str] | None:
    """Return UUID and label of the swap area that an open device or file holds, or None."""
    page = os.sysconf("SC_PAGE_SIZE")
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISBLK(status.st_mode):
        return None
    data = os.pread(descriptor, page, 0)
    if len(data) < page or data[-10:] != b"SWAPSPACE2":
        return None
    return data[1036:1052].hex(), data[1052:1068].split(b"\0")[0].decode("utf-8", "replace")
