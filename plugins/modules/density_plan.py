#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The file of this name in plugin_utils/controller does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: density_plan
short_description: Forecast a study before anything is touched
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Forecasts fleets of several sizes under several profiles. Says whether they fit (DRAM, the tier beyond it, CPU), how
    often a request finds its page in DRAM, and the page-ins per second. It also forecasts whether the fleet can meet
    the SLO, and the duration of the study. Writes C(plan.json) and C(plan.txt).
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
      - A host may also have its C(page_in), from P(memstretch.density.page_in_latency#module). That of the slowest host
        replaces the example of O(tiers).
    type: dict
    required: true
  fleet_sizes:
    description: Numbers of VMs, each 1 to 100,000. Several hosts share them evenly.
    type: raw
    required: true
  solve:
    description:
      - With V(tier), also find the slowest tier beyond DRAM with which each fleet meets the SLO, cell by cell, for
        tiers whose p99 is 2, 4 or 8 times their average.
    type: str
    default: ""
  tiers:
    description:
      - Time of a page-in by kind (V(devices), V(file), V(zram), V(zswap), V(memory_node)), each with C(avg_us) and
        C(p99_us) in microseconds, and C(page_ins_per_second), its limit. Missing values are examples.
    type: dict
    default: {}
  base:
    description: C(avg_us) and C(p99_us) of a request whose pages are all in DRAM, in microseconds. Missing values are
      examples.
    type: dict
    default: {}
  baseline_run:
    description:
      - Name of a run under C(dram) whose worst cell (service time) replaces O(base).
      - Its charged DRAM for each server replaces the model of their memory and O(overhead), if it had a DRAM budget,
        the same keys and values, and servers that are not in VMs.
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
    default: 3M
  overhead_used:
    description: The part of O(overhead) that is always in use, and therefore in DRAM.
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
- name: Plan for a recorded host
  memstretch.density.density_plan:
    run: "{{ checked }}"
    machines: "{{ {'kvm01': {'record': host_tuning_record, 'arms': arms}} }}"
    fleet_sizes: [31, 108]
    tiers:
      devices: {avg_us: 14, p99_us: 40, page_ins_per_second: 550000}
"""

RETURN = r"""
density_plan:
  description: The plan, the content of C(plan.json).
  returned: always
  type: dict
"""
