#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_end
short_description: Record the clocks of the hosts after the last phase of a run
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Takes what P(memstretch.density.clock_offset#module) measured after the last phase. The callback
    P(memstretch.density.fleet_latency#callback) writes it to C(run.json), next to what was measured before the run.
  - A run is invalid if the clock of a host moved meanwhile by more than the uncertainty of both measurements and
    100 ppm of the time between them, or could not be measured again.
  - Runs on the controller. Use it with C(run_once).
extends_documentation_fragment:
  - memstretch.density.controller_action
options:
  clocks:
    description: The registered result of each host that is still in the play, by its name.
    type: dict
    required: true
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Compare each clock with the controller's again
  memstretch.density.clock_offset:
  register: clock_after
  ignore_errors: true
  ignore_unreachable: true

- name: Record the clocks
  memstretch.density.benchmark_end:
    clocks: "{{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, 'clock_after'))) }}"
  run_once: true
"""

RETURN = r"""
benchmark_end:
  description:
    - C(clocks) has C(at), C(offset) and C(uncertainty) of each host in seconds, or the C(error) why they could not be
      measured.
  returned: success
  type: dict
"""
