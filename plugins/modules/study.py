#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: study
short_description: Run the same load under one profile after another, and compare
version_added: 0.1.0
description:
  - Plays C(site.yml) of this collection once for each run, in a process of its own with the inventory, variables and connection options of
    the playbook that is played, then compares the runs with the first arm and writes C(study.json), C(comparison.json),
    C(comparison.txt) and C(comparison.html).
  - At the end, also after a failure or an interruption, C(teardown.yml) and C(restore.yml) are played.
  - A study that was interrupted is continued; finished runs and phases are kept.
  - A run that is not valid is taken up once more; its valid phases are kept.
  - Fails at the end if a run is not valid or could not be made; the others are compared all the same.
  - Runs on the controller. What asks for a password on the terminal is refused; give passwords in files.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
  - memstretch.density.prices
  - memstretch.density.checked_run
options:
  profiles:
    description: Names or paths of two or more profiles, a list or one text with commas. The first is what the others are compared with.
    type: raw
  ablation:
    description: In place of O(profiles), one profile whose settings are left out one after another.
    type: dict
    suboptions:
      profile:
        description: Its name or path.
        type: str
        required: true
      data:
        description: What it says, as the lookup P(memstretch.density.host_profile#lookup) returns it.
        type: dict
        required: true
      settings:
        description: Names of the settings, a list or one text with commas. All if empty.
        type: raw
      put_back:
        description: Compare with the profile without these settings, and put one back at a time.
        type: bool
        default: false
      reboot:
        description: Whether arguments of the kernel command line count as settings, for which hosts must be allowed to reboot.
        type: bool
        default: false
  order:
    description:
      - V(interleaved) runs one of each arm, then again; what changes slowly on a host then falls on all of them. V(blocks) runs all runs of an arm
        after another.
    type: str
    default: interleaved
  rounds:
    description: How many runs each arm gets, 1 to 1000. With two or more, intervals are over runs.
    type: raw
    default: 1
  study_id:
    description:
      - Name of the study's directory. One that exists is refused, unless it holds an unfinished study of the same plan.
      - If not given, the newest study is continued where it is unfinished and of the same plan; otherwise a new one begins.
    type: str
  resume:
    description: With V(false) an unfinished study is not continued.
    type: bool
    default: true
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Compare four profiles, three runs each
  memstretch.density.study:
    profiles: dram,swap_2018,swap,zram
    rounds: 3
    run: "{{ checked }}"
"""

RETURN = r"""
study:
  description: The C(id) of the study, and the C(directory) that holds C(study.json) and the comparison.
  returned: always
  type: dict
"""
