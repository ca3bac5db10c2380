# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of hosts. In a dynamic inventory, anyone who may name a machine in a cloud chooses them."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.inert_yaml import TEMPLATES

LONGEST = 253  # as in DNS


def refuse(names: t.Iterable[str]) -> None:
    """Refuse names that forge lines of a report, steer a terminal, or are templates.

    Raises:
        SettingError: a name does not fit; the text shows it without what it does to a terminal.
    """
    for name in names:
        if not name.isprintable() or len(name) > LONGEST or any(each in name for each in TEMPLATES):
            raise SettingError(
                f"the inventory has a host whose name is not allowed: {name[:80]!a}. It must have at most {LONGEST} "
                f"characters, no control characters, and none of {', '.join(TEMPLATES)}. Rename the host, or leave it "
                "out of the inventory"
            )
