# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.run import endpoint

CLIENT = {"host": "10.0.0.7", "port": 6379, "socket": None, "tls": False}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "10.0.0.7:6379"),
        ({"port": "7001", "tls": "false"}, "10.0.0.7:7001"),
        ({"host": "fe80::1"}, "[fe80::1]:6379"),
        ({"tls": True}, "rediss://10.0.0.7:6379"),
        ({"tls": "yes", "host": "::1"}, "rediss://[::1]:6379"),
        ({"socket": "/run/redis.sock"}, "/run/redis.sock"),
    ],
)
def test_an_endpoint_is_called_by_its_address(changes, name):
    assert endpoint.name({**CLIENT, **changes}) == name


def test_an_observer_reaches_the_redis_over_tcp():
    given = {"name": "watcher", "host": "fe80::2", "rate": "100"}
    found = endpoint.observer(given, {**CLIENT, "socket": "/run/redis.sock", "tls": True})
    assert found == {"name": "watcher", "endpoint": "rediss://[fe80::2]:6379", "rate": 100.0}
    assert endpoint.observer(None, CLIENT) is None


@pytest.mark.parametrize(("rate", "tls", "option"), [("fast", False, "observer_rate"), (1, "perhaps", "tls")])
def test_a_wrong_value_is_refused_by_its_name(rate, tls, option):
    given = {"name": "watcher", "host": "::1", "rate": rate}
    with pytest.raises(SettingError, match=f"latency_benchmark_{option}: '(fast|perhaps)' is not allowed"):
        endpoint.observer(given, {**CLIENT, "tls": tls})


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
    assert endpoint._memory(state) == known
