#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: linear_play
short_description: Refuse a play whose hosts do not go through its tasks together
version_added: 1.0.0
description:
  - Fails if the play has C(serial), or a strategy other than C(linear) (or C(debug), which is linear too).
  - A fleet is measured at the same moment, and its VMs are created together. With another strategy, Ansible also
    ignores C(run_once).
extends_documentation_fragment:
  - memstretch.density.controller_action
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Refuse a play whose hosts do not go through its tasks together
  memstretch.density.linear_play:
  run_once: true
"""

RETURN = r"""#"""
