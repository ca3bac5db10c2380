# SPDX-License-Identifier: GPL-3.0-or-later
"""What a density refuses before anything is touched."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.controller.density import _definition
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import profile_arms

LOAD = {
    "ansible_connection": "local",
    "latency_benchmark_key_count": 9000,
    "latency_benchmark_value_size": 1000,
    "latency_benchmark_compressibility": 0.72,
    "latency_benchmark_rate": 50,
    "latency_benchmark_influences": [25],
    "latency_benchmark_read_mixes": [100],
}
HOSTS = {
    "this_machine": {"ansible_connection": "local"},
    **{f"redis{number}": {**LOAD, "latency_benchmark_port": 7000 + number} for number in (1, 2, 3)},
}
NAMES = ("budget", "max", "references", "growth", "window", "settle", "wait", "hold", "factor", "written")


def definition(profiles="dram,zram", **given):
    options = {**dict.fromkeys(NAMES), "rounds": 3, "slo": "relative", "scope": "every", "budget": "256M", **given}
    groups = {"hypervisors": ["this_machine"], "fleet": [name for name in HOSTS if name != "this_machine"]}
    return _definition(profile_arms("profiles", profiles, at_least=1), options, {"groups": groups, "hostvars": HOSTS})


def test_a_definition_has_what_the_answer_names():
    found = definition(rounds="2", factor="1.5", scope="fleet")
    assert (found["arms"], found["rounds"], found["scope"]) == (["dram", "zram"], 2, "fleet")
    assert found["objective"] == {"kind": "relative", "factor": 1.5} and found["budget_bytes"] == 2**28
    assert found["load"]["rate"] == 50 and found["plan"]["servers"][2] == {"name": "redis3", "port": 7003}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"rounds": 0}, "density_rounds: 0 is out of range; it must be a whole number from 1 to 100"),
        ({"scope": "host"}, "slo_scope: 'host' is not allowed; it must be one of every, fleet"),
        ({"profiles": "zram"}, "profiles: zram is not allowed; with slo=relative the first must be dram"),
        ({"profiles": "zram,dram"}, "with slo=relative the first must be dram"),
        ({"budget": None}, "density_budget: is missing"),
        ({"factor": 1}, "density_factor: 1 is out of range; it must be a number from 1.01 to 100"),
    ],
)
def test_a_bad_setting_is_refused_by_name_and_range(given, named):
    with pytest.raises(SettingError, match=named):
        definition(**given)


def test_absolute_limits_need_no_dram():
    assert definition("zram", slo="absolute")["objective"] == {"kind": "absolute", "avg_us": 50, "p99_us": 300}
