# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find who is assigned a disk, now or later, without having mounted it or holding it exclusively.

These are the storage pools and virtual machines of libvirt, running or not; those of other managers (managers.py); the
disks that the kernel itself exports to other hosts (nvmet and LIO, which no process has open); and the lines of
/etc/fstab and /etc/crypttab. A virtual machine may also be given the PCI device or the SCSI address of a disk, which
names no block device at all, or an image that is an overlay of a disk.
"""

from __future__ import annotations

import glob
import json
import os
import re
import typing as t
from xml.etree import ElementTree

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand
from ansible_collections.memstretch.density.plugins.module_utils.host.disks import (
    iscsi_targets,
    pci_addresses,
    scsi_address,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import Disk, GuardError, device_number
from ansible_collections.memstretch.density.plugins.module_utils.swap.images import stands_on
from ansible_collections.memstretch.density.plugins.module_utils.swap.managers import (
    Claim,
    devices_in,
    manager_claims,
    source_paths,
)

_LIBVIRT = ("/etc/libvirt", "/run/libvirt")
CONFIGFS = "/sys/kernel/config"
# Kernel modules that export disks, and the directory in which each lists them.
EXPORTERS = {"nvmet": f"{CONFIGFS}/nvmet", "target_core_mod": f"{CONFIGFS}/target"}
# What nvmetcli and targetcli export at the next boot.
SAVED_EXPORTS = ("/etc/nvmet/config.json", "/etc/rtslib-fb-target/saveconfig.json", "/etc/target/saveconfig.json")
# Where a boot is told the swap area of a hibernated system. It waits for an area that is gone.
_RESUME = r"^\s*RESUME=[\"']?([^\s\"']+)"
_HIBERNATION = (
    ("/etc/initramfs-tools/initramfs.conf", _RESUME),
    ("/etc/initramfs-tools/conf.d/*", _RESUME),
    ("/proc/cmdline", r"(?:^|\s)resume=(\S+)"),
)


def claims_on(disk: Disk, run_command: RunCommand) -> list[str]:
    """Return who is assigned a disk, a part of it, or the device that it is behind.

    Raises:
        GuardError: a file or directory that may assign a disk cannot be read.
    """
    files = disk.files
    numbers, names = set(disk.tree()), _other_names(files, disk.name)
    claims = [*libvirt_claims(files), *manager_claims(files, run_command), *exports(files), *boot_claims(files)]
    texts = [claim.text for claim in claims if claim.device in names or _number(claim.device) in numbers]
    for claim in claims:
        below = next((path for path in stands_on(files, claim.device) if _number(path) in numbers), None)
        if below:
            texts.append(f"is below the image {claim.device} (by the name {below}), which {claim.text}")
    return list(dict.fromkeys(texts))


def _number(device: str) -> str | None:
    """Return the number of the device that a claim names."""
    if not device.startswith("/"):
        return device
    # A partition that is gone, or does not exist yet, may be assigned.
    return device_number(device) or device_number(re.sub(r"-part\d+$", "", device))


def _other_names(files: HostFiles, disk: str) -> set[str]:
    """Return all names of a disk by which it can be assigned without naming a block device."""
    address = scsi_address(files, disk)
    names = pci_addresses(files, disk) | iscsi_targets(files, disk)
    return names | ({f"scsi:{address}", f"scsi:{address.split(':')[0]}"} if address else set())


def libvirt_claims(files: HostFiles) -> list[Claim]:
    """Return the devices of libvirt's storage pools and machines, also of those that are off."""
    found = []
    drivers = ("qemu", "libxl", "lxc")
    places = {
        "storage pool": [f"{parent}/storage/*.xml" for parent in _LIBVIRT],
        "virtual machine": [f"{parent}/{driver}/*.xml" for driver in drivers for parent in _LIBVIRT],
    }
    for what, patterns in places.items():
        for path in (path for pattern in patterns for path in sorted(glob.glob(files.path(pattern)))):
            root = parsed(path)
            name = root.findtext(".//name") or os.path.basename(path)
            who = f"libvirt's {what} {name} ({path})"
            found += [Claim(device, f"belongs to {who}") for device in _named(root)]
            passed = _passed_through(root, path) + (_of_pool(files, root) if what == "storage pool" else [])
            found += [Claim(device, f"is behind {device}, which belongs to {who}") for device in passed]
            found += [Claim(image, f"is a volume of {who}") for image in _images_of_pool(files, root)]
    return found


def _named(root: ElementTree.Element) -> list[str]:
    """Return every path of a device or an image in a definition, wherever it is: also in arguments for QEMU."""
    found = []
    for node in root.iter():
        if node.tag == "source" and node.get("file"):
            found.append(node.get("file", ""))
        for value in (*node.attrib.values(), node.text or ""):
            found += [path for path in devices_in(value) if path.startswith("/dev/")]
    return list(dict.fromkeys(found))


def _images_of_pool(files: HostFiles, root: ElementTree.Element) -> list[str]:
    """Return the files in the directory of a storage pool: each may be the image of a machine."""
    directory = root.findtext("./target/path") or ""
    if root.tag != "pool" or root.get("type") not in ("dir", "fs") or not directory.startswith("/"):
        return []
    return [os.path.join(directory, name) for name in files.names(directory)]


def _of_pool(files: HostFiles, root: ElementTree.Element) -> list[str]:
    """Return the SCSI hosts and iSCSI targets whose disks all belong to a storage pool."""
    kind, adapter = root.get("type"), root.find("./source/adapter")
    if kind == "iscsi":
        return [device.get("path", "") for device in root.iter("device")]
    if kind != "scsi" or adapter is None:
        return []
    found = [f"scsi:{number}" for number in re.findall(r"^(?:scsi_)?host(\d+)$", adapter.get("name", ""))]
    address = adapter.find("./parentaddr/address")
    if address is not None:
        found.append(_pci_address(address))
    for host in files.names("/sys/class/fc_host") if adapter.get("wwpn") else []:
        port = files.text(f"/sys/class/fc_host/{host}/port_name") or ""
        if port.lower().replace("0x", "") == adapter.get("wwpn", "").lower():
            found.append(f"scsi:{host.replace('host', '')}")
    return found


def _pci_address(address: ElementTree.Element) -> str:
    domain, bus, slot, function = (int(address.get(part, "0"), 0) for part in ("domain", "bus", "slot", "function"))
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


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
                found.append(_pci_address(address))
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
    """Return the devices that the next boot uses, or waits for: those of file systems, encryption and hibernation."""
    found = []
    for table, field in (("/etc/fstab", 0), ("/etc/crypttab", 1)):
        for line in (files.text(table) or "").splitlines():
            words = line.split()
            if len(words) > field and not line.lstrip().startswith("#"):
                text = f"is listed in {table} ({words[field]})"
                found += [Claim(path, text) for path in source_paths(words[field])]
    for source, name in hibernation(files):
        text = f"is where the boot looks for a hibernated system ({source} in {name})"
        found += [Claim(device, text) for device in source_paths(source)]
    return found


def hibernation(files: HostFiles) -> list[tuple[str, str]]:
    """Return where the boot is told to look for a hibernated system: what is given, and the file that gives it."""
    found = []
    for pattern, setting in _HIBERNATION:
        for path in sorted(glob.glob(files.path(pattern))):
            name = "/" + os.path.relpath(path, files.root)
            found += [(source, name) for source in re.findall(setting, files.text(name) or "", re.MULTILINE)]
    return found


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
