# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's defaults, its argument_specs and the tables that both follow say the same."""

from __future__ import annotations

import importlib
import pathlib

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import OPTIONS
from ansible_collections.memstretch.density.plugins.plugin_utils.run.configuration import OPEN_PACINGS
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import SLO_AVG_US, SLO_P99_US

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROLES = sorted(path.parents[1].name for path in ROOT.glob("roles/*/meta/argument_specs.yml"))


def defaults_of(role):
    path = ROOT / "roles" / role / "defaults" / "main.yml"
    return yaml_load(path.read_text(encoding="utf-8")) if path.exists() else {}


def documented(role):
    path = ROOT / "roles" / role / "meta" / "argument_specs.yml"
    specs = yaml_load(path.read_text(encoding="utf-8"))["argument_specs"]
    return {name: option for entry in specs.values() for name, option in entry.get("options", {}).items()}


def is_computed(value):
    """Check whether a default is an expression, which the documentation may describe in words."""
    return isinstance(value, str) and "{{" in value


@pytest.mark.parametrize("role", ROLES)
def test_each_default_is_the_documented_one(role):
    options = documented(role)
    stated = {name: value for name, value in defaults_of(role).items() if not is_computed(value)}

    assert stated == {name: options[name].get("default") for name in stated}


@pytest.mark.parametrize("role", ROLES)
def test_each_documented_default_is_set(role):
    stated = {name for name, option in documented(role).items() if "default" in option}

    assert stated <= set(defaults_of(role))


def test_the_benchmark_offers_the_choices_of_the_client():
    options = documented("latency_benchmark")

    for name in ("arrivals", "pattern"):
        assert tuple(options[f"latency_benchmark_{name}"]["choices"]) == OPTIONS[name].choices
    assert tuple(options["latency_benchmark_pacing"]["choices"]) == OPEN_PACINGS


def test_the_objective_of_the_roles_is_that_of_the_table():
    defaults = defaults_of("latency_benchmark")

    assert defaults["latency_benchmark_slo_avg_us"] == SLO_AVG_US
    assert defaults["latency_benchmark_slo_p99_us"] == SLO_P99_US


@pytest.mark.parametrize("plugin", ["callback.fleet_latency", "modules.site_check"])
def test_the_documented_objective_of_a_plugin_is_that_of_the_table(plugin):
    text = importlib.import_module(f"ansible_collections.memstretch.density.plugins.{plugin}").DOCUMENTATION
    options = yaml_load(text)["options"]

    assert (options["slo_avg_us"]["default"], options["slo_p99_us"]["default"]) == (SLO_AVG_US, SLO_P99_US)
