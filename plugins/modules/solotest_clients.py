#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: solotest_clients
short_description: Run the latency clients of several Redis endpoints on one machine
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Does what P(memstretch.density.solotest#module) does, for several endpoints in one start of Python. Where many hosts
    of an inventory are Redis instances of one machine, starting Python for each of them takes longer than the
    clients themselves.
  - The clients are run one after another. With C(detach=true) they are all launched, and then run at the same time.
  - A client that fails does not fail the task; P(memstretch.density.solotest_answer#module) fails the host that it
    belongs to.
options:
  clients:
    description:
      - The options of P(memstretch.density.solotest#module) for each endpoint, by a name of the endpoint, such as
        that of its inventory host. Without C(password).
    type: dict
    required: true
  passwords:
    description: The passwords of the endpoints that need one, by the same names.
    type: dict
    default: {}
extends_documentation_fragment:
  - memstretch.density.latency_client
seealso:
  - module: memstretch.density.solotest
  - module: memstretch.density.solotest_answer
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Ask two Redis instances of this machine for their state
  memstretch.density.solotest_clients:
    clients:
      first: {mode: ping, executable: /opt/solotest/solotest, port: 7001}
      second: {mode: ping, executable: /opt/solotest/solotest, port: 7002}
  register: asked

- name: Show the version of the second one
  ansible.builtin.debug:
    msg: "{{ asked.clients.second.solotest.server.before.redis_version }}"
"""

RETURN = r"""
clients:
  description:
    - What P(memstretch.density.solotest#module) returns, for each endpoint by its name; C(failed) and C(msg) if its
      client failed.
  returned: always
  type: dict
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.solotest import client
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import ARGUMENTS, NEEDED

CLIENTS = dict(
    clients=dict(type="dict", required=True),
    passwords=dict(type="dict", default={}, no_log=True),
)


def checked(validator: ArgumentSpecValidator, given: dict[str, t.Any], password: str | None) -> dict[str, t.Any]:
    """Return the options of one client with their types and defaults.

    Raises:
        SettingError: one of them is not allowed.
    """
    secret = {} if password is None else {"password": password}
    validated = validator.validate({**given, **secret})
    if validated.error_messages:
        raise SettingError("; ".join(validated.error_messages))
    client.validate(validated.validated_parameters)
    return validated.validated_parameters


def main() -> None:
    module = AnsibleModule(CLIENTS, supports_check_mode=True)
    validator = ArgumentSpecValidator(ARGUMENTS, **NEEDED)
    passwords = module.params["passwords"]

    def answer(name: str, given: dict[str, t.Any]) -> dict[str, t.Any]:
        try:
            options = checked(validator, given, passwords.get(name))
        except SettingError as error:
            return {"failed": True, "msg": str(error)}
        if module.check_mode:
            return {"changed": client.writes(options), "msg": "check mode: the client was not run"}
        path = options["executable"]
        found = path if "/" in path else module.get_bin_path(path)
        if found is None:
            return {"failed": True, "msg": f"executable: {path} is not in PATH"}
        return client.launch(options, found, module.run_command)

    answers = {name: answer(name, given) for name, given in module.params["clients"].items()}
    module.exit_json(changed=any(each.get("changed", False) for each in answers.values()), clients=answers)


if __name__ == "__main__":
    main()
