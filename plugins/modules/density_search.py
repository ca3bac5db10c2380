#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: density_search
short_description: Search for the largest fleet whose hosts all meet the SLO
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Probes fleets of different sizes, each probe in its own process, with the inventory, variables and connection
    options of the current playbook. The profiles take turns. The next size is where the
    number of hosts that pass 90 % or 50 % of their probes, N90 and N50, is expected after the probes so far.
  - Reports N90 and N50 with 95 % intervals, for the probes that pass and for those that do not fail, and their ratios
    to the first profile's. With few probes or a wide interval they are called indicative.
  - The search under a profile ends when the interval of N90 is narrow enough, or when its probes are used.
  - A host that dies in a probe misses the SLO. An invalid probe is repeated as a whole, at most twice; then it counts
    as undecided. All attempts are reported, with the density if all of the invalid ones had failed.
  - Writes C(density.json), C(density.txt) and C(density.html).
  - At the end, also after a failure or an interruption, runs C(teardown.yml) and C(restore.yml).
  - Continues an interrupted search; its probes are kept.
  - Runs on the controller. Options that prompt for a password are refused; use password files.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
  - memstretch.density.prices
  - memstretch.density.checked_run
  - memstretch.density.checked_site
  - memstretch.density.resumed
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
    description: The first size to probe. By default the median of what is possible; one near the expected density saves
      a few probes.
    type: raw
  probes:
    description: The most probes under each profile, 1 to 1,000. To know N90 within 10 % takes about 30 where the fleet
      fails abruptly, and 70 and more where it fails gradually.
    type: raw
    default: 40
  factor:
    description: The search under a profile ends when the high end of the interval of N90 is at most this multiple of
      the low end, 1.01 to 100.
    type: raw
    default: 1.25
  target:
    description: A multiple of what the first profile carries, 0.1 to 100. The search under another profile then ends as
      soon as the interval of its multiple is above or below it as a whole, and probes the size that decides that; the
      first profile has about twelve probes. By default both densities are searched for.
    type: raw
    default: ""
  overcommit:
    description:
      - Multiples of the hosts that fit into DRAM, 0.1 to 100, as a list or one text with commas, such as C(2,3,3.5).
        Fleets of these sizes are then probed in turn, each up to its last phase, until O(probes) are used; no size is
        searched for. Needs O(slo=calibrated), which measures how many fit.
      - Reports the latency and the CPU time of a request at each size, and the share of the gap between the first
        profile and DRAM alone that each other profile closes.
    type: raw
    default: ""
  probe:
    description:
      - Variables that make a probe shorter than a run. By default one measured iteration of each cell, and no more
        phases once a host can no longer meet the SLO (C(latency_benchmark_iterations),
        C(latency_benchmark_stop_when_failed)).
    type: dict
    default: {}
  slo:
    description: V(calibrated) takes the objective from the machine itself. It is O(slo_factor) times what DRAM alone
      does with half of the hosts that fit, which is measured first, under the profile C(dram); average and p99 of the
      worst host. Empty takes that of O(run).
    type: str
    default: ""
  slo_factor:
    description: How many times the latency of DRAM alone is allowed, 1 to 1000.
    type: raw
    default: 1.5
  minutes:
    description: Start no probe that would probably end more than this many minutes after the beginning, from 1 to
      100,000; each profile has at least one probe. By default there is no limit.
    type: raw
  density_id:
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
      under each profile, the N90 of the probes that pass. C(density.json) has the intervals.
  returned: always
  type: dict
"""
