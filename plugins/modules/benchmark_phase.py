#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_phase
short_description: Choose when the next phase of a run starts on all hosts
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Checks that the callback P(memstretch.density.fleet_latency#callback) has written the previous phase and that no
    host failed in it. Otherwise it fails, because the run cannot become valid.
  - Then chooses the common start of all hosts, far enough ahead for the slowest one. The first lead depends on the
    number of hosts and C(forks), later leads on how long the previous launch took.
  - If the run has C(stop_when_failed) and can no longer meet its SLO, there is no next phase, and the reason is
    returned.
  - Runs on the controller. Use it with C(run_once).
extends_documentation_fragment:
  - memstretch.density.controller_action
options:
  run:
    description: What P(memstretch.density.benchmark_run#module) returned as C(benchmark_run).
    type: dict
    required: true
  phase:
    description: One of its C(phases).
    type: dict
    required: true
  lead_seconds:
    description: How many seconds before the start the launch begins, 0 to 3600. By default it is worked out.
    type: raw
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Choose the start of each phase
  memstretch.density.benchmark_phase:
    run: "{{ begun.benchmark_run }}"
    phase: "{{ item }}"
  run_once: true
  loop: "{{ begun.benchmark_run.phases }}"
"""

RETURN = r"""
benchmark_phase:
  description: The C(phase), with C(begun_at) and C(start_at) in seconds since the epoch; a fill has no common start.
  returned: success, unless RV(benchmark_stopped) is returned
  type: dict
benchmark_stopped:
  description: Why the run can no longer meet its SLO.
  returned: when the run stops early
  type: str
"""
