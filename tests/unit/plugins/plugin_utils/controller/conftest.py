# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import importlib

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.memstretch.density.plugins.plugin_utils import controller
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import Task
from ansible_collections.memstretch.density.plugins.plugin_utils.documentation import documented_options


@pytest.fixture
def work():
    """A function that does what a module on the controller does with these options, as its task gives them."""

    def call(module, check_mode=False, variables=None, **given):
        validated = ArgumentSpecValidator(documented_options(module)).validate(given)
        assert not validated.error_messages
        code = importlib.import_module(f"{controller.__name__}.{module}")
        return code.work(validated.validated_parameters, Task(check_mode, frozenset(given), variables or {}))

    return call
