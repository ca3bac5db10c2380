#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: client_program
short_description: Install a C program of this collection on a host that lacks it
version_added: "1.0.0"
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - The role P(memstretch.density.client_program#role) installs a program with it.
  - An action on the controller does all of it, in the shell of the host, which needs no Python for it.
  - A program is built on the controller once for each version of its sources, and copied to the hosts that lack it.
author: ["memstretch.density contributors (@memstretch)"]
options:
  name:
    description: The program.
    type: str
    choices: [solotest, membw]
    required: true
  tls:
    description: Build V(solotest) with TLS.
    type: bool
    default: false
  build_on:
    description: Where it is built, as C(client_program_build_on) of the role.
    type: str
    choices: [auto, controller, fleet]
    default: auto
  cache_directory:
    description: The directory on the controller that keeps built programs.
    type: str
    required: true
  directory:
    description: The directory on the host that the program is installed in. It begins with V(/), or with V(~/) for the
      home directory.
    type: str
    required: true
  build:
    description: Build it on the host if the controller does not. The host has what RV(packages) named.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Looks for the program, and neither builds nor installs it.
  diff_mode:
    support: none
    description: The program is binary.
  platform:
    platforms: posix
    description: Any system with the shell C(sh) and C(uname -m).
    support: full
"""

EXAMPLES = r"""
- name: Install the latency client
  memstretch.density.client_program:
    name: solotest
    cache_directory: ~/.cache/memstretch
    directory: ~/.local/lib/memstretch
"""

RETURN = r"""
path:
  description: Where the program is on the host, or would be.
  type: str
  returned: success
packages:
  description: What the host needs to build the program, by C(os_family). Install it, then use O(build=true).
  type: dict
  returned: if the host lacks the program and has to build it
"""
