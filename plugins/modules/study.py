#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The file of this name in plugin_utils/controller does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: study
short_description: Compare profiles or the settings of one, or search for faster values
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Runs C(site.yml) of this collection once for each run, in its own process, with the inventory, variables and
    connection options of the current playbook.
  - With O(kind=profiles) and O(kind=ablation), compares the runs with the first arm and writes C(study.json),
    C(comparison.json), C(comparison.txt) and C(comparison.html). Fails at the end if a run is invalid or failed; the
    other runs are compared nevertheless.
  - With O(kind=optimize), tries the candidates that a profile names for its settings. Screening measures the profile
    and all candidates in the same rounds and drops the slower half, until at most three are left. These are confirmed
    in new rounds, with a 95 % interval of the ratio to the profile and with Holm's correction for their number. If
    several settings are confirmed, they are measured together.
  - A candidate is proposed only if its O(figure) is significantly lower than the profile's, and the other figure is not
    significantly higher. A figure is that of the upper bound (C(intended)), as the geometric mean over the cells. A
    candidate whose run fails, that loses a host, or that changes nothing on the hosts is set aside and named. Writes
    C(optimize.json), C(optimize.txt), and a profile file if a candidate is proposed.
  - At the end, also after a failure or an interruption, runs C(teardown.yml) and C(restore.yml).
  - Continues an interrupted study; finished runs and phases are kept.
  - Measures an invalid run again as a new run, called C(<run>-attempt2) (3, ...). All attempts are kept and listed in
    the study's file, and a comparison shows how many were discarded and what would follow if these had failed. Nothing
    is measured again because it failed or is undecided.
  - An option that the kind of study does not read is refused.
  - Runs on the controller. What Ansible asks for with C(-K) or C(-k) reaches each run. To ask for a vault password is
    refused; use a password file.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
  - memstretch.density.prices
  - memstretch.density.checked_site
  - memstretch.density.resumed
options:
  kind:
    description:
      - V(profiles) compares O(profiles). V(ablation) leaves out the settings of O(profile) one at a time; the profile
        itself is measured twice in each round, as an A/A test. V(optimize) searches for faster values of them.
      - O(prices) and O(cost_example) are not for V(optimize).
    type: str
    choices: [profiles, ablation, optimize]
    default: profiles
  profiles:
    description: With O(kind=profiles), names or paths of two or more profiles, as a list or one text with commas. The
      others are compared with the first. One that is named again makes an A/A test, whose arms must not differ.
    type: raw
  order:
    description:
      - With O(kind=profiles), V(interleaved) runs each arm once, then the next round; slow changes of a host then
        affect all arms alike. V(blocks) runs all runs of one arm, then the next arm. An ablation is interleaved.
    type: str
    default: interleaved
  profile:
    description: With O(kind=ablation) and O(kind=optimize), name or path of the profile.
    type: str
  data:
    description: Its content, from the lookup P(memstretch.density.host_profile#lookup).
    type: dict
  settings:
    description: Names of the settings that are left out, or whose candidates are tried, as a list or one text with
      commas. All if empty.
    type: raw
  put_back:
    description: With O(kind=ablation), compare with the profile without these settings, and add one at a time.
    type: bool
    default: false
  reboot:
    description: With O(kind=ablation), whether to include arguments of the kernel command line, for which the hosts are
      rebooted.
    type: bool
    default: false
  figure:
    description: With O(kind=optimize), what is made smaller, V(avg_us) or V(p99_us). The other one must not become
      worse.
    type: str
    default: avg_us
  screening_rounds:
    description: With O(kind=optimize), rounds before screening drops the slower half, 1 to 100.
    type: raw
    default: 2
  minutes:
    description:
      - With O(kind=optimize), the time budget of all runs in minutes, 1 to 100,000. What the runs have taken so far
        decides how many more fit.
      - If the time is short, screening ends early first, then the confirmation has fewer candidates, then fewer rounds.
        A run that has begun is finished.
    type: raw
    default: 240
  rounds:
    description:
      - Runs of each arm, 1 to 1000. A ratio has an interval only with three or more. The default is 5.
      - With O(kind=optimize), rounds of a confirmation, at least 3. The default is 12.
    type: raw
  attempts:
    description: Attempts at each run, 1 to 99, of which all but the last may be invalid. Not a setting of the study,
      which another number continues.
    type: raw
    default: 3
  study_id:
    description:
      - Name of the study's directory. An existing directory is refused, unless it holds an unfinished study with the
        same settings.
      - By default the newest study is continued if it is unfinished and has the same settings; otherwise a new one
        starts.
    type: str
  run:
    description:
      - The settings that all runs have in common, as M(memstretch.density.benchmark_run) returns them with
        O(memstretch.density.benchmark_run#module:state=checked). A study that was begun with another load, matrix, SLO
        or fleet is not continued.
    type: dict
    required: true
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Compare four profiles, three runs each
  memstretch.density.study:
    profiles: dram,swap_2018,swap,zram
    rounds: 3
    run: "{{ checked }}"

- name: Search for better values of two settings
  memstretch.density.study:
    kind: optimize
    profile: zram
    data: "{{ host_tuning_profile_data }}"
    settings: vm.page-cluster,vm.watermark_scale_factor
    run: "{{ checked }}"
"""

RETURN = r"""
study:
  description:
    - The C(id) of the study, and the C(directory) of its files.
    - In check mode without O(kind=optimize), C(profiles), those that are compared.
    - With O(kind=optimize), except in check mode, C(proposed), the candidates that beat the profile, and C(profile),
      the path of the file with them (null if there are none).
  returned: always
  type: dict
"""
