#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dram_budget
short_description: Cap the DRAM that a fleet may use, so that a large host behaves like a small one
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - A study of stretched memory needs memory to be scarce. A DRAM budget makes it scarce without removing DIMMs, and can
    be undone.
  - A budget is a limit on the charged DRAM, in which zram and zswap count too (docs/charged-dram.md). With
    O(mechanism=cgroup), O(state=fitted) lowers the limit of the group to what that leaves; the lowered limit counts as
    this budget.
  - Before the first change, the original state is recorded on the host, in C(dram_budget.json) below
    O(record_directory).
extends_documentation_fragment:
  - memstretch.density.recorded_change
  - memstretch.density.predicted_change
options:
  state:
    description:
      - With V(applied), the budget is in force.
      - With V(lifted), the present budget is no longer in force, and nothing else changes. Use it before you turn off
        swap, because the swapped memory must fit into DRAM.
      - With V(restored), the host is in its original state, and the record is removed.
      - With V(released), the limit of the control group is the whole budget, as it must be before a fill. The memory in
        use of the host is measured, for the check of the charged DRAM against the host.
      - With V(fitted), the limit of the control group is lowered step by step until the charged DRAM is 98 to 100 % of
        the budget, or does not fit. In check mode that cannot be predicted.
      - V(released) and V(fitted) do nothing on a host without a DRAM budget. Huge pages have no such limit. The role
        P(memstretch.density.latency_benchmark#role) uses both.
      - With all but V(applied), the budget is taken from the record.
    type: str
    choices: [applied, lifted, restored, released, fitted]
    default: applied
  mechanism:
    description:
      - With V(cgroup), the control group of the fleet is limited. The rest of the host is not affected, but only the
        group's own reclaim is exercised.
      - With V(hugepages), the rest of the host's DRAM is reserved as huge pages. The whole host then has only the
        budget, and reclaims with kswapd and watermarks as a small host does. For dedicated hosts.
      - With systemd, the service C(memstretch-dram-budget) reserves them again at each boot, computed from the memory
        that the host has then. If that is not more than the budget, it reserves nothing. With the word
        C(memstretch.no_budget) on the kernel command line it does not run.
    type: str
    choices: [cgroup, hugepages]
    default: cgroup
  size:
    description:
      - The budget, in bytes or with a unit such as V(16G) (1024 based); at least 16 MiB. Required with
        O(state=applied).
    type: str
  group:
    description:
      - The control group, for O(mechanism=cgroup).
      - With systemd, the name of a slice, such as V(fleet.slice) or libvirt's V(machine.slice). Without systemd, the
        path of a control group below the root of the memory controller; it is created.
    type: str
    default: fleet.slice
  reserve:
    description:
      - Memory that must be left to the host on top of its programs', for O(mechanism=hugepages); in bytes or with
        a unit.
    type: str
    default: 512M
  tried:
    description:
      - Whether to test that the budget holds, for O(mechanism=cgroup) with O(state=applied). A short process in the
        control group uses half of the budget, and reads the limit of the group and what is charged to it.
      - The task fails if no process can run in the group, if the limit is not the budget, or if the memory is not
        charged. In check mode no process is started.
    type: bool
    default: false
  forget:
    description:
      - Whether O(state=restored) removes the record of a budget that cannot be removed. If not, the record is kept, and
        a warning and RV(kept) give the reason. What can be restored is restored anyway.
    type: bool
    default: false
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Give the fleet 16 GiB of DRAM
  memstretch.density.dram_budget:
    size: 16G
    group: fleet.slice

- name: Bring the fleet within its budget
  memstretch.density.dram_budget:
    state: fitted

- name: Remove the budget
  memstretch.density.dram_budget:
    state: restored
"""

RETURN = r"""
differences:
  description: What differed from the wanted state when the module started.
  returned: unless O(state) is V(released) or V(fitted)
  type: list
  elements: str
budget:
  description: The budget in force after this task; null if there is none.
  returned: unless O(state) is V(released) or V(fitted)
  type: dict
  contains:
    mechanism:
      description: V(cgroup) or V(hugepages).
      type: str
    size_bytes:
      description: The budget in bytes.
      type: int
    group:
      description: The control group; null with O(mechanism=hugepages).
      type: str
    persistent:
      description: Whether the budget survives a reboot.
      type: bool
trial:
  description: What the process in the group has read.
  returned: with O(tried), but not in check mode
  type: dict
  contains:
    version:
      description: Version of the control groups, 1 or 2.
      type: int
    limit_bytes:
      description: Limit of the group in bytes.
      type: int
    charged_bytes:
      description: Memory that was charged to the group in bytes.
      type: int
charged_dram:
  description: The charged DRAM of this host; null without a DRAM budget.
  returned: if O(state) is V(released) or V(fitted)
  type: dict
  contains:
    machine:
      description: Boot id of the host's kernel.
      type: str
    mechanism:
      description: The mechanism of the budget, V(cgroup) or V(hugepages).
      type: str
    budget_bytes:
      description: The budget.
      type: int
    group_processes:
      description: Processes in the control group of the budget; null with huge pages.
      type: int
    fits:
      description: Whether the fleet could be brought to the budget; null if that was not tried.
      type: bool
    fit:
      description:
        - How it was brought to the budget, C(limit), C(steps), C(ratio), the compression of the pages that moved last,
          and C(why) it does not fit. Null if that was not tried.
      type: dict
kept:
  description:
    - Why the original state cannot be restored; null if it is, or if O(forget) gives it up. The task succeeds, and the
      record is kept.
  returned: unless O(state) is V(released) or V(fitted)
  type: str
"""

import re
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.budget_trial import trial
from ansible_collections.memstretch.density.plugins.module_utils.host.budgeted_host import BudgetedHost
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

Budget = t.Union[GroupBudget, HugepageBudget, SliceBudget]


def make_budget(module: AnsibleModule, request: dict[str, t.Any]) -> Budget:
    """Return the budget of the requested mechanism on this host."""
    if request["mechanism"] == "hugepages":
        return HugepageBudget(request["size_bytes"], request["reserve_bytes"], module.run_command)
    group = request["group"]
    if booted():
        if not re.match(r"^[A-Za-z0-9_.]+(-[A-Za-z0-9_.]+)*\.slice$", group):
            raise BudgetError(
                f"group is {group!r}; on a host with systemd it must be the name of a slice, such as fleet.slice"
            )
        return SliceBudget(request["size_bytes"], group, module.run_command)
    if not re.match(r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$", group) or ".." in group:
        raise BudgetError(f"group is {group!r}; it must be the path of a control group, such as fleet")
    return GroupBudget(request["size_bytes"], group)


def requested(module: AnsibleModule) -> dict[str, t.Any]:
    """Return the budget that the options describe."""
    size = size_in_bytes("size", module.params["size"])
    if size < SMALLEST:
        raise BudgetError(f"size is {module.params['size']!r}; it must be at least 16M")
    return {
        "mechanism": module.params["mechanism"],
        "size_bytes": size,
        "reserve_bytes": size_in_bytes("reserve", module.params["reserve"]),
        "group": module.params["group"] if module.params["mechanism"] == "cgroup" else None,
    }


def target_state(budget: Budget, state: str, present: dict[str, t.Any], original: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the state of the host that the option C(state) asks for."""
    if state == "applied":
        return budget.applied_state(present, original)
    return budget.lifted_state(present, original) if state == "lifted" else original


class BudgetChange(t.NamedTuple):
    """What has to change to bring the host from its present state to the requested one."""

    budget: Budget
    request: dict[str, t.Any]
    present: dict[str, t.Any]
    original: dict[str, t.Any]
    target: dict[str, t.Any]
    changed: bool


def find_change(module: AnsibleModule, record: HostRecord) -> BudgetChange | None:
    """Find what has to change now, or None if there is no budget to lift or restore."""
    state, recorded = module.params["state"], record.read()
    if state == "applied":
        request = requested(module)
    elif recorded is not None:
        request = recorded["asked"]
    else:
        return None
    if recorded is not None and any(recorded["asked"][key] != request[key] for key in ("mechanism", "group")):
        raise BudgetError(
            f"this host has a DRAM budget by {recorded['asked']['mechanism']} "
            f"({recorded['asked']['group'] or 'the whole host'}); restore it before you set a budget with another "
            "mechanism or group"
        )
    budget = make_budget(module, request)
    present = budget.read_state()
    original = recorded["original"] if recorded else present
    target = target_state(budget, state, present, original)
    if state == "applied" and recorded is not None and recorded["asked"] == request:
        # The state fitted has lowered the limit, so that what is outside of the group fits into the same budget.
        fitted = (recorded.get("fitted") or {}).get("limit")
        if fitted and present.get("limit") == fitted:
            target["limit"] = fitted
    if state == "applied" and target != present:
        budget.check(present)
    new_request = state == "applied" and (recorded is None or recorded["asked"] != request)
    return BudgetChange(
        budget, request, present, original, target, target != present or state == "restored" or new_request
    )


def apply_change(change: BudgetChange, state: str, record: HostRecord) -> None:
    """Bring the host to the target state; the caller holds the lock of the record since before it found the change."""
    if state == "applied":
        record.write({"asked": change.request, "original": change.original})
    try:
        change.budget.set_state(change.target)
    except BudgetError as error:
        error.changed = change.budget.read_state() != change.present
        raise
    if state == "restored":
        record.remove()


def run(module: AnsibleModule, record: HostRecord) -> dict[str, t.Any]:
    """Bring the host to the requested state and return the module's result."""
    if module.params["state"] in ("released", "fitted"):
        host = BudgetedHost.find(record)
        changed = host.set_limit(module.params["state"], module.check_mode) if host else False
        return {"changed": changed, "charged_dram": host.document() if host else None}
    if module.params["tried"] and (module.params["state"], module.params["mechanism"]) != ("applied", "cgroup"):
        raise SettingError("tried: true needs state: applied and mechanism: cgroup; remove it")
    try:
        result = converge(module, record)
        if module.params["tried"] and not module.check_mode:
            result["trial"] = trial(module.params["group"], result["budget"]["size_bytes"], module.run_command)
        return result
    except BudgetError as error:
        if module.params["state"] == "applied":
            raise
        return not_restored(module, record, error)


def not_restored(module: AnsibleModule, record: HostRecord, error: BudgetError) -> dict[str, t.Any]:
    """Return the result if the original state cannot be restored: the record is kept, unless it is forgotten."""
    forget = module.params["state"] == "restored" and module.params["forget"]
    if not forget:
        module.warn(
            f"the DRAM budget cannot be {module.params['state']}: {error}. Its record stays in {record.path}, and each "
            "run tries again. To give it up, restore with host_tuning_forget: [dram_budget] (the option forget of the "
            "module dram_budget)."
        )
    elif not module.check_mode:
        with record.locked():
            record.remove()
    return {
        "changed": error.changed or forget,
        "budget": None,
        "differences": [],
        "kept": None if forget else str(error),
    }


def converge(module: AnsibleModule, record: HostRecord) -> dict[str, t.Any]:
    """Change the host if needed, and return the result."""
    state = module.params["state"]
    change = find_change(module, record)
    if change and change.changed and not module.check_mode:
        with record.locked():
            change = find_change(module, record)  # another run may have changed the host while we waited
            if change and change.changed:
                apply_change(change, state, record)
    if change is None:
        return {"changed": False, "budget": None, "differences": [], "kept": None}
    in_force = {
        **{key: change.request[key] for key in ("mechanism", "size_bytes", "group")},
        "persistent": change.budget.persistent,
    }
    return {
        "changed": change.changed,
        "diff": {"before": state_text(change.present), "after": state_text(change.target)},
        "differences": [
            difference(name, change.present[name], value)
            for name, value in change.target.items()
            if change.present[name] != value
        ],
        "budget": in_force if state == "applied" else None,
        "kept": None,
    }


def difference(name: str, present: t.Any, wanted: t.Any) -> str:
    """Return a difference as text, without the content of files."""
    if not name.startswith("/"):
        return f"{name} is {present} and not {wanted}"
    if present is None:
        return f"{name} is missing"
    return f"{name} exists" if wanted is None else f"{name} is not what this budget writes"


def state_text(state: dict[str, t.Any]) -> str:
    """Return a state as text for a diff."""
    return "".join(f"{name}: {value}\n" for name, value in state.items())


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "choices": ["applied", "lifted", "restored", "released", "fitted"],
                "default": "applied",
            },
            "mechanism": {"type": "str", "choices": ["cgroup", "hugepages"], "default": "cgroup"},
            "size": {"type": "str"},
            "group": {"type": "str", "default": "fleet.slice"},
            "reserve": {"type": "str", "default": "512M"},
            "tried": {"type": "bool", "default": False},
            "forget": {"type": "bool", "default": False},
            "record_directory": {"type": "path", "default": DIRECTORY},
        },
        required_if=[("state", "applied", ["size"])],
        supports_check_mode=True,
    )
    try:
        module.exit_json(**run(module, HostRecord("dram_budget", module.params["record_directory"])))
    except (BudgetError, HostRecordError, SettingError) as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(msg=f"dram_budget needs root on the host: {error}")


if __name__ == "__main__":
    main()
