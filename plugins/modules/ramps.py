#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: ramps
short_description: Run a ramp under each profile, round after round
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Conducts a ramp under each profile, each in its own process with the inventory, variables and connection options of
    the current playbook, and shows its windows while it goes on.
  - Writes C(ramps.json), and C(ramps/PROFILE-ROUND.json) for each ramp.
  - At the end, also after a failure or an interruption, runs C(teardown.yml) and C(restore.yml). An interrupted
    sequence continues with the next ramp.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
  - memstretch.density.resumed
options:
  profiles:
    description: Names or paths of profiles, as a list or one text with commas.
    type: raw
    required: true
  rounds:
    description: Ramps of each profile, 1 to 100.
    type: raw
    default: 1
  plan:
    description: The playbook's variables that begin with density_.
    type: dict
    default: {}
  density_id:
    description: Name of the directory. By default the newest unfinished one with the same settings is continued.
    type: str
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Run a ramp in DRAM alone and one with compressed memory
  memstretch.density.ramps:
    profiles: dram,zram
    plan:
      density_budget: 256M
"""

RETURN = r"""
ramps:
  description: The C(id) of the sequence, and the C(directory) of C(ramps.json).
  returned: always
  type: dict
"""
