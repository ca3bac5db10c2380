# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from synthetic_fleets import SETTINGS

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration


def test_the_briefs_matrix_has_a_fill_and_six_cells_of_four_phases():
    config = configuration.checked({**SETTINGS, "influences": [0, 10, 25], "iterations": 3})
    phases = configuration.phases(config)
    assert len(phases) == 25
    assert [phase["index"] for phase in phases] == list(range(1, 26))
    assert phases[0]["kind"] == "fill"
    assert [(phase["influence"], phase["read_mix"]) for phase in phases[1::4]] == [
        (0, 100),
        (0, 70),
        (10, 100),
        (10, 70),
        (25, 100),
        (25, 70),
    ]
    assert [phase["kind"] for phase in phases[1:5]] == ["warmup", "iteration", "iteration", "iteration"]
    assert len({configuration.file_name(phase) for phase in phases}) == 25


def test_requests_default_to_the_number_of_keys(config):
    assert config["load"]["requests"] == config["load"]["key_count"]
    assert configuration.checked({**SETTINGS, "requests": "77"})["load"]["requests"] == 77


@pytest.mark.parametrize(
    "option, value",
    [
        ("rate", "fast"),
        ("rate", 0),
        ("key_count", 0),
        ("value_size", -1),
        ("read_mixes", [101]),
        ("read_mixes", []),
        ("influences", [9_999_999]),
        ("iterations", 0),
        ("warmups", -1),
        ("slo_avg_us", "x"),
        ("min_overlap", 2),
        ("requests", "0"),
        ("arrivals", "regular"),
        ("pacing", "hasty"),
        ("pattern", "random"),
        ("connections", 0),
        ("pipeline", 4097),
        ("compressibility", 1.1),
        ("cpu", "beside"),
        ("duration", 0),
        ("duration", "long"),
        ("duration", 1e-9),
    ],
)
def test_the_message_names_a_wrong_value(option, value):
    with pytest.raises(SettingError) as caught:
        configuration.checked({**SETTINGS, option: value}, "latency_benchmark_")
    assert f"latency_benchmark_{option}" in str(caught.value)
    assert "must " in str(caught.value)


def test_a_duration_is_converted_to_requests():
    assert configuration.checked({**SETTINGS, "duration": "2.5"})["load"]["requests"] == 2500
    assert configuration.checked({**SETTINGS, "duration": 2.5, "requests": 2500})["load"]["requests"] == 2500
    with pytest.raises(
        SettingError,
        match="latency_benchmark_duration: 2.5 s are 2,500 requests at this rate, but latency_benchmark_requests is 77",
    ):
        configuration.checked({**SETTINGS, "duration": 2.5, "requests": 77}, "latency_benchmark_")
    with pytest.raises(SettingError, match="latency_benchmark_duration: 0 is out of range"):
        configuration.checked({**SETTINGS, "rate": 0.001, "duration": 1}, "latency_benchmark_")


def test_only_the_gaussian_pattern_has_an_influence():
    with pytest.raises(SettingError, match="latency_benchmark_influences: .*pattern uniform.* it must be .0."):
        configuration.checked({**SETTINGS, "pattern": "uniform"}, "latency_benchmark_")
    config = configuration.checked({**SETTINGS, "pattern": "sequential", "influences": "0", "read_mixes": 100})
    assert config["load"]["pattern"] == "sequential" and config["matrix"]["influences"] == [0]


def test_the_placement_of_the_client_is_part_of_the_configuration(config):
    beside = configuration.checked({**SETTINGS, "cpu": "beside_redis"})
    assert configuration.differences(config, beside) == ['load.cpu: "any" -> "beside_redis"']
    assert configuration.checked({**SETTINGS, "cpu": "2"})["load"]["cpu"] == 2


def test_unknown_and_missing_settings_are_named():
    with pytest.raises(SettingError, match="speed is unknown"):
        configuration.checked({**SETTINGS, "speed": 1})
    with pytest.raises(SettingError, match="rate is missing"):
        configuration.checked({name: value for name, value in SETTINGS.items() if name != "rate"})


def test_the_hash_depends_on_the_settings_but_not_on_their_order(config):
    assert configuration.config_hash(config) == configuration.config_hash(dict(reversed(config.items())))
    other = configuration.checked({**SETTINGS, "rate": 1001})
    assert configuration.config_hash(config) != configuration.config_hash(other)
    assert configuration.differences(config, other) == ["load.rate: 1000.0 -> 1001.0"]
