# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.memstretch.density.plugins.filter.ksm import ksm_thres_coef


@pytest.mark.parametrize(
    ("dram", "memory", "expected"),
    [("192G", "768G", 80), (192 * 2**30, 192 * 2**30, 20), ("96G", "192G", 60), ("1G", "1T", 100)],
)
def test_the_threshold_of_the_brief(dram, memory, expected):
    assert ksm_thres_coef(dram, memory) == expected


@pytest.mark.parametrize(("dram", "memory"), [("0", "1G"), ("2G", "1G"), ("much", "1G"), ("1G", "")])
def test_sizes_that_cannot_be_are_refused(dram, memory):
    with pytest.raises(AnsibleFilterError):
        ksm_thres_coef(dram, memory)
