#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: experiment_result
short_description: Save and show the result of an experiment
version_added: 1.0.0
description:
  - Writes C(<experiment>.json) and C(<experiment>.txt) to the directory of a run, or to a new one, shows the tables,
    and updates the experiment's section in C(report.html).
  - If a host has no result, saves the results of the others and then fails.
  - Runs on the controller.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
options:
  state:
    description:
      - V(checked) writes nothing; it fails if V(kept) could not save the result. With O(definition), it returns the
        parts of the experiment that are saved already.
      - V(part) saves O(parts) of an experiment that is measured in several parts, so that an interruption loses
        nothing. V(kept) removes them when no result is missing.
    type: str
    choices: [checked, part, kept]
    default: kept
  experiment:
    description: Name of the experiment.
    type: str
    choices: [memory_bandwidth, throughput_benchmark, writeback_benchmark]
    required: true
  run_id:
    description:
      - Name of the run that the result belongs to. The default is a new directory, named after the experiment and the
        time.
    type: str
  expected:
    description: Names of the hosts, or profiles, that must have a result.
    type: list
    elements: str
    default: []
  hosts:
    description: Result of each host, or of each profile if the experiment compares profiles.
    type: dict
    default: {}
  definition:
    description:
      - Everything that must be the same for all parts of an experiment that is measured in parts. Parts with another
        definition are refused.
      - Without O(run_id), O(state=checked) chooses the newest unfinished experiment with this definition, or a new
        directory. Needed with O(state=part).
    type: dict
  parts:
    description: Results of parts, by name, for O(state=part).
    type: dict
    default: {}
  resume:
    description: With O(state=checked) and O(definition), whether to continue an unfinished experiment.
    type: bool
    default: true
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Save the result
  memstretch.density.experiment_result:
    experiment: memory_bandwidth
    expected: [kvm01]
    hosts:
      kvm01: "{{ measured.memory_bandwidth }}"
"""

RETURN = r"""
experiment_result:
  description: The C(directory) of the result, its C(run_id), and with O(state=checked) the saved C(parts).
  returned: O(state=kept), but not in check mode; O(state=checked) with O(definition)
  type: dict
"""
