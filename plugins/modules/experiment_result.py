#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: experiment_result
short_description: Keep and show the result of an experiment beside the latency of a fleet
version_added: 0.1.0
description:
  - Writes C(<experiment>.json) and C(<experiment>.txt) into the directory of a run, or into one of its own, shows the tables, and brings the section
    of the experiment in C(report.html) up to date.
  - Fails if a host gave no result, after it has kept what the others gave.
  - Runs on the controller.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
options:
  state:
    description: With V(checked) nothing is written; it fails where V(kept) would find no place for the result.
    type: str
    choices: [checked, kept]
    default: kept
  experiment:
    description: Name of the experiment.
    type: str
    choices: [memory_bandwidth, throughput_benchmark, writeback_benchmark]
    required: true
  run_id:
    description: Name of the run that the result belongs to. Empty is a new directory, called after the experiment and the time.
    type: str
  expected:
    description: Names of the hosts, or profiles, that must have a result.
    type: list
    elements: str
    default: []
  hosts:
    description: Result of each host, or of each profile where the experiment compares profiles.
    type: dict
    default: {}
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Keep what was measured
  memstretch.density.experiment_result:
    experiment: memory_bandwidth
    expected: [kvm01]
    hosts:
      kvm01: "{{ measured.memory_bandwidth }}"
"""

RETURN = r"""
experiment_result:
  description: The C(directory) that holds the result, and the C(run_id) that it goes by.
  returned: O(state=kept), but not in check mode
  type: dict
"""
