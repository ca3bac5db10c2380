# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranges in the documentation of modules and roles are those that the code enforces."""

from __future__ import annotations

import importlib
import pathlib
import re

import pytest
import yaml

from ansible_collections.memstretch.density.plugins.module_utils.experiment import bandwidth, page_in, writeback
from ansible_collections.memstretch.density.plugins.module_utils.solotest import options as client
from ansible_collections.memstretch.density.plugins.module_utils.solotest import site
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import options as forecast
from ansible_collections.memstretch.density.plugins.plugin_utils.run import options as run
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.study import options as study
from ansible_collections.memstretch.density.plugins.plugin_utils.throughput import steps as throughput

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = "ansible_collections.memstretch.density.plugins.modules"
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
    "benchmark_phase": {"lead_seconds": run.RANGES["lead_seconds"]},
    "density_report": {"slo_avg_us": run.RANGES["slo_avg_us"]},
    "density_plan": forecast.RANGES,
    "density_search": {
        "maximum": study.RANGES["density_max"],
        "probes": study.RANGES["density_probes"],
        "target": study.RANGES["density_target"],
        "overcommit": study.RANGES["density_overcommit"],
        "factor": study.RANGES["density_factor"],
        "slo_factor": run.SLO_FACTOR,
        "minutes": study.RANGES["density_minutes"],
    },
    "calibrated_slo": {"factor": run.SLO_FACTOR, "fitting": study.RANGES["density_max"]},
    "optimize": {
        "screening_rounds": study.RANGES["optimize_screening_rounds"],
        "rounds": study.RANGES["optimize_rounds"],
        "minutes": study.RANGES["optimize_minutes"],
        "attempts": study.RANGES["study_attempts"],
    },
    "page_in_latency": {name: page_in.RANGES[name] for name in ("samples", "max_seconds", "compressibility")},
    "site_check": {
        "rounds": site_check.ROUNDS,
        **site_check.RANGES,
        "slo_factor": run.SLO_FACTOR,
        "slo_avg_us": run.RANGES["slo_avg_us"],
        "slo_p99_us": run.RANGES["slo_p99_us"],
    },
    "site_noise": {**site.RANGES, **{name: client.RANGES[name] for name in ("rate", "key_count", "value_size")}},
    "study": {"rounds": study.RANGES["study_rounds"], "attempts": study.RANGES["study_attempts"]},
}
ROLE_RANGES = {
    "latency_benchmark": {
        **run.RANGES,
        "port": client.RANGES["port"],
        "cpu": client.CPU,
        "spin_us": client.RANGES["spin_us"],
        "reply_timeout": client.RANGES["reply_timeout"],
        "max_phase_seconds": client.RANGES["max_seconds"],
    },
    "throughput_benchmark": {
        **throughput.RANGES,
        "port": client.RANGES["port"],
        "value_sizes": client.RANGES["value_size"],
        "reply_timeout": client.RANGES["reply_timeout"],
    },
    "memory_bandwidth": MODULE_RANGES["memory_bandwidth"],
    "writeback_benchmark": MODULE_RANGES["writeback_benchmark"],
    "density_plan": forecast.RANGES,
    "density_report": MODULE_RANGES["density_report"],
    "selftest": {"max_clock_offset": run.RANGES["max_clock_offset"]},
    "site_check": {**MODULE_RANGES["site_check"], **site.RANGES, "rate": client.RANGES["rate"]},
}


def ranges_in(option):
    """Return the ranges that the description of an option names."""
    description = option["description"]
    text = description if isinstance(description, str) else " ".join(description)
    return {tuple(float(end.replace(",", "")) for end in ends) for ends in re.findall(f"{NUMBER} to {NUMBER}", text)}


@pytest.mark.parametrize(
    "module, name", [(module, name) for module, ranges in MODULE_RANGES.items() for name in ranges]
)
def test_module(module, name):
    documented = yaml.safe_load(importlib.import_module(f"{MODULES}.{module}").DOCUMENTATION)["options"]
    allowed = MODULE_RANGES[module][name]

    assert ranges_in(documented[name]) == {(allowed.low, allowed.high)}


@pytest.mark.parametrize("role, name", [(role, name) for role, ranges in ROLE_RANGES.items() for name in ranges])
def test_role(role, name):
    specs = yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    allowed = ROLE_RANGES[role][name]

    option = specs["argument_specs"]["main"]["options"][f"{role}_{name}"]
    assert ranges_in(option) == {(allowed.low, allowed.high)}
