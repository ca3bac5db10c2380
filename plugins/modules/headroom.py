#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The file of this name in plugin_utils/controller does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: headroom
short_description: Forecast how many more VMs fit on live hosts, and whether today's number is safe
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Computes from what P(memstretch.density.headroom_info#module) saw on each host how many more VMs like those that run
    there fit, the page-ins that they would cause, a verdict (C(safe), C(near), C(over) or C(unknown)) with its reason,
    and whether the VMs of the largest other host would fit as well.
  - The model is Denning's relation between active memory and page-ins, with one age for the whole host.
  - Writes C(headroom.json), whose schema is C(docs/schemas/headroom.json), C(headroom.txt), and the page
    C(report.html).
  - The playbook C(headroom.yml) uses it.
  - Runs on the controller.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
options:
  run_id:
    description: Name of the result's directory below O(results_dir). Empty for C(headroom) and the time.
    type: str
    default: ""
  state:
    description:
      - V(answered) computes and writes everything. V(first) only shows the sentence of each host, and writes nothing.
      - V(checked) only checks the options.
    type: str
    choices: [checked, first, answered]
    default: answered
  looks:
    description: For each host the result of P(memstretch.density.headroom_info#module). Needed except to check.
    type: dict
    default: {}
  like:
    description: The unit whose copies are added. Empty for the one with the median use of memory.
    type: str
    default: ""
  compression:
    description:
      - How well zram or zswap compresses, 1 to 100 times. Empty for what the host shows, or else 2, labelled as
        assumed.
    type: raw
    default: ""
  page_in_us:
    description:
      - How long a page-in takes, 0.1 to 1,000,000 microseconds. Empty for what the drives of the host show, or else 30
        for zram and zswap, 150 for a drive and 300 for a file, labelled as assumed.
    type: raw
    default: ""
  waiting:
    description: The largest part of the time that a unit may wait for page-ins, 0.01 to 100 percent.
    type: raw
    default: 1
  reserve:
    description: The part of the DRAM that is left free, 0 to 90 percent.
    type: raw
    default: 5
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Forecast the headroom
  memstretch.density.headroom:
    looks: "{{ {'kv1': found} }}"
"""

RETURN = r"""
headroom:
  description: The content of C(headroom.json).
  returned: unless O(state=checked)
  type: dict
"""
