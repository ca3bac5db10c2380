#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The file of this name in plugin_utils/controller does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: site_check
short_description: Judge whether hosts are steady enough for a study
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Takes what M(memstretch.density.site_noise) measured on each host. Prints the latency and the stolen CPU time,
    and why a host is too noisy. Writes C(site_check/site_check.json) below O(results_dir).
  - A host is too noisy if more of its CPU time than O(max_stolen) was stolen. It also is if the bounds of p99 are
    further apart than O(max_gap) of O(slo_p99_us), because hosts may then come out undecided. If these allow more than
    their defaults, a host beyond the defaults is doubtful, and results are labelled with it.
  - Runs on the controller. Use it with C(run_once).
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
options:
  hosts:
    description: What M(memstretch.density.site_noise) returned on each host, by the host's name. A host that was not
      measured is shown with the reason.
    type: dict
    required: true
  slo_avg_us:
    description: The objective for the average, in microseconds, 0.001 to 1,000,000,000.
    type: raw
    default: 50
  slo_p99_us:
    description: The objective for the p99, in microseconds, 0.001 to 1,000,000,000.
    type: raw
    default: 300
  slo_factor:
    description: Instead of O(slo_p99_us), the objective is this multiple of what the check itself measures on a host,
      1 to 1000. For a study whose objective comes from the machine.
    type: raw
  max_stolen:
    description: The largest share of stolen CPU time, 0 to 1.
    type: raw
    default: 0.01
  max_gap:
    description: How far the bounds of p99 may be apart, as a share of the objective, 0 to 1,000,000,000.
    type: raw
    default: 0.2
  enforce:
    description: Whether to fail if a host is too noisy.
    type: bool
    default: false
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Judge the site
  memstretch.density.site_check:
    hosts:
      kvm01: "{{ hostvars['kvm01'].noise }}"
    enforce: true
  run_once: true
"""

RETURN = r"""
site_check:
  description:
    - C(hosts), by name, with C(median_us) by figure, C(gap_us), C(stolen), C(awake) (whether the CPUs stayed awake when
      they were idle), C(reasons), none if the host is steady enough, and C(doubts).
    - C(measured) has the blocks, C(unmeasured) why a host has none.
  returned: always
  type: dict
labels:
  description: The sentences that results of this site must show, one for each reason and doubt.
  returned: always
  type: list
  elements: str
"""
