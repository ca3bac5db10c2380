# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One fact of several hosts."""

from __future__ import annotations

import typing as t


def host_facts(hosts: t.Sequence[str], hostvars: t.Mapping[str, t.Mapping[str, t.Any]], name: str) -> dict[str, t.Any]:
    """Return a fact by host. A host without it, or with an empty one, has no entry.

    Args:
        hosts: in the order of the play.
        hostvars: the variables of each.
        name: of the fact.
    """
    found = {
        host: hostvars[host].get(name) for host in hosts
    }  # once for each host: Ansible works out all of its variables
    return {host: value for host, value in found.items() if _is_set(value)}


def _is_set(value: t.Any) -> bool:
    """Decide whether a fact has a value: no and 0 are values, nothing and an empty text or collection are not."""
    return value is not None and value not in ("", [], {})
