# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The definition of one VM of a fleet, as libvirt takes it: pure text work, without a connection.

A VM of a fleet is known by the mark in the metadata of its definition, an element of our own XML namespace. Whatever does not carry it is somebody else's.
"""

from __future__ import annotations

import copy
import hashlib
import typing as t
import uuid
import xml.etree.ElementTree as ET

NAMESPACE = "https://github.com/memstretch/density/vm"
QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0"
# Any fixed number does: it makes the identities of this collection its own.
_IDENTITIES = uuid.UUID("6d656d73-7472-4574-8368-64656e736974")
NUMBER_RANGE = (1, 65535)
# The slots that libvirt gives to its own devices begin at 1; a card that it does not know of goes far behind them.
_USER_NETWORK_SLOT = "0x1e"
# Emulated, the newest processor is the slowest: a kernel loads and tries out all that it can do, ciphers and hypervisors included.
EMULATED_CPU = "Nehalem"
# What the emulator keeps of translated code. Its default is 1 GiB for each VM, more than the memory of a small guest, and as swappable.
TRANSLATION_CACHE = 128 * 2**20
_BUS_DEVICES = {"virtio": "vd", "scsi": "sd", "sata": "sd", "nvme": "nvme"}

ET.register_namespace("density", NAMESPACE)
ET.register_namespace("qemu", QEMU_NAMESPACE)


class DomainError(Exception):
    """A VM cannot be defined as asked for; the text says why."""


class Vm(t.NamedTuple):
    """One VM of a fleet: its name, and its number in the fleet, which gives it its identity."""

    fleet: str
    name: str
    number: int

    @property
    def uuid(self) -> str:
        return str(uuid.uuid5(_IDENTITIES, f"{self.fleet}/{self.number}"))

    @property
    def mac(self) -> str:
        """A locally administered address: 02, three bytes of the fleet's name, two bytes of the number; so no two VMs of a fleet share one."""
        digest = hashlib.sha256(self.fleet.encode()).digest()[:3]
        return ":".join(f"{byte:02x}" for byte in (2, *digest, *self.number.to_bytes(2, "big")))


class Mark(t.NamedTuple):
    """What we note in a VM's metadata."""

    fleet: str
    number: int
    digest: str
    base: str
    base_state: str


def mark_of(xml: str) -> Mark | None:
    """Return the mark in a definition, None if it is not a VM of ours."""
    found = ET.fromstring(xml).find(f"./metadata/{{{NAMESPACE}}}vm")
    if found is None:
        return None
    return Mark(
        found.get("fleet", ""),
        int(found.get("number", "0")),
        found.get("digest", ""),
        found.get("base", ""),
        found.get("base_state", ""),
    )


def macs_of(xml: str) -> set[str]:
    """Return the addresses of all network cards of a definition."""
    return {element.get("address", "").lower() for element in ET.fromstring(xml).iterfind("./devices/interface/mac")}


def max_memory_of(xml: str) -> int:
    """Return the most memory in bytes that a VM may use."""
    element = ET.fromstring(xml).find("memory")
    unit = {
        "b": 1,
        "bytes": 1,
        "KB": 1000,
        "k": 2**10,
        "KiB": 2**10,
        "M": 2**20,
        "MiB": 2**20,
        "G": 2**30,
        "GiB": 2**30,
        "T": 2**40,
        "TiB": 2**40,
    }
    return 0 if element is None else int(element.text or 0) * unit.get(element.get("unit", "KiB"), 2**10)


def disk_of_master(xml: str, name: str) -> tuple[str, str]:
    """Return the path and the format of a master's one disk.

    Raises:
        DomainError: it has none, or more than one, or one that is not a file.
    """
    disks = [disk for disk in ET.fromstring(xml).iterfind("./devices/disk") if disk.get("device", "disk") == "disk"]
    if len(disks) != 1:
        raise DomainError(f"master {name} has {len(disks)} disks; clones are made of VMs with one")
    source, driver = disks[0].find("source"), disks[0].find("driver")
    path = source.get("file") or source.get("dev") if source is not None else None
    if not path:
        raise DomainError(f"the disk of master {name} is neither a file nor a block device")
    return path, driver.get("type", "raw") if driver is not None else "raw"


def pinned_memory(root: ET.Element) -> str:
    """Return why the memory of a VM could not be stretched, or nothing."""
    if root.find("./memoryBacking/locked") is not None:
        return "its memory is locked"
    if root.find("./memoryBacking/hugepages") is not None:
        return "its memory is huge pages"
    if root.find("./devices/hostdev") is not None:
        return "a device is passed through to it, and that locks its memory"
    return ""


def disk_path(directory: str, vm: Vm) -> str:
    """Return the file of a VM's disk."""
    return f"{directory}/clone-{vm.name}.qcow2"


def console_path(directory: str, vm: Vm) -> str:
    """Return the file of what a VM writes to its console."""
    return f"{directory}/clone-{vm.name}.console"


class Plan(t.NamedTuple):
    """How all VMs of a fleet are made."""

    domain_type: str  # kvm, or qemu for software emulation
    architecture: str
    cpu_model: str  # empty for the host's own, or what emulation does best
    memory: int  # bytes; 0 leaves the master's
    vcpus: int  # 0 leaves the master's
    cpus: str  # CPUs of the host that may run it, such as 0-15; empty for all
    pin: bool  # each VCPU on one of them, round robin
    numa_nodes: tuple[int, ...]  # VMs take turns
    bus: str
    network: t.Mapping[str, t.Any]  # type: network, bridge or user; name; first_port
    locked: bool
    hugepages: bool
    balloon: bool
    free_page_reporting: bool
    partition: str
    seed: str
    directory: str
    base: str
    base_state: str
    master: str  # the master's definition; empty without one

    def disk(self, vm: Vm) -> str:
        return disk_path(self.directory, vm)

    def console(self, vm: Vm) -> str:
        return console_path(self.directory, vm)

    def port(self, vm: Vm) -> int:
        """The hypervisor's port that leads to the VM's ssh, for user networking."""
        return int(self.network["first_port"]) + vm.number - 1

    def xml(self, vm: Vm) -> str:
        """Return the definition of a VM, with its mark."""
        root = self._from_master(vm) if self.master else self._from_scratch(vm)
        metadata = root.find("metadata")
        if metadata is None:
            metadata = ET.SubElement(root, "metadata")
        for old in metadata.findall(f"{{{NAMESPACE}}}vm"):
            metadata.remove(old)
        mark = {"fleet": vm.fleet, "number": str(vm.number), "base": self.base, "base_state": self.base_state}
        mark["digest"] = hashlib.sha256(ET.tostring(root)).hexdigest()[:16]
        ET.SubElement(metadata, f"{{{NAMESPACE}}}vm", mark)
        ET.indent(root)
        return ET.tostring(root, encoding="unicode") + "\n"

    def digest(self, vm: Vm) -> str:
        mark = mark_of(self.xml(vm))
        return mark.digest if mark else ""

    def _from_scratch(self, vm: Vm) -> ET.Element:
        root = ET.Element("domain", {"type": self.domain_type})
        _add(root, "name", vm.name)
        _add(root, "uuid", vm.uuid)
        self._size(root)
        if self.locked or self.hugepages:
            backing = _add(root, "memoryBacking")
            for name, wanted in (("hugepages", self.hugepages), ("locked", self.locked)):
                if wanted:
                    _add(backing, name)
        self._place(root, vm)
        self._limit_emulator(root)
        self._name_by_firmware(root, vm)
        system = _add(root, "os")
        _add(
            system,
            "type",
            "hvm",
            arch=self.architecture,
            **({"machine": "q35"} if self.architecture == "x86_64" else {"machine": "virt"}),
        )
        _add(system, "boot", dev="hd")
        _add(system, "smbios", mode="sysinfo")
        features = _features(root)
        _add(features, "acpi")
        if self.architecture == "x86_64":
            _add(features, "apic")
        self._add_cpu(root)
        _add(root, "on_crash", "destroy")
        devices = _add(root, "devices")
        disk = _add(devices, "disk", type="file", device="disk")
        _add(disk, "driver", name="qemu", type="qcow2", discard="unmap")
        _add(disk, "source", file=self.disk(vm))
        _add(disk, "target", dev=f"{_BUS_DEVICES[self.bus]}a", bus=self.bus)
        if self.bus == "scsi":
            _add(devices, "controller", type="scsi", model="virtio-scsi")
        self._add_seed(devices)
        self._add_network(root, devices, vm)
        serial = _add(devices, "serial", type="file")
        _add(serial, "source", path=self.console(vm))
        _add(serial, "target", port="0")
        channel = _add(devices, "channel", type="unix")
        _add(channel, "target", type="virtio", name="org.qemu.guest_agent.0")
        _add(_add(devices, "rng", model="virtio"), "backend", "/dev/urandom", model="random")
        self._add_balloon(devices)
        return root

    def _from_master(self, vm: Vm) -> ET.Element:
        root = copy.deepcopy(ET.fromstring(self.master))
        root.set("type", self.domain_type)
        if self.cpu_model or self.domain_type == "qemu":
            _remove(root, "cpu")
            self._add_cpu(root)
        devices = root.find("devices")
        if devices is None:
            raise DomainError("the master has no devices")
        for name, text in (("name", vm.name), ("uuid", vm.uuid)):
            element = root.find(name)
            (element if element is not None else ET.SubElement(root, name)).text = text
        self._size(root)
        self._place(root, vm)
        self._limit_emulator(root)
        for element in root.iterfind("./os/nvram"):
            element.text = None  # each VM gets its own
        for disk in devices.iterfind("disk"):
            if disk.get("device", "disk") == "disk":
                disk.set("type", "file")
                for name in ("source", "driver", "backingStore"):
                    _remove(disk, name)
                disk.insert(0, ET.Element("source", {"file": self.disk(vm)}))
                disk.insert(0, ET.Element("driver", {"name": "qemu", "type": "qcow2", "discard": "unmap"}))
        _remove(devices, "interface")
        self._add_network(root, devices, vm)
        if self.seed:
            self._add_seed(devices)
            self._name_by_firmware(root, vm)
            system = root.find("os")
            if system is not None and system.find("smbios") is None:
                _add(system, "smbios", mode="sysinfo")
        for channel in devices.iterfind("channel"):
            _remove(channel, "source")  # a socket of the master's own; libvirt chooses another
        for graphics in devices.iterfind("graphics"):
            graphics.attrib.pop("port", None)
            graphics.set("autoport", "yes")
        for kind in ("serial", "console"):
            for device in devices.iterfind(kind):
                if device.get("type") == "file":  # several VMs must not write one file
                    _remove(device, "source")
                    device.insert(0, ET.Element("source", {"path": self.console(vm)}))
        _remove(devices, "memballoon")
        self._add_balloon(devices)
        return root

    def _add_cpu(self, root: ET.Element) -> None:
        model = self.cpu_model or (EMULATED_CPU if self.domain_type == "qemu" and self.architecture == "x86_64" else "")
        if model:
            _add(_add(root, "cpu", mode="custom", match="exact"), "model", model)
        else:
            _add(root, "cpu", mode="host-passthrough" if self.domain_type == "kvm" else "maximum")

    def _size(self, root: ET.Element) -> None:
        if self.memory:
            for name in ("memory", "currentMemory", "maxMemory"):
                _remove(root, name)
            _add(root, "memory", str(self.memory), unit="bytes")
        if self.vcpus:
            _remove(root, "vcpu")
            _remove(root, "vcpus")
            _add(root, "vcpu", str(self.vcpus))
        vcpu = root.find("vcpu")
        if self.cpus and vcpu is not None:
            vcpu.set("cpuset", self.cpus)

    def _place(self, root: ET.Element, vm: Vm) -> None:
        vcpus = int(root.findtext("vcpu") or 1)
        if self.pin:
            _remove(root, "cputune")
            tune = _add(root, "cputune")
            allowed = cpu_list(self.cpus)
            for vcpu in range(vcpus):
                _add(
                    tune,
                    "vcpupin",
                    vcpu=str(vcpu),
                    cpuset=str(allowed[((vm.number - 1) * vcpus + vcpu) % len(allowed)]),
                )
        if self.numa_nodes:
            _remove(root, "numatune")
            _add(
                _add(root, "numatune"),
                "memory",
                mode="strict",
                nodeset=str(self.numa_nodes[(vm.number - 1) % len(self.numa_nodes)]),
            )
        if self.partition:
            _remove(root, "resource")
            _add(_add(root, "resource"), "partition", self.partition)

    def _limit_emulator(self, root: ET.Element) -> None:
        if self.domain_type == "qemu":
            features = _features(root)
            _remove(features, "tcg")
            _add(_add(features, "tcg"), "tb-cache", str(TRANSLATION_CACHE // 2**20), unit="MiB")

    @staticmethod
    def _name_by_firmware(root: ET.Element, vm: Vm) -> None:
        # The one seed of the fleet holds what all VMs share; cloud-init takes the rest from the firmware's serial number.
        _remove(root, "sysinfo")
        _add(
            _add(_add(root, "sysinfo", type="smbios"), "system"),
            "entry",
            f"ds=nocloud;i={vm.uuid};h={vm.name}",
            name="serial",
        )

    def _add_seed(self, devices: ET.Element) -> None:
        if self.seed:
            seed = _add(devices, "disk", type="file", device="disk")
            _add(seed, "driver", name="qemu", type="raw")
            _add(seed, "source", file=self.seed)
            _add(seed, "target", dev="vdz", bus="virtio")
            _add(seed, "readonly")
            _add(seed, "shareable")

    def _add_network(self, root: ET.Element, devices: ET.Element, vm: Vm) -> None:
        kind = self.network["type"]
        if kind == "user":
            line = _add(root, f"{{{QEMU_NAMESPACE}}}commandline")
            for word in (
                "-netdev",
                f"user,id=fleet0,hostfwd=tcp:127.0.0.1:{self.port(vm)}-:22",
                "-device",
                f"virtio-net-pci,netdev=fleet0,mac={vm.mac},bus=pcie.0,addr={_USER_NETWORK_SLOT}",
            ):
                _add(line, f"{{{QEMU_NAMESPACE}}}arg", value=word)
            return
        card = _add(devices, "interface", type=kind)
        _add(card, "mac", address=vm.mac)
        _add(card, "source", **{kind: str(self.network["name"])})
        _add(card, "model", type="virtio")

    def _add_balloon(self, devices: ET.Element) -> None:
        balloon = _add(devices, "memballoon", model="virtio" if self.balloon else "none")
        if self.balloon and self.free_page_reporting:
            balloon.set("freePageReporting", "on")


def cpu_list(text: str) -> list[int]:
    """Return the CPUs that a text such as 0-3,8 names.

    Raises:
        DomainError: it names none.
    """
    found: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            found += range(int(first), int(last if dash else first) + 1)
    except ValueError:
        found = []
    if not found:
        raise DomainError(f"cpus: {text!r} is not allowed; it takes CPUs of the host, such as 0-15 or 0-3,8")
    return found


def _features(root: ET.Element) -> ET.Element:
    found = root.find("features")
    return ET.SubElement(root, "features") if found is None else found


def _add(parent: ET.Element, tag: str, text: str | None = None, **attributes: str) -> ET.Element:
    child = ET.SubElement(parent, tag, attributes)
    child.text = text
    return child


def _remove(parent: ET.Element, tag: str) -> None:
    for child in parent.findall(tag):
        parent.remove(child)
