#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: calibrated_slo
short_description: Derive an objective from what DRAM alone did
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Runs C(site.yml) of this collection on half of the fleet, in its own process, for one iteration of each cell with
    influence 0. The objective is a multiple of the average and of the p99 of its worst host in the worst cell. So a
    slow machine does not fail for being slow.
  - Writes C(calibration.json) into the directory of that run, with how the objective was derived.
  - C(site.yml) uses it with C(slo=calibrated).
  - Runs on the controller. Options that prompt for a password are refused; use password files.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
  - memstretch.density.checked_run
options:
  factor:
    description: How many times the latency of half of the fleet is allowed, 1 to 1000.
    type: raw
    default: 1.5
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Derive the objective
  memstretch.density.calibrated_slo:
    run: "{{ checked }}"
  register: calibrated
"""

RETURN = r"""
calibration:
  description: C(slo) with C(avg_us) and C(p99_us), and what it comes from - C(factor), C(run_id), C(hosts), C(fitting),
    C(avg_us), C(p99_us), C(charged_bytes) and C(budget_bytes).
  returned: except in check mode
  type: dict
"""
