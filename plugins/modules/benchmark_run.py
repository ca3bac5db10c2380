#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_run
short_description: Check the settings of a run, and begin it or continue it
version_added: 0.1.0
description:
  - Checks what a run is to do, in one place and before anything is touched, and works out its phases.
  - "With O(state=begun): chooses the directory of the run. A run that was interrupted is continued if its settings are still the
    same: finished phases are kept. The callback P(memstretch.density.fleet_latency#callback) then writes the run's files."
  - Runs on the controller. Use it with C(run_once).
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
options:
  state:
    description: V(checked) only checks O(settings), the fleet and the space below O(results_dir).
    type: str
    choices: [checked, begun]
    default: begun
  settings:
    description:
      - What the run is to do. It takes exactly the keys C(profile), C(key_count), C(value_size), C(compressibility),
        C(requests) and C(duration) of a phase (C(key_count) requests if both are null), C(rate) (requests per second and host),
        C(pattern), C(connections), C(pipeline), C(pacing), C(cpu), C(influences), C(read_mixes), C(warmups), C(iterations),
        C(slo_avg_us), C(slo_p99_us), C(min_overlap), C(min_rate_ratio), C(max_lateness_p99_us),
        C(stop_when_failed).
      - The role P(memstretch.density.latency_benchmark#role) documents what each means and allows.
    type: dict
    required: true
  option_prefix:
    description: What the user's names of these settings begin with. Messages use it.
    type: str
    default: ""
  run_id:
    description:
      - Name of the run's directory. One that exists is refused, unless it holds an unfinished run of the same settings.
      - If not given, the newest run is continued where it is unfinished and of the same settings; otherwise a new one begins,
        C(<profile>-<time>).
    type: str
  resume:
    description: With V(false) an unfinished run is not continued.
    type: bool
    default: true
  set_aside:
    description:
      - With V(true) a directory named O(run_id) whose run differs in nothing but the settings of its hosts is renamed to C(<run_id>-set-aside)
        instead of refused, and the run begins anew. For a sequence of runs, whose names are given, where a host has changed since an interruption.
    type: bool
    default: false
  expected:
    description: Names of all hosts of the fleet, also of those that failed earlier in the playbook.
    type: list
    elements: str
    default: []
  fleet:
    description: For each host that can take part C(endpoint), C(keys), C(clock_offset), C(clock_correction).
    type: dict
    default: {}
  max_clock_offset:
    description: How many seconds the clock of a host may be off the controller's, 0 to 86,400.
    type: raw
    default: 5
  host_records:
    description: What P(memstretch.density.host_memory_info#module) returned, by host.
    type: dict
    default: {}
  labels:
    description: Texts that every output of the run carries, such as C(host not tuned).
    type: list
    elements: str
    default: []
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Check the settings, before anything is touched
  memstretch.density.benchmark_run:
    state: checked
    expected: "{{ ansible_play_hosts_all }}"
    settings: "{{ my_settings }}"
  run_once: true
"""

RETURN = r"""
config:
  description: The checked settings.
  returned: O(state=checked) or check mode
  type: dict
phases:
  description: The phases of the run in their order.
  returned: O(state=checked) or check mode
  type: list
  elements: dict
expected:
  description: The hosts of the fleet.
  returned: O(state=checked) or check mode
  type: list
  elements: str
benchmark_run:
  description: Everything that C(run.json) holds, with C(run_id), C(directory), C(session), C(resumed) and C(phases).
  returned: O(state=begun)
  type: dict
"""
