#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: redis_endpoint
short_description: Ask a Redis for its state, and compare the clock of the host that will load it
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Does in one task what a run must know of a host before it begins.
options:
  client:
    description: The options of P(memstretch.density.solotest#module), without C(password) and C(mode).
    type: dict
    required: true
  password:
    description: The password of the endpoint, if it needs one.
    type: str
  observer:
    description:
      - The observer of the host, as its C(name), the C(host) by which it reaches the Redis, and the C(rate) of its
        requests.
    type: dict
attributes:
  check_mode:
    description: Nothing is sent to the Redis.
    support: full
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Ask each Redis for its state
  memstretch.density.redis_endpoint:
    client: {executable: /opt/solotest/solotest, host: 127.0.0.1, port: 7001}
"""

RETURN = r"""
redis_endpoint:
  description: An entry of the option C(fleet) of P(memstretch.density.benchmark_run#module).
  returned: when the Redis answers
  type: dict
"""
