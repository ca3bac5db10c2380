# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private. What solotest.py does, for a module that runs on each host of a fleet.

Ansible imports an action that has the name of its module once, and one that meta/runtime.yml names in the process of
each host.
"""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.action import solotest
from ansible_collections.memstretch.density.plugins.plugin_utils.documentation import documented_results


class ActionModule(solotest.ActionModule):
    """Run the module on the host, and return only what is accepted of its answer."""

    RESULTS = documented_results("host_memory_info")
