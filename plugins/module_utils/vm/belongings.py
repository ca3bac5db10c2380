# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a VM keeps on its host outside of its disk: firmware variables, TPM state, logs, sockets and identities.

Two VMs must not share any of it. So a clone gets its own, in files of the fleet's directory that are named after it.
"""

from __future__ import annotations

import os
import re
import typing as t
import uuid
import xml.etree.ElementTree as ET

# libvirt's devices that pass bytes to a file, a socket, a port or a terminal of the host.
_CHARACTER_DEVICES = ("serial", "parallel", "console", "channel")
_FILES = r"nvram|pstore|console|({})-\d+\.(out|log)".format("|".join(_CHARACTER_DEVICES))
# Where libvirt keeps firmware variables unless a definition says otherwise.
_DEFAULT_VARIABLES = "/var/lib/libvirt/qemu/nvram/{}_VARS.fd"


class SharedStateError(Exception):
    """A master has something that its clones would share; the text names it."""


def path_of(directory: str, name: str, what: str) -> str:
    """Return the path of a file that a VM keeps, such as C(nvram)."""
    return f"{directory}/clone-{name}.{what}"


def is_own(file: str, name: str) -> bool:
    """Decide whether a file of the fleet's directory is named like one that this VM keeps."""
    return bool(re.fullmatch(rf"clone-{re.escape(name)}\.({_FILES})", file))


def variables_of(xml: str) -> str:
    """Return the path of a VM's firmware variables; empty if it has none."""
    root = ET.fromstring(xml)
    if not _has_variables(root):
        return ""
    found = root.find("./os/nvram")
    source = found.find("source") if found is not None else None
    path = (found.text or "").strip() if found is not None else ""
    return path or (source.get("file", "") if source is not None else "") or _default_variables(root)


def give_own(root: ET.Element, directory: str, name: str, identity: str) -> None:
    """Change the definition of a master to one whose files, sockets and identities are the clone's own.

    Args:
        name, identity: name and UUID of the clone.

    Raises:
        SharedStateError: the master has something that cannot be given to each clone.
    """
    _refuse_shared(root)
    if _has_variables(root):
        _give_variables(root, path_of(directory, name, "nvram"))
    for element in root.iterfind("genid"):
        element.text = str(uuid.uuid5(uuid.UUID(identity), "genid"))
    devices = root.find("devices")
    if devices is None:
        return
    for backend in devices.iterfind("./tpm/backend"):
        _remove(backend, "source")  # libvirt keeps the state in a directory named after the VM's UUID
    for cid in devices.iterfind("./vsock/cid"):
        cid.attrib.clear()
        cid.set("auto", "yes")
    for path in devices.iterfind("./pstore/path"):
        path.text = path_of(directory, name, "pstore")
    for graphics in devices.iterfind("graphics"):
        _free_endpoint(graphics)
    _give_character_devices(devices, directory, name)


def _has_variables(root: ET.Element) -> bool:
    system = root.find("os")
    if system is None:
        return False
    loader = system.find("loader")
    if loader is not None and loader.get("stateless") == "yes":
        return False
    flash = loader is not None and loader.get("type") == "pflash"
    return flash or system.get("firmware") == "efi" or system.find("nvram") is not None


def _default_variables(root: ET.Element) -> str:
    path = _DEFAULT_VARIABLES.format(root.findtext("name"))
    return path if os.path.exists(path) else ""


def _give_variables(root: ET.Element, path: str) -> None:
    system = t.cast("ET.Element", root.find("os"))
    found = system.find("nvram")
    if found is None:
        found = ET.SubElement(system, "nvram")
    found.attrib.pop("type", None)
    for child in list(found):
        found.remove(child)
    found.text = path


def _free_endpoint(graphics: ET.Element) -> None:
    """Let libvirt choose ports and sockets of a display."""
    for attribute in ("port", "tlsPort", "websocket", "socket"):
        graphics.attrib.pop(attribute, None)
    listeners = graphics.findall("listen")
    for listener in listeners:
        listener.attrib.pop("socket", None)
    if not any(listener.get("type") in ("socket", "none") for listener in listeners):
        graphics.set("autoport", "yes")


def _give_character_devices(devices: ET.Element, directory: str, name: str) -> None:
    if devices.find("serial") is not None:
        # libvirt adds the console again that is the first serial port under another name.
        for console in devices.findall("console"):
            target = console.find("target")
            if target is None or target.get("type", "serial") == "serial":
                devices.remove(console)
    for kind in _CHARACTER_DEVICES:
        for index, device in enumerate(devices.findall(kind)):
            _give_source(device, path_of(directory, name, f"{kind}-{index}.out"))
            for log in device.iterfind("log"):
                log.set("file", path_of(directory, name, f"{kind}-{index}.log"))


def _give_source(device: ET.Element, path: str) -> None:
    kind = device.get("type")
    if kind == "file":
        _remove(device, "source")
        device.insert(0, ET.Element("source", {"path": path}))
    elif device.tag == "channel" and kind in ("unix", "pipe", "tcp", "udp", "dev"):
        device.set("type", "unix")
        for tag in ("source", "protocol"):
            _remove(device, tag)  # libvirt chooses a socket of the VM's own
    elif kind in ("unix", "pipe", "tcp", "udp", "dev", "pty"):
        device.attrib.pop("tty", None)
        device.set("type", "pty")
        for tag in ("source", "protocol"):
            _remove(device, tag)


def _refuse_shared(root: ET.Element) -> None:
    reasons = list(_shared(root))
    if reasons:
        raise SharedStateError(
            f"master {root.findtext('name')}: {'; '.join(reasons)}. All clones would share it with the master. Remove "
            "it from the master's definition"
        )


def _shared(root: ET.Element) -> t.Iterator[str]:
    for disk in root.iterfind("./devices/disk"):
        writable = disk.find("readonly") is None and disk.find("source") is not None
        if disk.get("device") == "lun" or (disk.get("device") == "floppy" and writable):
            yield f"it has a disk of the kind {disk.get('device')}"
    for memory in root.iterfind("./devices/memory"):
        path = memory.findtext("./source/path")
        if path and memory.find("./target/readonly") is None:
            yield f"it has memory in the file {path}"
    for backend in root.iterfind("./devices/tpm/backend"):
        if backend.get("type") in ("passthrough", "external"):
            yield f"its TPM is of the kind {backend.get('type')}"


def _remove(parent: ET.Element, tag: str) -> None:
    for child in parent.findall(tag):
        parent.remove(child)
