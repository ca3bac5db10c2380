# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the disks that managers of virtual machines and containers assign, other than libvirt.

Each has a language of its own, and what matters here is the same in all: which block devices, PCI devices and images
of disks are named at all. So their files are read as text. What they name without using it makes a disk refused, which
its owner can look up in the file that the refusal names.
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, unescaped
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import GuardError

# The files in which each manager says what this host's machines have.
CONFIGURATIONS = {
    "Proxmox": ("/etc/pve/qemu-server/*.conf", "/etc/pve/lxc/*.conf", "/etc/pve/storage.cfg"),
    "Xen": ("/etc/xen/*.cfg", "/etc/xen/auto/*"),
    "LXC": ("/var/lib/lxc/*/config",),
    "Docker": ("/var/lib/docker/containers/*/hostconfig.json", "/var/lib/docker/volumes/*/opts.json"),
    "Podman": ("/etc/containers/systemd/*.container", "/etc/containers/systemd/*.volume"),
    "systemd-nspawn": ("/etc/systemd/nspawn/*.nspawn",),
    "Ganeti": ("/run/ganeti/kvm-hypervisor/conf/*.runtime",),
    "OpenStack": ("/etc/nova/nova.conf", "/etc/nova/nova.conf.d/*.conf"),
    "OpenNebula": ("/var/lib/one/datastores/*/*/deployment.*",),
    "DRBD": ("/etc/drbd.conf", "/etc/drbd.d/*.res"),
    "tgt": ("/etc/tgt/targets.conf", "/etc/tgt/conf.d/*.conf"),
    "SCST": ("/etc/scst.conf",),
    "systemd": ("/etc/systemd/system/*.mount", "/etc/systemd/system/*.automount"),
}
# Files about all hosts of a cluster. Only a name that is the same on each of them can mean a disk of this one.
CLUSTERS = {
    "Proxmox": ("/etc/pve/nodes/*/qemu-server/*.conf", "/etc/pve/nodes/*/lxc/*.conf"),
    "Ganeti": ("/var/lib/ganeti/config.data",),
}
STABLE_NAMES = ("/dev/disk/by-id/", "/dev/disk/by-uuid/", "/dev/disk/by-partuuid/", "/dev/mapper/")
PCI_MAPPING = "/etc/pve/mapping/pci.cfg"
# Proxmox shows its files by a daemon, from this database.
PROXMOX_DATABASE, PROXMOX_FILES = "/var/lib/pve-cluster/config.db", "/etc/pve"
# The storage that Proxmox has without being told.
PROXMOX_IMAGES = "/var/lib/vz"
# Managers that keep everything in a database which only their daemons read: program, and directories of the database.
ASKED = {
    "Incus": ("incus", ("/var/lib/incus/database",)),
    "LXD": ("lxc", ("/var/lib/lxd/database", "/var/snap/lxd/common/lxd/database")),
}
_PROGRAMS = ("/usr/sbin", "/sbin", "/usr/bin", "/bin", "/snap/bin", "/opt/incus/bin")
_PATH = re.compile(r"(?<![\w./-])/(?:[^\s,;|\"'<>()\[\]{}=\\]|\\x[0-9a-f]{2})+")
_TAG = re.compile(r"\b((?:PART)?(?:UUID|LABEL)=[^\s,;]+)")
# As in "hostpci0: 3b:00" of Proxmox, where all functions of a device go together.
_PCI = re.compile(r"(?<![\w:.-])(?:([0-9a-fA-F]{4}):)?([0-9a-fA-F]{2}):([01][0-9a-fA-F])(?:\.([0-7]))?(?![\w:])")
# The rule of a control group that lets a container use a block device.
_NUMBER = re.compile(r"\bb\s+(\d+):(\d+)\b")
_FUNCTIONS = 8


class Claim(t.NamedTuple):
    """One entry that assigns a device to a user.

    Args:
        device: the path of a block device or of an image, C(major:minor), a PCI address, a SCSI address or the number
            of a SCSI host after C(scsi:), or the name of an iSCSI target.
        text: who has the device and where that is configured, for the message.
    """

    device: str
    text: str


def manager_claims(files: HostFiles, run_command: RunCommand) -> list[Claim]:
    """Return the devices that managers assign, running or not.

    Raises:
        GuardError: a manager is here, and what it assigns cannot be read.
    """
    if files.exists(PROXMOX_DATABASE) and not files.names(PROXMOX_FILES):
        raise GuardError(
            f"the disks that Proxmox assigns cannot be listed, because {PROXMOX_FILES} is empty. Start pve-cluster"
        )
    found = []
    for manager, patterns in CONFIGURATIONS.items():
        for path, text in _texts(files, patterns):
            found += [_claim(device, manager, path) for device in devices_in(text)]
    for manager, patterns in CLUSTERS.items():
        for path, text in _texts(files, patterns):
            names = [device for device in devices_in(text) if device.startswith(STABLE_NAMES)]
            found += [_claim(device, manager, path) for device in names]
    found += [*_pci_mapping(files), *_proxmox_images(files)]
    return found + [claim for name in ASKED for claim in _asked(files, run_command, name)]


def _claim(device: str, manager: str, path: str) -> Claim:
    behind = "" if device.startswith("/") else f"behind {device}, which is "
    return Claim(device, f"is {behind}named in {path} ({manager})")


def _texts(files: HostFiles, patterns: t.Iterable[str]) -> t.Iterator[tuple[str, str]]:
    """Return path and text of each file that matches. Raises GuardError for one that cannot be read."""
    for pattern in patterns:
        for real in sorted(glob.glob(files.path(pattern))):
            name = "/" + os.path.relpath(real, files.root)
            try:
                # Others than root may write to some of these directories, so this may be a pipe.
                descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                with open(descriptor, encoding="utf-8", errors="replace") as file:
                    if stat.S_ISREG(os.fstat(descriptor).st_mode):
                        yield name, file.read()
            except (FileNotFoundError, IsADirectoryError):
                continue
            except OSError as error:
                raise GuardError(f"{name} cannot be read, but it may assign a disk: {error.strerror}") from error


def devices_in(text: str) -> list[str]:
    """Return everything in a text that may name a device: paths, tags, PCI addresses, numbers of block devices."""
    found = [name for path in _PATH.findall(text) for name in _readings(path)]
    found += [path for tag in _TAG.findall(text) for path in source_paths(tag)]
    for domain, bus, device, function in _PCI.findall(text):
        functions = [function] if function else [str(number) for number in range(_FUNCTIONS)]
        found += [f"{(domain or '0000').lower()}:{bus.lower()}:{device.lower()}.{number}" for number in functions]
    found += [f"{major}:{minor}" for major, minor in _NUMBER.findall(text)]
    return list(dict.fromkeys(found))


def _readings(path: str) -> list[str]:
    """List what a path may mean: a colon belongs to it, or ends it; \\x20 belongs to it, or stands for a blank."""
    parts = path.split(":")
    found = [":".join(parts[:count]) for count in range(len(parts), 0, -1)]
    decoded = [re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match.group(1), 16)), name) for name in found]
    return [name for name in (*found, *decoded) if name.count("/") > 1]


def source_paths(source: str) -> list[str]:
    """Return the paths of a device that fstab names as UUID=..., LABEL=... and so on.

    fstab and udev write a blank in a label by its code, and each in its own way. The UUIDs of FAT and NTFS have capital
    letters, all others have small ones, and people write both.
    """
    source = unescaped(source)
    kind, equals, value = source.partition("=")
    if not equals or kind not in ("UUID", "LABEL", "PARTUUID", "PARTLABEL", "ID"):
        return [source]
    value = _as_udev(value.strip('"'))
    values = [value, value.lower(), value.upper()] if kind in ("UUID", "PARTUUID") else [value]
    return list(dict.fromkeys(f"/dev/disk/by-{kind.lower()}/{one}" for one in values))


def _as_udev(name: str) -> str:
    """Return a name as udev writes it in a link: in the place of what may be misread there is its code."""
    if r"\x" in name:
        return name
    return re.sub(r"[^\w#+.:=@-]", lambda match: "".join(f"\\x{byte:02x}" for byte in match.group().encode()), name)


def _pci_mapping(files: HostFiles) -> list[Claim]:
    """Return the devices of this host in Proxmox' mapping of names to PCI devices, which is one for all hosts."""
    host = (files.text("/proc/sys/kernel/hostname") or "").split(".")[0]
    found = []
    for path, text in _texts(files, [PCI_MAPPING]):
        for line in text.splitlines():
            node = re.search(r"\bnode=([^,\s]+)", line)
            if node is None or node.group(1) == host:
                addresses = " ".join(re.findall(r"\bpath=([^,\s]+)", line)).replace(";", " ")
                found += [_claim(device, "Proxmox", path) for device in devices_in(addresses)]
    return found


def _proxmox_images(files: HostFiles) -> list[Claim]:
    """Return the images in Proxmox' storages: a machine's configuration names them without their directory."""
    if not files.exists(PROXMOX_FILES):
        return []
    directories = [PROXMOX_IMAGES]
    for _path, text in _texts(files, ["/etc/pve/storage.cfg"]):
        directories += re.findall(r"^\s+path\s+(/\S+)\s*$", text, re.MULTILINE)
    found = []
    for directory in dict.fromkeys(directories):
        for machine in files.names(f"{directory}/images"):
            names = files.names(f"{directory}/images/{machine}")
            found += [_claim(f"{directory}/images/{machine}/{name}", "Proxmox", directory) for name in names]
    return found


def _asked(files: HostFiles, run_command: RunCommand, name: str) -> list[Claim]:
    """Return the devices that a manager names when it is asked."""
    program, databases = ASKED[name]
    if not any(files.names(database) for database in databases):
        return []
    paths = [f"{directory}/{program}" for directory in _PROGRAMS if files.exists(f"{directory}/{program}")]
    if not paths:
        raise GuardError(
            f"the disks that {name} assigns cannot be listed: its database is here ({' or '.join(databases)}), "
            f"but not the program {program}"
        )
    found = []
    for what in (["list", "local:", "--all-projects"], ["storage", "list", "local:"]):
        command = [paths[0], *what, "--format", "json"]
        status, output, errors = run_to_end(run_command, command)
        if status:
            raise GuardError(
                f"the disks that {name} assigns cannot be listed: {' '.join(command)} ended with status {status}: "
                f"{errors.strip() or output.strip()}"
            )
        entries = json.loads(output or "[]") or []
        for entry in entries:
            kind = "instance" if what[0] == "list" else "storage pool"
            text = f"belongs to {name}'s {kind} {entry.get('name')}"
            found += [Claim(device, text) for device in _devices_in_json(entry)]
    return found


def _devices_in_json(content: t.Any) -> t.Iterator[str]:
    """Return everything in a JSON document that may name a device, also as major and minor."""
    if isinstance(content, str):
        yield from devices_in(content)
    elif isinstance(content, list):
        for value in content:
            yield from _devices_in_json(value)
    elif isinstance(content, dict):
        if "major" in content and "minor" in content:
            yield f"{content['major']}:{content['minor']}"
        for value in content.values():
            yield from _devices_in_json(value)
