# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Swap on disks: whole, in equal partitions, or in one encrypted partition on each."""

from __future__ import annotations

import os
import re
import typing as t
import uuid

from ansible_collections.memstretch.density.plugins.module_utils.host.disks import numa_node
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.areas import Area, areas, run, uuid_text
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import (
    Disk,
    GuardError,
    device_number,
    find,
    path_reason,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import (
    erase,
    held,
    make,
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
    Guard,
    read_header,
    read_label,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.kind import (
    Claim,
    Location,
    SaveClaim,
    SwapKind,
    WantedArea,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import Options, WantedDisk
from ansible_collections.memstretch.density.plugins.module_utils.swap.samples import EDGE_BYTES
from ansible_collections.memstretch.density.plugins.module_utils.swap.units import crypt_service, swap_unit

# cryptsetup counts in these, and drives have them or those of 4 KiB.
_SECTOR, _ALIGNED = 512, 4096


class _Mapping(t.NamedTuple):
    """The encrypted area on a partition: the partition's PARTUUID and size in bytes, and the path of the area."""

    partuuid: str
    path: str
    size: int


class _Found(t.NamedTuple):
    """A disk that the options name, with its content when it was examined."""

    wanted: WantedDisk
    disk: Disk
    content: Content


class Disks(SwapKind):
    """Swap on disks."""

    def __init__(self, options: Options, guard: Guard, recorded: dict[str, t.Any]) -> None:
        super().__init__(options, guard, recorded)
        self.layout = CRYPT if options.encrypted else PARTITIONS if options.partitions else WHOLE
        # The fingerprint of the content that may be lost, by device number.
        self.may_lose = {
            device_number(entry.path): entry.content for entry in options.overwrite if not path_reason(entry.path)
        }
        self._looked_up = self._look_up()
        self.disks = [(entry.disk, entry.content) for entry in self._looked_up if isinstance(entry, _Found)]

    def _look_up(self) -> list[_Found | str]:
        """Return the disks that the options name; for a path without a usable disk, the reason."""
        entries: list[_Found | str] = []
        paths: dict[str, str] = {}
        for wanted in self.options.devices:
            try:
                disk = find(wanted.path, self.files)
            except GuardError as error:
                entries.append(str(error))
                continue
            if disk.identity in paths:
                entries.append(f"{wanted.path} is the same disk as {paths[disk.identity]}")
                continue
            paths[disk.identity] = wanted.path
            entries.append(_Found(wanted, disk, self.guard.content_if_readable(disk)))
        return entries

    def refusals(self) -> list[str]:
        texts = []
        for path, _content in self.options.overwrite:
            wrong = path_reason(path)
            if wrong:
                texts.append(f"{path} (in the option overwrite) {wrong}")
        for entry in self._looked_up:
            texts += [entry] if isinstance(entry, str) else self._refusals_of(entry)
        if self.options.encrypted and not (self.files.exists("/sys/module/dm_crypt") or self._loadable("dm_crypt")):
            texts.append("this kernel has no dm-crypt, which the option encrypted needs")
        return texts

    def _refusals_of(self, found: _Found) -> list[str]:
        disk, content = found.disk, found.content
        claims = {"serial": found.wanted.serial, "size": found.wanted.size, "min_size": self.options.min_size}
        try:
            if self.fits(disk, content):
                reasons = self.guard.identity_reasons(disk, claims)
            else:
                reasons = self.guard.reasons(disk, content, claims)
        except GuardError as error:
            return [str(error)]
        never = [reason.text for reason in reasons if not reason.stored]
        stored = [reason.text for reason in reasons if reason.stored]
        if never:
            return [f"{disk} {'; it '.join(never + stored)}. No option allows that"]
        if not stored:
            return []
        present, may_lose = self.guard.fingerprint(disk), self.may_lose.get(disk.number)
        if present == may_lose:
            return []
        changed = f" That is not the content {may_lose} that the option overwrite names." if may_lose else ""
        return [
            f"{disk} {'; it '.join(stored)}.{changed} If its whole content may be lost for good, name this content in "
            f"the option overwrite: {{path: {disk.path}, content: {present}}}"
        ]

    def _loadable(self, module: str) -> bool:
        modprobe = self.options.tools.get("modprobe")
        return bool(modprobe) and self.guard.run_command([modprobe, "--dry-run", "--quiet", module])[0] == 0

    def warnings(self) -> list[str]:
        return socket_warnings(self.files, [disk for disk, _content in self.disks])

    def claim(self) -> Claim:
        recorded = self.recorded.get("disks", {})
        return {"disks": {disk.path: recorded.get(disk.path, content.text) for disk, content in self.disks}}

    def fits(self, disk: Disk, content: Content) -> bool:
        """Check whether the disk already has the layout that the options ask for."""
        if content.kind != self.layout:
            return False
        if self.layout == WHOLE:
            return not disk.partitions
        if self.layout == CRYPT:
            return True
        names = disk.partitions
        return content.partitions == self.options.partitions and (
            # The kernel may not have read the table yet; make() checks the partitions once they are there.
            not names
            or (len(names) == content.partitions and all(read_label(f"/dev/{name}") == LABEL for name in names))
        )

    def unfit(self) -> list[tuple[Disk, Content]]:
        """Return the disks that need another layout."""
        return [(disk, content) for disk, content in self.disks if not self.fits(disk, content)]

    def pending(self) -> list[str]:
        what = {
            WHOLE: "a swap area",
            CRYPT: "a partition for encrypted swap",
            PARTITIONS: f"{self.options.partitions} swap partitions",
        }
        texts = [f"make {what[self.layout]} on {disk}, which holds {content.text}" for disk, content in self.unfit()]
        return texts + [
            f"open {disk}" for disk, content in self.disks if self.fits(disk, content) and not self._is_open(disk)
        ]

    def _is_open(self, disk: Disk) -> bool:
        """Check whether the kernel shows the partitions of a disk and, if it is encrypted, its mapping exists."""
        if self.layout == WHOLE:
            return True
        if len(disk.partitions) != max(1, self.options.partitions):
            return False
        return self.layout == PARTITIONS or os.path.exists(self.mapping(disk).path)

    def areas_in_the_way(self) -> list[Area]:
        return [area for disk, _content in self.unfit() for area in areas_on(disk)]

    def make(self, save: SaveClaim) -> None:
        for disk, _content in self.disks:
            self._make_layout(disk, save)
            if self.layout != WHOLE:
                show_partitions(self.guard, disk, max(1, self.options.partitions))
            if self.layout == CRYPT:
                self._open(disk)
        self.disks = [(disk, self.guard.content(disk)) for disk, _content in self.disks]

    def _make_layout(self, disk: Disk, save: SaveClaim) -> None:
        content = self.guard.content(disk)
        if content.kind == self.layout == PARTITIONS and content.partitions == self.options.partitions:
            show_partitions(self.guard, disk, content.partitions)
            content = self.guard.content(disk)  # now with what is in the partitions
        if not self.fits(disk, content):
            close_mappings(self.guard, disk)
            identifiers = [uuid.uuid4() for _number in range(max(1, self.options.partitions))]
            texts = [str(identifier) for identifier in identifiers]
            # The old ones stay in the record until the disk has the new ones: an interruption leaves either of them.
            old = [identifier for path in self._paths_of(disk) for identifier in self.recorded["areas"][path]]
            save({"areas": {disk.path: old + texts}})
            may_lose = self.may_lose.get(disk.number)
            make(self.guard, disk, may_lose, self.options.partitions, self.options.encrypted, identifiers)
            save({"areas": {disk.path: texts}})

    def _paths_of(self, disk: Disk) -> list[str]:
        """Return the paths by which the record lists areas on a disk."""
        return [path for path in self.recorded["areas"] if path == disk.path or device_number(path) == disk.number]

    def mapping(self, disk: Disk) -> _Mapping:
        """Return the encrypted area on the disk's partition, open or not."""
        table = self.guard.table(disk)
        part = table["partitions"][0]
        return self.mapping_of(part["uuid"].lower(), part["size"] * table.get("sectorsize", _SECTOR))

    @staticmethod
    def mapping_of(partuuid: str, size: int) -> _Mapping:
        """Return the encrypted area on a partition with this size in bytes."""
        return _Mapping(partuuid, f"/dev/mapper/{MAPPER_PREFIX}{partuuid[:8]}", size)

    def open_command(self, device: str, mapping: _Mapping) -> list[str]:
        # The usual cipher for disks; XTS needs a key of twice the length, so this is AES-256.
        options = ["--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", "512", "--key-file", "/dev/urandom"]
        discards = ["--allow-discards"] if self.discard != "none" else []
        # Encrypted data is random, and once in thousands of boots it looks like a file system. So nothing is encrypted
        # where signatures stand: at the ends of the partition, which are blank since it was made.
        edge = min(EDGE_BYTES, mapping.size // 4 // _ALIGNED * _ALIGNED)
        place = {"--offset": edge, "--size": (mapping.size - 2 * edge) // _ALIGNED * _ALIGNED}
        sectors = [word for option, size in place.items() for word in (option, str(size // _SECTOR))]
        name = os.path.basename(mapping.path)
        return [self.options.tool("cryptsetup"), "open", *options, *sectors, *discards, device, name]

    def _open(self, disk: Disk) -> None:
        mapping = self.mapping(disk)
        path = mapping.path
        if not os.path.exists(path):
            run(self.guard, self.open_command(f"/dev/{disk.partitions[0]}", mapping))
        if read_label(path) != LABEL:
            write_area(path)

    def locations(self) -> list[Location]:
        found: list[Location] = []
        for disk, content in self.disks:
            if not self.fits(disk, content) or not self._is_open(disk):
                continue
            if self.layout == WHOLE:
                found.append(self.location(disk.path, disk.node))
            elif self.layout == CRYPT:
                found.append(self.location(disk.path, self.mapping(disk).path))
            else:
                found += [
                    self.location(f"{disk.path}-part{number}", f"/dev/{name}")
                    for number, name in enumerate(disk.partitions, 1)
                ]
        return found

    def wanted_areas(self) -> list[WantedArea]:
        if self.layout != PARTITIONS:
            return [self.wanted(disk.path, disk.size) for disk, _content in self.disks]
        count = self.options.partitions
        return [
            self.wanted(f"{disk.path}-part{number}", disk.size // count)
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

    def unit(self, location: Location) -> dict[str, str]:
        if self.layout == CRYPT:
            disk = next(disk for disk, _content in self.disks if disk.path == location.key)
            mapping = self.mapping(disk)
            command = self.open_command(f"/dev/disk/by-partuuid/{mapping.partuuid}", mapping)
            programs = [self.options.tool(name) for name in ("wipefs", "mkswap")]
            service = crypt_service(os.path.basename(mapping.path), mapping.partuuid, command, *programs)
            return {**service, **swap_unit(mapping.path, self.options.priority, self.discard)}
        identifier, _label = read_header(location.path) or ("", "")
        return swap_unit(f"/dev/disk/by-uuid/{uuid_text(identifier)}", self.options.priority, self.discard)


def socket_warnings(files: HostFiles, disks: list[Disk]) -> list[str]:
    """Return a warning if the disks are not spread over the sockets: pages of the other sockets take a longer way."""
    sockets = {
        files.text(f"/sys/devices/system/cpu/{name}/topology/physical_package_id")
        for name in files.names("/sys/devices/system/cpu")
        if re.match(r"^cpu\d+$", name)
    } - {None}
    if len(sockets) < 2 or not disks:
        return []
    nodes = {disk.path: numa_node(files, disk.name) for disk in disks}
    unknown = [path for path, node in nodes.items() if node is None]
    if unknown:
        return ["the socket nearest to these swap drives is unknown: " + ", ".join(unknown)]
    if len(set(nodes.values())) == 1:
        return [
            f"this host has {len(sockets)} sockets and all swap drives are near NUMA node {nodes[disks[0].path]}: "
            + ", ".join(nodes)
        ]
    counts = {
        node: list(nodes.values()).count(node) for node in sorted({node for node in nodes.values() if node is not None})
    }
    if len(set(counts.values())) > 1:
        spread = ", ".join(f"{count} near NUMA node {node}" for node, count in counts.items())
        return [f"the swap drives are not spread equally over the sockets: {spread}"]
    return []


def areas_on(disk: Disk) -> list[Area]:
    """Return our areas in use on a disk."""
    tree = disk.tree()
    return [area for area in areas(disk.files) if area.ours and not area.is_file and device_number(area.name) in tree]


def give_back_disk(guard: Guard, path: str) -> str | None:
    """Make a disk blank that carries our mark. Return why it was left alone, or None."""
    try:
        disk = find(path, guard.files)
        content = guard.content(disk)
    except GuardError as error:
        return str(error)
    if content.kind == FOREIGN:
        return f"{disk} now holds {content.text}"
    if content.kind != BLANK:
        close_mappings(guard, disk)
        with held(guard, disk, None) as descriptor:
            erase(guard, disk, descriptor)
    return None


def close_mappings(guard: Guard, disk: Disk) -> None:
    """Close our encrypted areas on a disk, which also discards their keys."""
    for name in disk.tree().values():
        if guard.is_our_mapping(name):
            run(guard, ["cryptsetup", "close", guard.mapper_name(name)])
