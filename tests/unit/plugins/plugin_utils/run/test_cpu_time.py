# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run.cell import of_interest
from ansible_collections.memstretch.density.plugins.plugin_utils.run.cpu_time import CpuTime


def host(before=1.0, after=1.5, sent=10_000, user=0.2, system=0.1):
    return {
        "server": {"before": {"cpu_s": before}, "after": {"cpu_s": after}},
        "health": {"user_s": user, "system_s": system},
        "requests": {"sent": sent},
        "settings": {},
    }


def phase(*hosts, kind="iteration", reclaim=None):
    charged = {} if reclaim is None else {"boot-1": {"reclaim_cpu_s": reclaim}}
    return {
        "phase": {"kind": kind},
        "hosts": {f"vm{number}": of_interest(each) for number, each in enumerate(hosts)},
        "charged_dram": charged,
    }


def document(*phases):
    found = CpuTime()
    for each in phases:
        found.add(each)
    return found.document()


def test_a_request_takes_what_redis_client_and_reclaim_take_together():
    # 0.5 + 0.7 s of Redis, 0.3 + 0.3 of the clients, 0.2 of reclaim, for 20,000 requests
    found = document(phase(host(), host(after=1.7), reclaim=0.2))
    assert found == {"requests": 20_000, "redis_us": 60.0, "client_us": 30.0, "reclaim_us": 10.0, "total_us": 100.0}


def test_iterations_add_up_and_warm_ups_do_not_count():
    found = document(phase(host(), kind="warmup"), phase(host()), phase(host(after=2.5), reclaim=0.1))
    assert found == {"requests": 20_000, "redis_us": 100.0, "client_us": 30.0, "reclaim_us": 5.0, "total_us": 135.0}
    assert document(phase(host(), kind="warmup")) is None


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"before": None}, "redis_us"),
        ({"after": 0.5}, "redis_us"),  # another Redis
        ({"system": None}, "client_us"),
    ],
)
def test_one_unknown_host_makes_its_part_and_the_sum_unknown_never_smaller(changes, part):
    found = document(phase(host(), host(**changes)))
    unknown = {name for name, value in found.items() if value is None}
    assert unknown == {part, "total_us"}


def test_a_host_that_tells_nothing_is_unknown():
    found = document(phase({"server": None, "health": None, "requests": {"sent": 5}, "settings": {}}))
    assert found["redis_us"] is None and found["client_us"] is None and found["reclaim_us"] == 0
