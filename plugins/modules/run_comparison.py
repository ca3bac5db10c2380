#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: run_comparison
short_description: Compare runs with each other
version_added: 1.0.0
description:
  - Reads the files of two or more runs and prints, for each cell, the latency under each profile and its ratio to
    the first run, with the page-ins that explain it. Writes C(comparison.json), C(comparison.txt) and
    C(comparison.html).
  - Lists the differences between the runs other than their profiles.
  - Also compares results of the role P(memstretch.density.throughput_benchmark#role), which may be of different hosts.
    These are shown like a result of that role, in C(throughput_benchmark.json), C(throughput_benchmark.txt) and
    C(report.html).
  - Runs on the controller.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
  - memstretch.density.prices
options:
  runs:
    description: Names of the runs, or of the results. The others are compared with the first one.
    type: list
    elements: str
    required: true
  name:
    description: Name of the directory of the comparison, below O(results_dir).
    type: str
    default: comparison
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Compare swap and zram with DRAM alone
  memstretch.density.run_comparison:
    runs: [dram-1, swap-1, zram-1]
"""

RETURN = r"""
comparison:
  description: The contents of C(comparison.json) or C(throughput_benchmark.json).
  returned: always
  type: dict
published:
  description: The C(directory) of the comparison. In check mode it has no files.
  returned: always
  type: dict
"""
