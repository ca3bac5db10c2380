#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: redis_daemons
short_description: Run several Redis servers of one machine as plain daemons
version_added: 1.0.0
author:
  - The memstretch.density contributors (@memstretch)
description:
  - Does what P(memstretch.density.redis_daemon#module) does, for several servers in one start of Python, one after
    another. Where many hosts of an inventory are Redis instances of one machine, starting Python for each of them takes
    longer than starting the servers.
  - A server that does not reach its state does not fail the task. RV(daemons) has its C(failed) and C(msg).
options:
  daemons:
    description: The options of each server but its password, as P(memstretch.density.redis_daemon#module) has them.
    type: list
    elements: dict
    required: true
  passwords:
    description: The passwords of the servers that need one, by C(config).
    type: dict
    default: {}
extends_documentation_fragment:
  - memstretch.density.redis_state
  - memstretch.density.predicted_change
attributes:
  diff_mode:
    support: none
    description: P(memstretch.density.redis_daemon#module) has it.
seealso:
  - module: memstretch.density.redis_daemon
"""

EXAMPLES = r"""
- name: Start one server and stop another one
  memstretch.density.redis_daemons:
    daemons:
      - config: /home/bench/redis/6401/redis.conf
      - config: /home/bench/redis/6402/redis.conf
        state: stopped
"""

RETURN = r"""
daemons:
  description:
    - What P(memstretch.density.redis_daemon#module) returns, for each server by its C(config); C(failed) and C(msg) if
      it did not reach its state.
  returned: success
  type: dict
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.memstretch.density.plugins.module_utils.redis.state import ARGUMENTS, bring

DAEMONS = {
    "daemons": {"type": "list", "elements": "dict", "required": True},
    "passwords": {"type": "dict", "default": {}, "no_log": True},
}


def main() -> None:
    module = AnsibleModule(DAEMONS, supports_check_mode=True)
    validator = ArgumentSpecValidator(ARGUMENTS)

    def brought(given: dict[str, t.Any]) -> dict[str, t.Any]:
        password = module.params["passwords"].get(given.get("config"))
        validated = validator.validate({**given, **({} if password is None else {"password": password})})
        if validated.error_messages:
            return {"failed": True, "msg": "; ".join(validated.error_messages)}
        return bring(module, validated.validated_parameters)

    results = {str(given.get("config")): brought(given) for given in module.params["daemons"]}
    module.exit_json(changed=any(each.get("changed", False) for each in results.values()), daemons=results)


if __name__ == "__main__":
    main()
