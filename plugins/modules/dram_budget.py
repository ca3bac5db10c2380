#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dram_budget
short_description: Cap the DRAM that a fleet may use, so that a large host behaves like a small one
version_added: 0.1.0
description:
  - A study of stretched memory needs memory to be scarce. A DRAM budget makes it so, without taking out DIMMs, and can be undone.
  - What the host was before is recorded on it in C(dram_budget.json) below O(record_directory), before the first change.
extends_documentation_fragment:
  - memstretch.density.recorded_change
options:
  state:
    description:
      - With V(applied), the budget is in force.
      - With V(lifted), the budget that is there stops limiting, and nothing else changes. Swap can only be turned off then, since what is
        in it must fit somewhere.
      - With V(restored), all is as it was, and the record is gone. The other options are taken from the record.
    type: str
    choices: [applied, lifted, restored]
    default: applied
  mechanism:
    description:
      - With V(cgroup), a control group that holds the fleet is limited. It is contained, but only the group's own reclaim is exercised.
      - With V(hugepages), the rest of the host's DRAM is reserved as huge pages. The whole host then lives in the budget, with kswapd and
        watermarks, as a small host does. For hosts that do nothing else.
    type: str
    choices: [cgroup, hugepages]
    default: cgroup
  size:
    description: The budget, in bytes or with a unit such as V(16G) (1024 based); at least 16 MiB. Required with O(state=applied).
    type: str
  group:
    description:
      - The control group, for O(mechanism=cgroup).
      - With systemd the name of a slice, such as V(fleet.slice) or libvirt's V(machine.slice). Without systemd the path of a group below the
        memory controller's root, which is made.
    type: str
    default: fleet.slice
  reserve:
    description: What the host itself must keep beside its programs, for O(mechanism=hugepages); in bytes or with a unit.
    type: str
    default: 512M
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying the target.
    support: full
  diff_mode:
    description: Returns details on what has changed, or would change in check mode, when in diff mode.
    support: full
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Give the fleet 16 GiB of DRAM
  memstretch.density.dram_budget:
    size: 16G
    group: fleet.slice

- name: Give it all of it again
  memstretch.density.dram_budget:
    state: restored
"""

RETURN = r"""
differences:
  description: What was not as asked for when the module began.
  returned: always
  type: list
  elements: str
budget:
  description: The budget that is in force after this task; null without one.
  returned: always
  type: dict
  contains:
    mechanism:
      description: Either V(cgroup) or V(hugepages).
      type: str
    size_bytes:
      description: The budget in bytes.
      type: int
    group:
      description: The control group; null with O(mechanism=hugepages).
      type: str
    persistent:
      description: Whether it lasts over a reboot.
      type: bool
"""

import re

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import (
    BudgetError,
    GroupBudget,
    HugepageBudget,
    SliceBudget,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.record import (
    DIRECTORY,
    HostRecord,
    HostRecordError,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.systemd import booted
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, size_in_bytes

SMALLEST = 16 * 2**20


def budget_of(module: AnsibleModule, asked: dict) -> GroupBudget | HugepageBudget | SliceBudget:
    if asked["mechanism"] == "hugepages":
        return HugepageBudget(asked["size_bytes"], asked["reserve_bytes"])
    group = asked["group"]
    if booted():
        if not re.match(r"^[A-Za-z0-9_.]+(-[A-Za-z0-9_.]+)*\.slice$", group):
            module.fail_json(
                msg=f"group is {group!r}; on a host with systemd it takes the name of a slice, such as fleet.slice"
            )
        return SliceBudget(asked["size_bytes"], group, module.run_command)
    if not re.match(r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$", group) or ".." in group:
        module.fail_json(msg=f"group is {group!r}; it takes the path of a control group, such as fleet")
    return GroupBudget(asked["size_bytes"], group)


def asked_for(module: AnsibleModule) -> dict:
    size = size_in_bytes("size", module.params["size"])
    if size < SMALLEST:
        raise BudgetError(f"size is {module.params['size']!r}; it takes at least 16M")
    return {
        "mechanism": module.params["mechanism"],
        "size_bytes": size,
        "reserve_bytes": size_in_bytes("reserve", module.params["reserve"]),
        "group": module.params["group"] if module.params["mechanism"] == "cgroup" else None,
    }


def play(module: AnsibleModule, record: HostRecord) -> dict:
    """Do what is asked for, and return the result."""
    state, known = module.params["state"], record.read()
    if state != "applied" and known is None:
        return {"changed": False, "budget": None, "differences": []}
    asked = asked_for(module) if state == "applied" else known["asked"]
    if known is not None and any(known["asked"][key] != asked[key] for key in ("mechanism", "group")):
        raise BudgetError(
            f"this host has a DRAM budget by {known['asked']['mechanism']} ({known['asked']['group'] or 'all of it'}); restore it "
            "before you set one of another kind"
        )
    budget = budget_of(module, asked)
    present = budget.observe()
    original = known["original"] if known else present
    aim = {
        "applied": lambda: budget.wanted(present, original),
        "lifted": lambda: budget.lifted(present, original),
        "restored": lambda: original,
    }[state]()
    if state == "applied" and aim != present:
        budget.refuse(present)
    changed = aim != present or state == "restored" or (state == "applied" and (known or {}).get("asked") != asked)
    if changed and not module.check_mode:
        with record.locked():
            if state == "applied":
                record.write({"asked": asked, "original": original})
            budget.reach(aim)
            if state == "restored":
                record.remove()
    told = {key: asked[key] for key in ("mechanism", "size_bytes", "group")}
    return {
        "changed": changed,
        "diff": {"before": text_of(present), "after": text_of(aim)},
        "differences": [
            f"{name} is {present[name]} and not {value}" for name, value in aim.items() if present[name] != value
        ],
        "budget": {**told, "persistent": budget.persistent} if state == "applied" else None,
    }


def text_of(state: dict) -> str:
    return "".join(f"{name}: {value}\n" for name, value in state.items())


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["applied", "lifted", "restored"], "default": "applied"},
            "mechanism": {"type": "str", "choices": ["cgroup", "hugepages"], "default": "cgroup"},
            "size": {"type": "str"},
            "group": {"type": "str", "default": "fleet.slice"},
            "reserve": {"type": "str", "default": "512M"},
            "record_directory": {"type": "path", "default": DIRECTORY},
        },
        required_if=[("state", "applied", ["size"])],
        supports_check_mode=True,
    )
    try:
        module.exit_json(**play(module, HostRecord("dram_budget", module.params["record_directory"])))
    except (BudgetError, HostRecordError, SettingError) as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(msg=f"dram_budget needs root on the host: {error}")


if __name__ == "__main__":
    main()
