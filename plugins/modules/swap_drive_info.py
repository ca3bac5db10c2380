#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swap_drive_info
short_description: List the drives that could hold swap, and the objections to the others
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Lists the disks of a host with the stable path that P(memstretch.density.swap_space#module) needs, model, serial
    number, size, NUMA node, and whether they are behind the platform controller hub (PCH).
  - The objections to a disk come from the checks by which P(memstretch.density.swap_space#module) refuses disks.
  - It reads disks, and writes nothing.
options: {}
extends_documentation_fragment:
  - memstretch.density.read_only
requirements:
  - Linux, root, and the tools of util-linux
seealso:
  - module: memstretch.density.swap_space
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: List the drives
  memstretch.density.swap_drive_info:
  register: found

- name: Show the drives without objections
  ansible.builtin.debug:
    msg: "{{ found.swap_drives | rejectattr('against') | map(attribute='path') }}"
"""

RETURN = r"""
swap_drives:
  description: The drives, those without a reason against them first.
  returned: always
  type: list
  elements: dict
  contains:
    disk:
      description: The kernel's name.
      type: str
      sample: nvme0n1
    path:
      description: The stable path; null if there is none.
      type: str
    model:
      description: Model.
      type: str
    serial:
      description: Serial number.
      type: str
    size_bytes:
      description: Size in bytes.
      type: int
    numa_node:
      description: The nearest NUMA node; null if it is unknown.
      type: int
    rotational:
      description: Whether it is a rotating disk.
      type: bool
    behind_pch:
      description: Whether it is behind the PCH of an Intel platform; null if that is unknown.
      type: bool
    against:
      description: The objections to using it for swap; empty if there are none.
      type: list
      elements: str
    summary:
      description: All of this in one line, for people.
      type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.candidates import candidates
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import Guard


def main() -> None:
    module = AnsibleModule({}, supports_check_mode=True)
    if os.geteuid() != 0:
        module.fail_json(msg="swap_drive_info reads the contents of drives, which needs root; set become: true")
    for tool in ("blkid", "sfdisk", "wipefs"):
        module.get_bin_path(tool, required=True)
    module.exit_json(changed=False, swap_drives=candidates(Guard(module.run_command, HostFiles())))


if __name__ == "__main__":
    main()
