#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dram_budget_trial
short_description: Test whether the DRAM budget of a control group holds
version_added: 1.0.0
description:
  - Starts a short process in a control group that M(memstretch.density.dram_budget) has limited. The process uses half
    of the budget, and reads the limit of the group and what is charged to it.
  - Fails if no process can run in the group, if the limit is not the budget, or if the memory is not charged.
options:
  size:
    description: The budget, as for M(memstretch.density.dram_budget); in bytes or with a unit.
    type: str
    required: true
  group:
    description: The control group, as for M(memstretch.density.dram_budget).
    type: str
    default: fleet.slice
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying the target.
    support: full
    details: It starts no process in check mode.
  diff_mode:
    description: Returns details on what has changed, or would change in check mode, when in diff mode.
    support: none
    details: Nothing lasts.
requirements:
  - Linux, root
  - Python 3.8 or later on the host
seealso:
  - module: memstretch.density.dram_budget
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Test the budget
  memstretch.density.dram_budget_trial:
    size: 16G
    group: fleet.slice
"""

RETURN = r"""
dram_budget_trial:
  description: What the process in the group has read.
  returned: success, but not in check mode
  type: dict
  contains:
    version:
      description: Version of the control groups, 1 or 2.
      type: int
    limit_bytes:
      description: Limit of the group in bytes.
      type: int
    charged_bytes:
      description: Memory that was charged to the group in bytes.
      type: int
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.budget_trial import trial
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, size_in_bytes


def main() -> None:
    module = AnsibleModule(
        argument_spec={"size": {"type": "str", "required": True}, "group": {"type": "str", "default": "fleet.slice"}},
        supports_check_mode=True,
    )
    try:
        size = size_in_bytes("size", module.params["size"])
        if module.check_mode:
            module.exit_json(changed=False)
        found = trial(module.params["group"], size, module.run_command)
    except (BudgetError, SettingError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, dram_budget_trial=found)


if __name__ == "__main__":
    main()
