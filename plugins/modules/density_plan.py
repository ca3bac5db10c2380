#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The file of this name in plugin_utils/controller does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: density_plan
short_description: Say how many servers or VMs fit by capacity, before anything is touched
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Says for each profile how many Redis servers or VMs fit into the DRAM and the tier beyond it, and why not more. Says
    the same of fleets of given sizes, and how long a study of them takes. Writes C(plan.json) and C(plan.txt).
  - It says nothing about latency, but with O(headroom) how long a VM is forecast to wait for page-ins.
    P(memstretch.density.density#module) measures whether so many are fast enough.
  - The playbook C(plan.yml) uses it with the profiles as they would be on the hosts.
  - Runs on the controller.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
options:
  name:
    description: Name of the plan's directory below O(results_dir).
    type: str
    default: plan
  run:
    description: C(config) and C(phases) of the run, from P(memstretch.density.benchmark_run#module) with
      O(ignore:state=checked).
    type: dict
    required: true
  machines:
    description:
      - For each host that carries VMs its C(record), from P(memstretch.density.host_memory_info#module), and by profile
        its C(arms). Hosts with the same C(kernel.boot_id) are one machine.
    type: dict
    required: true
  fleet_sizes:
    description: Numbers of VMs, each 1 to 100,000. Several hosts share them evenly.
    type: raw
    required: true
  baseline_run:
    description:
      - Name of a run under C(dram) with a DRAM budget, below O(results_dir). Its charged DRAM for each server replaces
        the records and O(overhead). It must have had the same keys and values, and no swap.
      - For Redis servers that are not in VMs, as is O(density).
    type: str
    default: ""
  density:
    description: The same from a density, the name of a result of P(memstretch.density.density#module). Its largest
      fleet in DRAM counts.
    type: str
    default: ""
  headroom:
    description:
      - Name of a result of P(memstretch.density.headroom#module), below O(results_dir). The fleet is then a mix of the
        VMs or other units that were seen there, with the memory that they used, its compression, and how much of it was
        active.
      - It excludes O(baseline_run), O(density) and O(vm_memory).
    type: str
    default: ""
  vm_memory:
    description: Memory of a VM. Bytes, or a number with K, M, G or T. Empty for Redis servers that are not in VMs; then
      O(overhead) counts.
    type: str
    default: ""
  overhead:
    description: Memory of a Redis in addition to its records. Bytes, or a number with K, M, G or T.
    type: str
    default: 3.5M
  overhead_used:
    description: The part of its memory that cannot leave DRAM. Of a VM it is at least 128 MiB, for the guest's system.
    type: str
    default: 1M
  host_reserve:
    description: DRAM of each host that VMs do not get. Bytes, a number with K, M, G or T, or a share of the memory.
    type: str
    default: 5%
  rounds:
    description: Runs under each profile, 1 to 1000.
    type: raw
    default: 1
  phase_overhead_seconds:
    description: Time of a phase in addition to its load, 0 to 3600 seconds.
    type: raw
    default: 4
  run_overhead_seconds:
    description: Time of a run in addition to its phases, for example for tuning and Redis setup, 0 to 86400 seconds.
    type: raw
    default: 30
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Plan for a recorded host with the memory that a density has measured
  memstretch.density.density_plan:
    run: "{{ checked }}"
    machines: "{{ {'kvm01': {'record': host_tuning_record, 'arms': arms}} }}"
    fleet_sizes: [31, 108]
    density: density-20261127T123126Z
"""

RETURN = r"""
density_plan:
  description: The plan, the content of C(plan.json).
  returned: always
  type: dict
  contains:
    answer:
      description: The plan in one sentence.
      type: str
    capacity:
      description:
        - By profile C(servers), how many fit on all machines together, null if that is unknown, at most 100,000.
        - C(ended_by) says why not more, C(budget_bytes) is the DRAM budget of each machine, null without one, and
          C(within_waiting) with O(headroom) how many wait for page-ins no longer than they may.
      type: dict
    server:
      description:
        - One of the fleet, its C(kind), C(bytes), C(resident_bytes) and C(measured_by), null if computed.
        - With O(headroom), of how many it is the mean (C(watched)), and how long it may wait (C(waiting_percent)).
      type: dict
    compression:
      description: Of the pages of a server in zram and zswap, such as 3.59.
      type: float
    fleets:
      description: For each profile and size C(verdict), which is V(fits), V(does not fit) or V(unknown), its
        C(reasons), and C(needs_bytes), C(dram_bytes), C(tier) and C(tier_bytes) on the C(machine) where it fits worst;
        with O(headroom) also the forecast C(page_ins_per_second), and C(waiting_percent) of the VM that waits longest.
      type: list
      elements: dict
    duration:
      description: C(seconds) of a study of all of them, and the C(runs) and C(phases) that it consists of.
      type: dict
"""
