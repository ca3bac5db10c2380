# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot loaders that are not supported, by name: a host may have GRUB's files and never boot with them."""

from __future__ import annotations

import re

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

# The interface of boot loaders with systemd (systemd.io/BOOT_LOADER_INTERFACE): variables of the firmware in UTF-16,
# after four bytes of attributes.
_VARIABLE = "/sys/firmware/efi/efivars/{}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
_ATTRIBUTES = 4
PROXMOX_DISKS = "/etc/kernel/proxmox-boot-uuids"
_MENU = "/boot/grub/grub.cfg"
# The first domain of Xen has the capability control_d.
_XEN = "/proc/xen/capabilities"
# Without ZFS, Ubuntu has an empty section of this name.
_ZFS_ENTRY = re.compile(r"^### BEGIN \S*/10_linux_zfs ###$(?:(?!^### END).)*?^\s*linux\s", re.MULTILINE | re.DOTALL)


def other_loader(files: HostFiles) -> str | None:
    """Name the unsupported boot loader of this host, and how to change its command line; None without one."""
    if files.text(PROXMOX_DISKS):
        return (
            f"proxmox-boot-tool ({PROXMOX_DISKS}) copies kernels and menus to partitions of its own. Add the arguments "
            "to /etc/kernel/cmdline or, if the host boots by BIOS, to /etc/default/grub, then run proxmox-boot-tool "
            "refresh"
        )
    if _ZFS_ENTRY.search(files.text(_MENU) or ""):
        return (
            f"the entries of {_MENU} are those of /etc/grub.d/10_linux_zfs, which Ubuntu has on ZFS. Add the arguments "
            "to /etc/default/grub, then run update-grub"
        )
    loader, stub = _variable(files, "LoaderInfo"), _variable(files, "StubInfo")
    if loader.startswith("systemd-boot"):
        return f"{loader} boots this host. Add the arguments to /etc/kernel/cmdline, then run kernel-install add-all"
    if stub and not loader.startswith("GRUB"):
        return f"this host boots a unified kernel image ({stub}), which holds its command line. Build it again"
    return None


def boots_without_grub(files: HostFiles) -> str | None:
    """Explain why GRUB has not booted the running kernel; None if it has."""
    if any(word.startswith("BOOT_IMAGE=") for word in (files.text("/proc/cmdline") or "").split()):
        return None
    if "control_d" in (files.text(_XEN) or ""):
        return (
            "Xen has booted the running kernel as its first domain, with what GRUB gives it. Add the arguments to "
            "GRUB_CMDLINE_LINUX in /etc/default/grub, then run update-grub"
        )
    return (
        "GRUB has not booted the running kernel, because its command line has no BOOT_IMAGE=: the hypervisor of this "
        "VM, a boot over the network or kexec has given it. Add the arguments there; after kexec, reboot first"
    )


def _variable(files: HostFiles, name: str) -> str:
    content = files.raw(_VARIABLE.format(name)) or b""
    return content[_ATTRIBUTES:].decode("utf-16-le", "replace").strip("\0")
