# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of the memory of the machine that a Redis is on."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.action import endpoint_info

FREE = {"available_bytes": 100, "swap_free_bytes": 30}


@pytest.mark.parametrize(
    "free, server_pid, used, known",
    [
        (FREE, 7, 20, {"free_bytes": 130, "used_bytes": 20}),
        (FREE, 7, None, {"free_bytes": 130, "used_bytes": 0}),
        (FREE, None, 20, None),
        (None, 7, 20, None),
    ],
    ids=["here", "a server that does not say what it uses", "on another host", "a host that does not say what it has"],
)
def test_the_memory_of_a_machine_counts_only_if_the_server_is_there(free, server_pid, used, known):
    state = {"memory": free, "placement": {"server_pid": server_pid}, "server": {"before": {"used_memory": used}}}
    assert endpoint_info._memory(state) == known
