#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_phase
short_description: Say when the next phase of a run starts on all hosts
version_added: 0.1.0
description:
  - Makes sure that the callback P(memstretch.density.fleet_latency#callback) has kept the phases before, and that none of them
    lost a host; otherwise it fails, because the run could not become valid any more.
  - Then picks the common start, far enough ahead that the slowest host is ready in time. The first lead follows from the
    number of hosts and C(forks); the later ones from how long the launch before really took.
  - A run with C(stop_when_failed) that cannot meet its SLO any more gets no more phases, but the reason.
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
    description: How long before the start the launch begins, 0 to 3600, if you know better.
    type: raw
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Say when the phase starts
  memstretch.density.benchmark_phase:
    run: "{{ begun.benchmark_run }}"
    phase: "{{ item }}"
  run_once: true
  loop: "{{ begun.benchmark_run.phases }}"
"""

RETURN = r"""
benchmark_phase:
  description: The C(phase), C(begun_at), and C(start_at), in seconds since the epoch; a fill has no common start.
  returned: success, but not with RV(benchmark_stopped)
  type: dict
benchmark_stopped:
  description: Why there is no use in measuring on.
  returned: when the run is to stop for it
  type: str
"""
