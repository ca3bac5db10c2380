# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.run.time_series import merged


def test_merging_weights_by_requests_and_keeps_the_worst():
    hosts = [
        {"series": {"interval_s": 1, "points": [[100, 10, 20, 30]]}},
        {"series": {"interval_s": 1, "points": [[300, 50, 60, 70], [1, 2, 3, 4]]}},
        {},
    ]
    assert merged(hosts) == {"interval": 1, "points": [[400, 40, 60, 70], [1, 2, 3, 4]]}
    assert merged([{"series": None}]) is None
