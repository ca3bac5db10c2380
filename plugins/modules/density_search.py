#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: density_search
short_description: Search the largest fleet whose hosts all meet the SLO
version_added: 0.1.0
description:
  - Plays C(site.yml) of this collection with fleets of different sizes, in processes of their own with the inventory, variables and connection
    options of the playbook that is played. The size doubles as long as all hosts meet the SLO, then the boundary is narrowed by halves, and
    the sizes on both sides of it are probed again.
  - A size is decided by the majority of its probes. A host that dies in a probe counts as one that misses the SLO. A probe that is not valid for
    another reason is repeated once and is never a pass.
  - Writes C(density.json), C(density.txt) and C(density.html).
  - At the end, also after a failure or an interruption, C(teardown.yml) and C(restore.yml) are played.
  - A search that was interrupted is continued; its probes are kept.
  - Runs on the controller. What asks for a password on the terminal is refused; give passwords in files.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
  - memstretch.density.prices
  - memstretch.density.checked_run
options:
  profiles:
    description: Names or paths of profiles, a list or one text with commas. The densities are given as multiples of the first one's.
    type: raw
    required: true
  maximum:
    description: The largest fleet to probe, 1 to 100,000. The hosts of the group C(fleet) if not given; a fleet of VMs needs it.
    type: raw
  start:
    description: The first size to probe. One near the expected density saves probes.
    type: raw
    default: 1
  repeats:
    description: How many valid probes decide a size beside the boundary, 1 to 99; two of three that agree are enough.
    type: raw
    default: 3
  probe:
    description:
      - Variables that make a probe shorter than a run. One measured iteration of each cell, and no more phases once a host cannot meet
        the SLO any more (C(latency_benchmark_iterations), C(latency_benchmark_stop_when_failed)) unless they are given here.
    type: dict
    default: {}
  density_id:
    description:
      - Name of the directory. One that exists is refused, unless it holds an unfinished search of the same plan.
      - If not given, the newest search is continued where it is unfinished and of the same plan; otherwise a new one begins.
    type: str
  resume:
    description: With V(false) an unfinished search is not continued.
    type: bool
    default: true
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: How many hosts meet the SLO in DRAM alone, and how many with swap
  memstretch.density.density_search:
    profiles: dram,swap
    run: "{{ checked }}"
    probe:
      latency_benchmark_influences: [10]
      latency_benchmark_read_mixes: [70]
"""

RETURN = r"""
density:
  description:
    - The C(id) of the search, the C(directory) that holds C(density.json), and, unless in check mode, C(found), the density under each profile.
  returned: always
  type: dict
"""
