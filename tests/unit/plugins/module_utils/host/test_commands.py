# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real commands, run by AnsibleModule's run_command."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import run_checked
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_command


class CommandError(Exception):
    """The error that the caller asks for."""


def test_the_output_is_returned():
    assert run_checked(run_command, ["echo", "a  b"], CommandError) == "a  b\n"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo out; echo why >&2; exit 3", "^sh -c .* ended with status 3: why$"),
        ("echo out; exit 3", "^sh -c .* ended with status 3: out$"),
    ],
)
def test_a_failure_is_raised_with_command_status_and_output(script, message):
    with pytest.raises(CommandError, match=message):
        run_checked(run_command, ["sh", "-c", script], CommandError)
