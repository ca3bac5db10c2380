#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: endpoint_info
short_description: Compare the clock of a host with the controller's, and ask the Redis that it will load for its state
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Reads in one task what a run must know of a host before it begins.
  - Reads the host's time three times over the open connection, and uses the fastest of these exchanges.
options:
  client:
    description:
      - The options of P(memstretch.density.solotest#module), without C(password) and C(mode). Without them no Redis is
        asked.
    type: dict
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
  memstretch.density.endpoint_info:
    client: {executable: /opt/solotest/solotest, host: 127.0.0.1, port: 7001}
"""

RETURN = r"""
endpoint_info:
  description: An entry of the option C(fleet) of P(memstretch.density.benchmark_run#module).
  returned: when the Redis answers
  type: dict
clock_offset:
  description: The host's clock minus the controller's, in seconds.
  returned: success
  type: float
  sample: 0.0021
clock_uncertainty:
  description: The largest possible error of the offset in seconds, half of the duration of the fastest exchange.
  returned: success
  type: float
  sample: 0.0034
clock_read_at:
  description: When the offset was measured, by the controller's clock, in seconds since the epoch.
  returned: success
  type: float
  sample: 1793000000.25
clock_correction:
  description: The offset if it is larger than its uncertainty, otherwise 0.
  returned: success
  type: float
  sample: 0.0
"""
