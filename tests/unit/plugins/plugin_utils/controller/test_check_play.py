# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the variables profile and profiles a playbook refuses. tests/local refuses plays for the other reasons."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.controller.check_play import refuse_the_other_number


@pytest.mark.parametrize(
    "number, variables, told",
    [
        ("one", {"profiles": "zram"}, "^profiles: this playbook has one profile, .* such as -e profile=zram$"),
        (
            "several",
            {"profile": "zram"},
            "^profile: this playbook has several profiles, .* such as -e profiles=dram,zram$",
        ),
    ],
)
def test_a_variable_that_would_be_ignored_is_refused(number, variables, told):
    with pytest.raises(SettingError, match=told):
        refuse_the_other_number(number, variables)


@pytest.mark.parametrize("number", ["one", "several"])
@pytest.mark.parametrize("variables", [{}, {"profile": "swap", "profiles": "dram,swap"}])
def test_defaults_and_both_are_allowed(number, variables):
    refuse_the_other_number(number, variables)
