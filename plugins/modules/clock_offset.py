#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: clock_offset
short_description: Measure the offset of a host's clock from the controller's
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Reads the host's time several times over the open connection, and uses the fastest of these exchanges.
extends_documentation_fragment:
  - memstretch.density.controller_action
options:
  samples:
    description: Number of exchanges, from 1 to 100.
    type: int
    default: 3
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Compare the clocks
  memstretch.density.clock_offset:
  register: clock
"""

RETURN = r"""
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
