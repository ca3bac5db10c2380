# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module, its role and the profiles have the same options and defaults. tests/local/swap runs the module."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.memstretch.density.plugins.module_utils.swap.options import DEFAULTS
from ansible_collections.memstretch.density.plugins.modules.swap_space import ARGUMENTS, DOCUMENTATION
from ansible_collections.memstretch.density.plugins.plugin_utils.profile import SWAP

ROLE = Path(__file__).parents[4] / "roles" / "swap_space"
PREFIX = "swap_space_"
# The role installs packages; the module does not.
ONLY_IN_ROLE = {"packages"}
# The role leaves it to the module's default.
ONLY_IN_MODULE = {"record_directory"}


def role_file(name):
    return yaml.safe_load((ROLE / name).read_text(encoding="utf-8"))


def options_of_role(data):
    """Return a dictionary without the prefix of its keys, and without the options that only the role has."""
    assert all(name.startswith(PREFIX) for name in data)
    options = {name[len(PREFIX) :]: value for name, value in data.items()}
    assert set(options) >= ONLY_IN_ROLE
    return {name: value for name, value in options.items() if name not in ONLY_IN_ROLE}


def test_the_role_has_the_defaults_of_the_module():
    assert options_of_role(role_file("defaults/main.yml")) == DEFAULTS


@pytest.mark.parametrize("entry_point", ["main", "preflight", "verify"])
def test_the_argument_specs_of_the_role_are_those_of_the_module(entry_point):
    specs = options_of_role(role_file("meta/argument_specs.yml")["argument_specs"][entry_point]["options"])
    keys = ("type", "elements", "choices", "default")
    of_role = {name: {key: option[key] for key in keys if key in option} for name, option in specs.items()}
    of_module = {name: option for name, option in ARGUMENTS.items() if name not in ONLY_IN_MODULE}
    assert of_role == of_module


def test_the_role_passes_every_option_to_the_module():
    (task,) = [task for task in role_file("tasks/swap.yml") if "memstretch.density.swap_space" in task]
    expected = {name: f"{{{{ {PREFIX}{name} }}}}" for name in ARGUMENTS if name not in ONLY_IN_MODULE}
    assert task["memstretch.density.swap_space"] == expected


def test_the_documentation_has_the_same_defaults():
    documented = yaml.safe_load(DOCUMENTATION)["options"]
    assert {name: option["default"] for name, option in documented.items()} == DEFAULTS


def test_a_profile_has_the_defaults_of_the_module():
    assert {name: DEFAULTS[name] for name in SWAP} == SWAP
    assert {"kind", "others", "priority", "zram_algorithm"} <= set(SWAP)
