#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The file of this name in plugin_utils/controller does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_run
short_description: Check the settings of a run, then begin or resume it
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Checks the settings of a run before anything is changed, and works out its phases.
  - With O(state=begun) it also chooses the directory of the run. An interrupted run is resumed if its settings are
    still the same and its data is still in Redis; its measured phases are kept, valid or not. A run is finished when
    its last phase was measured, when a host was lost, or when it stopped early; it is never measured again. The
    callback P(memstretch.density.fleet_latency#callback) then writes the files of the run.
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
      - "The settings of the run. All of these keys are required, and no others: C(profile), C(key_count),
        C(value_size), C(compressibility), C(requests) and C(duration) of a phase (C(key_count) requests if both are
        null), C(rate) (requests per second and host), C(pattern), C(connections), C(pipeline), C(arrivals), C(pacing),
        C(cpu), C(influences), C(read_mixes), C(warmups), C(iterations), C(slo_avg_us), C(slo_p99_us), C(min_overlap),
        C(stop_when_failed)."
      - The role P(memstretch.density.latency_benchmark#role) documents each of them and its range.
    type: dict
    required: true
  option_prefix:
    description: The prefix of the user's variables for these settings, used in messages.
    type: str
    default: ""
  run_id:
    description:
      - Name of the run's directory. An existing directory is an error, unless its run is unfinished and has the same
        settings.
      - Without a name, the newest run is resumed if it is unfinished, has the same settings, and has its data.
        Otherwise a run called C(<profile>-<time>) begins.
    type: str
  resume:
    description: Whether to resume an unfinished run.
    type: bool
    default: true
  new_attempt:
    description:
      - Whether to begin a new run called C(<run_id>-attempt2) (3, ...) if the run O(run_id) is unfinished and cannot be
        continued, because the settings of the hosts have changed or its data is gone. Otherwise that is an error.
      - For sequences of runs with given names, after an interruption.
    type: bool
    default: false
  continued:
    description: Name of the run that this playbook has resumed. It is continued even if nothing is left to measure.
    type: str
  expected:
    description: Names of all hosts of the fleet, including those that failed earlier in the playbook.
    type: list
    elements: str
    default: []
  fleet:
    description:
      - What P(memstretch.density.solotest_schedule#module) returned with C(state=asked) for each host that can take
        part.
    type: dict
    default: {}
  hypervisors:
    description: Names of the hypervisors in the inventory. Their guests are labelled if they swap.
    type: list
    elements: str
    default: []
  coarse_timers:
    description:
      - What to do if sleeps end only at the ticks of a host's kernel, and the clients sleep. Both list the choices with
        their costs, V(accept) in a warning, V(refuse) in an error. V(accept) labels the run.
    type: str
    choices: [accept, refuse]
    default: accept
  max_clock_offset:
    description: By how many seconds the clock of a host may differ from the controller's, 0 to 86,400.
    type: raw
    default: 5
  host_records:
    description: What P(memstretch.density.host_memory_info#module) returned, by host.
    type: dict
    default: {}
  host_labels:
    description: The labels of the tuned hosts, by host.
    type: dict
    default: {}
  labels:
    description: Further notes that every output of the run shows, such as C(host not tuned).
    type: list
    elements: str
    default: []
  guest_memory:
    description:
      - Memory of each VM of the fleet, such as C(6G), if these have no swap. Data that do not fit are refused. Empty
        skips the check.
    type: str
    default: ""
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Check the settings before anything is changed
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
  description: The contents of C(run.json), with C(run_id), C(directory), C(session), C(resumed) and C(phases).
  returned: O(state=begun)
  type: dict
machines:
  description: The machines of the run by what is done with them; C(plugins/plugin_utils/run/machines.py) explains it.
  returned: O(state=begun)
  type: dict
"""
