# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of the README for an existing hypervisor. Takes some minutes, with the installation: make test-demo."""

from __future__ import annotations

import pathlib

import readme_commands

from . import demo
from .conftest import Host

INSTALL_TIMEOUT_S = 900


def test_an_owner_with_a_sudo_password_gets_an_answer_to_each_command(host: Host, checkout: pathlib.Path) -> None:
    done = host.machine.log_in(f"cd {checkout} && sudo -S -p '' make setup", INSTALL_TIMEOUT_S)
    assert done.returncode == 0, done.stdout
    before = demo.settings(host)
    readme_commands.type_all(host.machine.login, str(checkout))
    assert demo.settings(host) == before
    assert host.left_over() == ""
