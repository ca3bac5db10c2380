#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The file of this name in plugin_utils/controller does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_schedule
short_description: Plan the schedule of a run, and say how far it has come
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - The callback P(memstretch.density.fleet_latency#callback) does what its result means, such as to sleep until the
    schedule is over.
  - Runs on the controller. Use it with C(run_once).
extends_documentation_fragment:
  - memstretch.density.controller_action
options:
  state:
    description:
      - V(planned) returns when each phase begins after the start, and begins the fill, if there is one. V(started) sets
        the start, when all clients are armed. V(followed) sleeps until the end. V(ended) writes what was collected.
      - V(resumed) takes up the schedule of a session that was interrupted.
    type: str
    choices: [planned, started, followed, resumed, ended]
    required: true
  run:
    description: With V(planned), what P(memstretch.density.benchmark_run#module) returned.
    type: dict
    default: {}
  plan:
    description: With V(started) and V(resumed), the schedule.
    type: dict
  option_prefix:
    description: Prefix of the names of the options in messages.
    type: str
    default: ""
  gap_seconds:
    description: With V(planned), the time between two phases, 0.1 to 3600.
    type: raw
    default: 0.25
  lead_seconds:
    description:
      - With V(started), how many seconds before the start the release begins, 0.5 to 3600. By default it is worked out.
    type: raw
  hosts:
    description: With V(started), the number of hosts that are released.
    type: int
    default: 1
  released:
    description:
      - With V(planned), what a loop of P(memstretch.density.dram_budget#module) returned for each host of the fleet
        that works for a DRAM budget. A budget that limits no process is refused.
    type: dict
    default: {}
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Plan the schedule
  memstretch.density.benchmark_schedule:
    state: planned
    run: "{{ begun.benchmark_run }}"
  run_once: true
  register: planned
"""

RETURN = r"""
benchmark_schedule:
  description: The state as C(moment), the time as C(at), and the C(fill), C(plan) or C(start_at).
  returned: success
  type: dict
"""
