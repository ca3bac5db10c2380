#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: clock_offset
short_description: Measure how far a host's clock is off the controller's
version_added: 0.1.0
description:
  - Asks the host for its time over the open connection and takes the quickest of some exchanges.
extends_documentation_fragment:
  - memstretch.density.controller_action
options:
  samples:
    description: Number of exchanges, 1 to 100.
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
  description: How wrong that may be, in seconds; half of the quickest exchange.
  returned: success
  type: float
  sample: 0.0034
clock_correction:
  description: The offset if it is larger than its uncertainty, otherwise 0.
  returned: success
  type: float
  sample: 0.0
"""
