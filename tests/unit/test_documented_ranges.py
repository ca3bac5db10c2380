# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranges in the documentation of modules and roles are those that the code enforces."""

from __future__ import annotations

import importlib
import pathlib
import re

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.memstretch.density.plugins.module_utils.experiment import bandwidth, page_in, writeback
from ansible_collections.memstretch.density.plugins.module_utils.headroom import look
from ansible_collections.memstretch.density.plugins.module_utils.redis import instances as redis
from ansible_collections.memstretch.density.plugins.module_utils.solotest import options as client
from ansible_collections.memstretch.density.plugins.module_utils.solotest import site
from ansible_collections.memstretch.density.plugins.module_utils.swap import options as swap
from ansible_collections.memstretch.density.plugins.module_utils.vm import options as vm
from ansible_collections.memstretch.density.plugins.modules import kvm_info, solotest_schedule
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import options as forecast
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import options as headroom
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp import plan as ramp
from ansible_collections.memstretch.density.plugins.plugin_utils.run import options as run
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.study import options as study
from ansible_collections.memstretch.density.plugins.plugin_utils.throughput import steps as throughput
from ansible_collections.memstretch.density.plugins.plugin_utils.vm import members as vm_members

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUGINS = "ansible_collections.memstretch.density.plugins"
FRAGMENTS = "memstretch.density."
NUMBER = r"(-?\d[\d,]*(?:\.\d+)?(?:e\d+)?)"

MODULE_RANGES = {
    "solotest": {**client.RANGES, "cpu": client.CPU},
    "memory_bandwidth": {
        **bandwidth.RANGES,
        "readers": bandwidth.READERS,
        "channels": bandwidth.CHANNELS,
        "link": bandwidth.LINK,
    },
    "writeback_benchmark": {**writeback.RANGES, "threads": writeback.WRITERS},
    "benchmark_run": {"max_clock_offset": run.RANGES["max_clock_offset"]},
    "benchmark_schedule": {name: run.RANGES[name] for name in ("gap_seconds", "lead_seconds")},
    "solotest_schedule": {
        "release_within": solotest_schedule.RELEASE_WITHIN,
        "wait": solotest_schedule.WAIT,
    },
    "report": {name: run.RANGES[name] for name in ("slo_avg_us", "slo_p99_us")},
    "headroom": headroom.RANGES,
    "headroom_info": look.RANGES,
    "kvm_info": {"timeout": kvm_info.TIMEOUT},
    "redis_instances": redis.RANGES,
    "swap_space": swap.RANGES,
    "density_plan": forecast.RANGES,
    "density": {
        "rounds": study.RANGES["density_rounds"],
        **{name.partition("_")[2]: allowed for name, allowed in ramp.RANGES.items()},
    },
    "page_in_latency": {name: page_in.RANGES[name] for name in ("samples", "max_seconds", "compressibility")},
    "site_check": {
        **site_check.RANGES,
        "slo_factor": run.SLO_FACTOR,
        "slo_avg_us": run.RANGES["slo_avg_us"],
        "slo_p99_us": run.RANGES["slo_p99_us"],
    },
    "site_noise": {**site.RANGES, **{name: client.RANGES[name] for name in ("rate", "key_count", "value_size")}},
    "study": {name: study.RANGES[f"study_{name}"] for name in ("rounds", "attempts", "screening_rounds", "minutes")},
    "vm_fleet": {
        **vm.RANGES,
        "vcpus": vm.VCPUS,
        "vms": vm.NUMBER,
        "numa_nodes": vm.NUMA_NODE,
        "network.first_port": vm.FIRST_PORT,
    },
}
FILTER_RANGES = {
    "throughput_schedule": {"rounds": study.RANGES["study_rounds"]},
    "vm_members": {"_input": vm_members.COUNT},
}
ROLE_RANGES = {
    "latency_benchmark": {
        **run.RANGES,
        "port": client.RANGES["port"],
        "cpu": client.CPU,
        "observer_cpu": client.CPU,
        "observer_rate": client.RANGES["rate"],
        "spin_us": client.RANGES["spin_us"],
        "reply_timeout": client.RANGES["reply_timeout"],
    },
    "throughput_benchmark": {
        **throughput.RANGES,
        "port": client.RANGES["port"],
        "value_sizes": client.RANGES["value_size"],
        "reply_timeout": client.RANGES["reply_timeout"],
    },
    "memory_bandwidth": MODULE_RANGES["memory_bandwidth"],
    "writeback_benchmark": MODULE_RANGES["writeback_benchmark"],
    "redis": {
        "start_timeout": redis.RANGES["timeout"],
        "systemd_oom_score_adjust": redis.RANGES["oom_score_adjust"],
        "port": redis.RANGES["port"],
    },
    "swap_space": swap.RANGES,
    "selftest": {"max_clock_offset": run.RANGES["max_clock_offset"]},
    "vm_fleet": {
        **vm.RANGES,
        "count": vm_members.COUNT,
        "vcpus": vm.VCPUS,
        "numa_nodes": vm.NUMA_NODE,
        "network": vm.FIRST_PORT,
    },
}

# What is not the range of a number that one of these tables could hold.
OTHER_RANGES = {
    "dram_budget.state": "the share of the budget that fitted aims at",
    "host_settings.sysfs": "what the kernel accepts as a percentage",
    "redis.name": "a length",
    "solotest_schedule.session": "a length",
    "redis.username": "a length",
    "redis_instances.name": "a length",
    "kernel_cmdline.reboot_timeout": "checked in YAML, see test_a_range_that_a_role_checks_in_yaml",
    "vm_fleet.name": "a length",
}


def ranges_in(option):
    """Return the ranges that the description of an option names."""
    description = option["description"]
    text = description if isinstance(description, str) else " ".join(description)
    return {tuple(float(end.replace(",", "")) for end in ends) for ends in re.findall(f"{NUMBER} to {NUMBER}", text)}


def with_suboptions(options):
    """Return the options, and those in them by both names, such as network.first_port."""
    inner = {
        f"{name}.{each}": option
        for name, outer in options.items()
        for each, option in with_suboptions(outer.get("suboptions", {})).items()
    }
    return {**options, **inner}


def options_of_module(module):
    """Return a module's options, with those of the collection's doc fragments."""
    documentation = yaml_load(importlib.import_module(f"{PLUGINS}.modules.{module}").DOCUMENTATION)
    options = documentation.get("options", {})
    for fragment in documentation.get("extends_documentation_fragment", []):
        if fragment.startswith(FRAGMENTS):
            shared = importlib.import_module(f"{PLUGINS}.doc_fragments.{fragment.removeprefix(FRAGMENTS)}")
            for name, option in yaml_load(shared.ModuleDocFragment.DOCUMENTATION).get("options", {}).items():
                options[name] = {**option, **options.get(name, {})}
    return with_suboptions(options)


def options_of_filter(name):
    text = (ROOT / "plugins" / "filter" / f"{name}.yml").read_text(encoding="utf-8")
    return yaml_load(text)["DOCUMENTATION"]["options"]


def options_of_role(role):
    specs = yaml_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    options = specs["argument_specs"]["main"].get("options", {})
    return {name.removeprefix(f"{role}_"): option for name, option in options.items()}


@pytest.mark.parametrize(
    "module, name", [(module, name) for module, ranges in MODULE_RANGES.items() for name in ranges]
)
def test_module(module, name):
    allowed = MODULE_RANGES[module][name]

    assert ranges_in(options_of_module(module)[name]) == {(allowed.low, allowed.high)}


@pytest.mark.parametrize("role, name", [(role, name) for role, ranges in ROLE_RANGES.items() for name in ranges])
def test_role(role, name):
    allowed = ROLE_RANGES[role][name]

    assert ranges_in(options_of_role(role)[name]) == {(allowed.low, allowed.high)}


@pytest.mark.parametrize("name, option", [(name, each) for name, ranges in FILTER_RANGES.items() for each in ranges])
def test_filter(name, option):
    allowed = FILTER_RANGES[name][option]

    assert ranges_in(options_of_filter(name)[option]) == {(allowed.low, allowed.high)}


def unchecked(pattern, options_of, table):
    """Return the options whose documentation names a range that the table lacks."""
    names = sorted(path.stem for path in ROOT.glob(pattern) if not path.name.startswith("_"))
    return {
        f"{each}.{name}"
        for each in names
        for name, option in options_of(each).items()
        if ranges_in(option) and name not in table.get(each, {})
    }


def test_every_documented_range_is_checked_here():
    found = unchecked("plugins/modules/*", options_of_module, MODULE_RANGES)
    found |= unchecked("plugins/filter/*.yml", options_of_filter, FILTER_RANGES)
    assert found | unchecked("roles/*", options_of_role, ROLE_RANGES) == set(OTHER_RANGES)


def test_every_vm_of_the_largest_fleet_has_a_number():
    assert (vm_members.COUNT.high, vm.NUMBER.low) == (vm.NUMBER.high, 1)


@pytest.mark.parametrize(
    "role, name, checked, unit, file",
    [
        ("kernel_cmdline", "reboot_timeout", "kernel_cmdline_reboot_timeout | int", " (seconds)", "tasks/check.yml"),
    ],
)
def test_a_range_that_a_role_checks_in_yaml(role, name, checked, unit, file):
    text = (ROOT / "roles" / role / file).read_text(encoding="utf-8")
    low, high = re.search(rf"(-?\d+) <= {re.escape(checked)} <= (\d+)", text).groups()
    assert f"it must be from {low} to {high}{unit}" in text
    assert ranges_in(options_of_role(role)[name]) == {(float(low), float(high))}
