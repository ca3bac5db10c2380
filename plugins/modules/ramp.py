#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ramp
short_description: Let a fleet of servers, containers or VMs grow within a DRAM budget, and look at it step by step
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Starts a conductor in the background and returns. The conductor starts, fills and loads Redis servers of its own on
    this host, in a control group with the DRAM budget, and references next to them that stay in DRAM. It writes one
    line of JSON for each window, which the action on the controller reads.
  - Servers of O(plan) that have an address are VMs of the module M(memstretch.density.vm_fleet) with a Redis of their
    own. The conductor starts them, and shuts them down at the end. Their control group is the partition of libvirt.
  - With C(image) in O(plan) the conductor starts its servers and references as containers of podman, whose control
    groups are below that with the DRAM budget and that of the references.
  - The conductor and all that it started end with the ramp, by SIGTERM, or when the controller has not renewed its
    lease. Nothing is left of it then. If the conductor is killed by SIGKILL, containers and VMs run on. The next ramp
    removes the containers.
options:
  plan:
    description: What the conductor does, as C(module_utils/ramp/plan.py) describes it.
    type: dict
    required: true
  password:
    description: Password of the Redis in the VMs.
    type: str
    default: ""
  arm:
    description: Name of the arm, for the record.
    type: str
    required: true
  round:
    description: Number of the round, for the record, at least 1.
    type: int
    required: true
  directory:
    description: Directory of the results on the controller.
    type: path
    required: true
  file:
    description: Name of the record in this directory.
    type: str
    required: true
attributes:
  check_mode:
    support: full
    description: Checks the plan, and that no other program has a port of its servers, and starts nothing.
  diff_mode:
    support: none
    description: There are no settings to compare on the host.
  platform:
    platforms: linux
    description: Linux with control groups and Redis.
    support: full
requirements:
  - Linux 5.19 or later; with version 1 of control groups any that Redis and the client run on
  - root
  - Python 3.8 or later on the host
  - redis-server or valkey-server; for containers podman 4.3 or later instead, for VMs python3-libvirt
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Conduct a ramp
  memstretch.density.ramp:
    plan: "{{ ramp_plan }}"
    arm: zram
    round: 1
    directory: results/density-1
    file: ramps/zram-1.json
"""

RETURN = r"""
job:
  description: C(path), the directory of the ramp, and C(pid), the conductor. For the action on the controller.
  type: dict
  returned: success, not in check mode
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError
from ansible_collections.memstretch.density.plugins.module_utils.host.locks import LockError
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.ramp import session
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import checked
from ansible_collections.memstretch.density.plugins.module_utils.ramp.servers import ServerError
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import VmHostError

ARGUMENTS = {
    "plan": {"type": "dict", "required": True},
    "password": {"type": "str", "default": "", "no_log": True},
    "arm": {"type": "str", "required": True},
    "round": {"type": "int", "required": True},
    "directory": {"type": "path", "required": True},
    "file": {"type": "str", "required": True},
}


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    try:
        plan = checked({**module.params["plan"], "password": module.params["password"]})
        if module.check_mode:
            session.check(plan)
            module.exit_json(changed=False)
        job = session.launch(plan)
    except (SettingError, BudgetError, LockError, ServerError, VmHostError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, job=job)


if __name__ == "__main__":
    main()
