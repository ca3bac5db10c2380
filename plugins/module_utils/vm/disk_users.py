# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else uses the disks of a fleet that would be deleted: other VMs, volumes, files and processes of the hypervisor.

A disk is used by whatever names it, and by every image whose chain of backing files leads to it: an overlay on a
deleted disk is lost, even if its VM does not run.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.locks import command_of, opened_by
from ansible_collections.memstretch.density.plugins.module_utils.vm.definitions import images_in, paths_in
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import Domain, VmHost
from ansible_collections.memstretch.density.plugins.module_utils.vm.image import ImageChains


class DiskUsers:
    """Finds who uses disks on one hypervisor.

    Args:
        host: its libvirt.
        chains: reads what images stand on.
        files: other paths that may be images, such as those that somebody has put into the fleet's directory.
        domains: all VMs of the hypervisor.
        own: names of the VMs whose disks would be deleted; their own use does not count.
    """

    def __init__(
        self,
        host: VmHost,
        chains: ImageChains,
        files: t.Sequence[str],
        domains: t.Mapping[str, Domain],
        own: t.Container[str],
    ) -> None:
        self._host, self._chains, self._files = host, chains, files
        self._own = [each for each in domains.values() if each.name in own]
        self._others = [each for each in domains.values() if each.name not in own]

    def of(self, disks: t.Collection[str]) -> dict[str, str]:
        """Return who uses each of these disks, as a text; a disk that nobody else uses is left out.

        Raises:
            VmHostError: an image cannot be read, so nothing shows what it stands on.
        """
        wanted = {os.path.realpath(disk): disk for disk in disks}
        found: dict[str, str] = {}
        for path, user in self._uses(set(wanted)):
            if path in wanted:
                found.setdefault(wanted[path], user)
        return found

    def _uses(self, disks: set[str]) -> t.Iterator[tuple[str, str]]:
        """Yield real paths, each with who uses it."""
        volumes = self._host.volumes()
        own = disks | {
            path for each in self._own for xml in self._host.definitions(each) for path in images_in(xml, volumes)
        }
        for each in self._others:
            for xml in self._host.definitions(each):
                images = images_in(xml, volumes)
                for path in sorted(images | paths_in(xml)):
                    yield path, f"is also a disk of VM {each.name}"
                for image in sorted(images):
                    yield from self._below(image, f"the disk {image} of VM {each.name}")
        for (pool, name), path in volumes.items():
            real = os.path.realpath(path)
            if real not in own:
                yield from self._below(real, f"the volume {name} of the storage pool {pool}")
            elif os.path.islink(path):
                yield real, f"is also the volume {name} of the storage pool {pool}"
        for path in self._files:
            real = os.path.realpath(path)
            if real not in own:
                yield from self._below(real, f"the file {real}")
        yield from self._open_in_processes(disks)

    def _below(self, image: str, what: str) -> t.Iterator[tuple[str, str]]:
        for path in self._chains.below(image):
            yield path, f"is below {what}"

    def _open_in_processes(self, disks: set[str]) -> t.Iterator[tuple[str, str]]:
        files = HostFiles()
        statuses = {disk: os.stat(disk) for disk in sorted(disks) if os.path.exists(disk)}
        for disk, pids in opened_by(statuses).items():
            for pid in sorted(pids):
                line = files.text(f"/proc/{pid}/cmdline") or ""  # empty if the process has ended
                # QEMU has the UUID of its VM in its arguments.
                if not any(each.uuid in line for each in self._own):
                    yield disk, f"is open in process {pid} ({command_of(pid)})"
