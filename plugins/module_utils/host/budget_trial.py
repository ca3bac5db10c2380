# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the DRAM budget of a control group holds: a short process in the group uses memory and reads what is charged.

The process stays well below the budget, so the kernel reclaims nothing and kills no process.
"""

from __future__ import annotations

import json
import sys
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError, group_directory
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.systemd import booted
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text

# The share of the budget that the process uses.
_SHARE = 0.5
# The kernel keeps limits in pages.
_ROUNDING = 2**16
# Uses memory, and prints the limit of its group and what is charged to it.
_PROGRAM = """
import json, sys
used = bytearray(int(sys.argv[1]))
for place in range(0, len(used), 4096):
    used[place] = 1
print(json.dumps([open(path).read().strip() for path in sys.argv[2:]]))
"""


def trial(group: str, size: int, run_command: RunCommand) -> dict[str, t.Any]:
    """Return C(version) of the control group, and C(limit_bytes) and C(charged_bytes) as a process in it sees them.

    Args:
        group: as for the budget.
        size: the budget, in bytes.
        run_command: AnsibleModule.run_command.

    Raises:
        BudgetError: no process can run in the group, or its limit is not the budget, or its memory is not charged.
    """
    directory, version_1 = group_directory(HostFiles(), group)
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if version_1 else ("memory.max", "memory.current")
    used = int(size * _SHARE)
    program = [sys.executable, "-c", _PROGRAM, str(used), *(f"{directory}/{name}" for name in names)]
    status, output, errors = run_to_end(run_command, _inside(group, directory) + program)
    if status:
        reason = (errors or output).strip()[-400:] or "no message"
        raise BudgetError(f"no process can run in the control group {directory} (exit status {status}): {reason}")
    limit, charged = json.loads(output)
    if not limit.isdigit() or abs(int(limit) - size) > _ROUNDING:
        raise BudgetError(f"the limit of {directory} is {limit}, not the budget of {size:,} bytes")
    if int(charged) < used:
        raise BudgetError(
            f"a process in {directory} uses {size_text(used)}, but only {int(charged):,} bytes are charged to the group"
        )
    return {"version": 1 if version_1 else 2, "limit_bytes": int(limit), "charged_bytes": int(charged)}


def _inside(group: str, directory: str) -> list[str]:
    """Return the beginning of a command line that runs a command in the group."""
    if booted():
        return ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", f"--slice={group}"]
    return ["sh", "-ec", 'echo 0 > "$0"; exec "$@"', f"{directory}/cgroup.procs"]
