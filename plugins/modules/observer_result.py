#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: observer_result
short_description: Fetch the result of an observer
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - An observer is a client outside of the guests that was launched in the background. Use this module on its machine,
    with C(delegate_to).
  - Sleeps on the controller until the phase should be over, then fetches the result from the host and removes its file
    there.
  - Starts no Python on the host, because that would disturb what other clients measure there.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.client_result
options:
  job:
    required: true
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Observe the Redis of each host from its hypervisor
  memstretch.density.solotest:
    host: "{{ ansible_host }}"
    key_count: 100000
    rate: 100
    arrivals: poisson
    observe: true
    requests: 6000
    detach: true
  delegate_to: hypervisor1
  register: launched

- name: Fetch what the observer saw
  memstretch.density.observer_result:
    job: "{{ launched.job }}"
    timeout: 60
  delegate_to: hypervisor1
"""

RETURN = r"""
observed:
  description:
    - C(latency) with C(server), C(intended) and C(lateness), C(requests), C(rate) and C(machine), as returned by
      P(memstretch.density.solotest#module), or the C(error) why there is no result.
  returned: success
  type: dict
"""
