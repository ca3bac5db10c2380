# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMs of a host could be masters of a fleet, and why not: the clones are defined as text, and nothing is made."""

from __future__ import annotations

import os
import platform
import re
import typing as t
import xml.etree.ElementTree as ET

from ansible_collections.memstretch.density.plugins.module_utils.options import first_names
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import Domain, VmHost, VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.sizes import DomainError
from ansible_collections.memstretch.density.plugins.module_utils.vm.template import (
    Template,
    Vm,
    disk_of_master,
    unswappable_reason,
)

# Names in a summary; more are counted.
_NAMED = 3
# Two clones, as they must share nothing. Their salt matters to nobody: they are never defined.
_CLONES = [Vm("selftest", f"clone-{number}", number, "0" * 32) for number in (1, 2)]
_DIRECTORY = "/var/lib/libvirt/images/selftest"
_TYPES = ("kvm", "qemu")


class _Judged(t.NamedTuple):
    kinds: tuple[str, ...]
    against: str


def look(host: VmHost) -> list[dict[str, t.Any]]:
    """Return the VMs that are not clones of ours, those together that are alike.

    Each group has C(names), C(running), C(kinds), C(against), empty if they could be masters, and a C(summary).
    """
    groups: dict[_Judged, list[Domain]] = {}
    for domain in host.domains().values():
        if domain.mark is None:
            groups.setdefault(_judge(domain, host), []).append(domain)
    return [
        {
            "names": [each.name for each in domains],
            "running": sum(each.running for each in domains),
            "kinds": list(judged.kinds),
            "against": judged.against,
            "summary": _summary(judged, [each.name for each in domains]),
        }
        for judged, domains in groups.items()
    ]


def kinds_of(root: ET.Element) -> tuple[str, ...]:
    """Return what is special about a VM, as an operator would name it."""
    system, found = root.find("os"), []
    loader = root.find("./os/loader")
    if system is not None and (
        system.get("firmware") == "efi" or (loader is not None and loader.get("type") == "pflash")
    ):
        found.append("UEFI with Secure Boot" if loader is not None and loader.get("secure") == "yes" else "UEFI")
    machine = root.find("./os/type")
    if machine is not None and "i440fx" in machine.get("machine", ""):
        found.append("i440fx")
    cells = len(root.findall("./cpu/numa/cell"))
    if cells:
        found.append("1 NUMA cell" if cells == 1 else f"{cells} NUMA cells")
    if root.find("./devices/tpm") is not None:
        found.append("TPM")
    product = (root.findtext("./sysinfo/system/entry[@name='product']") or "").strip()
    return (*found, *([product] if product else []))


def _judge(domain: Domain, host: VmHost) -> _Judged:
    root = ET.fromstring(domain.xml)
    try:
        against = _against(domain, root, host)
    except (DomainError, VmHostError) as error:
        against = str(error)
    # Without what is the VM's own, those that are alike have the same text.
    own = re.compile(rf"(?<![\w-])(master )?(?:{re.escape(domain.name)}|{re.escape(domain.uuid)})(?![\w-])")
    against = own.sub(lambda found: "the master" if found[1] else "...", against)
    return _Judged(kinds_of(root), against)


def _against(domain: Domain, root: ET.Element, host: VmHost) -> str:
    """Return what keeps a VM from being a master, empty if nothing does.

    Raises:
        DomainError, VmHostError: what a fleet of its clones would be refused for.
    """
    kind = root.get("type", "")
    if kind not in _TYPES:
        return f"it is a VM of {kind}; clones are VMs of {' or '.join(_TYPES)}"
    disk = disk_of_master(domain.xml, domain.name)
    if not os.path.exists(disk):
        return f"its disk {disk} does not exist"
    template = _template(domain, kind, disk)
    definitions = [template.xml(vm) for vm in _CLONES]
    for vm, definition in zip(_CLONES, definitions):
        host.sizes(vm.name, definition)
    unswappable = unswappable_reason(ET.fromstring(definitions[0]))
    return f"{unswappable}, so it is never swapped out" if unswappable else ""


def _template(domain: Domain, kind: str, disk: str) -> Template:
    """Return the template of clones that change nothing of their master, as the role vm_fleet has it by default."""
    return Template(
        domain_type=kind,
        architecture=platform.machine(),
        cpu_model="",
        memory=0,
        vcpus=0,
        cpus="",
        pin=False,
        numa_nodes=(),
        bus="virtio",
        network={"type": "user", "first_port": 22001},
        locked=False,
        hugepages=False,
        balloon=True,
        free_page_reporting=False,
        partition="",
        seed="",
        directory=_DIRECTORY,
        base=disk,
        base_state="",
        master=domain.xml,
    )


def _summary(judged: _Judged, names: t.Sequence[str]) -> str:
    return " | ".join(
        filter(None, (first_names(names, _NAMED), ", ".join(judged.kinds), judged.against or "could be a master"))
    )
