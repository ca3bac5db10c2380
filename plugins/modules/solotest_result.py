#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: solotest_result
short_description: Fetch the result of a client that was launched in the background
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Sleeps on the controller until the phase should be over, then fetches the result from the host and removes its file
    there.
  - Starts no Python on the host, because that would disturb what other clients measure there.
extends_documentation_fragment:
  - memstretch.density.controller_action
  - memstretch.density.client_result
options:
  job:
    description: What P(memstretch.density.solotest#module) returned as C(job). This or O(answers) is required.
  answers:
    description: >-
      The registered result of P(memstretch.density.solotest_clients#module), by inventory names, instead of O(job).
    type: dict
  observed:
    description:
      - What P(memstretch.density.observer_result#module) returned as C(observed) for the same host and phase. It is
        kept with the result.
    type: dict
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Measure in the background
  memstretch.density.solotest:
    key_count: 100000
    rate: 5000
    detach: true
  register: launched

- name: Fetch the result
  memstretch.density.solotest_result:
    job: "{{ launched.job }}"
    timeout: 60
"""

RETURN = r"""
solotest:
  description:
    - As returned by P(memstretch.density.solotest#module). C(collected) compares the host's clock with the controller's
      when the result was fetched, C(at), C(offset) and C(uncertainty) in seconds. C(observed) is as given.
  returned: when the client ran
  type: dict
packed:
  description:
    - The counts of all histograms, compressed, so that the callback adds them up quickly. For this collection only; the
      form may change.
  returned: when a test was measured
  type: str
"""
