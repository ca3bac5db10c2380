#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_masters_info
short_description: Find out which VMs of a libvirt host could be masters of a fleet
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Writes the definitions of two clones of each VM as M(memstretch.density.vm_fleet) would, and asks libvirt whether it
    could start them. It defines, starts and changes nothing.
  - A VM that is running is judged, too. To become a master it must be shut off.
options:
  uri:
    description: URI of the libvirt connection whose VMs are looked at.
    type: str
    default: qemu:///system
extends_documentation_fragment:
  - memstretch.density.read_only
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Look at the VMs
  memstretch.density.vm_masters_info:
  register: masters
"""

RETURN = r"""
unknown:
  description: Why nothing is known about the VMs, such as that libvirt does not answer; empty if something is.
  returned: success
  type: str
masters:
  description: The VMs, those together that are alike. Clones of a fleet of this collection are left out.
  returned: success
  type: list
  elements: dict
  contains:
    names:
      description: Their names.
      type: list
    running:
      description: How many of them are running.
      type: int
    kinds:
      description: What is special about them.
      type: list
      sample: ["UEFI", "2 NUMA cells", "OpenStack Nova"]
    against:
      description: Why they cannot be masters; empty if they can.
      type: str
    summary:
      description: One line about them.
      type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.vm.host import VmHost, VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.masters import look


def main() -> None:
    module = AnsibleModule(
        argument_spec={"uri": {"type": "str", "default": "qemu:///system"}}, supports_check_mode=True
    )
    try:
        masters, unknown = look(VmHost(module.params["uri"])), ""
    except VmHostError as error:
        masters, unknown = [], str(error)
    module.exit_json(changed=False, masters=masters, unknown=unknown)


if __name__ == "__main__":
    main()
