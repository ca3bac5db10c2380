# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels of several hosts as labels of their run."""

from __future__ import annotations

import typing as t

_NAMED = 3  # hosts


def host_labels(hosts: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """Return each label once. One that not all hosts have names the hosts that have it.

    Args:
        hosts: the labels of each host.
    """
    found: dict[str, list[str]] = {}
    for host, labels in hosts.items():
        for label in dict.fromkeys(labels):
            found.setdefault(label, []).append(host)
    return [label if len(names) == len(hosts) else f"{_text(names)}: {label}" for label, names in found.items()]


def _text(names: t.Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
