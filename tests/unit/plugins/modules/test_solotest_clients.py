# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of each client are checked as those of the module solotest."""

from __future__ import annotations

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import ARGUMENTS, NEEDED
from ansible_collections.memstretch.density.plugins.modules.solotest_clients import checked


@pytest.fixture
def validator():
    return ArgumentSpecValidator(ARGUMENTS, **NEEDED)


def test_options_get_their_types_and_defaults(validator):
    options = checked(validator, {"mode": "ping", "port": "7001", "socket": None, "cpu": 1}, None)
    assert (options["mode"], options["port"], options["socket"], options["cpu"]) == ("ping", 7001, None, 1)
    assert options["rate"] == ARGUMENTS["rate"]["default"] and options["password"] is None


def test_a_password_comes_apart_from_the_options(validator):
    assert checked(validator, {"username": "bench"}, "correct horse")["password"] == "correct horse"
    with pytest.raises(SettingError, match="required by 'username': password"):
        checked(validator, {"username": "bench"}, None)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"mode": "stop"}, "value of mode must be one of"),
        ({"ports": 7001}, "ports"),
        ({"port": "first"}, "port"),
        ({"port": 70000}, "port: 70000 is out of range"),
        ({"client_cert_file": "/key.pem"}, "client_key_file"),
    ],
)
def test_a_wrong_option_is_named(validator, given, message):
    with pytest.raises(SettingError, match=message):
        checked(validator, given, None)
