#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_swappiness
short_description: Give the control groups of the fleet the swappiness of the host
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - In version 1 of control groups each group keeps the swappiness that its parent had at its creation, so
    C(vm.swappiness) alone would not reach a fleet that runs already.
  - Groups are those that hold nothing but servers of the role redis and VMs of the role vm_fleet. All others stay as
    they are.
  - In version 2 the groups have no swappiness of their own, and it does nothing.
extends_documentation_fragment:
  - memstretch.density.recorded_change
options:
  state:
    description: V(applied) sets the swappiness of the host, V(restored) what each group had before.
    type: str
    choices: [applied, restored]
    default: applied
attributes:
  check_mode:
    support: full
    description: Says what would change, and changes nothing.
  diff_mode:
    support: none
    description: RV(differences) has the values before and after.
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Give the control groups of the fleet the swappiness of the host
  memstretch.density.fleet_swappiness:
"""

RETURN = r"""
differences:
  description: What was not in force when the module started.
  returned: success
  type: list
  elements: str
  sample: [/sys/fs/cgroup/memory/system.slice/memstretch-redis@7001.service/memory.swappiness is 60 and not 100]
"""

from functools import partial

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.fleet.groups import FleetGroups, GroupError
from ansible_collections.memstretch.density.plugins.module_utils.host.record import (
    DIRECTORY,
    HostRecord,
    HostRecordError,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["applied", "restored"], "default": "applied"},
            "record_directory": {"type": "path", "default": DIRECTORY},
        },
        supports_check_mode=True,
    )
    directory = module.params["record_directory"]
    record, tuned = (HostRecord(name, directory) for name in ("fleet_swappiness", "host_settings"))
    find = partial(FleetGroups, record, tuned, module.params["state"] == "restored")
    try:
        groups = find()
        changed = groups.change_needed()
        if changed and not module.check_mode:
            with record.locked():
                find().apply()
    except (GroupError, HostRecordError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, differences=groups.differences())


if __name__ == "__main__":
    main()
