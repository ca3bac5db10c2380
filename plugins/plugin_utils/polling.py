# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often ansible-playbook looks for the results of its tasks.

It wakes up every C(internal_poll_interval) seconds and looks, for as long as a task runs. Where the controller is one
of the measured machines, each look takes a CPU from a Redis or a client for a moment. During the schedule of a run the
callback sleeps instead. But a study or search that runs other playbooks looks, and so does a playbook whose task
measures by itself. ansible.cfg sets the interval for all tasks alike, and most of them would take longer with fewer
looks. So during such a task the constant is changed that Ansible reads before each look.
"""

from __future__ import annotations

import typing as t

from ansible import constants

# Seconds between two looks while a long task runs. Its end is noticed half of that later on average.
LONG_TASK_SECONDS = 0.5

# Last part of the names of actions that measure, or run other playbooks.
_LONG = (
    "density",
    "study",
    "memory_bandwidth",
    "page_in_latency",
    "ramp",
    "site_noise",
    "writeback_benchmark",
)
_CLIENT = "solotest"


def begin_task(task: t.Any) -> None:
    """Choose how often this process looks for results from now on.

    Args:
        task: the task that begins.
    """
    configured: float = constants.config.get_config_value("DEFAULT_INTERNAL_POLL_INTERVAL")
    constants.DEFAULT_INTERNAL_POLL_INTERVAL = max(LONG_TASK_SECONDS, configured) if _is_long(task) else configured


def _is_long(task: t.Any) -> bool:
    name = task.action.rpartition(".")[2]
    if name == _CLIENT:  # a ping is short
        return task.args.get("mode") != "ping"
    return name in _LONG
