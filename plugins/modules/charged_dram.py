#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: charged_dram
short_description: Measure what a fleet really takes from its DRAM budget, and keep it within
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - A control group does not hold what zram and zswap store for it. This module adds that up, changes the limit of the
    group until the sum is within the budget that M(memstretch.density.dram_budget) has set. On a host without a DRAM
    budget it does nothing.
  - The role P(memstretch.density.latency_benchmark#role) runs it on every host with a DRAM budget.
options:
  limit:
    description:
      - The memory limit of the control group. Huge pages have no such limit.
      - V(released) sets it to the whole budget, as before a fill, and measures the memory in use of the host, which the
        check against the host needs.
      - V(fitted) lowers it step by step until the charged DRAM is 98 to 100 % of the budget, or does not fit.
      - V(kept) changes nothing, so that the limit is the same in all measured phases.
    type: str
    choices: [kept, released, fitted]
    default: kept
  record_directory:
    description: The directory of the record of M(memstretch.density.dram_budget).
extends_documentation_fragment:
  - memstretch.density.checked_answer
  - memstretch.density.recorded_change
attributes:
  check_mode:
    support: full
    description: Measures, and changes no limit.
  diff_mode:
    support: none
    description: The limit is what was measured.
  platform:
    support: full
    description: Needs root on the host.
    platforms: linux
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Bring the fleet to its DRAM budget
  memstretch.density.charged_dram:
    limit: fitted
"""

RETURN = r"""
charged_dram:
  description: The charged DRAM of this host; null without a DRAM budget.
  returned: success
  type: dict
  contains:
    machine:
      description: Boot id of the host's kernel.
      type: str
    mechanism:
      description: The mechanism of the budget, V(cgroup) or V(hugepages).
      type: str
    budget_bytes:
      description: The budget.
      type: int
    group_processes:
      description: Processes in the control group of the budget; null with huge pages.
      type: int
    fits:
      description: Whether the fleet could be brought to the budget; null if that was not tried.
      type: bool
    fit:
      description:
        - How it was brought to the budget, C(limit), C(steps), C(ratio), the compression of the pages that moved last,
          and C(why) it does not fit. Null if that was not tried.
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.budgeted_host import BudgetedHost
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError
from ansible_collections.memstretch.density.plugins.module_utils.host.record import (
    DIRECTORY,
    HostRecord,
    HostRecordError,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "limit": {"type": "str", "choices": ["kept", "released", "fitted"], "default": "kept"},
            "record_directory": {"type": "path", "default": DIRECTORY},
        },
        supports_check_mode=True,
    )
    try:
        host = BudgetedHost.find(HostRecord("dram_budget", module.params["record_directory"]))
        changed = host.set_limit(module.params["limit"], module.check_mode) if host else False
        module.exit_json(changed=changed, charged_dram=host.document() if host else None)
    except (BudgetError, HostRecordError) as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(msg=f"charged_dram needs root on the host: {error}")


if __name__ == "__main__":
    main()
