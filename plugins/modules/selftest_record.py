#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The file of this name in plugin_utils/controller does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: selftest_record
short_description: Keep what a check of the self-test found on a host
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Writes a finding of a host into a directory on the controller, in place of an earlier finding of this name.
    M(memstretch.density.selftest) makes one file of them.
  - Runs on the controller. In check mode it writes too, because check mode is meant for the host, and the directory is
    a temporary one then.
options:
  directory:
    description: Directory on the controller. It is created if it is missing.
    type: path
    required: true
  host:
    description: Inventory name of the host.
    type: str
    required: true
  name:
    description:
      - Name of the check; or C(about), C(before) and C(after), which describe the host and its settings, C(begin), if
        the checks could not begin, and C(put_back), if the host could not be restored.
    type: str
    choices:
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
      - about
      - before
      - after
      - begin
      - put_back
    required: true
  result:
    description:
      - Result of a check. V(begun) notes that it runs. V(failed) keeps the figures that this check has recorded since.
      - Without it O(found) is kept as it is.
    type: str
    choices: [begun, passed, failed, skipped]
  reason:
    description: Why it has this result.
    type: str
    default: ""
  failure:
    description: What Ansible says about a task that has failed, C(ansible_failed_result), instead of O(reason).
    type: dict
  advice:
    description: What to do about it.
    type: str
    default: ""
  found:
    description: Figures.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying the target.
    support: full
    details: Changes no host in either mode.
  diff_mode:
    description: Returns details on what has changed, or would change in check mode, when in diff mode.
    support: none
    details: There are no settings to compare.
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Record the check
  memstretch.density.selftest_record:
    directory: results/selftest/parts
    host: "{{ inventory_hostname }}"
    name: clock
    result: passed
    reason: 0.002 s from the controller's
"""

RETURN = r"""#"""
