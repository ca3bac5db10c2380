#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: solotest_answer
short_description: Return what the client of one host has answered
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Takes the part of this host from the result of P(memstretch.density.solotest_clients#module), which one host has run
    for all hosts of its machine. It fails if the client of this host has failed.
extends_documentation_fragment:
  - memstretch.density.controller_action
options:
  answers:
    description: The registered result of P(memstretch.density.solotest_clients#module), by inventory names.
    type: dict
    required: true
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Check the answer of each Redis
  memstretch.density.solotest_answer:
    answers: "{{ hostvars['redis01'].asked }}"
  register: answer
"""

RETURN = r"""
solotest:
  description: As returned by P(memstretch.density.solotest#module).
  returned: when the client ran
  type: dict
job:
  description: As returned by P(memstretch.density.solotest#module).
  returned: when the client was launched in the background
  type: dict
"""
