#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_fleet
short_description: Create, start, stop and remove a fleet of linked clones on one libvirt host
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Brings all VMs of a fleet on one host to a state in one task. Each VM is a linked qcow2 clone of one golden image.
    Until its first boot a clone occupies a few hundred kilobytes, and creating it takes a fraction of a second.
  - A VM's UUID and MAC address follow from the fleet's name, its salt and the VM's number, so a VM that is created
    again keeps its address. The salt is random. The module creates it with the directory, where it is kept in the file
    C(.memstretch-fleet), so two fleets with one name in two directories do not share VMs.
  - Makes a libvirt network, if O(network) has an address and there is none of that name. The network is the fleet's by
    a UUID that follows from the salt, and by its name in that file. It goes with the last VM, unless somebody else uses
    it.
  - Changes only VMs that carry its mark, an element of its own XML namespace in the VM's metadata that names the fleet,
    and that have the UUID derived for this fleet. A copy of such a VM has another UUID, so it is foreign.
  - Checks first whether the host can carry the fleet (memory and swap, disk, addresses, CPUs), and refuses before it
    changes anything.
  - An interrupted run is completed by the next one. Runs on one fleet take turns.
options:
  fleet:
    description: Name of the fleet.
    type: str
    required: true
  state:
    description:
      - V(prepared) creates the directory of the fleet, with its salt, and the network. It changes no VM.
      - V(present) creates missing VMs, and leaves running VMs running.
      - V(started) creates missing VMs and starts all.
      - V(stopped) creates missing VMs, and stops running ones.
      - V(absent) removes every VM of the fleet on this host with its disk, its networks, and all other files of the
        fleet. With O(only), it removes only these VMs and their disks; the rest goes with the last VM.
      - A VM whose definition differs from the options is stopped, defined again, and started if it was running.
        Its disk stays.
    type: str
    choices: [prepared, present, started, stopped, absent]
    default: started
  vms:
    description:
      - The VMs of the fleet on this host. The keys are their names, the values their numbers (1 to 65535), from which
        UUID and MAC address follow.
    type: dict
    default: {}
  surplus:
    description:
      - What to do with VMs of the fleet on this host that are not in O(vms). V(stopped) keeps them, so that they can
        be started again.
    type: str
    choices: [absent, stopped]
    default: absent
  only:
    description: Names of the VMs to change in this run. Empty for all.
    type: list
    elements: str
    default: []
  uri:
    description: URI of the libvirt connection.
    type: str
    default: qemu:///system
  directory:
    description:
      - Directory of the clones, which the module creates. An existing directory must be empty or belong to the fleet.
    type: path
    required: true
  image:
    description:
      - The golden image, a disk of qcow2 or raw format that nothing writes to. Required unless O(master) is set or
        O(state) is V(absent) or V(prepared).
      - A VM that was cloned from another image gets a new disk, and the contents of its old disk are lost.
    type: path
  master:
    description:
      - Name of a VM that is shut off. Its only disk is the golden image, and its definition the template of the VMs.
        It must not be started as long as the fleet exists.
      - O(memory) and O(vcpus) also replace what the definition repeats of them. Memory is spread over its NUMA cells
        in proportion, and its topology keeps its sockets and threads as far as the vCPUs can be divided by them.
    type: str
  seed:
    description:
      - Files by name, as text, of a small disk with the label C(cidata) that is attached to all VMs. cloud-init's data
        source NoCloud reads C(meta-data) and C(user-data) there at the first boot.
      - The module creates the disk in O(directory), where only its owner can read it. Its file name contains a digest
        of the files, so other files make another disk. VMs that are running keep theirs.
    type: dict
  accelerator:
    description: V(kvm), or V(qemu) for software emulation.
    type: str
    choices: [kvm, qemu]
    default: kvm
  cpu_model:
    description: CPU model of the VMs, as libvirt names it. Empty for the host's own, or a modest one under emulation.
    type: str
    default: ""
  memory:
    description: Memory of each VM, such as V(6G), at least 64 MiB. By default the master's.
    type: str
  vcpus:
    description: vCPUs of each VM, 1 to 1024. By default the master's, or 1.
    type: int
  cpus:
    description: CPUs of the host that the VMs may use, such as V(0-15); empty for all.
    type: str
    default: ""
  pin:
    description: Pin each vCPU to one CPU of O(cpus), round robin.
    type: bool
    default: false
  numa_nodes:
    description: NUMA nodes, 0 to 1023, to bind the VMs' memory to, round robin; empty for no policy.
    type: list
    elements: int
    default: []
  bus:
    description: Bus of the VMs' disk.
    type: str
    choices: [virtio, scsi, sata]
    default: virtio
  network:
    description: What the only network card of each VM is attached to.
    type: dict
    default: {}
    suboptions:
      type:
        description:
          - A V(network) of libvirt, a V(bridge) of the host, or V(user) networking. The last one needs neither, and
            forwards ports of the host's loopback interface to the VMs.
          - Where libvirt serves no DHCP, addresses come from the guest agents, or else from the host's ARP table.
        type: str
        choices: [network, bridge, user]
        default: network
      name:
        description: Name of the network or bridge.
        type: str
        default: default
      address:
        description:
          - The host's address in a V(network), such as V(10.77.0.1/22). With it the network need not exist yet. It is
            made with NAT, and its VMs get the addresses after the host's. An existing network must have this address.
        type: str
      first_port:
        description:
          - With V(user), the port of the host that is forwarded to the ssh of VM number 1, from 1 to 65535. The ports
            of the others follow, so that of the last one must not be above 65535 either.
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
    description: Give each VM a memory balloon.
    type: bool
    default: true
  free_page_reporting:
    description: Let VMs return freed pages to the host at once. Needs O(balloon).
    type: bool
    default: false
  partition:
    description:
      - Resource partition of libvirt that holds the VMs, such as V(/fleet), for a DRAM budget. Empty for libvirt's
        default, which is V(/machine).
    type: str
    default: ""
  reserve:
    description: Memory to keep for the host itself.
    type: str
    default: 512M
  disk_growth:
    description: Expected growth of each clone.
    type: str
    default: 1G
  admission:
    description: Whether to refuse a fleet that the host cannot carry, or only to warn.
    type: str
    choices: [refuse, warn]
    default: refuse
  parallel:
    description: How many VMs to create or start at a time, 1 to 256.
    type: int
    default: 4
  stop_timeout:
    description: Seconds for a VM to shut down before it is switched off, 0 to 86400; 0 switches it off at once.
    type: int
    default: 60
  address_timeout:
    description: Seconds to wait for the addresses of running VMs, 0 to 86400; 0 does not wait.
    type: int
    default: 0
extends_documentation_fragment:
  - memstretch.density.predicted_change
attributes:
  diff_mode:
    description: Shows the state of each VM before and after.
requirements:
  - python3-libvirt on the host
  - qemu-img on the host
  - genisoimage, mkisofs or xorrisofs on the host, with O(seed)
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Start two VMs
  memstretch.density.vm_fleet:
    fleet: redis
    vms: {redis-001: 1, redis-002: 2}
    directory: /var/lib/libvirt/images/fleet-redis
    image: /var/lib/libvirt/images/debian.qcow2
    memory: 6G
    vcpus: 1
    address_timeout: 300
    seed:
      meta-data: "{}"
      user-data: "{{ user_data }}"

- name: Remove them
  memstretch.density.vm_fleet:
    fleet: redis
    state: absent
    directory: /var/lib/libvirt/images/fleet-redis
"""

RETURN = r"""
vms:
  description: The VMs of the fleet on this host after the run; in check mode, before it.
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
      description: Whether the VM is running.
      type: bool
    address:
      description: Address for connections from the host, of IPv6 if the VM has none of IPv4; empty if it has neither.
      type: str
    port:
      description: Port of its ssh at that address.
      type: int
    mac:
      description: MAC address.
      type: str
actions:
  description: What was or would be done, one line per network, seed disk and VM.
  returned: success
  type: list
  elements: str
  sample: ["redis-001: clone, define, start"]
pending:
  description: Names of the VMs that were or would be changed.
  returned: success
  type: list
  elements: str
surplus:
  description: Names of the fleet's VMs that the host had beyond O(vms).
  returned: success
  type: list
  elements: str
base:
  description: Path of the golden image, or of the master's disk. C(null) if no VM should exist.
  returned: success
  type: str
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.vm import seed
from ansible_collections.memstretch.density.plugins.module_utils.vm.capacity import check_admission
from ansible_collections.memstretch.density.plugins.module_utils.vm.fleet import Action, Fleet
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import VmHost, VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.image import GoldenImage, ImageChains
from ansible_collections.memstretch.density.plugins.module_utils.vm.options import build_template, check_options
from ansible_collections.memstretch.density.plugins.module_utils.vm.sizes import DomainError
from ansible_collections.memstretch.density.plugins.module_utils.vm.template import Template, Vm

ARGUMENTS = {
    "fleet": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["prepared", "present", "started", "stopped", "absent"], "default": "started"},
    "vms": {"type": "dict", "default": {}},
    "surplus": {"type": "str", "choices": ["absent", "stopped"], "default": "absent"},
    "only": {"type": "list", "elements": "str", "default": []},
    "uri": {"type": "str", "default": "qemu:///system"},
    "directory": {"type": "path", "required": True},
    "image": {"type": "path"},
    "master": {"type": "str"},
    "seed": {"type": "dict", "no_log": True},
    "accelerator": {"type": "str", "choices": ["kvm", "qemu"], "default": "kvm"},
    "cpu_model": {"type": "str", "default": ""},
    "memory": {"type": "str"},
    "vcpus": {"type": "int"},
    "cpus": {"type": "str", "default": ""},
    "pin": {"type": "bool", "default": False},
    "numa_nodes": {"type": "list", "elements": "int", "default": []},
    "bus": {"type": "str", "choices": ["virtio", "scsi", "sata"], "default": "virtio"},
    "network": {
        "type": "dict",
        "default": {},
        "options": {
            "type": {"type": "str", "choices": ["network", "bridge", "user"], "default": "network"},
            "name": {"type": "str", "default": "default"},
            "address": {"type": "str"},
            "first_port": {"type": "int", "default": 22001},
        },
    },
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
}


class Difference(t.NamedTuple):
    """What a run changes."""

    actions: list[Action]
    network: list[str]  # what the network needs
    removed_networks: list[str]
    kept_networks: dict[str, str]  # by name who uses it
    unprepared: bool  # the directory of the fleet is missing
    files: list[str]  # to remove
    before: dict[str, str]
    after: dict[str, str]
    warnings: list[str]
    template: Template | None
    image: GoldenImage | None
    seed_tool: str  # the program that writes the seed disk; empty if none is missing

    @property
    def changes(self) -> bool:
        return self.makes or bool(self.removed_networks or self.files)

    @property
    def makes(self) -> bool:
        return bool(self.actions or self.network or self.unprepared or self.seed_tool)


def run(module: AnsibleModule) -> dict[str, t.Any]:
    """Compare the fleet with the options, apply the difference, and return the result."""
    options = module.params
    check_options(options)
    vms = [Vm(options["fleet"], name, int(number)) for name, number in options["vms"].items()]
    fleet = Fleet(options["fleet"], vms, options["directory"], VmHost(options["uri"]))
    # Without an owner file there is nothing to lock. The run that would create it compares first, so that a refusal
    # creates nothing.
    surplus = sorted(fleet.members.keys() - options["vms"].keys())
    unlocked = module.check_mode or not fleet.owner.exists()
    difference = compare(module, fleet) if unlocked else None
    if difference is None or (difference.changes and not module.check_mode):
        difference = change(module, fleet)
    for warning in difference.warnings:
        module.warn(warning)
    template = difference.template
    addresses = fleet.addresses(template.network, options["address_timeout"]) if template else {}
    return {
        "changed": difference.changes,
        "diff": {"before": lines(difference.before), "after": lines(difference.after)},
        "actions": texts(options, difference),
        "pending": [action.vm.name for action in difference.actions],
        "vms": fleet.describe(template, addresses),
        "surplus": surplus,
        "base": template.base if template else None,
    }


def change(module: AnsibleModule, fleet: Fleet) -> Difference:
    """Apply the difference while no other process can change the fleet, and return what was done."""
    options = module.params
    with fleet.owner.locked(create=options["state"] != "absent"):
        fleet.refresh()  # another process may have changed the fleet before this one had the lock
        difference = compare(module, fleet)
        if difference.makes:
            made = [options["network"]["name"]] if "define" in difference.network else []
            fleet.record(difference.actions, made)
        if difference.network:
            fleet.networks.perform(options["network"]["name"], options["network"]["address"], difference.network)
        if difference.seed_tool and difference.template:
            seed.create(module.run_command, difference.seed_tool, difference.template.seed, options["seed"])
        if difference.actions:
            fleet.apply(
                difference.actions, difference.template, difference.image, options["parallel"], options["stop_timeout"]
            )
        for name in difference.removed_networks:
            fleet.networks.remove(name)
        if difference.files:
            fleet.remove_files(keep_owner=bool(difference.kept_networks))
    fleet.refresh()
    return difference


def compare(module: AnsibleModule, fleet: Fleet) -> Difference:
    """Compare the fleet with the options, and refuse what the host cannot or must not do."""
    options = module.params
    absent, prepared = options["state"] == "absent", options["state"] == "prepared"
    qemu_img = module.get_bin_path("qemu-img", required=True)
    fleet.refuse_conflicts(needs_directory=bool(fleet.vms) or prepared)
    template = image = None
    if fleet.vms and not absent and not prepared:
        template = build_template(options, fleet.domains)
        image = GoldenImage(module.run_command, qemu_img, template.base)
        fleet.refuse_changed_base(template)
    actions = [] if prepared else fleet.actions(template, options["state"], options["surplus"])
    warnings = check_admission(fleet, template, actions, image, options) if template and image else []
    warnings += old_keys(fleet, template) if template else []
    if options["only"]:
        actions = [action for action in actions if action.vm.name in options["only"]]
    fleet.refuse_shared_disks(actions, ImageChains(module.run_command, qemu_img))
    before, after = fleet.states(), fleet.states_after(actions)
    network = options["network"]
    makes = network.get("type") == "network" and network.get("address") and (prepared or template)
    operations = fleet.networks.operations(network["name"], network["address"]) if makes else []
    removed: list[str] = []
    kept: dict[str, str] = {}
    files: list[str] = []
    if absent and not after:  # the VMs that stay need the rest
        removed, kept = fleet.networks.removable(fleet.members)
        files = fleet.files(keep_owner=bool(kept))
    warnings += [
        f"the network {name} of the fleet stays, because {user} uses it. Run this again when nothing does"
        for name, user in kept.items()
    ]
    unprepared = prepared and fleet.ownership is None
    lacks_seed = template and template.seed and not os.path.exists(template.seed)
    tool = seed.find_tool(module.get_bin_path) if lacks_seed else ""
    return Difference(
        actions, operations, removed, kept, unprepared, files, before, after, warnings, template, image, tool
    )


def texts(options: t.Mapping[str, t.Any], difference: Difference) -> list[str]:
    """Return the actions, one line per network, seed disk and VM."""
    made = [f"network {options['network']['name']}: {', '.join(difference.network)}"] if difference.network else []
    removed = [f"network {name}: remove" for name in difference.removed_networks]
    seeded = ["seed disk: create"] if difference.seed_tool else []
    return [*made, *seeded, *map(str, difference.actions), *removed]


def old_keys(fleet: Fleet, template: Template) -> list[str]:
    """Return a warning about the running VMs that have other keys than the new seed disk."""
    names = fleet.with_old_keys(template)
    if not names:
        return []
    return [
        f"{len(names)} running VMs have other keys than this controller and were left alone: {', '.join(names[:10])}. "
        "Run this with the keys that they were created with, or stop them (state: stopped) and start them again: "
        "they get the new keys then"
    ]


def lines(states: t.Mapping[str, str]) -> str:
    return "".join(f"{name}: {state}\n" for name, state in sorted(states.items()))


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        result = run(module)
    except (DomainError, SettingError, VmHostError) as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(msg=f"vm_fleet lacks a permission on the host (the task may need become): {error}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
