# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What would not work on a host, item by item, from what the self-test found there."""

from __future__ import annotations

import re
import typing as t

_Document = t.Mapping[str, t.Any]

# What a check tells about. The others tell about the controller's way to the host, and about figures.
_WHAT = {
    "clock": "a run of several machines, which begins everywhere at the same time",
    "kvm": "VMs under KVM",
    "drives": "swap on a drive of its own",
    "budget": "a DRAM budget by a control group",
    "pressure": "memory pressure next to latency",
    "headroom": "headroom without a trial",
    "kernel_arguments": "kernel arguments of this host",
    "vm": "a fleet of VMs",
    "guest_arguments": "kernel arguments of VMs",
}
# Why a check was skipped, as roles/selftest/tasks/check.yml gives it.
_CHECK_MODE = "check mode changes nothing"
# Where the check itself passed, so it has no advice.
_INSTEAD = {"drives": "the check has the reasons against each; zram and a swap file need no drive of their own"}
# Said by the role swap_space of an inventory without swap_space_devices.
_NO_DRIVE_NAMED = "devices: the list is empty"
_DRIVE_OR_FILE = (
    "set swap_space_devices to drives that the check drives has no objection to, or take a file with "
    "host_tuning_swap: {kind: file}"
)
_OTHER_MASTER = (
    "change that in the definition of a copy that is shut off (virsh edit), or list such VMs in the group fleet as "
    "they are"
)
# The lanes run on these (docs/support.md).
_TESTED = {("debian", "12"), ("debian", "13")}
_SUPPORT = "docs/support.md says what is tested on which system"
# The lane noble runs on the packages of this one, on another kernel.
_PACKAGES_TESTED = ("ubuntu", "24.04")
# What users of Ubuntu ask first.
_UBUNTU = (
    "its packages have Debian's names, zram may need linux-modules-extra, and AppArmor confines the VMs of libvirt to "
    "images that their definitions name"
)
_PROXMOX = (
    "its QEMU conflicts with that of Debian, so the role vm_fleet cannot install libvirt there; list the guests in the "
    "group fleet instead (docs/howto.md). Headroom finds its VMs by their processes"
)


def answers(about: _Document, judged: t.Mapping[str, _Document]) -> list[dict[str, t.Any]]:
    """Return C(what), whether it C(works), or null if that is not known, C(why), and what to do C(instead).

    Args:
        about: of the host: C(os) with C(id), C(version), C(proxmox) and C(systemd).
        judged: result, reason, advice and figures of each check.
    """
    found = [_system(about["os"]), _reboot(about["os"])] if about.get("os") else []
    for name, each in judged.items():
        if name == "masters":
            found += [_master(group) for group in each["found"].get("masters", [])]
        elif name == "profiles":
            found += [_profile(*one) for one in each["found"].get("profiles", {}).items()]
        elif name in _WHAT:
            works = _works(name, each)
            instead = each["advice"] or _INSTEAD.get(name, "")
            found.append(_answer(_WHAT[name], works, *(() if works else (each["reason"], instead))))
    return found


def lines(found: t.Sequence[_Document]) -> list[str]:
    """Return what does not work, and what is not known to, as text for the terminal."""
    text = []
    for title, works in (("Would not work here:", False), ("Not known to work here:", None)):
        some = [each for each in found if each["works"] is works]
        text += [title] if some else []
        for each in some:
            text.append(f"  {each['what']}: {each['why']}")
            text += [f"    -> {each['instead']}"] if each["instead"] else []
    return text


def _works(name: str, each: _Document) -> bool | None:
    """Decide what the result of a check says. One that was skipped says something only if the host lacks a thing."""
    if name == "drives" and each["result"] == "passed":
        return any(not drive.get("against") for drive in each["found"].get("drives", []))
    if each["result"] == "skipped":
        if each["reason"] == _CHECK_MODE:
            return None
        lacks = name in ("headroom", "kernel_arguments") or (name == "kvm" and each["found"].get("present") is False)
        return False if lacks else None
    return bool(each["result"] == "passed")


def _profile(name: str, why: str) -> dict[str, t.Any]:
    """Tell whether the host can have the swap of a profile, from what the role swap_space said against it."""
    what = f"swap of the profile {name}"
    if _NO_DRIVE_NAMED in why:
        return _answer(what, None, "the inventory names no drive for it", _DRIVE_OR_FILE)
    return _answer(what, not why, why)


def _master(group: _Document) -> dict[str, t.Any]:
    """Tell whether VMs that are alike can be cloned. Their names are not in it: the file may not have them."""
    number = len(group["names"])
    what = f"clones of {number} {'VM' if number == 1 else 'VMs'}"
    what += f" ({', '.join(group['kinds'])})" if group["kinds"] else ""
    return _answer(what, not group["against"], group["against"], _OTHER_MASTER if group["against"] else "")


def _system(system: _Document) -> dict[str, t.Any]:
    """Tell whether the collection is tested on the system of a host."""
    what = "the operating system"
    proxmox = re.match(r"pve-manager/(\d[\w.-]*)", str(system.get("proxmox") or ""))
    if proxmox:
        return _answer(what, None, f"Proxmox VE {proxmox[1]} was not tried: {_PROXMOX}", _SUPPORT)
    name, version = str(system.get("id") or ""), str(system.get("version") or "")
    if (name, version) in _TESTED:
        return _answer(what, True)
    known = f"{name} {version}".strip() or "this system, which has no /etc/os-release,"
    tried = "was tried without its kernel and libvirt" if (name, version) == _PACKAGES_TESTED else "was not tried"
    return _answer(what, None, f"{known} {tried}" + (f": {_UBUNTU}" if name == "ubuntu" else ""), _SUPPORT)


def _reboot(system: _Document) -> dict[str, t.Any]:
    why = "" if system.get("systemd") else "systemd does not run this host, so they last until its next boot"
    instead = "apply the profile again after each boot" if why else ""
    return _answer("swap, settings and limits after a reboot", not why, why, instead)


def _answer(what: str, works: bool | None, why: str = "", instead: str = "") -> dict[str, t.Any]:
    return {"what": what, "works": works, "why": why, "instead": instead}
