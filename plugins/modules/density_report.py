#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: density_report
short_description: Judge a run from its files
version_added: 1.0.0
description:
  - Reads the files of a run, writes C(summary.json), C(report.html), C(report.txt), C(cells.csv), C(hosts.csv),
    C(metrics.prom) and the histogram logs, and prints the table and the verdict.
  - Fails if the run is incomplete or not valid, whatever its figures; the callback that wrote the files cannot fail a
    play.
  - Runs on the controller.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
  - memstretch.density.prices
options:
  run_id:
    description: Name of the run; V(latest) is the newest run.
    type: str
    default: latest
  slo_avg_us:
    description: SLO for the average latency, 0.001 to 1e9 microseconds, instead of the run's own.
    type: raw
  slo_p99_us:
    description: SLO for the 99th percentile of the latency, 0.001 to 1e9 microseconds, instead of the run's own.
    type: raw
  slo_enforce:
    description: Whether to fail unless the verdict is V(pass).
    type: bool
    default: false
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Judge the newest run, and fail a pipeline if it misses the SLO
  memstretch.density.density_report:
    slo_enforce: true
"""

RETURN = r"""
density_report:
  description:
    - The C(run_id), the C(directory) of C(summary.json), and the C(verdict), which is V(pass), V(fail), V(undecided) or
      V(invalid).
  returned: except in check mode
  type: dict
"""
