# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What swap can be made on: disks, a file, zram, or nothing at all.

Each kind answers the same questions. C(check) finds what speaks against it, before anything is touched; C(pending) what is still to be
done; C(make) does it, and may be run again after an interruption; C(nodes) gives the areas that then exist, and C(units) what turns
them on at boot.
"""

from __future__ import annotations

import os
import re
import stat
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.disks import numa_node
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.module_utils.swap.areas import (
    Area,
    SwapError,
    Zram,
    areas,
    run,
    uuid_text,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import (
    FILE_SYSTEMS,
    erase,
    held,
    make,
    make_file,
    show_partitions,
    write_area,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import (
    BLANK,
    CRYPT,
    FOREIGN,
    LABEL,
    MAPPER_PREFIX,
    PARTITIONS,
    WHOLE,
    Content,
    Disk,
    Guard,
    GuardError,
    device_number,
    find,
    path_reason,
    read_header,
    read_label,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import Options
from ansible_collections.memstretch.density.plugins.module_utils.swap.units import (
    crypt_service,
    swap_unit,
    zram_service,
)

# What a swap file leaves free on its file system.
FILE_RESERVE = 2**30
# MemTotal moves a little from boot to boot; a zram device that is a share of it stays as it is within this.
_SHARE_TOLERANCE = 0.01
_BUSY_S = 5.0


class Node(t.NamedTuple):
    """Where one area is: its key in the record, stable over boots, and its path of now (empty if it is not there yet)."""

    key: str
    path: str


class Nothing:
    """No swap of ours."""

    def __init__(self, options: Options, guard: Guard) -> None:
        self.options, self.guard, self.files = options, guard, guard.files
        self.refusals: list[str] = []
        self.warnings: list[str] = []
        self.claim: dict[str, t.Any] = {}

    def check(self, _record: dict[str, t.Any]) -> None:
        return

    def pending(self) -> list[str]:
        """Say what has to be made; nothing if every area exists (it may still have to be turned on)."""
        return []

    def in_the_way(self) -> list[Area]:
        """Return areas of ours that have to be turned off before C(make)."""
        return []

    def make(self, _claimed: t.Callable[[dict[str, t.Any]], None]) -> None:
        return

    def nodes(self) -> list[Node]:
        """Return the areas; only while nothing is pending."""
        return []

    def sizes(self) -> list[tuple[str, int]]:
        """Return the areas that are wanted, as key and size in bytes, whether they exist or not."""
        return []

    def contents(self) -> list[tuple[str, str, str]]:
        """Return what is written to, as its path and what is on it before and after."""
        return []

    def units(self) -> dict[str, str]:
        return {f: text for node in self.nodes() for f, text in self.unit(node).items()}

    def unit(self, node: Node) -> dict[str, str]:
        return swap_unit(node.path, self.options.priority, self.options.discard)


class Disks(Nothing):
    """Whole disks, their equal partitions, or an encrypted partition on each."""

    def __init__(self, options: Options, guard: Guard) -> None:
        super().__init__(options, guard)
        self.disks: list[tuple[Disk, Content]] = []
        self._partuuids: dict[str, str] = {}
        self.layout = CRYPT if options.encrypted else PARTITIONS if options.partitions else WHOLE

    def check(self, record: dict[str, t.Any]) -> None:
        seen: dict[str, str] = {}
        may_lose = self._overwrite()
        for wanted in self.options.devices:
            try:
                disk = find(wanted.path, self.files)
                if disk.identity in seen:
                    raise GuardError(f"{wanted.path} is the same disk as {seen[disk.identity]}")
                seen[disk.identity] = wanted.path
                content = self.guard.content_if_readable(disk)
                claims = {"serial": wanted.serial, "size": wanted.size, "min_size": self.options.min_size}
                reasons = self.guard.identity_reasons(disk, claims)
                if not self.fits(disk, content):
                    reasons = self.guard.reasons(disk, content, claims)
            except GuardError as error:
                self.refusals.append(str(error))
                continue
            self.disks.append((disk, content))
            never = [reason.text for reason in reasons if not reason.stored]
            stored = [reason.text for reason in reasons if reason.stored and disk.number not in may_lose]
            if never or stored:
                self.refusals.append(
                    f"{disk} "
                    + "; it ".join(never + stored)
                    + (
                        ". No option allows that"
                        if never
                        else f". If all that may be lost for good, name this one disk in the option overwrite: {wanted.path}"
                    )
                )
        self.may_lose = may_lose
        before = record.get("disks", {})
        self.claim = {"disks": {disk.path: before.get(disk.path, content.text) for disk, content in self.disks}}
        self._check_tools()
        self._locality()

    def _overwrite(self) -> set[str | None]:
        """Return the numbers of the disks that the user has named in overwrite."""
        for path in self.options.overwrite:
            wrong = path_reason(path)
            if wrong:
                self.refusals.append(f"{path} (in the option overwrite) {wrong}")
        return {device_number(path) for path in self.options.overwrite if not path_reason(path)} - {None}

    def _check_tools(self) -> None:
        if self.options.encrypted and not (self.files.exists("/sys/module/dm_crypt") or self._loadable("dm_crypt")):
            self.refusals.append("this kernel has no dm-crypt, which encrypted needs")

    def _loadable(self, module: str) -> bool:
        modprobe = self.options.tools.get("modprobe")
        return bool(modprobe) and self.guard.run_command([modprobe, "--dry-run", "--quiet", module])[0] == 0

    def fits(self, disk: Disk, content: Content) -> bool:
        """Return whether the disk is already laid out as it should be."""
        if content.kind != self.layout:
            return False
        if self.layout == WHOLE:
            return not disk.partitions
        if self.layout == CRYPT:
            return True
        names = disk.partitions
        return content.partitions == self.options.partitions and (
            # The kernel may not have read the table yet; then the partitions are looked at when they are there.
            not names
            or (len(names) == content.partitions and all(read_label(f"/dev/{name}") == LABEL for name in names))
        )

    def unfit(self) -> list[tuple[Disk, Content]]:
        return [(disk, content) for disk, content in self.disks if not self.fits(disk, content)]

    def pending(self) -> list[str]:
        what = {
            WHOLE: "a swap area",
            CRYPT: "a partition for encrypted swap",
            PARTITIONS: f"{self.options.partitions} swap partitions",
        }
        texts = [f"make {what[self.layout]} on {disk}, which holds {content.text}" for disk, content in self.unfit()]
        for disk, content in self.disks:
            if self.fits(disk, content) and self.layout != WHOLE and not self._shown(disk):
                texts.append(f"open {disk}")
        return texts

    def _shown(self, disk: Disk) -> bool:
        names = disk.partitions
        if len(names) != max(1, self.options.partitions):
            return False
        return self.layout == PARTITIONS or os.path.exists(self.mapping(disk)[1])

    def in_the_way(self) -> list[Area]:
        return [area for disk, _content in self.unfit() for area in areas_on(disk)]

    def make(self, claimed: t.Callable[[dict[str, t.Any]], None]) -> None:
        for disk, _content in self.disks:
            content = self.guard.content(disk)
            if content.kind == self.layout == PARTITIONS and content.partitions == self.options.partitions:
                show_partitions(self.guard, disk, content.partitions)
                content = self.guard.content(disk)  # now with what is in the partitions
            if not self.fits(disk, content):
                close_mappings(self.guard, disk)
                self._partuuids.pop(disk.path, None)
                make(self.guard, disk, disk.number in self.may_lose, self.options.partitions, self.options.encrypted)
            if self.layout != WHOLE:
                show_partitions(self.guard, disk, max(1, self.options.partitions))
            if self.layout == CRYPT:
                self._open(disk)
        self.disks = [(disk, self.guard.content(disk)) for disk, _content in self.disks]

    def mapping(self, disk: Disk) -> tuple[str, str]:
        """Return the PARTUUID of the disk's partition and the path of the encrypted area on it."""
        if disk.path not in self._partuuids:
            self._partuuids[disk.path] = self.guard.table(disk)[0]["uuid"].lower()
        partuuid = self._partuuids[disk.path]
        return partuuid, f"/dev/mapper/{MAPPER_PREFIX}{partuuid[:8]}"

    def open_command(self, device: str, path: str) -> list[str]:
        # The field's usual cipher for disks; the key is as long as AES-256 in XTS mode takes.
        options = ["--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", "512", "--key-file", "/dev/urandom"]
        discards = ["--allow-discards"] if self.options.discard != "none" else []
        return [self.options.tools["cryptsetup"], "open", *options, *discards, device, os.path.basename(path)]

    def _open(self, disk: Disk) -> None:
        _partuuid, path = self.mapping(disk)
        if not os.path.exists(path):
            run(self.guard, self.open_command(f"/dev/{disk.partitions[0]}", path))
        if read_label(path) != LABEL:
            write_area(path)

    def nodes(self) -> list[Node]:
        found = []
        for disk, _content in self.disks:
            if self.layout == WHOLE:
                found.append(Node(disk.path, disk.node))
            elif self.layout == CRYPT:
                found.append(Node(disk.path, self.mapping(disk)[1]))
            else:
                found += [
                    Node(f"{disk.path}-part{number}", f"/dev/{name}") for number, name in enumerate(disk.partitions, 1)
                ]
        return found

    def sizes(self) -> list[tuple[str, int]]:
        if self.layout != PARTITIONS:
            return [(disk.path, disk.size) for disk, _content in self.disks]
        count = self.options.partitions
        return [
            (f"{disk.path}-part{number}", disk.size // count)
            for disk, _content in self.disks
            for number in range(1, count + 1)
        ]

    def contents(self) -> list[tuple[str, str, str]]:
        after = {
            WHOLE: "our swap area",
            CRYPT: "our partition for encrypted swap",
            PARTITIONS: f"{self.options.partitions} of our swap partitions",
        }
        return [(disk.path, content.text, after[self.layout]) for disk, content in self.disks]

    def unit(self, node: Node) -> dict[str, str]:
        if self.layout == CRYPT:
            disk = next(disk for disk, _content in self.disks if disk.path == node.key)
            partuuid, path = self.mapping(disk)
            command = self.open_command(f"/dev/disk/by-partuuid/{partuuid}", path)
            service = crypt_service(os.path.basename(path), partuuid, command, self.options.tools["mkswap"])
            return {**service, **swap_unit(path, self.options.priority, self.options.discard)}
        identifier, _label = read_header(node.path) or ("", "")
        return swap_unit(f"/dev/disk/by-uuid/{uuid_text(identifier)}", self.options.priority, self.options.discard)

    def _locality(self) -> None:
        """Warn if the sockets of a host do not share the drives: pages of the other sockets take the long way."""
        packages = {
            self.files.text(f"/sys/devices/system/cpu/{name}/topology/physical_package_id")
            for name in self.files.names("/sys/devices/system/cpu")
            if re.match(r"^cpu\d+$", name)
        } - {None}
        if len(packages) < 2 or not self.disks:
            return
        nodes = {disk.path: numa_node(self.files, disk.name) for disk, _content in self.disks}
        unknown = [path for path, node in nodes.items() if node is None]
        known = {node for node in nodes.values() if node is not None}
        if unknown:
            self.warnings.append("no socket is known to be near these swap drives: " + ", ".join(unknown))
        if len(known) == 1 and not unknown:
            self.warnings.append(
                f"this host has {len(packages)} sockets and all swap drives are near NUMA node {known.pop()}: "
                + ", ".join(nodes)
            )


class File(Nothing):
    """One file without holes."""

    def check(self, _record: dict[str, t.Any]) -> None:
        path, size = self.options.file, self.options.file_size
        parent = os.path.dirname(path)
        if not os.path.isdir(parent) or os.path.realpath(parent) != parent:
            self.refusals.append(f"file: {parent} is no directory, or leads through a symbolic link to another one")
            return
        self.file_system = file_system_of(self.files, parent)
        if self.file_system not in FILE_SYSTEMS:
            self.refusals.append(
                f"file: {path} would be on {self.file_system}; swap files work on {', '.join(FILE_SYSTEMS)}"
            )
        there = None
        if os.path.lexists(path):
            there = os.lstat(path)
            if not stat.S_ISREG(there.st_mode) or read_label(path) != LABEL:
                self.refusals.append(f"file: {path} exists and is not ours. Choose another path, or remove it yourself")
                return
        if not self.is_made():
            free = os.statvfs(parent)
            left = free.f_bavail * free.f_frsize + (there.st_blocks * 512 if there else 0) - size
            if left < FILE_RESERVE:
                self.refusals.append(
                    f"file: {path} with {size_text(size)} would leave {size_text(left)} free on its file system; at least "
                    f"{size_text(FILE_RESERVE)} have to remain"
                )
        self.claim = {"files": [path]}

    def is_made(self) -> bool:
        path = self.options.file
        return os.path.isfile(path) and os.path.getsize(path) == self.options.file_size and read_label(path) == LABEL

    def pending(self) -> list[str]:
        return (
            [] if self.is_made() else [f"make the swap file {self.options.file} of {size_text(self.options.file_size)}"]
        )

    def in_the_way(self) -> list[Area]:
        return [] if self.is_made() else [area for area in areas(self.files) if area.name == self.options.file]

    def make(self, _claimed: t.Callable[[dict[str, t.Any]], None]) -> None:
        if not self.is_made():
            if os.path.exists(self.options.file):
                os.unlink(self.options.file)
            make_file(self.guard, self.options.file, self.options.file_size, self.file_system)

    def nodes(self) -> list[Node]:
        return [Node(self.options.file, self.options.file)]

    def sizes(self) -> list[tuple[str, int]]:
        return [(self.options.file, self.options.file_size)]

    def contents(self) -> list[tuple[str, str, str]]:
        size = os.path.getsize(self.options.file) if os.path.isfile(self.options.file) else None
        before = "no file" if size is None else f"our swap file of {size_text(size)}"
        return [(self.options.file, before, f"our swap file of {size_text(self.options.file_size)}")]


class Compressed(Nothing):
    """zram: compressed memory."""

    def __init__(self, options: Options, guard: Guard) -> None:
        super().__init__(options, guard)
        self.zram = Zram(guard)
        self.each = options.zram_size // max(1, options.zram_devices) // 4096 * 4096

    def check(self, record: dict[str, t.Any]) -> None:
        if not self.zram.available():
            self.refusals.append("this kernel has no zram (CONFIG_ZRAM)")
            return
        self.claim = {
            "zram": record.get("zram") or {"existing": self.zram.numbers(), "loaded": self.zram.loaded(), "boot": {}}
        }
        known = next((self.zram.algorithms(number) for number in self.zram.numbers()), None)
        if known is not None and not set(known) & set(self.options.zram_algorithm):
            self.refusals.append(
                f"zram_algorithm: this kernel has none of {', '.join(self.options.zram_algorithm)}; it has {', '.join(known)}"
            )
        if self.files.text("/sys/module/zswap/parameters/enabled") == "Y":
            self.warnings.append("zswap is on and takes pages before zram can; use one of the two")

    def algorithm(self, number: int) -> str:
        known = self.zram.algorithms(number)
        return next((name for name in self.options.zram_algorithm if name in known), "")

    def mine(self) -> list[int]:
        """Return the devices whose area is ours, in use or not."""
        return [
            number
            for number in self.zram.numbers()
            if self.zram.size(number) and read_label(f"/dev/zram{number}") == LABEL
        ]

    def fits(self) -> bool:
        numbers = self.mine()
        slack = self.each * _SHARE_TOLERANCE if self.options.zram_is_share else 0
        return len(numbers) == self.options.zram_devices and all(
            abs(self.zram.size(number) - self.each) <= slack and self.zram.algorithm(number) == self.algorithm(number)
            for number in numbers
        )

    def pending(self) -> list[str]:
        if self.fits():
            return []
        return [f"set up {self.options.zram_devices} zram device(s) of {size_text(self.each)}"]

    def in_the_way(self) -> list[Area]:
        numbers = {f"/dev/zram{number}" for number in self.mine()}
        return [] if self.fits() else [area for area in areas(self.files) if area.name in numbers]

    def make(self, claimed: t.Callable[[dict[str, t.Any]], None]) -> None:
        if self.fits():
            return
        if not self.zram.loaded():
            self.zram.load()
        remove_zram(self.zram, self.claim["zram"], boot_id(self.files))
        taken: list[int] = []
        for _device in range(self.options.zram_devices):
            number = next((number for number in self.zram.free() if number not in taken), None)
            number = self.zram.add() if number is None else number
            taken.append(number)
        # From here on the devices are ours even if we are interrupted before their areas say so.
        self.claim["zram"]["boot"] = {"id": boot_id(self.files), "numbers": taken}
        claimed(self.claim)
        for number in taken:
            algorithm = self.algorithm(number)
            if not algorithm:
                raise SwapError(f"zram_algorithm: this kernel has {', '.join(self.zram.algorithms(number))} only")
            self.zram.set_up(number, self.each, algorithm)
            write_area(f"/dev/zram{number}")

    def nodes(self) -> list[Node]:
        return [Node(f"/dev/zram{number}", f"/dev/zram{number}") for number in self.mine()]

    def sizes(self) -> list[tuple[str, int]]:
        if self.fits():
            return [(f"/dev/zram{number}", self.zram.size(number)) for number in self.mine()]
        return [(f"zram, device {number} of ours", self.each) for number in range(1, self.options.zram_devices + 1)]

    def unit(self, node: Node) -> dict[str, str]:
        number = int(node.path[len("/dev/zram") :])
        service = zram_service(number, self.zram.size(number), self.zram.algorithm(number) or "")
        name = os.path.basename(next(iter(service)))
        return {**service, **swap_unit(node.path, self.options.priority, "none", name)}


KINDS = {"none": Nothing, "devices": Disks, "file": File, "zram": Compressed}


def areas_on(disk: Disk) -> list[Area]:
    """Return our areas in use on a disk."""
    tree = disk.tree()
    return [area for area in areas(disk.files) if area.ours and not area.is_file and device_number(area.name) in tree]


def give_back_disk(guard: Guard, path: str) -> str | None:
    """Make a disk that carries our mark blank again. Return why it is left alone, or None."""
    try:
        disk = find(path, guard.files)
        content = guard.content(disk)
    except GuardError as error:
        return str(error)
    if content.kind == FOREIGN:
        return f"{disk} holds {content.text} now"
    if content.kind != BLANK:
        close_mappings(guard, disk)
        with held(guard, disk, False) as descriptor:
            erase(guard, disk, descriptor)
    return None


def close_mappings(guard: Guard, disk: Disk) -> None:
    """Close our encrypted areas on a disk; their keys are gone with that."""
    for name in disk.tree().values():
        mapping = guard.mapper_name(name)
        if mapping != name and mapping.startswith(MAPPER_PREFIX):
            run(guard, ["cryptsetup", "close", mapping])


def remove_zram(zram: Zram, claim: dict[str, t.Any], boot: str) -> None:
    """Reset our zram devices, and remove those that were not there before."""
    boot_claim = claim.get("boot", {})
    claimed = set(boot_claim.get("numbers", [])) if boot_claim.get("id") == boot else set()
    for number in zram.numbers():
        if not zram.size(number):
            is_ours = number in claimed
        else:
            is_ours = read_label(f"/dev/zram{number}") == LABEL or number in claimed
            if is_ours:
                _patiently(lambda: zram.reset(number))  # pylint: disable=cell-var-from-loop
        if is_ours and number not in claim["existing"] and claim["loaded"]:
            _patiently(lambda: zram.remove(number))  # pylint: disable=cell-var-from-loop


def _patiently(act: t.Callable[[], None]) -> None:
    """udev looks at a device that has just been let go; wait for it."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            return act()
        except (OSError, SwapError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def boot_id(files: t.Any) -> str:
    return files.text("/proc/sys/kernel/random/boot_id") or ""


def file_system_of(files: t.Any, directory: str) -> str:
    """Return the type of the file system that a directory is on."""
    best, kind = "", "no file system"
    for line in (files.text("/proc/self/mountinfo") or "").splitlines():
        words, _dash, rest = line.partition(" - ")
        where = words.split()[4].encode().decode("unicode_escape")
        if (directory + "/").startswith(where.rstrip("/") + "/") and len(where) >= len(best):
            best, kind = where, rest.split()[0]
    return kind
