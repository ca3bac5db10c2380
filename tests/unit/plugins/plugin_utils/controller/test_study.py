# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module study refuses before anything is measured."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.controller.study import OPTIONS_OF
from ansible_collections.memstretch.density.plugins.plugin_utils.documentation import documented_options

MINE = {"profile": "mine.yml", "data": {"sysctl": {}}}


@pytest.fixture
def refusal(work):
    """A function that returns why these options are refused."""

    def call(**given):
        with pytest.raises(SettingError) as refused:
            work("study", True, {"groups": {}}, **{"run": {}, **given})
        return str(refused.value)

    return call


@pytest.mark.parametrize(
    "given, message",
    [
        ({"figure": "p99_us"}, "figure: has no effect with kind=profiles; it is for optimize"),
        ({"settings": "vm.x"}, "settings: has no effect with kind=profiles; it is for ablation and optimize"),
        (
            {"kind": "ablation", **MINE, "order": "blocks"},
            "order: has no effect with kind=ablation; it is for profiles",
        ),
        (
            {"kind": "optimize", **MINE, "prices": {}},
            "prices: has no effect with kind=optimize; it is for profiles and ablation",
        ),
    ],
)
def test_an_option_of_another_kind_is_refused(refusal, given, message):
    assert refusal(**given) == message


@pytest.mark.parametrize("kind", ["ablation", "optimize"])
@pytest.mark.parametrize("given", [{}, {"profile": "mine.yml"}, {"profile": "mine.yml", "data": {}}])
def test_a_study_of_one_profile_needs_its_name_and_content(refusal, kind, given):
    assert refusal(kind=kind, **given).startswith(f"profile, data: both are needed with kind={kind}")


def test_every_option_of_a_kind_exists():
    assert {name for names in OPTIONS_OF.values() for name in names} <= set(documented_options("study"))
