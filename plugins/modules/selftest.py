#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The file of this name in plugin_utils/controller does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: selftest
short_description: Try on hypervisors what a study needs, and restore them
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Runs the checks of the role P(memstretch.density.selftest#role) on hosts, and afterwards, also after a failure or
    after Ctrl-C, the playbook that restores the hosts.
  - Shows what each check found, and writes C(selftest/selftest.json) below O(results_dir), for a bug report. Fails if a
    check failed, and names it.
  - The checks run in playbooks of their own, with the inventory and the variables of this one, but without its
    C(--limit).
  - In check mode only checks run that change nothing, and no file is written.
  - Runs on the controller. Use it with C(run_once).
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.results_dir
options:
  hosts:
    description: Inventory names of the hosts.
    type: list
    elements: str
    required: true
  checks:
    description: Names of the checks. They run in the order of the default.
    type: list
    elements: str
    choices: &checks
      - clock
      - transport
      - kvm
      - drives
      - profiles
      - kernel_arguments
      - masters
      - page_in
      - budget
      - pressure
      - headroom
      - vm
      - guest_arguments
    default: *checks
  host_names:
    description: Whether names and addresses of hosts, and serial numbers and paths of drives, stay in the file.
    type: bool
    default: false
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Try the hypervisors
  memstretch.density.selftest:
    hosts: "{{ ansible_play_hosts_all }}"
  run_once: true
  delegate_to: localhost
"""

RETURN = r"""
selftest:
  description: C(failed), the failed checks, such as C(budget on kvm01), and C(path) of the file, null in check mode.
  returned: always
  type: dict
"""
