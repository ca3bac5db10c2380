#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The file of this name in plugin_utils/controller does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: density
short_description: Find how many Redis servers, containers or VMs fit into a DRAM budget under each profile
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Conducts ramps. In a ramp the fleet grows step by step under one profile until a server dies, the budget cannot be
    met, or the objective is clearly missed. Each step is looked at for a short time. References that stay in DRAM are
    loaded next to the fleet. They show what the machine alone does at that moment.
  - The density is where the curve of a ramp crosses the objective. With three rounds or more it has a 95 % interval.
    The result names what ends it, which is capacity, memory, the drive, the CPUs or the CPU time of the tier.
  - The servers start on the hosts of the group C(hypervisors). The hosts of the group C(fleet) name them and say their
    ports and their load. Each belongs to the hypervisor that Ansible reaches in the same way.
  - If the hosts of the group C(fleet) are VMs of the role C(vm_fleet), these are started instead, and shut down after
    each ramp. They must be shut down before, and start a Redis that their hypervisor can reach. VMs of the group
    C(references) are the references, and none are without them.
  - Several hypervisors conduct their ramps at the same time, each within the same budget and next to references of its
    own. Each has a density and a directory of its own, and the result also says what they carry together.
  - Each ramp runs in its own process, with the inventory, variables and connection options of the current playbook.
    The order of the profiles is balanced over the rounds.
  - Writes C(ramps/PROFILE-ROUND.json) for each ramp, and after each of them C(density.json), C(density.txt),
    C(density.html), C(density.csv) and C(density.prom), the last for Prometheus.
  - At the end, also after a failure or an interruption, runs C(restore.yml).
  - Continues an interrupted density with the next ramp. A ramp that was interrupted is conducted again.
  - In check mode it checks its options and does nothing else.
  - Runs on the controller. What Ansible asks for with C(-K) or C(-k) reaches each run. To ask for a vault password is
    refused; use a password file.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
  - memstretch.density.prices
  - memstretch.density.checked_site
  - memstretch.density.resumed
options:
  profiles:
    description: Names or paths of profiles, as a list or one text with commas. Densities are also given as multiples
      of the first. For O(slo=relative) the first must be C(dram), which has no tier.
    type: raw
    required: true
  rounds:
    description: Ramps of each profile, 1 to 100. The first is coarse, the others look closely at where it ended.
    type: raw
    default: 3
  once:
    description: Those of O(profiles) that have only one ramp, in the first round. Their density has no interval.
    type: raw
    default: []
  budget:
    description: The DRAM that the fleet may be charged, such as V(256M), from 16 MiB. It counts what zram and zswap
      hold for the fleet.
    type: raw
  max:
    description: The largest fleet on a machine, 1 to 10,000. By default all hosts of the group C(fleet) there.
    type: raw
  references:
    description: Servers that stay in DRAM, 0 to 1,000. By default 6. More of them make the result more precise. For VMs
      at most, and by default, those of the group C(references).
    type: raw
  slo:
    description:
      - V(relative) allows the fleet to be at most O(factor) times as slow as its references, and these as idle DRAM, on
        average and at the p99.
      - V(absolute) takes the limits in microseconds from C(latency_benchmark_slo_avg_us) and
        C(latency_benchmark_slo_p99_us) of the fleet.
    type: str
    default: relative
  factor:
    description: How many times as slow as in DRAM is allowed, 1.01 to 100. By default 2. Only for O(slo=relative).
    type: raw
  scope:
    description: V(every) demands that the fleet as a whole and each server meet the objective, V(fleet) the fleet as a
      whole.
    type: str
    default: every
  growth:
    description: Share by which a step of the first round is larger than the one before, 0.01 to 1. By default 0.1.
    type: raw
  window:
    description: Seconds for which a step is looked at, 1 to 3600. By default 4. A small fleet is looked at until it
      has answered 2,000 requests.
    type: raw
  settle:
    description: The longest time in seconds until reclaim is steady after servers have joined, 1 to 600. By default 15.
    type: raw
  wait:
    description: How many seconds a ramp may spend on further looks at sizes whose windows were disturbed, and on
      waiting until no CPU time is stolen, 0 to 86,400. By default 300. After that it looks at each size twice at most.
    type: raw
  max_stolen:
    description: The share of a CPU's time that other machines may take in a window, 0 to 1. By default 0.0025. A window
      in which they took more is disturbed, and counts for nothing.
    type: raw
  hold:
    description: Minutes for which the density is held at the end, 0 to 1440. By default 0. If it does not hold, a
      smaller fleet is held.
    type: raw
  touch:
    description: Seconds for which the held fleet is looked at after all of its servers were touched at once, as by a
      backup, 0 to 3600. By default 0. Only with O(hold). A size at which the kernel then kills a server did not hold.
    type: raw
  written:
    description: The most that one ramp may write to swap drives, such as V(4G), from 1 MiB. By default 2G. A ramp that
      has written so much ends.
    type: raw
  image:
    description:
      - Name of an image with a Redis or Valkey, such as V(docker.io/library/redis:7). The servers and the references
        are then containers of podman on the hypervisors. Without it they are plain processes.
      - Podman pulls the image if a hypervisor does not have it.
    type: raw
  density_id:
    description:
      - Name of the directory. An existing directory is refused, unless it holds an unfinished density with the same
        settings.
      - By default the newest density is continued if it is unfinished and has the same settings; otherwise a new one
        starts.
    type: str
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Find how many servers fit in DRAM alone and with compressed memory
  memstretch.density.density:
    profiles: dram,zram
    budget: 256M
"""

RETURN = r"""
density:
  description: The C(id) of the density, the C(directory) of C(density.json), and C(found), the density under each
    profile, of several machines by their names. C(density.json) has the intervals.
  returned: success, not in check mode
  type: dict
profiles:
  description: The profiles as a list.
  returned: in check mode
  type: list
  elements: str
plans:
  description: Private. For each hypervisor the plan of its ramps, as far as it is known. Empty if the density is
    finished.
  returned: in check mode
  type: dict
"""
