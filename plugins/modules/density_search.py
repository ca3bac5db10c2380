#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: density_search
short_description: Search for the largest fleet whose hosts all meet the SLO
version_added: 0.1.0
description:
  - Runs C(site.yml) of this collection with fleets of different sizes, in separate processes, with the inventory,
    variables and connection options of the current playbook. The size doubles as long as all hosts meet the SLO, then
    the boundary is bisected, and the sizes on both sides of it are probed again.
  - The majority of its probes decides a size. A host that dies in a probe counts as a host that misses the SLO. A
    probe that is invalid for another reason is repeated once and never passes.
  - Writes C(density.json), C(density.txt) and C(density.html).
  - At the end, also after a failure or an interruption, runs C(teardown.yml) and C(restore.yml).
  - Continues an interrupted search; its probes are kept.
  - Runs on the controller. Options that prompt for a password are refused; use password files.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
  - memstretch.density.prices
  - memstretch.density.checked_run
options:
  profiles:
    description: Names or paths of profiles, as a list or one text with commas. Densities are also given as multiples
      of the first.
    type: raw
    required: true
  maximum:
    description: The largest fleet to probe, 1 to 100,000. By default the size of the group C(fleet); required for a
      fleet of VMs.
    type: raw
  start:
    description: The first size to probe. One near the expected density saves probes.
    type: raw
    default: 1
  repeats:
    description: How many valid probes decide a size next to the boundary, 1 to 99; two of three that agree are enough.
    type: raw
    default: 3
  probe:
    description:
      - Variables that make a probe shorter than a run. By default one measured iteration of each cell, and no more
        phases once a host can no longer meet the SLO (C(latency_benchmark_iterations),
        C(latency_benchmark_stop_when_failed)).
    type: dict
    default: {}
  density_id:
    description:
      - Name of the directory. An existing directory is refused, unless it holds an unfinished search with the same
        settings.
      - By default the newest search is continued if it is unfinished and has the same settings; otherwise a new one
        starts.
    type: str
  resume:
    description: Whether to continue an unfinished search.
    type: bool
    default: true
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Find the density in DRAM alone and with swap
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
    - The C(id) of the search, the C(directory) of C(density.json), and, except in check mode, C(found), the density
      under each profile.
  returned: always
  type: dict
"""
