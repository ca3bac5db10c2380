# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find who is assigned a disk, now or later, without having mounted it or holding it exclusively.

These are the storage pools and virtual machines of libvirt, running or not; the disks that the kernel itself exports to
other hosts (nvmet and LIO, which no process has open); and the lines of /etc/fstab and /etc/crypttab. A virtual machine
may also be given the PCI device or the SCSI address of a disk, which names no block device at all.
"""

from __future__ import annotations

import glob
import json
import os
import re
import typing as t
from xml.etree import ElementTree

from ansible_collections.memstretch.density.plugins.module_utils.host.disks import pci_addresses, scsi_address
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import Disk, GuardError, device_number

CONFIGFS = "/sys/kernel/config"
# Kernel modules that export disks, and the directory in which each lists them.
EXPORTERS = {"nvmet": f"{CONFIGFS}/nvmet", "target_core_mod": f"{CONFIGFS}/target"}
# What nvmetcli and targetcli export at the next boot.
SAVED_EXPORTS = ("/etc/nvmet/config.json", "/etc/rtslib-fb-target/saveconfig.json", "/etc/target/saveconfig.json")


class Claim(t.NamedTuple):
    """One entry that assigns a device to a user.

    Args:
        device: the path of a block device, C(major:minor), a PCI address, or a SCSI address after C(scsi:).
        text: who has the device and where that is configured, for the message.
    """

    device: str
    text: str


def claims_on(disk: Disk) -> list[str]:
    """Return who is assigned a disk, a part of it, or the device that it is behind.

    Raises:
        GuardError: a file or directory that may assign a disk cannot be read.
    """
    files = disk.files
    numbers = set(disk.tree())
    behind = pci_addresses(files, disk.name) | {f"scsi:{scsi_address(files, disk.name)}"}
    return [
        claim.text
        for claim in (*libvirt_claims(files), *exports(files), *boot_claims(files))
        if claim.device in numbers or claim.device in behind or device_number(claim.device) in numbers
    ]


def libvirt_claims(files: HostFiles) -> list[Claim]:
    """Return the devices of libvirt's storage pools and virtual machines, also of those that are off."""
    found = []
    patterns = {
        "storage pool": ("/etc/libvirt/storage/*.xml", "/run/libvirt/storage/*.xml"),
        "virtual machine": ("/etc/libvirt/qemu/*.xml", "/run/libvirt/qemu/*.xml"),
    }
    for what, globs in patterns.items():
        for path in (path for pattern in globs for path in sorted(glob.glob(files.path(pattern)))):
            root = parsed(path)
            name = root.findtext(".//name") or os.path.basename(path)
            devices = [node.get("path") for node in root.iter("device")]
            for node in root.iter("source"):
                devices += [node.get("dev"), node.get("file")]
            found += [Claim(device, f"belongs to libvirt's {what} {name} ({path})") for device in devices if device]
            found += [
                Claim(device, f"is behind {device}, which belongs to libvirt's {what} {name} ({path})")
                for device in _passed_through(root, path)
            ]
    return found


def _passed_through(root: ElementTree.Element, path: str) -> list[str]:
    """Return the PCI devices and SCSI addresses that a virtual machine has.

    A disk of the type nvme takes the whole controller from the host, so its namespace does not matter.
    """
    found = []
    for node in (*root.iter("hostdev"), *root.iter("disk")):
        address, adapter = node.find("source/address"), node.find("source/adapter")
        if address is None or node.get("type") not in ("pci", "nvme", "scsi"):
            continue
        try:
            if node.get("type") != "scsi":
                domain, bus, slot, function = (
                    int(address.get(part, "0"), 0) for part in ("domain", "bus", "slot", "function")
                )
                found.append(f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}")
            elif adapter is not None:
                host = adapter.get("name", "").replace("scsi_host", "")
                found.append(f"scsi:{host}:" + ":".join(address.get(part, "0") for part in ("bus", "target", "unit")))
        except ValueError as error:
            raise GuardError(f"{path} has a device address that cannot be read: {error}") from error
    return found


def exports(files: HostFiles) -> list[Claim]:
    """Return the disks that nvmet or LIO exports to other hosts, now or at the next boot, enabled or not."""
    for module, directory in EXPORTERS.items():
        if files.exists(f"/sys/module/{module}") and not files.exists(directory):
            raise GuardError(
                f"the disks that the kernel module {module} exports cannot be listed, because {directory} does not "
                f"exist. Mount configfs on {CONFIGFS}"
            )
    found = []
    for namespace in _directories(files, f"{CONFIGFS}/nvmet/subsystems/*/namespaces/*"):
        words = namespace.split("/")
        text = f"is exported by nvmet (subsystem {words[-3]}, namespace {words[-1]})"
        found.append(Claim(files.text(f"{namespace}/device_path") or "", text))
    for backstore in _directories(files, f"{CONFIGFS}/target/core/*/*"):
        text = f"is exported by LIO (backstore {'/'.join(backstore.split('/')[-2:])})"
        information = files.text(f"{backstore}/info") or ""
        devices = [files.text(f"{backstore}/udev_path") or "", *re.findall(r"File: (/\S+)", information)]
        devices += [":".join(number) for number in re.findall(r"Major: (\d+)\s+Minor: (\d+)", information)]
        found += [Claim(device, text) for device in dict.fromkeys(devices)]
    for name in SAVED_EXPORTS:
        content = files.text(name)
        try:
            found += [Claim(path, f"is exported by {name}") for path in _paths_in(json.loads(content or "null"))]
        except ValueError as error:
            raise GuardError(f"{name} cannot be read, but it may export a disk: {error}") from error
    return found


def _directories(files: HostFiles, pattern: str) -> list[str]:
    """Return the directories of the host that match a pattern, as absolute paths of the host."""
    return ["/" + os.path.relpath(path, files.root) for path in sorted(glob.glob(files.path(pattern)))]


def _paths_in(content: t.Any) -> t.Iterator[str]:
    """Return every path of a device in a JSON document."""
    if isinstance(content, str) and content.startswith("/dev/"):
        yield content
    elif isinstance(content, (dict, list)):
        for value in content.values() if isinstance(content, dict) else content:
            yield from _paths_in(value)


def boot_claims(files: HostFiles) -> list[Claim]:
    """Return the devices in /etc/fstab and /etc/crypttab."""
    found = []
    for table, field in (("/etc/fstab", 0), ("/etc/crypttab", 1)):
        for line in (files.text(table) or "").splitlines():
            words = line.split()
            if len(words) > field and not line.lstrip().startswith("#"):
                found.append(Claim(source_path(words[field]), f"is listed in {table} ({words[field]})"))
    return found


def source_path(source: str) -> str:
    """Return the path of a device that fstab names as UUID=..., LABEL=... and so on."""
    kind, equals, value = source.partition("=")
    if equals and kind in ("UUID", "LABEL", "PARTUUID", "PARTLABEL", "ID"):
        value = value.strip('"')
        return f"/dev/disk/by-{kind.lower()}/" + (value.lower() if kind in ("UUID", "PARTUUID") else value)
    return source


def pools_below(files: HostFiles, directory: str) -> str:
    """Return the libvirt storage pools with their directory on a mount, as a text; empty if there are none."""
    names = []
    for path in sorted(glob.glob(files.path("/etc/libvirt/storage/*.xml"))):
        root = parsed(path)
        target = root.findtext(".//target/path") or ""
        if directory != "/" and (target + "/").startswith(directory.rstrip("/") + "/"):
            names.append(f"libvirt's storage pool {root.findtext('.//name')}")
    return ", ".join(names)


def parsed(path: str) -> ElementTree.Element:
    """Return the content of a libvirt XML file. Raises GuardError for one that cannot be read: it may claim a disk."""
    try:
        return ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, OSError) as error:
        raise GuardError(f"{path} cannot be read, but it may give a disk to libvirt: {error}") from error
