# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of the throughput benchmark: the order of its rounds, and errors that users can read."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.memstretch.density.plugins.filter import throughput

SETTINGS = {
    "data": "10M",
    "value_sizes": [1000],
    "stretch": 6,
    "seconds": 2,
    "connections": 1,
    "pipeline": 1,
    "compressibility": 0,
}
MIB = 2**20


def test_rounds_are_interleaved_and_each_arm_follows_the_other_equally_often():
    order = [(each["arm"], each["round"]) for each in throughput.throughput_schedule("dram,zram", 4)]

    assert [number for _arm, number in order] == [1, 1, 2, 2, 3, 3, 4, 4]
    firsts = [arm for arm, _number in order[::2]]
    assert sorted(firsts) == ["dram", "dram", "zram", "zram"]


def test_a_profile_may_be_repeated_for_an_a_a_test():
    found = throughput.throughput_schedule(["dram", "zram", "dram"], 1)
    assert {(each["arm"], each["profile"]) for each in found} == {
        ("dram", "dram"),
        ("zram", "zram"),
        ("dram#2", "dram"),
    }
    assert {each["name"] for each in found} == {"dram, round 1", "zram, round 1", "dram#2, round 1"}


@pytest.mark.parametrize(
    "profiles, rounds, message",
    [
        ("dram", 0, "throughput_rounds: 0 is out of range"),
        ("dram", "many", "throughput_rounds: 'many' is not"),
        ("", 3, "profiles: no name is given"),
    ],
)
def test_a_wrong_schedule_is_an_error_of_ansible(profiles, rounds, message):
    with pytest.raises(AnsibleFilterError, match=f"^{message}"):
        throughput.throughput_schedule(profiles, rounds)


def test_swap_that_is_free_counts_as_room():
    memory = {"memory": {"available_bytes": 100 * MIB}, "swap": {"areas": []}}
    area = {"size_bytes": 100 * MIB, "used_bytes": 40 * MIB}

    def left_out(areas, dram):
        return len(throughput.throughput_steps(SETTINGS, {**memory, "swap": {"areas": areas}}, dram)["left_out"])

    assert left_out([], "") == 0  # 85 MiB are needed
    assert left_out([], "30M") == 5
    assert left_out([area], "30M") == 0
    assert left_out([{**area, "used_bytes": 60 * MIB}], "30M") == 5


@pytest.mark.parametrize("total, data", [(48 * 100 * MIB, "100M"), (512 * 2**30, "256M")])
def test_without_a_size_the_data_is_a_share_of_the_memory_and_the_size_is_kept(total, data):
    found = throughput.throughput_steps({**SETTINGS, "data": "", "total_bytes": total})

    assert found["settings"] == {**SETTINGS, "data": data}
    assert found["steps"] == throughput.throughput_steps({**SETTINGS, "data": data})["steps"]
