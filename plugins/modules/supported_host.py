#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The action plugin of the same name does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: supported_host
short_description: Refuse a host whose Python is too old for modules
version_added: 1.0.0
description:
  - Fails with one sentence if the host has no Python 3.8 or newer at C(ansible_python_interpreter) or, without this
    variable, at the places where Ansible looks for one. Modules would end with a traceback there.
  - Runs one line of shell on the host, and no module.
extends_documentation_fragment:
  - memstretch.density.read_only
attributes:
  platform:
    support: full
    description: Any host with a shell.
    platforms: posix
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Refuse a host whose Python is too old
  memstretch.density.supported_host:
"""

RETURN = r"""#"""
