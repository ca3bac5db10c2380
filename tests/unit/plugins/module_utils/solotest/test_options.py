# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import PATTERNS, cpu_choice
from ansible_collections.memstretch.density.plugins.modules.solotest import ARGUMENTS


@pytest.mark.parametrize(
    "value, expected", [(None, "any"), ("", "any"), ("any", "any"), ("own", "own"), ("3", 3), (3, 3), (1023, 1023)]
)
def test_cpu_choices(value, expected):
    assert cpu_choice("cpu", value) == expected


@pytest.mark.parametrize("value", ["beside", -1, 1024, "0-3", True, 1.5, []])
def test_cpu_choices_that_are_refused(value):
    with pytest.raises(
        SettingError,
        match="latency_benchmark_cpu: .* it must be any, beside_redis, own or a whole number from 0 to 1,023",
    ):
        cpu_choice("latency_benchmark_cpu", value)


def test_the_module_has_the_same_patterns():
    assert ARGUMENTS["pattern"]["choices"] == list(PATTERNS)
