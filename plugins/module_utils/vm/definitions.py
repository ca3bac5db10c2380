# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of the host a definition of libvirt names: that of a VM, of a snapshot or of a saved state."""

from __future__ import annotations

import os
import re
import typing as t
import xml.etree.ElementTree as ET

from ansible_collections.memstretch.density.plugins.module_utils.vm.template import QEMU_NAMESPACE

# What separates a path from the rest of an argument for QEMU, which may be JSON.
_SEPARATORS = re.compile(r"[,=:\"'\s{}\[\]]")


def paths_in(xml: str) -> set[str]:
    """Return the real paths of everything that a definition names, arguments for QEMU included."""
    texts = (
        text.strip() for element in ET.fromstring(xml).iter() for text in (*element.attrib.values(), element.text or "")
    )
    return {os.path.realpath(path) for text in texts for path in _paths(text)}


def images_in(xml: str, volumes: t.Mapping[tuple[str, str], str]) -> set[str]:
    """Return the real paths of the images that a definition names as disks, below disks or to QEMU itself.

    Images that the definition says are raw are left out: nothing can be below them, whatever a guest has written there.

    Args:
        volumes: the path of each volume, by pool and name.
    """
    found: set[str] = set()
    root = ET.fromstring(xml)
    for disk in root.iter("disk"):
        driver = disk.find("driver")
        raw = driver is not None and driver.get("type") == "raw"
        for source in disk.iter("source"):
            volume = volumes.get((source.get("pool", ""), source.get("volume", "")))
            path = source.get("file") or source.get("dev") or volume
            if path and not raw:
                found.add(path)
    for argument in root.iter(f"{{{QEMU_NAMESPACE}}}arg"):
        found.update(_paths(argument.get("value", "")))
    return {os.path.realpath(path) for path in found}


def _paths(text: str) -> t.Iterator[str]:
    return (part for part in (text, *_SEPARATORS.split(text)) if part.startswith("/"))
