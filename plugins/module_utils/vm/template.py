# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The libvirt definition of one VM of a fleet, built as text without a connection.

A mark in the metadata of its definition, an element of this collection's own XML namespace, names the fleet of a VM.
A copy of a VM carries the mark too, so a VM belongs to a fleet only if it also has the UUID that follows from the
fleet's salt and its number.
"""

from __future__ import annotations

import copy
import hashlib
import os
import re
import typing as t
import uuid
import xml.etree.ElementTree as ET

from ansible_collections.memstretch.density.plugins.module_utils.host.files import parse_cpu_list
from ansible_collections.memstretch.density.plugins.module_utils.vm.belongings import (
    SharedStateError,
    give_own,
    path_of,
    variables_of,
)
from ansible_collections.memstretch.density.plugins.module_utils.vm.sizes import DomainError, set_memory, set_vcpus

NAMESPACE = "https://github.com/memstretch/density/vm"
QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0"
# The namespace of our VMs' UUIDs: any fixed value serves.
IDENTITIES = uuid.UUID("6d656d73-7472-4574-8368-64656e736974")
_SEED_TARGET = "vdz"
# Where networks have no DHCP of libvirt's, addresses come from the guest agent.
_AGENT_CHANNEL = "org.qemu.guest_agent.0"
# libvirt numbers the slots of its devices from 1; a network card that it does not manage goes far behind them.
_USER_NETWORK_SLOT = "0x1e"
# Under emulation the newest processor is the slowest: the kernel sets up and tests everything that it supports,
# ciphers and virtualisation included.
EMULATED_CPU = "Nehalem"
# Limit of the emulator's cache of translated code. Its default is 1 GiB per VM: more than the memory of a small guest,
# and it is swapped just the same.
TRANSLATION_CACHE = 128 * 2**20
_BUS_DEVICES = {"virtio": "vd", "scsi": "sd", "sata": "sd"}
# Stricter than the kernel's lists: a half-typed range such as "1-" is an error, not CPU 1.
_CPU_LIST = re.compile(r"\s*\d+\s*(-\s*\d+\s*)?(,\s*\d+\s*(-\s*\d+\s*)?)*")

ET.register_namespace("density", NAMESPACE)
ET.register_namespace("qemu", QEMU_NAMESPACE)


class Vm(t.NamedTuple):
    """One VM of a fleet. Its UUID and its MAC address follow from the fleet, its salt and the VM's number alone."""

    fleet: str
    name: str
    number: int
    salt: str = ""  # of the fleet

    @property
    def uuid(self) -> str:
        return str(uuid.uuid5(IDENTITIES, f"{self._salted_fleet}/{self.number}"))

    @property
    def mac(self) -> str:
        """Return a locally administered address, unique in the fleet: 02, 3 bytes from fleet and salt, the number."""
        digest = hashlib.sha256(self._salted_fleet.encode()).digest()[:3]
        return ":".join(f"{byte:02x}" for byte in (2, *digest, *self.number.to_bytes(2, "big")))

    @property
    def _salted_fleet(self) -> str:
        return f"{self.salt}/{self.fleet}"


class Mark(t.NamedTuple):
    """The mark in the metadata of a VM."""

    fleet: str
    number: int
    digest: str  # of the definition
    base: str  # golden image
    base_state: str  # from file_state() of the golden image when the VM was cloned


def mark_of(xml: str) -> Mark | None:
    """Return the mark in a definition, None if it has none."""
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
    """Return the MAC addresses of all network cards in a definition."""
    return {element.get("address", "").lower() for element in ET.fromstring(xml).iterfind("./devices/interface/mac")}


def files_of(xml: str) -> set[str]:
    """Return the real paths of all files and block devices that a definition uses as disks or below disks."""
    sources = (
        source.get("file") or source.get("dev") for source in ET.fromstring(xml).iterfind("./devices/disk//source")
    )
    return {os.path.realpath(path) for path in sources if path}


def seed_of(xml: str) -> str:
    """Return the path of the seed disk in the definition of a fleet's VM, an empty string if it has none."""
    source = ET.fromstring(xml).find(f"./devices/disk/target[@dev='{_SEED_TARGET}']/../source")
    return "" if source is None else source.get("file", "")


def disk_of_master(xml: str, name: str) -> str:
    """Return the path of the only disk of a master.

    Raises:
        DomainError: the master has no disk or several, or its disk is neither a file nor a block device.
    """
    disks = [disk for disk in ET.fromstring(xml).iterfind("./devices/disk") if disk.get("device", "disk") == "disk"]
    if len(disks) != 1:
        raise DomainError(f"master {name} has {len(disks)} disks; it must have exactly one")
    source = disks[0].find("source")
    path = source.get("file") or source.get("dev") if source is not None else None
    if not path:
        raise DomainError(f"the disk of master {name} is neither a file nor a block device")
    return path


def unswappable_reason(root: ET.Element) -> str:
    """Return why the memory of a VM cannot be swapped out, or an empty string if it can."""
    if root.find("./memoryBacking/locked") is not None:
        return "the VMs' memory is locked"
    if root.find("./memoryBacking/hugepages") is not None:
        return "the VMs' memory consists of huge pages"
    if root.find("./devices/hostdev") is not None:
        return "a device is passed through to the VMs, which locks their memory"
    return ""


def disk_path(directory: str, vm: Vm) -> str:
    """Return the path of a VM's disk."""
    return f"{directory}/clone-{vm.name}.qcow2"


class Template(t.NamedTuple):
    """What the definitions of all VMs of a fleet are built from."""

    domain_type: str  # kvm, or qemu for software emulation
    architecture: str
    cpu_model: str  # empty for the host's own, or EMULATED_CPU under emulation
    memory: int  # bytes; 0 keeps the master's
    vcpus: int  # 0 keeps the master's
    cpus: str  # CPUs of the host that may run the VMs, such as 0-15; empty for all
    pin: bool  # pin each vCPU to one of these CPUs, round robin
    numa_nodes: tuple[int, ...]  # assigned to the VMs round robin
    bus: str
    network: t.Mapping[str, t.Any]  # keys: type (network, bridge or user), name, first_port
    locked: bool
    hugepages: bool
    balloon: bool
    free_page_reporting: bool
    partition: str
    seed: str
    directory: str
    base: str
    base_state: str
    master: str  # definition of the master; empty without one

    def disk(self, vm: Vm) -> str:
        return disk_path(self.directory, vm)

    def console(self, vm: Vm) -> str:
        return path_of(self.directory, vm.name, "console")

    def variables(self, vm: Vm) -> tuple[str, str]:
        """Return the paths of the master's firmware variables, empty if there are none, and of the VM's copy."""
        return variables_of(self.master) if self.master else "", path_of(self.directory, vm.name, "nvram")

    def port(self, vm: Vm) -> int:
        """Return the port of the hypervisor that user networking forwards to the VM's ssh."""
        return int(self.network["first_port"]) + vm.number - 1

    def xml(self, vm: Vm) -> str:
        """Return the definition of a VM, with the mark."""
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
        """Return the digest that the mark of a VM records."""
        mark = mark_of(self.xml(vm))
        return mark.digest if mark else ""

    def _from_scratch(self, vm: Vm) -> ET.Element:
        root = ET.Element("domain", {"type": self.domain_type})
        _add(root, "name", vm.name)
        _add(root, "uuid", vm.uuid)
        self._set_size(root)
        if self.locked or self.hugepages:
            backing = _add(root, "memoryBacking")
            for name, enabled in (("hugepages", self.hugepages), ("locked", self.locked)):
                if enabled:
                    _add(backing, name)
        self._set_placement(root, vm)
        self._limit_emulator(root)
        self._set_firmware_serial(root, vm)
        self._add_system(root)
        self._add_cpu(root)
        _add(root, "on_crash", "destroy")
        self._add_devices(root, vm)
        return root

    def _add_system(self, root: ET.Element) -> None:
        system = _add(root, "os")
        machine = "q35" if self.architecture == "x86_64" else "virt"
        _add(system, "type", "hvm", arch=self.architecture, machine=machine)
        _add(system, "boot", dev="hd")
        _add(system, "smbios", mode="sysinfo")
        features = _features(root)
        _add(features, "acpi")
        if self.architecture == "x86_64":
            _add(features, "apic")

    def _add_devices(self, root: ET.Element, vm: Vm) -> None:
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
        self._add_agent_channel(devices)
        _add(_add(devices, "rng", model="virtio"), "backend", "/dev/urandom", model="random")
        self._add_balloon(devices)

    def _from_master(self, vm: Vm) -> ET.Element:
        root = copy.deepcopy(ET.fromstring(self.master))
        root.set("type", self.domain_type)
        if self.cpu_model or self.domain_type == "qemu":
            self._replace_cpu(root)
        devices = root.find("devices")
        if devices is None:
            raise DomainError("the master has no devices")
        try:
            give_own(root, self.directory, vm.name, vm.uuid)
        except SharedStateError as error:
            raise DomainError(str(error)) from error
        self._set_identity(root, vm)
        self._set_size(root)
        self._set_placement(root, vm)
        self._limit_emulator(root)
        self._replace_disks(devices, vm)
        _remove(devices, "interface")
        self._add_network(root, devices, vm)
        if self.seed:
            self._add_seed(devices)
            self._set_firmware_serial(root, vm)
            system = root.find("os")
            if system is not None:
                _remove(system, "smbios")
                _add(system, "smbios", mode="sysinfo")
        if devices.find(f"./channel/target[@name='{_AGENT_CHANNEL}']") is None:
            self._add_agent_channel(devices)
        _remove(devices, "memballoon")
        self._add_balloon(devices)
        return root

    @staticmethod
    def _set_identity(root: ET.Element, vm: Vm) -> None:
        """Give a VM its own name and UUID, the UUID also where the firmware tells it to the guest."""
        old = (root.findtext("uuid") or "").strip().lower()
        for name, text in (("name", vm.name), ("uuid", vm.uuid)):
            element = root.find(name)
            (element if element is not None else ET.SubElement(root, name)).text = text
        for entry in root.iterfind("./sysinfo//entry"):
            same = old and (entry.text or "").strip().lower() == old
            if same or entry.get("name") == "uuid":  # libvirt refuses a UUID that is not the VM's
                entry.text = vm.uuid

    def _replace_disks(self, devices: ET.Element, vm: Vm) -> None:
        for disk in devices.iterfind("disk"):
            if disk.get("device", "disk") == "disk":
                disk.set("type", "file")
                for name in ("source", "driver", "backingStore"):
                    _remove(disk, name)
                disk.insert(0, ET.Element("source", {"file": self.disk(vm)}))
                disk.insert(0, ET.Element("driver", {"name": "qemu", "type": "qcow2", "discard": "unmap"}))

    def _replace_cpu(self, root: ET.Element) -> None:
        """Replace the processor of the master, and keep its topology and its NUMA cells."""
        kept = [part for name in ("topology", "numa") for part in root.findall(f"./cpu/{name}")]
        _remove(root, "cpu")
        self._add_cpu(root)
        for cpu in root.iterfind("cpu"):
            cpu.extend(kept)

    def _add_cpu(self, root: ET.Element) -> None:
        model = self.cpu_model or (EMULATED_CPU if self.domain_type == "qemu" and self.architecture == "x86_64" else "")
        if model:
            _add(_add(root, "cpu", mode="custom", match="exact"), "model", model)
        else:
            _add(root, "cpu", mode="host-passthrough" if self.domain_type == "kvm" else "maximum")

    def _set_size(self, root: ET.Element) -> None:
        if self.memory:
            set_memory(root, self.memory)
        if self.vcpus:
            set_vcpus(root, self.vcpus)
        vcpu = root.find("vcpu")
        if self.cpus and vcpu is not None:
            vcpu.set("cpuset", self.cpus)

    def _set_placement(self, root: ET.Element, vm: Vm) -> None:
        vcpus = int(root.findtext("vcpu") or 1)
        if self.pin:
            _remove(root, "cputune")
            tune = _add(root, "cputune")
            allowed = allowed_cpus(self.cpus)
            for vcpu in range(vcpus):
                cpu = allowed[((vm.number - 1) * vcpus + vcpu) % len(allowed)]
                _add(tune, "vcpupin", vcpu=str(vcpu), cpuset=str(cpu))
        if self.numa_nodes:
            _remove(root, "numatune")
            node = self.numa_nodes[(vm.number - 1) % len(self.numa_nodes)]
            _add(_add(root, "numatune"), "memory", mode="strict", nodeset=str(node))
        if self.partition:
            _remove(root, "resource")
            _add(_add(root, "resource"), "partition", self.partition)

    def _limit_emulator(self, root: ET.Element) -> None:
        if self.domain_type == "qemu":
            features = _features(root)
            _remove(features, "tcg")
            _add(_add(features, "tcg"), "tb-cache", str(TRANSLATION_CACHE // 2**20), unit="MiB")

    @staticmethod
    def _set_firmware_serial(root: ET.Element, vm: Vm) -> None:
        # The fleet's seed holds what all VMs share; cloud-init reads identity and name from the firmware's serial
        # number.
        for old in root.findall("sysinfo[@type='smbios']"):
            root.remove(old)
        system = _add(_add(root, "sysinfo", type="smbios"), "system")
        _add(system, "entry", f"ds=nocloud;i={vm.uuid};h={vm.name}", name="serial")

    def _add_seed(self, devices: ET.Element) -> None:
        if self.seed:
            seed = _add(devices, "disk", type="file", device="disk")
            _add(seed, "driver", name="qemu", type="raw")
            _add(seed, "source", file=self.seed)
            _add(seed, "target", dev=_SEED_TARGET, bus="virtio")
            _add(seed, "readonly")
            _add(seed, "shareable")

    def _add_network(self, root: ET.Element, devices: ET.Element, vm: Vm) -> None:
        kind = self.network["type"]
        if kind == "user":
            backend = f"user,id=fleet0,hostfwd=tcp:127.0.0.1:{self.port(vm)}-:22"
            bus = _first_bus(root)
            card = f"virtio-net-pci,netdev=fleet0,mac={vm.mac},bus={bus},addr={_USER_NETWORK_SLOT}"
            line = _add(root, f"{{{QEMU_NAMESPACE}}}commandline")
            for argument in ("-netdev", backend, "-device", card):
                _add(line, f"{{{QEMU_NAMESPACE}}}arg", value=argument)
            return
        interface = _add(devices, "interface", type=kind)
        _add(interface, "mac", address=vm.mac)
        _add(interface, "source", **{kind: str(self.network["name"])})
        _add(interface, "model", type="virtio")

    @staticmethod
    def _add_agent_channel(devices: ET.Element) -> None:
        channel = _add(devices, "channel", type="unix")
        _add(channel, "target", type="virtio", name=_AGENT_CHANNEL)

    def _add_balloon(self, devices: ET.Element) -> None:
        balloon = _add(devices, "memballoon", model="virtio" if self.balloon else "none")
        if self.balloon and self.free_page_reporting:
            balloon.set("freePageReporting", "on")


def allowed_cpus(text: str) -> list[int]:
    """Return the CPUs in a list such as 0-3,8.

    Raises:
        DomainError: the text is not such a list, or the list is empty.
    """
    cpus = parse_cpu_list(text) if _CPU_LIST.fullmatch(text) else []
    if not cpus:
        raise DomainError(f"cpus: {text!r} is not allowed; it must list CPUs of the host, such as 0-15 or 0-3,8")
    return cpus


def _first_bus(root: ET.Element) -> str:
    """Return QEMU's name of the first PCI bus of a VM: the older machines of x86 have no PCI Express."""
    system = root.find("./os/type")
    machine = "" if system is None else system.get("machine", "")
    return "pcie.0" if "q35" in machine or "virt" in machine else "pci.0"


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
