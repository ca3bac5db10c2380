#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The file of this name in plugin_utils/controller does the work, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: check_play
short_description: Refuse a play with misspelt variables, or whose hosts do not go through its tasks together
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Looks at the names of all variables of the play's hosts. A name with the prefix of a role of this collection that no
    role or playbook of it has is refused, with the nearest known name. Where other collections have variables with the
    same prefix, for example C(redis_), a name is refused only if it is nearly one of this collection.
  - Refuses hosts whose names have control characters or look like templates. A cloud's tenants may choose those of a
    dynamic inventory.
  - Use it with C(run_once); it reads the variables of all hosts of the play.
extends_documentation_fragment:
  - memstretch.density.controller_action
options:
  together:
    description:
      - Whether the hosts of the play must go through its tasks together. Then a play with C(serial), or with a strategy
        other than C(linear) (or C(debug), which is linear too), is refused.
      - A fleet is measured at the same moment, and its VMs are created together. With another strategy, Ansible also
        ignores C(run_once).
    type: bool
    default: false
  playbook:
    description: Whether this is a playbook of this collection. Then a variable of the command line is refused if its
      name is nearly that of a variable of these playbooks, such as C(profil).
    type: bool
    default: false
  profiles:
    description:
      - Whether the playbook has V(one) profile, C(profile), or V(several), C(profiles).
      - Then the other of these variables is refused where this one is missing, because a default would be used.
    type: str
    choices: [one, several]
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Refuse misspelt variables
  memstretch.density.check_play:
  run_once: true
"""

RETURN = r"""#"""
