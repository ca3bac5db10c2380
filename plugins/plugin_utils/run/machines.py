# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines a run records, and which host of the fleet works for each DRAM budget."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run.charged_dram import hosts_with_budget

# Without hypervisors, the memory figures of this many machines are kept: enough to see what kind of machines they are.
_MOST_OWN = 16

_ByHost = t.Mapping[str, t.Mapping[str, t.Any]]


def machines(fleet: _ByHost, hypervisors: t.Sequence[str], records: _ByHost) -> dict[str, t.Any]:
    """Return the machines of a run by what is done with them.

    Args:
        fleet: the state of each endpoint, with the boot id of its kernel as C(machine), in the order of the play.
        hypervisors: their names.
        records: what was recorded of the tuned hosts.

    Returns:
        C(read), those whose memory figures and kernel messages are kept; C(carriers), the hypervisors whose memory the
        clients do not see, since no host of the fleet runs on the same kernel; C(budgets), the hosts with a DRAM
        budget; C(shares), the budgets that a host of the fleet works for, so that all are reached at the same time;
        C(recorder_only), those with a recorder of their own, since no client runs there, or perhaps none as root;
        C(observed), whether a host of the fleet has an observer.
    """
    hosts = list(fleet)
    first: dict[t.Any, str] = {}
    for host, each in fleet.items():
        first.setdefault(each.get("machine"), host)
    carriers = [name for name in hypervisors if _boot_id(records.get(name, {})) not in first]
    budgets = sorted(hosts_with_budget({"hosts": records}))
    return {
        "read": list(hypervisors) or list(first.values())[:_MOST_OWN],
        "carriers": carriers,
        "budgets": budgets,
        "shares": {host: share for number, host in enumerate(hosts) if (share := budgets[number :: len(hosts)])},
        "recorder_only": list(dict.fromkeys([*carriers, *budgets])),
        "observed": any(each.get("observer") for each in fleet.values()),
    }


def _boot_id(record: t.Mapping[str, t.Any]) -> t.Any:
    """Return the boot id of a recorded host; a host without one carries no known client."""
    return (record.get("kernel") or {}).get("boot_id") or object()
