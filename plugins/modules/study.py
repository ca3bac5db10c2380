#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: study
short_description: Run the same load under one profile after another, and compare
version_added: 1.0.0
description:
  - Runs C(site.yml) of this collection once for each run, in its own process, with the inventory, variables and
    connection options of the current playbook. Then compares the runs with the first arm and writes C(study.json),
    C(comparison.json), C(comparison.txt) and C(comparison.html).
  - At the end, also after a failure or an interruption, runs C(teardown.yml) and C(restore.yml).
  - Continues an interrupted study; finished runs and phases are kept.
  - Measures an invalid run again as a new run, called C(<run>-attempt2) (3, ...). All attempts are kept, C(study.json)
    lists them, and the comparison shows how many were discarded and what would follow if these had failed. Nothing is
    measured again because it failed or is undecided.
  - Fails at the end if a run is invalid or failed; the other runs are compared nevertheless.
  - Runs on the controller. Options that prompt for a password are refused; use password files.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
  - memstretch.density.prices
  - memstretch.density.checked_run
  - memstretch.density.checked_site
  - memstretch.density.resumed
  - memstretch.density.run_attempts
options:
  profiles:
    description: Names or paths of two or more profiles, as a list or one text with commas. The others are compared
      with the first. One that is named again makes an A/A test, whose arms must not differ.
    type: raw
  ablation:
    description: Instead of O(profiles), one profile whose settings are left out one at a time. The profile itself is
      measured twice in each round, as an A/A test.
    type: dict
    suboptions:
      profile:
        description: Its name or path.
        type: str
        required: true
      data:
        description: Its content, from the lookup P(memstretch.density.host_profile#lookup).
        type: dict
        required: true
      settings:
        description: Names of the settings, as a list or one text with commas. All if empty.
        type: raw
      put_back:
        description: Compare with the profile without these settings, and add one at a time.
        type: bool
        default: false
      reboot:
        description: Whether to include arguments of the kernel command line, for which the hosts are rebooted.
        type: bool
        default: false
  order:
    description:
      - V(interleaved) runs each arm once, then the next round; slow changes of a host then affect all arms alike.
        V(blocks) runs all runs of one arm, then the next arm; it is refused for an ablation.
    type: str
    default: interleaved
  rounds:
    description: Runs of each arm, 1 to 1000. A ratio has an interval only with three or more.
    type: raw
    default: 5
  study_id:
    description:
      - Name of the study's directory. An existing directory is refused, unless it holds an unfinished study with the
        same settings.
      - By default the newest study is continued if it is unfinished and has the same settings; otherwise a new one
        starts.
    type: str
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
  description: The C(id) of the study, and the C(directory) of C(study.json) and the comparison.
  returned: always
  type: dict
"""
