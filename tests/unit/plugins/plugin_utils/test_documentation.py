# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of modules, by which their actions go."""

from __future__ import annotations

import importlib
import pathlib

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.documentation import (
    documented_options,
    documented_results,
)

ROOT = pathlib.Path(__file__).resolve().parents[4]
CONTROLLER = sorted(path.stem for path in (ROOT / "plugins/plugin_utils/controller").glob("[a-z]*.py"))


@pytest.mark.parametrize("module", sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")))
def test_the_documented_results_of_a_module_are_none_of_ansible(module):
    assert not [key for key in documented_results(module) if key.startswith(("ansible", "_", "add_", "invocation"))]


def test_the_keys_are_those_of_the_documentation():
    assert documented_results("kvm_info") == ["present", "works", "reason"]


def test_options_are_those_of_the_documentation_and_its_fragments():
    options = documented_options("report")
    assert options["results_dir"] == {"type": "str", "default": "results"}, "of a fragment"
    assert options["of"] == {"type": "str", "choices": ["run", "comparison", "experiment"], "default": "run"}
    assert options["runs"] == {"type": "list", "elements": "str"}
    assert options["experiment"]["options"]["name"]["required"] is True
    assert documented_options("study")["run"] == {"type": "dict", "required": True}


@pytest.mark.parametrize("module", CONTROLLER)
def test_a_module_of_the_controller_has_documented_options_and_something_that_does_its_work(module):
    assert documented_options(module)
    name = f"ansible_collections.memstretch.density.plugins.plugin_utils.controller.{module}"
    assert callable(importlib.import_module(name).work)
