# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.density import exports


def test_exports_name_the_interval_and_the_time(decided):
    text = exports.open_metrics(decided, 1000.5)
    assert 'memstretch_density{profile="dram"} 10 1000.500' in text and text.endswith("# EOF\n")
    assert 'memstretch_density_bound{profile="dram",bound="low"} 10 1000.500' in text
    lines = exports.windows_csv(decided).splitlines()
    assert len(lines) == 1 + sum(len(each["points"]) for arm in decided["arms"] for each in arm["rounds"])
