#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: optimize
short_description: Search for values of a profile's settings that are faster on these hosts
version_added: 1.0.0
description:
  - Tries the candidates that a profile names for its settings. Runs C(site.yml) of this collection once for each run,
    in its own process, with the inventory, variables and connection options of the current playbook.
  - Screening measures the profile and all candidates in the same rounds and drops the slower half, until at most three
    are left. These are confirmed in new rounds, with a 95 % interval of the ratio to the profile and with Holm's
    correction for their number. If several settings are confirmed, they are measured together.
  - A candidate is proposed only if its O(figure) is lower than the profile's for certain, and the other figure is not
    higher for certain. A figure is that of the upper bound (C(intended)), as the geometric mean over the cells.
  - Writes C(optimize.json), C(optimize.txt), and a profile file if a candidate is proposed.
  - A candidate whose run fails, that loses a host, or that changes nothing on the hosts is set aside and named.
  - At the end, also after a failure or an interruption, runs C(teardown.yml) and C(restore.yml).
  - Continues an interrupted search; its runs are kept. All attempts at a run are listed in C(optimize.json).
  - Runs on the controller. Options that prompt for a password are refused; use password files.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
  - memstretch.density.checked_run
  - memstretch.density.checked_site
  - memstretch.density.resumed
  - memstretch.density.run_attempts
options:
  profile:
    description: Name or path of the profile.
    type: str
    required: true
  data:
    description: Its content, from the lookup P(memstretch.density.host_profile#lookup).
    type: dict
    required: true
  settings:
    description: Names of the settings whose candidates are tried, as a list or one text with commas. All if empty.
    type: raw
  figure:
    description: What is made smaller, V(avg_us) or V(p99_us). The other one must not become worse.
    type: str
    default: avg_us
  screening_rounds:
    description: Rounds before screening drops the slower half, 1 to 100.
    type: raw
    default: 2
  rounds:
    description: Rounds of a confirmation, 3 to 1,000.
    type: raw
    default: 12
  minutes:
    description:
      - The time budget of all runs in minutes, 1 to 100,000. What the runs have taken so far decides how many more fit.
      - If the time is short, screening ends early first, then the confirmation has fewer candidates, then fewer rounds.
        A run that has begun is finished.
    type: raw
    default: 240
  optimize_id:
    description:
      - Name of the directory. An existing directory is refused, unless it holds an unfinished search with the same
        settings.
      - By default the newest search is continued if it is unfinished and has the same settings; otherwise a new one
        starts.
    type: str
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Search for better values of two settings
  memstretch.density.optimize:
    profile: zram
    data: "{{ host_tuning_profile_data }}"
    settings: vm.page-cluster,vm.watermark_scale_factor
    run: "{{ checked }}"
"""

RETURN = r"""
optimize:
  description:
    - The C(id) of the search, the C(directory) of C(optimize.json), and, except in check mode, C(proposed), the
      candidates that beat the profile, and C(profile), the path of the file with them (null if there are none).
  returned: always
  type: dict
"""
