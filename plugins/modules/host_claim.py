#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: host_claim
short_description: Keep two playbooks from changing one host at the same time
version_added: "1.0.0"
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - The roles that change the settings, the swap or the command line of a host call it before they change anything.
  - A playbook claims the host until it ends. Another one is refused, with a message that names the first.
  - A claim of a playbook that has ended is taken over. That is seen by the controller on which it ran; on another
    controller, a claim lapses an hour after the last change. A boot removes it.
author: ["memstretch.density contributors (@memstretch)"]
options:
  state:
    description: V(held) claims the host, or fails. V(released) gives the claim up, if this playbook has it.
    type: str
    choices: [held, released]
    default: held
  take_over:
    description: Take the host over from a playbook that no longer runs, on a controller that cannot be asked.
    type: bool
    default: false
  claimant:
    description: Set by the action on the controller.
    type: dict
  replaces:
    description: Set by the action on the controller.
    type: str
    default: ""
attributes:
  check_mode:
    support: full
    description: Refuses what would be refused, and claims nothing.
  diff_mode:
    support: none
    description: Nothing of the host's settings is changed.
  platform:
    platforms: linux
    description: Any Linux.
    support: full
"""

EXAMPLES = r"""
- name: Keep other playbooks from changing this host
  memstretch.density.host_claim:
"""

RETURN = r"""
holder:
  description: The claim of another playbook, to the action on the controller.
  type: dict
  returned: if there is one
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.claim import Claim, Claimant


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["held", "released"], "default": "held"},
            "take_over": {"type": "bool", "default": False},
            "claimant": {"type": "dict"},
            "replaces": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    params = module.params
    claimant = Claimant(**params["claimant"])
    replaces = "any" if params["take_over"] else params["replaces"]
    try:
        if params["state"] == "held":
            holder = Claim().take(claimant, replaces, keep=not module.check_mode)
            module.exit_json(changed=False, holder=holder)
        if not module.check_mode:
            Claim().release(claimant)
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, holder=None)


if __name__ == "__main__":
    main()
