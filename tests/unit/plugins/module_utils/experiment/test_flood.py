# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How large a flood must be, and when it counts. tests/local has the kernel write one back."""

from __future__ import annotations

import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import flood
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

MIB = 2**20
GIB = 2**30


@pytest.mark.parametrize(
    "limits, free, size", [((4 * GIB, GIB), 100 * GIB, 5 * GIB), ((GIB, 4 * GIB), 6 * GIB, 3 * GIB)]
)
def test_the_flood_exceeds_each_limit_and_leaves_half_of_the_free_space(limits, free, size):
    assert flood.size_for(limits, free) == size


def test_the_limits_are_those_of_the_kernel(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "vmstat").write_text("nr_dirty_threshold 1000\nnr_dirty_background_threshold 500\n")

    page = os.sysconf("SC_PAGE_SIZE")
    assert flood.thresholds(HostFiles(str(tmp_path))) == (1000 * page, 500 * page)


def samples(written_back, device, dirtied=1000 * MIB, made_before=1000 * MIB):
    """Return samples of two seconds, ten per second, in which Dirty and Writeback grow by 40 MiB."""
    return [
        flood.Counters(
            100 + each / 10,
            (50 + each) * MIB,
            each * MIB,
            written_back * each // 20,
            made_before + dirtied * each // 20,
            device * each // 20,
        )
        for each in range(21)
    ]


def test_a_flood_that_is_written_back_counts():
    found = flood.evidence(samples(100 * MIB, 120 * MIB), 10 * MIB, start=99.0)

    assert (found["valid"], found["reason"]) == (True, "")
    assert found["writeback_per_second"] == 45 * MIB and found["device_per_second"] == 60 * MIB
    assert found["dirty_max"] == 70 * MIB and found["writeback_max"] == 20 * MIB
    assert found["samples"][0] == [1.1, 51 * MIB, MIB, 60 * MIB] and len(found["samples"]) == 20


def test_synchronous_writes_are_no_proof_of_a_flood():
    found = flood.evidence(samples(100 * MIB, 120 * MIB), 99 * MIB, start=100.0)

    assert not found["valid"]
    assert found["reason"].startswith("no write-back ran: 512 KiB of the flood per second were written back")


def test_write_back_of_other_files_is_no_proof_of_a_flood():
    assert not flood.evidence(samples(100 * MIB, 120 * MIB, dirtied=41 * MIB), 0, start=100.0)["valid"]
    assert flood.evidence(samples(100 * MIB, 120 * MIB, dirtied=43 * MIB), 0, start=100.0)["valid"]


def test_a_flood_that_only_piles_up_does_not_count():
    piling = samples(100 * MIB, 120 * MIB, dirtied=60 * MIB, made_before=0)

    assert flood.evidence(piling, 0, start=100.0)["writeback_per_second"] == 0


def test_long_measurements_keep_few_samples():
    many = [flood.Counters(each / 5, 0, 0, each, each, each) for each in range(3000)]

    assert 40 <= len(flood.evidence(many, 0, start=0.0)["samples"]) <= 60
