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
    group until the sum is within the budget that M(memstretch.density.dram_budget) has set, and watches the sum while a
    phase is measured. On a host without a DRAM budget it does nothing.
  - The role P(memstretch.density.latency_benchmark#role) runs it on every host with a DRAM budget.
options:
  state:
    description:
      - V(begun) changes the limit as O(limit) says, and starts a watch with O(watch=true).
      - V(ended) ends the watch and returns its figures.
    type: str
    choices: [begun, ended]
    default: begun
  limit:
    description:
      - The memory limit of the control group, with O(state=begun). Huge pages have no such limit.
      - V(released) sets it to the whole budget, as before a fill, and measures the memory in use of the host, which the
        check against the host needs.
      - V(fitted) lowers it step by step until the charged DRAM is 98 to 100 % of the budget, or does not fit.
      - V(kept) changes nothing, so that the limit is the same in all measured phases.
    type: str
    choices: [kept, released, fitted]
    default: kept
  watch:
    description:
      - Whether to read the charged DRAM every second until O(state=ended).
      - Meanwhile memory of the control group is reclaimed in the background, as kswapd does for a host, so that the
        processes of the fleet do not wait for it.
    type: bool
    default: false
  longest:
    description:
      - Seconds after which a watch ends by itself and removes its samples, 1 to 1,000,000; its playbook may have been
        killed.
    type: float
    default: 86400
  job:
    description: What O(state=begun) returned as RV(job).
    type: dict
    suboptions:
      path:
        description: File on the host with the samples.
        type: str
        required: true
      pid:
        description: Process on the host that writes it.
        type: int
        required: true
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
- name: Bring the fleet to its DRAM budget, and watch it
  memstretch.density.charged_dram:
    limit: fitted
    watch: true
  register: watched

- name: Show what the fleet took
  memstretch.density.charged_dram:
    state: ended
    job: "{{ watched.job }}"
"""

RETURN = r"""
job:
  description: The watch; the input of O(state=ended).
  returned: with a DRAM budget, O(state=begun) and O(watch=true)
  type: dict
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
    charged_bytes:
      description: C(maximum) and C(mean) of the sum while it was watched; null if a part of it is unknown.
      returned: O(state=ended)
      type: dict
    parts:
      description: The parts of the largest sum; docs/measurement.md says what each is.
      returned: O(state=ended)
      type: dict
    samples:
      description: How often it was read.
      returned: O(state=ended)
      type: int
    compression_ratio:
      description: Pages in zram and zswap over the memory that holds them; null if there are none.
      returned: O(state=ended)
      type: float
    client_bytes:
      description: Memory of the latency clients on this host outside of the control group, which is not in the sum.
      returned: O(state=ended)
      type: int
    limit_bytes:
      description: The least and the largest limit of the control group while it was watched.
      returned: O(state=ended)
      type: list
      elements: int
    limit_hits:
      description:
        - How often a process of the fleet met the limit of the control group while it was watched, and reclaimed memory
          before it went on. Null with huge pages.
      returned: O(state=ended)
      type: int
    reclaim_cpu_s:
      description: CPU seconds of the reclaim in the background while it was watched. 0 with huge pages, where kswapd
        does it.
      returned: O(state=ended)
      type: float
    host_check:
      description:
        - How the memory in use of the host (neither free, in the CPUs' lists too, nor clean page cache nor reclaimable
          slab) and the charged DRAM have changed since the limit was released, C(host_bytes) and C(charged_bytes), and
          C(difference), what the host lost in addition, as a share of the charged DRAM. Null if one is unknown.
      returned: O(state=ended)
      type: dict
    page_ins:
      description:
        - The pages that the host read from swap, zswap included, while it was watched (C(pswpin) and C(zswpin) of
          C(/proc/vmstat)), C(per_second), one rate for each interval of C(interval_s) seconds. The first began at
          C(started_at), in seconds since 1970 by the clock of the controller. Null if this kernel does not count them.
      returned: O(state=ended)
      type: dict
"""

import time
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host import charged_watch
from ansible_collections.memstretch.density.plugins.module_utils.host.budgeted_host import BudgetedHost
from ansible_collections.memstretch.density.plugins.module_utils.host.charged_watch import WatchError
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError
from ansible_collections.memstretch.density.plugins.module_utils.host.record import (
    DIRECTORY,
    HostRecord,
    HostRecordError,
)
from ansible_collections.memstretch.density.plugins.module_utils.options import Range, SettingError, number

LONGEST = Range(float, 1, 1_000_000, "seconds")


def begin(module: AnsibleModule, host: BudgetedHost) -> dict[str, t.Any]:
    """Change the limit and start a watch, as the options say; return the module's result."""
    longest = number("longest", module.params["longest"], LONGEST)
    changed = host.set_limit(module.params["limit"], module.check_mode)
    result = {"changed": changed, "charged_dram": host.document()}
    if module.params["watch"] and not module.check_mode:
        result["job"] = charged_watch.begin(host.charged, host.group, longest)
    return result


def end(module: AnsibleModule, host: BudgetedHost) -> dict[str, t.Any]:
    """End the watch and return the module's result."""
    if module.check_mode:
        return {"changed": False, "charged_dram": host.document()}
    job = module.params["job"]
    samples = charged_watch.end(job)
    check = host.host_check(charged_watch.private_bytes(job["pid"]))
    figures = {
        **charged_watch.summary(samples, host.mechanism),
        "host_check": check,
        "page_ins": charged_watch.page_in_series(samples, time.monotonic()),
    }
    return {"changed": False, "charged_dram": {**host.document(), **figures}}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["begun", "ended"], "default": "begun"},
            "limit": {"type": "str", "choices": ["kept", "released", "fitted"], "default": "kept"},
            "watch": {"type": "bool", "default": False},
            "longest": {"type": "float", "default": 86400},
            "job": {
                "type": "dict",
                "options": {"path": {"type": "str", "required": True}, "pid": {"type": "int", "required": True}},
            },
            "record_directory": {"type": "path", "default": DIRECTORY},
        },
        required_if=[("state", "ended", ["job"])],
        supports_check_mode=True,
    )
    try:
        host = BudgetedHost.find(HostRecord("dram_budget", module.params["record_directory"]))
        act = begin if module.params["state"] == "begun" else end
        module.exit_json(**(act(module, host) if host else {"changed": False, "charged_dram": None}))
    except (BudgetError, HostRecordError, SettingError, WatchError) as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(msg=f"charged_dram needs root on the host: {error}")


if __name__ == "__main__":
    main()
