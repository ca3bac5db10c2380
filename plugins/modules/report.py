#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The file of this name in plugin_utils/controller does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Judge a run, compare runs, or save the result of an experiment
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Of a run, reads its files, writes C(summary.json), C(report.html), C(report.txt), C(cells.csv), C(hosts.csv),
    C(metrics.prom) and the histogram logs, and prints the table and the verdict. Fails if the run is incomplete or not
    valid, whatever its figures; the callback that wrote the files cannot fail a play.
  - For a comparison, reads the files of two or more runs. Prints for each cell the latency under each profile and its
    ratio to the first run, with the page-ins that explain it. Writes C(comparison.json), C(comparison.txt) and
    C(comparison.html), and lists the differences between the runs other than their profiles.
  - A comparison may also be of results of the role P(memstretch.density.throughput_benchmark#role), also of different
    hosts. These are shown like a result of that role, in C(throughput_benchmark.json), C(throughput_benchmark.txt) and
    C(report.html).
  - Of an experiment, writes C(<experiment>.json) and C(<experiment>.txt) to the directory of a run, or to a new one,
    shows the tables, and updates the experiment's section in C(report.html). If a host has no result, saves the results
    of the others and then fails. The roles of the experiments use it.
  - An option that the kind of report does not read is refused.
  - Runs on the controller.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
  - memstretch.density.prices
options:
  of:
    description: What is reported. O(prices) and O(cost_example) are for V(run) and V(comparison).
    type: str
    choices: [run, comparison, experiment]
    default: run
  run_id:
    description:
      - Name of the run. With O(of=run), the default is V(latest), the newest run.
      - With O(of=experiment), the run that the result belongs to. The default is a new directory, named after the
        experiment and the time.
    type: str
  slo_avg_us:
    description: With O(of=run), SLO for the average latency, 0.001 to 1e9 microseconds, instead of the run's own.
    type: raw
  slo_p99_us:
    description: With O(of=run), SLO for the 99th percentile of the latency, 0.001 to 1e9 microseconds, instead of the
      run's own.
    type: raw
  slo_enforce:
    description: With O(of=run), whether to fail unless the verdict is V(pass).
    type: bool
    default: false
  runs:
    description: With O(of=comparison), names of two or more runs, or results. The others are compared with the first
      one.
    type: list
    elements: str
  name:
    description: With O(of=comparison), name of the directory of the comparison, below O(results_dir).
    type: str
    default: comparison
  experiment:
    description: With O(of=experiment), what was measured.
    type: dict
    suboptions:
      name:
        description: Name of the experiment.
        type: str
        choices: [memory_bandwidth, throughput_benchmark, writeback_benchmark]
        required: true
      state:
        description:
          - V(checked) writes nothing; it fails if V(kept) could not save the result. With O(experiment.definition), it
            returns the parts of the experiment that are saved already.
          - V(part) saves O(experiment.parts) of an experiment that is measured in several parts, so that an
            interruption loses nothing. V(kept) removes what V(part) saved when no result is missing.
        type: str
        choices: [checked, part, kept]
        default: kept
      expected:
        description: Names of the hosts, or of the arms of V(throughput_benchmark), that must have a result.
        type: list
        elements: str
        default: []
      hosts:
        description: Result of each host.
        type: dict
        default: {}
      definition:
        description:
          - Everything that must be the same for all parts of an experiment that is measured in parts. Parts with
            another definition are refused.
          - Without O(run_id), O(experiment.state=checked) chooses the newest unfinished experiment with this
            definition, or a new directory. Needed with O(experiment.state=part).
        type: dict
      parts:
        description: Results of V(throughput_benchmark), one of each arm in each round, by name, instead of
          O(experiment.hosts).
        type: dict
        default: {}
      resume:
        description: With O(experiment.state=checked) and O(experiment.definition), whether to continue an unfinished
          experiment.
        type: bool
        default: true
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Judge the newest run, and fail a pipeline if it misses the SLO
  memstretch.density.report:
    slo_enforce: true

- name: Compare swap and zram with DRAM alone
  memstretch.density.report:
    of: comparison
    runs: [dram-1, swap-1, zram-1]

- name: Save the result of an experiment
  memstretch.density.report:
    of: experiment
    experiment:
      name: memory_bandwidth
      expected: [kvm01]
      hosts:
        kvm01: "{{ measured.memory_bandwidth }}"
"""

RETURN = r"""
report:
  description:
    - The C(directory) of the files; of a run or an experiment its C(run_id).
    - Of a run its C(verdict), which is V(pass), V(fail), V(undecided) or V(invalid). With O(experiment.state=checked)
      the saved C(parts).
  returned: with O(of=comparison); otherwise except in check mode and when only checked without a definition
  type: dict
comparison:
  description: The contents of C(comparison.json) or C(throughput_benchmark.json).
  returned: O(of=comparison)
  type: dict
"""
