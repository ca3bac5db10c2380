#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_fleet
short_description: Make, start, stop and remove a fleet of linked clones on one libvirt host
version_added: 0.1.0
description:
  - Brings all VMs of a fleet on one host to a state in one go. Each is a linked qcow2 clone of one golden image, so that it costs a few hundred
    kilobytes before its first boot and a fraction of a second.
  - A VM's UUID and MAC address follow from the fleet's name and the VM's number, so that it keeps its address when it is made anew.
  - Touches only VMs that carry its mark, an element of its own XML namespace in the VM's metadata that names the fleet.
  - Asks first whether the host can carry the fleet (memory and swap, disk, addresses, CPUs), and refuses before anything is touched.
  - An interrupted run is completed by the next one.
options:
  fleet:
    description: Name of the fleet.
    type: str
    required: true
  state:
    description:
      - V(present) makes the VMs that are missing, and leaves running what runs.
      - V(started) makes and starts them.
      - V(stopped) makes what is missing, and stops what runs.
      - V(absent) removes every VM of the fleet on this host with its disk, and what else was made for the fleet.
      - A VM whose definition is no longer as asked for is stopped, defined anew and started if it ran. Its disk stays.
    type: str
    choices: [present, started, stopped, absent]
    default: started
  vms:
    description: The VMs of the fleet that belong on this host, the number of each (1 to 65535) by its name. Its identity follows from the number.
    type: dict
    default: {}
  surplus:
    description: What becomes of the fleet's VMs on this host that are not among O(vms). V(stopped) keeps them, to be started again.
    type: str
    choices: [absent, stopped]
    default: absent
  only:
    description: Names of the VMs that are touched now. Empty for all.
    type: list
    elements: str
    default: []
  uri:
    description: Which libvirt.
    type: str
    default: qemu:///system
  directory:
    description: Where the clones are. It is made for the fleet, and must not hold anything else.
    type: path
    required: true
  image:
    description:
      - The golden image, a disk of qcow2 or raw format that nobody writes to. Needed unless O(master) or O(state=absent).
      - With another one than a VM was cloned from, the VM's disk is made anew and what was on it is lost.
    type: path
  master:
    description:
      - Name of a VM that is shut off, whose one disk is the golden image and whose definition is the pattern. It must not be started as long as the
        fleet is there.
    type: str
  seed:
    description: Disk with the label C(cidata) that all VMs get, as M(memstretch.density.nocloud_seed) makes it.
    type: path
  accelerator:
    description: V(kvm), or V(qemu) for software emulation.
    type: str
    choices: [kvm, qemu]
    default: kvm
  cpu_model:
    description: Processor that the VMs see, as libvirt calls it. Empty for the host's own, or a modest one under emulation.
    type: str
    default: ""
  memory:
    description: Memory of each VM, such as V(6G), at least 64 MiB. By default the master's.
    type: str
  vcpus:
    description: VCPUs of each VM, 1 to 1024. By default the master's, or 1.
    type: int
  cpus:
    description: CPUs of the host that the VMs may use, such as V(0-15); empty for all.
    type: str
    default: ""
  pin:
    description: Pin each VCPU to one CPU of O(cpus), round robin.
    type: bool
    default: false
  numa_nodes:
    description: NUMA nodes that the VMs' memory is bound to, in turns; empty for no policy.
    type: list
    elements: int
    default: []
  bus:
    description: How the disk is attached.
    type: str
    choices: [virtio, scsi, sata]
    default: virtio
  network:
    description: What the VMs' one network card is attached to.
    type: dict
    default: {}
    suboptions:
      type:
        description:
          - A V(network) of libvirt, a V(bridge) of the host, or V(user) networking, which needs neither and leads ports of the host's loopback to the VMs.
        type: str
        choices: [network, bridge, user]
        default: network
      name:
        description: Name of the network or bridge.
        type: str
        default: default
      address:
        description: The host's address in a V(network) that is only about to be made, such as V(10.77.0.1/22), so that it need not be there yet.
        type: str
      first_port:
        description: With V(user), the port of the host that leads to the ssh of VM number 1; the others follow.
        type: int
        default: 22001
  locked:
    description: Lock the VMs' memory in DRAM. Refused on a host with swap.
    type: bool
    default: false
  hugepages:
    description: Back the VMs' memory with huge pages. Refused on a host with swap.
    type: bool
    default: false
  balloon:
    description: Give the VMs a memory balloon.
    type: bool
    default: true
  free_page_reporting:
    description: Let VMs give pages that they have freed back to the host at once. Needs O(balloon).
    type: bool
    default: false
  partition:
    description: libvirt's resource partition, such as V(/machine), for a DRAM budget; empty for its default, which is that one.
    type: str
    default: ""
  reserve:
    description: Memory that is kept for the host itself.
    type: str
    default: 512M
  disk_growth:
    description: How much each clone is expected to write.
    type: str
    default: 1G
  admission:
    description: Whether a fleet that the host cannot carry is refused, or only warned of.
    type: str
    choices: [refuse, warn]
    default: refuse
  parallel:
    description: How many VMs are made or started at a time, 1 to 256.
    type: int
    default: 4
  stop_timeout:
    description: Seconds that a VM has to shut itself down before it is switched off; 0 switches it off at once.
    type: int
    default: 60
  address_timeout:
    description: Seconds to wait for the addresses of VMs that run; 0 only looks.
    type: int
    default: 0
attributes:
  check_mode:
    description: Says what would change, and changes nothing.
    support: full
  diff_mode:
    description: Shows which VM is in which state before and after.
    support: full
requirements:
  - python3-libvirt on the host
  - qemu-img on the host
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Two VMs
  memstretch.density.vm_fleet:
    fleet: redis
    vms: {redis-001: 1, redis-002: 2}
    directory: /var/lib/libvirt/images/fleet-redis
    image: /var/lib/libvirt/images/debian.qcow2
    memory: 6G
    vcpus: 1
    address_timeout: 300

- name: Remove them
  memstretch.density.vm_fleet:
    fleet: redis
    state: absent
    directory: /var/lib/libvirt/images/fleet-redis
"""

RETURN = r"""
vms:
  description: The VMs of the fleet on this host as they are now, in check mode as they were.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name.
      type: str
    number:
      description: Number in the fleet.
      type: int
    running:
      description: Whether it runs.
      type: bool
    address:
      description: Its IPv4 address as the host sees it; empty if it has none.
      type: str
    port:
      description: The port of its ssh at that address.
      type: int
    mac:
      description: Its MAC address.
      type: str
actions:
  description: What was or would be done, a line for each VM.
  returned: success
  type: list
  elements: str
  sample: ["redis-001: clone, define, start"]
pending:
  description: Names of the VMs that something was or would be done to.
  returned: success
  type: list
  elements: str
"""

import ipaddress
import json
import os
import platform
import shutil
import typing as t
import xml.etree.ElementTree as ET

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import run_checked
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import CgroupFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo
from ansible_collections.memstretch.density.plugins.module_utils.host.systemd import booted
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, size_in_bytes
from ansible_collections.memstretch.density.plugins.module_utils.vm.admission import OVERHEAD, Host, Wish, judge
from ansible_collections.memstretch.density.plugins.module_utils.vm.fleet import Fleet, Step, wait_for_addresses
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import VmHost, VmHostError, file_state
from ansible_collections.memstretch.density.plugins.module_utils.vm.template import (
    NUMBER_RANGE,
    TRANSLATION_CACHE,
    DomainError,
    Plan,
    Vm,
    cpu_list,
    disk_of_master,
    max_memory_of,
    pinned_memory,
)

SMALLEST_MEMORY = 64 * 2**20
# Where a VM's address can be asked for, the surest first.
ADDRESS_SOURCES = {"network": ["lease"], "bridge": ["agent", "arp"], "user": []}
NETWORK_OPTIONS = {
    "type": {"type": "str", "choices": ["network", "bridge", "user"], "default": "network"},
    "name": {"type": "str", "default": "default"},
    "address": {"type": "str"},
    "first_port": {"type": "int", "default": 22001},
}


def checked_options(module: AnsibleModule) -> None:
    """Raise SettingError for what no host could do."""
    asked = module.params
    for option, low, high in (
        ("parallel", 1, 256),
        ("stop_timeout", 0, 86400),
        ("address_timeout", 0, 86400),
        ("vcpus", 1, 1024),
    ):
        if asked[option] is not None and not low <= asked[option] <= high:
            raise SettingError(
                f"{option}: {asked[option]} is out of range; it takes a whole number from {low} to {high}"
            )
    numbers = list(asked["vms"].values())
    for name, vm_number in asked["vms"].items():
        if not str(vm_number).isdigit() or not NUMBER_RANGE[0] <= int(vm_number) <= NUMBER_RANGE[1]:
            raise SettingError(
                f"vms: number {vm_number!r} of {name} is not allowed; it takes a whole number from {NUMBER_RANGE[0]} to {NUMBER_RANGE[1]}"
            )
    if len(set(numbers)) != len(numbers):
        raise SettingError(f"vms: a number stands twice among {numbers}")
    if asked["pin"] and not asked["cpus"]:
        raise SettingError("pin: true needs cpus, such as 0-15")
    if asked["cpus"]:
        cpu_list(asked["cpus"])
    if asked["free_page_reporting"] and not asked["balloon"]:
        raise SettingError("free_page_reporting: true needs balloon: true, which reports the pages")
    if asked["state"] != "absent" and bool(asked["image"]) == bool(asked["master"]):
        raise SettingError("image, master: exactly one of the two is needed")
    if asked["image"] and not asked["memory"]:
        raise SettingError("memory: is needed with image; it takes a size, such as 6G")


def plan_of(module: AnsibleModule, fleet: Fleet) -> Plan:
    """Return how the VMs are made."""
    asked = module.params
    memory = size_in_bytes("memory", asked["memory"]) if asked["memory"] else 0
    if memory and memory < SMALLEST_MEMORY:
        raise SettingError(f"memory: {asked['memory']!r} is too little; it takes at least 64M")
    master = ""
    base = asked["image"]
    if asked["master"]:
        known = fleet.known.get(asked["master"])
        if known is None:
            raise VmHostError(
                f"master: there is no VM {asked['master']} on this host; there are: {', '.join(sorted(fleet.known)) or 'none'}"
            )
        if known.running:
            raise VmHostError(
                f"master: {known.name} runs; shut it down, and leave it so as long as clones of its disk are in use"
            )
        master = known.xml
        base, dummy = disk_of_master(master, known.name)
    if not os.path.exists(base):
        raise VmHostError(f"golden image: {base} is not there")
    return Plan(
        domain_type=asked["accelerator"],
        architecture=platform.machine(),
        cpu_model=asked["cpu_model"],
        memory=memory,
        vcpus=asked["vcpus"] or (0 if master else 1),
        cpus=asked["cpus"],
        pin=asked["pin"],
        numa_nodes=tuple(asked["numa_nodes"]),
        bus=asked["bus"],
        network=asked["network"] or {"type": "network", "name": "default"},
        locked=asked["locked"],
        hugepages=asked["hugepages"],
        balloon=asked["balloon"],
        free_page_reporting=asked["free_page_reporting"],
        partition=asked["partition"],
        seed=asked["seed"] or "",
        directory=asked["directory"],
        base=base,
        base_state=file_state(base),
        master=master,
    )


def image_facts(module: AnsibleModule, path: str) -> dict[str, t.Any]:
    command = [module.get_bin_path("qemu-img", required=True), "info", "--force-share", "--output=json", path]
    return json.loads(run_checked(module.run_command, command, VmHostError))


def free_space(directory: str) -> int:
    """Return the bytes that are free where a directory is or would be made."""
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return shutil.disk_usage(directory).free


def budget_of(partition: str) -> int | None:
    """Return the limit of the control group that libvirt puts the VMs into, None without one."""
    name = partition.strip("/") or "machine"
    v1 = os.path.isdir("/sys/fs/cgroup/memory")
    path = f"{'/sys/fs/cgroup/memory' if v1 else '/sys/fs/cgroup'}/{name}{'.slice' if booted() else ''}"
    return CgroupFiles(path, v1).limit()


def addresses_of(host: VmHost, network: t.Mapping[str, t.Any]) -> int | None:
    """Return how many addresses a network can give, None if nobody here knows."""
    if network["type"] != "network":
        return None
    if network.get("address"):
        return (
            ipaddress.ip_interface(network["address"]).network.num_addresses - 3
        )  # of the network, of the host, of all
    return host.network_addresses(network["name"])


def refuse_what_does_not_fit(module: AnsibleModule, fleet: Fleet, plan: Plan, steps: list[Step]) -> list[str]:
    """Raise VmHostError if this host cannot carry the fleet; return what must be said."""
    asked = module.params
    xml = ET.fromstring(plan.xml(fleet.vms[0]))
    info = meminfo(HostFiles())
    network = plan.network
    host = Host(
        memory=info["MemTotal"],
        budget=budget_of(plan.partition),
        swap=info.get("SwapTotal", 0),
        reserve=size_in_bytes("reserve", asked["reserve"]),
        foreign=sum(each.max_memory for each in fleet.known.values() if each.running and each.name not in fleet.ours),
        cpus=os.cpu_count() or 1,
        disk_free=free_space(asked["directory"]),
        addresses=addresses_of(fleet.host, network),
    )
    wish = Wish(
        vms=len(fleet.vms),
        new_disks=sum("clone" in step.actions for step in steps),
        memory=max_memory_of(ET.tostring(xml, encoding="unicode")),
        overhead=OVERHEAD + (TRANSLATION_CACHE if plan.domain_type == "qemu" else 0),
        vcpus=int(xml.findtext("vcpu") or 1),
        disk_growth=size_in_bytes("disk_growth", asked["disk_growth"]),
        disk_size=image_facts(module, plan.base)["virtual-size"],
        unswappable=pinned_memory(xml),
    )
    refusals, warnings = judge(host, wish)
    if refusals and asked["admission"] == "refuse":
        raise VmHostError("this host cannot carry the fleet: " + "; ".join(refusals) + ". Nothing was touched")
    return warnings + refusals


def seen(fleet: Fleet, plan: Plan | None, addresses: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
    user = plan is not None and plan.network["type"] == "user"
    return [
        {
            "name": vm.name,
            "number": vm.number,
            "mac": vm.mac,
            "running": vm.name in fleet.ours and fleet.ours[vm.name].running,
            "address": "127.0.0.1" if user else addresses.get(vm.name, ""),
            "port": plan.port(vm) if user and plan else 22,
        }
        for vm in fleet.vms
    ]


def states(fleet: Fleet) -> str:
    return "".join(
        f"{name}: {'paused' if each.paused else 'running' if each.running else 'shut off'}\n"
        for name, each in sorted(fleet.ours.items())
    )


def after(fleet: Fleet, steps: list[Step]) -> str:
    """Return how the fleet will be, as L(states) says it."""
    state = {name: "running" if each.running else "shut off" for name, each in fleet.ours.items()}
    for step in steps:
        if "delete" in step.actions:
            del state[step.vm.name]
        else:
            state[step.vm.name] = "running" if "start" in step.actions else "shut off"
    return "".join(f"{name}: {text}\n" for name, text in sorted(state.items()))


def play(module: AnsibleModule) -> dict[str, t.Any]:
    """Do what is asked for, and return the result."""
    checked_options(module)
    asked = module.params
    host = VmHost(asked["uri"])
    fleet = Fleet(
        asked["fleet"],
        [Vm(asked["fleet"], name, int(each)) for name, each in asked["vms"].items()],
        asked["directory"],
        host,
    )
    fleet.refuse_strangers()
    plan = plan_of(module, fleet) if asked["state"] != "absent" and fleet.vms else None
    if plan:
        fleet.refuse_changed_base(plan)
    steps = fleet.steps(plan, asked["state"], asked["surplus"])
    for doubt in refuse_what_does_not_fit(module, fleet, plan, steps) if plan else []:
        module.warn(doubt)
    if asked["only"]:
        steps = [step for step in steps if step.vm.name in asked["only"]]
    files = fleet.leftovers() if asked["state"] == "absent" else []
    before, aim = states(fleet), after(fleet, steps)
    if not module.check_mode and (steps or files):
        with fleet.locked():
            fleet.play(
                steps,
                plan,
                asked["parallel"],
                asked["stop_timeout"],
                lambda path: make_clone(module, t.cast(Plan, plan), path),
            )
        if asked["state"] == "absent":
            fleet.remove_files()
    fleet = Fleet(fleet.name, fleet.vms, fleet.directory, host)
    addresses = {}
    if plan and plan.network["type"] != "user":
        running = [vm for vm in fleet.vms if vm.name in fleet.ours and fleet.ours[vm.name].running]
        addresses = wait_for_addresses(host, running, ADDRESS_SOURCES[plan.network["type"]], asked["address_timeout"])
    return {
        "changed": bool(steps or files),
        "diff": {"before": before, "after": aim},
        "actions": [str(step) for step in steps],
        "pending": [step.vm.name for step in steps],
        "vms": seen(fleet, plan, addresses),
    }


def make_clone(module: AnsibleModule, plan: Plan, path: str) -> None:
    kind = image_facts(module, plan.base)["format"]
    run_checked(
        module.run_command,
        [
            module.get_bin_path("qemu-img", required=True),
            "create",
            "-q",
            "-f",
            "qcow2",
            "-F",
            kind,
            "-b",
            plan.base,
            path,
        ],
        VmHostError,
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "fleet": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "started", "stopped", "absent"], "default": "started"},
            "vms": {"type": "dict", "default": {}},
            "surplus": {"type": "str", "choices": ["absent", "stopped"], "default": "absent"},
            "only": {"type": "list", "elements": "str", "default": []},
            "uri": {"type": "str", "default": "qemu:///system"},
            "directory": {"type": "path", "required": True},
            "image": {"type": "path"},
            "master": {"type": "str"},
            "seed": {"type": "path"},
            "accelerator": {"type": "str", "choices": ["kvm", "qemu"], "default": "kvm"},
            "cpu_model": {"type": "str", "default": ""},
            "memory": {"type": "str"},
            "vcpus": {"type": "int"},
            "cpus": {"type": "str", "default": ""},
            "pin": {"type": "bool", "default": False},
            "numa_nodes": {"type": "list", "elements": "int", "default": []},
            "bus": {"type": "str", "choices": ["virtio", "scsi", "sata"], "default": "virtio"},
            "network": {"type": "dict", "default": {}, "options": NETWORK_OPTIONS},
            "locked": {"type": "bool", "default": False},
            "hugepages": {"type": "bool", "default": False},
            "balloon": {"type": "bool", "default": True},
            "free_page_reporting": {"type": "bool", "default": False},
            "partition": {"type": "str", "default": ""},
            "reserve": {"type": "str", "default": "512M"},
            "disk_growth": {"type": "str", "default": "1G"},
            "admission": {"type": "str", "choices": ["refuse", "warn"], "default": "refuse"},
            "parallel": {"type": "int", "default": 4},
            "stop_timeout": {"type": "int", "default": 60},
            "address_timeout": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**play(module))
    except (DomainError, SettingError, VmHostError) as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(msg=f"vm_fleet may not do this on the host: {error}")


if __name__ == "__main__":
    main()
