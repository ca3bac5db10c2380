#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: solotest_schedule
short_description: Let a latency client and a recorder follow the schedule of a run
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - With O(state=asked) the host's time is read three times over the open connection, of which the fastest exchange is
    used. Then the Redis is asked for its state.
  - With O(state=launched) it starts one client for all phases, and the recorder of the machine unless it runs already,
    and returns when the client is connected. With O(fill), it fills the Redis before. With O(state=released) they
    learn the time of the start, which they turn into their monotonic clock once. From then on they need no controller.
    With O(state=collected) it returns what was measured.
  - Client and recorder end with the schedule. With O(state=stopped) they end at once.
  - Files below C(/run/memstretch-0), for other users than root below C(/tmp), hold the results until they are
    collected, or the host boots. The first session that begins more than a day later removes those of earlier ones.
options:
  state:
    description: What to do.
    type: str
    choices: [asked, launched, released, collected, stopped]
    required: true
  session:
    description:
      - Name of the session of the run, 8 to 64 hexadecimal digits. Needed except with O(state=asked) and
        O(state=released).
    type: str
  member:
    description:
      - Number of the host in the fleet; with C(o) behind it, its observer, with C(m) a machine that is only recorded.
        Needed except with O(state=asked) and O(state=released).
    type: str
  client:
    description:
      - The options of P(memstretch.density.solotest#module), without C(password). Without them the machine is only
        recorded, and no Redis is asked.
    type: dict
  password:
    description: The password of the Redis.
    type: str
  observer:
    description:
      - With O(state=asked), the observer of the host, as its C(name), the C(host) by which it reaches the Redis, and
        the C(rate) of its requests.
    type: dict
  phases:
    description:
      - The phases of the schedule, each with its C(name), C(at), the seconds from the start to its beginning,
        C(seconds), its length, C(influence), C(read_mix), C(max_seconds), and C(refit), how many seconds before it
        the limit of a DRAM budget is set again.
    type: list
    elements: dict
    default: []
  release_within:
    description: Client and recorder end if they are not released within this many seconds, 1 to 86,400.
    type: float
    default: 600
  fill:
    description:
      - With O(state=launched), what differs from O(client) in the fill. A fill that goes on after O(wait) is waited for
        by the same module with the same options; its client is launched when it is over.
    type: dict
  stop:
    description:
      - An objective as C(slo) and the number of requests of a cell as C(total). All clients of this machine end once
        one of them can no longer meet it.
    type: dict
  start_at:
    description:
      - With O(state=released), the time of the start in seconds since 1970 by the clock of the controller.
    type: float
  first:
    description: With O(state=collected), how many phases of the schedule are left out because they are known.
    type: int
    default: 0
  until:
    description:
      - With O(state=collected), the number of phases that are waited for. Without it, the end of all is waited for, and
        the files are removed.
    type: int
  job:
    description: With O(state=released), what O(state=launched) returned as RV(job). Only a file is written then.
    type: dict
  clock_correction:
    description: With O(state=released), seconds that are added to O(start_at), since the host's clock is ahead by them.
    type: float
    default: 0
  role:
    description: Whether this is the client of the host, its observer, or a machine that is only recorded.
    type: str
    choices: [client, observer, machine]
    default: client
  wait:
    description:
      - With O(state=collected), how many seconds to wait for them at most, 0 to 1,000,000. With O(fill), how many
        seconds to wait for its end.
    type: float
    default: 60
attributes:
  check_mode:
    description: Nothing is done, and nothing can be predicted.
    support: full
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Launch a client for one phase of ten seconds
  memstretch.density.solotest_schedule:
    state: launched
    session: 0123456789abcdef
    member: "0"
    client: {executable: /opt/solotest/solotest, port: 7001, requests: 50000, rate: 5000}
    phases: [{name: first, at: 0, seconds: 10, max_seconds: 11, influence: 0, read_mix: 100}]
  register: launched

- name: Start it in two seconds
  memstretch.density.solotest_schedule:
    state: released
    job: "{{ launched.job }}"
    start_at: "{{ now().timestamp() + 2 }}"

- name: Fetch its result
  memstretch.density.solotest_schedule:
    state: collected
    session: 0123456789abcdef
    member: "0"
"""

RETURN = r"""
endpoint:
  description: An entry of the option C(fleet) of P(memstretch.density.benchmark_run#module).
  returned: O(state=asked), when the Redis answers
  type: dict
clock_offset:
  description: The host's clock minus the controller's, in seconds.
  returned: O(state=asked)
  type: float
  sample: 0.0021
clock_uncertainty:
  description: The largest possible error of the offset in seconds, half of the duration of the fastest exchange.
  returned: O(state=asked)
  type: float
  sample: 0.0034
clock_read_at:
  description: When the offset was measured, by the controller's clock, in seconds since the epoch.
  returned: O(state=asked)
  type: float
  sample: 1793000000.25
clock_correction:
  description: The offset if it is larger than its uncertainty, otherwise 0.
  returned: O(state=asked)
  type: float
  sample: 0.0
job:
  description: The C(path) of the files on the host and the C(pid) of the client, or of the fill that goes on.
  returned: O(state=launched), unless the fill or the launch failed
  type: dict
error:
  description: The C(kind) and C(message) of the error that keeps the client from its Redis.
  returned: O(state=launched), if the client cannot load its Redis
  type: dict
phases:
  description:
    - For each phase its name as C(phase), and what P(memstretch.density.solotest#module) returns, with C(failed) and
      C(msg) if it failed.
  returned: O(state=collected), and after a fill
  type: list
  elements: dict
machine:
  description:
    - What the recorder has seen, C(machine), the boot id, C(own), whether this client is the one that reports for the
      machine, C(errors), and C(phases), by name, each with C(pressure), C(over_time) and C(charged_dram).
  returned: O(state=collected), and null after a fill
  type: dict
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, SettingError, number
from ansible_collections.memstretch.density.plugins.module_utils.solotest import client, schedule
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import ARGUMENTS, NEEDED

RELEASE_WITHIN = Range(float, 1, 86_400, "seconds")
WAIT = Range(float, 0, 1_000_000, "seconds")


def checked(given: dict[str, t.Any], password: str | None) -> dict[str, t.Any]:
    """Return the options of a client with their types and defaults.

    Raises:
        SettingError: one of them is not allowed.
    """
    validated = ArgumentSpecValidator(ARGUMENTS, **NEEDED).validate({**given, "password": password})
    if validated.error_messages:
        raise SettingError("; ".join(validated.error_messages))
    client.validate(validated.validated_parameters)
    return validated.validated_parameters


def of_client(module: AnsibleModule, **changes: t.Any) -> tuple[dict[str, t.Any], str]:
    """Return the options of the client, with changes, and its path."""
    options = checked({**module.params["client"], **changes}, module.params["password"])
    path: str = options["executable"]
    return options, path if "/" in path else module.get_bin_path(path, required=True)


def ask(module: AnsibleModule) -> dict[str, t.Any]:
    """Ask the Redis for its state. The action compares the clocks."""
    options, path = of_client(module, mode="ping")
    return client.execute(options, path, module.run_command)


def launch(module: AnsibleModule, job: schedule.Job, wait: float) -> dict[str, t.Any]:
    """Fill the Redis if it is to be filled, and launch the client and the recorder when that is over."""
    options, path = of_client(module) if module.params["client"] is not None else (None, None)
    filled: dict[str, t.Any] = {"changed": False}
    if module.params["fill"] is not None:
        filled = schedule.fill(job, *of_client(module, **module.params["fill"]), wait, module.run_command)
        if "phases" not in filled:
            return {"changed": True, "job": filled}
        if any(each.get("failed") for each in filled["phases"]):
            return {"changed": True, **filled}
    release_within = number("release_within", module.params["release_within"], RELEASE_WITHIN)
    phases, stop = module.params["phases"], module.params["stop"]
    try:
        launched = schedule.launch(job, options, path, phases, release_within, stop, module.run_command)
    except client.ClientError as error:
        why = {"error": error.error} if isinstance(error, schedule.NotArmed) else {}
        return {**filled, "failed": True, "msg": str(error), **why}
    return {**filled, "job": launched}


def act(module: AnsibleModule) -> dict[str, t.Any]:
    """Bring the client into the state that is asked for, and return the answer."""
    options = module.params
    if options["state"] == "asked":
        return ask(module)
    wait = number("wait", options["wait"], WAIT)
    job = schedule.find(options["session"], options["member"])
    if options["state"] == "launched":
        answer = launch(module, job, wait)
        if schedule.is_unread(1):
            schedule.stop(job)  # nobody knows it, so nobody would release or stop it
        return answer
    if options["state"] == "collected":
        return {"changed": False, **schedule.collect(job, options["first"], options["until"], wait)}
    schedule.stop(job)
    return {"changed": False}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "choices": ["asked", "launched", "released", "collected", "stopped"],
                "required": True,
            },
            "session": {"type": "str"},
            "member": {"type": "str"},
            "client": {"type": "dict"},
            "password": {"type": "str", "no_log": True},
            "observer": {"type": "dict"},
            "phases": {"type": "list", "elements": "dict", "default": []},
            "release_within": {"type": "float", "default": 600},
            "fill": {"type": "dict"},
            "stop": {"type": "dict"},
            "start_at": {"type": "float"},
            "first": {"type": "int", "default": 0},
            "until": {"type": "int"},
            "job": {"type": "dict"},
            "clock_correction": {"type": "float", "default": 0},
            "role": {"type": "str", "choices": ["client", "observer", "machine"], "default": "client"},
            "wait": {"type": "float", "default": 60},
        },
        required_if=[
            ("state", "released", ["start_at", "job"]),
            *((("state", state, ["session", "member"])) for state in ("launched", "collected", "stopped")),
        ],
        supports_check_mode=True,
    )
    options = module.params
    if module.check_mode or options["state"] == "released":  # the action plugin has done the latter
        module.exit_json(changed=False)
    try:
        answer = act(module)
        (module.fail_json if answer.get("failed") else module.exit_json)(**answer)
    except (client.ClientError, SettingError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{os.path.join(schedule.private_directory(), 'session-*')}: {error}")


if __name__ == "__main__":
    main()
