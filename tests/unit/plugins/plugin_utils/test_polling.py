# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often Ansible looks for the results of tasks that are long or short."""

from __future__ import annotations

import pytest
from ansible import constants
from ansible.playbook.task import Task

from ansible_collections.memstretch.density.plugins.plugin_utils import polling

CONFIGURED = 0.01


@pytest.fixture(autouse=True)
def configured(monkeypatch):
    """ansible.cfg of this test, and the constant that Ansible made of it."""
    values = {"DEFAULT_INTERNAL_POLL_INTERVAL": CONFIGURED}
    monkeypatch.setattr(constants.config, "get_config_value", values.__getitem__)
    monkeypatch.setattr(constants, "DEFAULT_INTERNAL_POLL_INTERVAL", CONFIGURED)
    return values


def interval_of(action, **arguments):
    """Return the seconds between two looks while a task runs."""
    task = Task()
    task.action, task.args = action, arguments
    polling.begin_task(task)
    return constants.DEFAULT_INTERNAL_POLL_INTERVAL


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("memstretch.density.density", {}),
        ("memstretch.density.site_noise", {}),
        ("memstretch.density.solotest", {"mode": "{{ item.mode }}"}),
    ],
)
def test_a_long_task_is_looked_for_twice_a_second(action, arguments):
    assert interval_of(action, **arguments) == 0.5
    assert interval_of("ansible.builtin.debug") == CONFIGURED, "from the next task on as before"


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("ansible.builtin.command", {}),
        ("memstretch.density.solotest_schedule", {}),
        ("memstretch.density.solotest", {"mode": "ping"}),
        ("{{ chosen }}", {}),
    ],
)
def test_a_short_task_is_looked_for_as_configured(action, arguments):
    assert interval_of(action, **arguments) == CONFIGURED


def test_who_configured_fewer_looks_gets_them(configured):
    configured["DEFAULT_INTERNAL_POLL_INTERVAL"] = 2.0
    assert interval_of("memstretch.density.study") == 2.0
