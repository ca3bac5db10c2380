# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of a phase from the samples of its charged DRAM."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.module_utils.host import charged_watch
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import CgroupFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.locks import LockError, locked


def test_only_the_limit_is_read_under_the_lock(tmp_path, monkeypatch):
    """The reclaim in the background lowers the limit for a moment, and needs the lock for each look."""
    for name, number in (("memory.limit_in_bytes", 100), ("memory.usage_in_bytes", 90), ("memory.failcnt", 3)):
        (tmp_path / name).write_text(str(number), encoding="ascii")
    group, holds = CgroupFiles(str(tmp_path), version_1=True), []

    def is_free():
        try:
            with locked(f"the limit of the control group {group.path}", timeout=0):
                return True
        except LockError:
            return False

    class Charged:
        def read(self):
            holds.append(("sum", not is_free()))
            return {"charged_bytes": 90, "limit_bytes": 70}  # it was read while the limit was lowered

    limit = CgroupFiles.limit
    monkeypatch.setattr(CgroupFiles, "limit", lambda self: holds.append(("limit", not is_free())) or limit(self))
    sample = charged_watch.sample(Charged(), group, None)
    assert holds == [("sum", False), ("limit", True)]
    assert (sample["charged_bytes"], sample["limit_bytes"], sample["limit_hits"]) == (90, 100, 3)


def test_page_ins_become_rates():
    samples = [{"clock_s": 100.0 + at, "page_ins": count} for at, count in ((0, 50), (1, 250), (2.5, 550), (3, 550))]
    series = charged_watch.page_in_series(samples, 110.0)
    assert series == {"age_s": 10.0, "interval_s": 1.0, "per_second": [200.0, 200.0, 0.0]}
    assert charged_watch.page_in_series([*samples, {"clock_s": 104.0, "page_ins": None}], 110.0) is None


def sample(charged, limit=100, **changes):
    parts = dict.fromkeys(("group_bytes", "zram_bytes", "zram_table_bytes", "zswap_bytes", "page_cache_bytes"), charged)
    return {
        **parts,
        "charged_bytes": charged,
        "stored_bytes": 300,
        "compressed_bytes": 100,
        "limit_bytes": limit,
        "limit_hits": 5,
        "reclaim_cpu_s": 0.0,
        **changes,
    }


def test_the_figures_of_a_phase_are_the_maximum_and_the_mean():
    found = charged_watch.summary(
        [sample(10), sample(40, client_bytes=7), sample(20, 90, limit_hits=8, reclaim_cpu_s=0.25)], "cgroup"
    )
    assert found["charged_bytes"] == {"maximum": 40, "mean": 23} and found["parts"]["zram_bytes"] == 40
    assert (found["samples"], found["compression_ratio"], found["client_bytes"]) == (3, 3.0, 7)
    assert found["limit_bytes"] == [90, 100] and found["limit_hits"] == 3
    assert found["reclaim_cpu_s"] == 0.25
    assert charged_watch.summary([sample(10, limit_hits=None)], "cgroup")["limit_hits"] is None
    assert charged_watch.summary([sample(10), sample(None)], "cgroup")["charged_bytes"] is None
