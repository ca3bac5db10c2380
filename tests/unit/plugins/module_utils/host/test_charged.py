# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charged DRAM, read from files of hosts with both versions of control groups, and from this machine."""

from __future__ import annotations

import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.charged import ChargedDram, cached_bytes, in_use

MIB = 2**20
PAGE = os.sysconf("SC_PAGE_SIZE")
V1, V2 = "/sys/fs/cgroup/memory/fleet", "/sys/fs/cgroup/fleet.slice"
MEMINFO = """MemTotal: 8192000 kB
MemFree: 1000000 kB
Active(file): 300000 kB
Inactive(file): 200000 kB
Dirty: 1000 kB
Writeback: 0 kB
SReclaimable: 100000 kB
SwapTotal: 1048572 kB
SwapFree: 548572 kB
Zswap: 3072 kB
Zswapped: 9216 kB
HugePages_Total: 1100
Hugepagesize: 2048 kB
"""
# Free pages in the lists of the CPUs, as zone and CPU show them.
ZONEINFO = """Node 0, zone   Normal
  pages free     250000
  pagesets
    cpu: 0
              count:    100
              high:     378
    cpu: 1
              count:    28
"""
FILES = {
    "/proc/zoneinfo": ZONEINFO,
    "/proc/meminfo": MEMINFO,
    "/proc/swaps": "Filename Type Size Used Priority\n/dev/zram0 partition 1048572 500000 100\n",
    "/proc/sys/kernel/osrelease": "6.1.0\n",
    "/boot/config-6.1.0": "# CONFIG_ZRAM_MEMORY_TRACKING is not set\n# CONFIG_ZRAM_TRACK_ENTRY_ACTIME is not set\n",
    "/sys/block/zram0/disksize": f"{1024 * MIB}\n",
    "/sys/block/zram0/mm_stat": f"{60 * MIB} {18 * MIB} {20 * MIB} 0 {20 * MIB} 0 0 0 0\n",
    f"{V1}/memory.usage_in_bytes": f"{100 * MIB}\n",
    f"{V1}/memory.limit_in_bytes": f"{100 * MIB}\n",
}


@pytest.fixture
def host(tmp_path, write):
    """Return a function that makes a host of FILES, some of them changed or (None) left out, and reads it."""

    def read(changes=None, mechanism="cgroup", group="fleet"):
        root = str(tmp_path / "host")
        for path, content in {**FILES, **(changes or {})}.items():
            if content is not None:
                write(root, path, content)
        budget = {"mechanism": mechanism, "group": None if mechanism == "hugepages" else group, "original_pages": 100}
        return ChargedDram(budget, root)

    return read


def test_what_zram_and_zswap_hold_is_added_to_the_group(host):
    found = host().read()
    table = 1024 * MIB // PAGE * 16
    assert found["zram_table_bytes"] == table
    assert found["charged_bytes"] == (100 + 20 + 3) * MIB + table
    assert found["zswap_bytes"] == 3 * MIB and found["page_cache_bytes"] == 0
    assert (found["stored_bytes"], found["compressed_bytes"]) == (69 * MIB, 23 * MIB)
    assert found["limit_bytes"] == 100 * MIB


@pytest.mark.parametrize("config", ["CONFIG_ZRAM_MEMORY_TRACKING=y\n", None])
def test_the_entries_of_zrams_table_are_larger_if_the_kernel_may_keep_their_age(host, config):
    assert host({"/boot/config-6.1.0": config}).read()["zram_table_bytes"] == 1024 * MIB // PAGE * 24


def version_2(**changes):
    return {
        **dict.fromkeys(name for name in FILES if name.startswith(V1)),
        f"{V2}/memory.current": f"{90 * MIB}\n",
        f"{V2}/memory.max": "max\n",
        **changes,
    }


def test_version_2_holds_the_pool_of_zswap_itself(host):
    found = host(version_2(**{f"{V2}/memory.zswap.current": f"{3 * MIB}\n"}), group="fleet.slice").read()
    assert found["group_bytes"] == 90 * MIB and found["zswap_bytes"] == 0 and found["limit_bytes"] is None


def test_version_2_of_an_old_kernel_does_not(host):
    assert host(version_2(), group="fleet.slice").read()["zswap_bytes"] == 3 * MIB


@pytest.mark.parametrize(
    "changes, part",
    [
        ({f"{V1}/memory.usage_in_bytes": None, "/sys/fs/cgroup/memory/tasks": ""}, "group_bytes"),
        ({"/sys/block/zram0/mm_stat": None}, "zram_bytes"),
        ({"/sys/block/zram0/disksize": None}, "zram_table_bytes"),
        (
            {"/proc/meminfo": MEMINFO.replace("Zswap:", "Other:"), "/sys/module/zswap/parameters/enabled": "Y"},
            "zswap_bytes",
        ),
        ({"/proc/swaps": "Filename\n/dev/loop3 partition 100 0 1\n"}, "page_cache_bytes"),
    ],
)
def test_a_part_that_is_unknown_makes_the_sum_unknown(host, changes, part):
    found = host(changes).read()
    assert found[part] is None and found["charged_bytes"] is None


def test_a_kernel_without_zswap_has_no_pool(host):
    assert host({"/proc/meminfo": MEMINFO.replace("Zswap:", "Other:")}).read()["zswap_bytes"] == 0


def test_the_page_cache_of_a_buffered_swap_file_is_charged(host, tmp_path, write):
    # The file is below the root of the recorded host, and really in the page cache of this machine.
    loop = {
        "/proc/swaps": "Filename\n/dev/loop3 partition 1024 0 1\n",
        "/sys/block/loop3/loop/dio": "0\n",
        "/sys/block/loop3/loop/backing_file": "/var/swap\n",
        "/var/swap": "x" * 8 * PAGE,
    }
    found = host(loop)
    if cached_bytes(str(tmp_path / "host" / "var" / "swap")) is None:
        pytest.skip("this kernel has no cachestat (Linux 6.5)")
    assert found.read()["page_cache_bytes"] == 8 * PAGE
    assert host({**loop, "/sys/block/loop3/loop/dio": "1\n"}).read()["page_cache_bytes"] == 0


def test_huge_pages_leave_a_small_host_and_all_it_uses_is_charged(host):
    found = host(mechanism="hugepages").read()
    used = (8192000 - 1000000 - (300000 + 200000 - 1000) - 100000) * 1024 - 128 * PAGE
    assert found["charged_bytes"] == found["host_bytes"] == used - 1000 * 2 * MIB, "100 pages were there before"
    assert host({"/proc/meminfo": "MemTotal: 1 kB\n"}, mechanism="hugepages").read()["charged_bytes"] is None


def test_clients_outside_of_the_group_are_counted(host):
    client = host(
        {
            "/proc/10/comm": "solotest-1a2b\n",
            "/proc/10/cgroup": "4:memory:/other\n",
            "/proc/10/statm": "900 300 1 1 0 1 0\n",
            "/proc/11/comm": "solotest-1a2b\n",
            "/proc/11/cgroup": "4:memory:/fleet/inside\n",
            "/proc/11/statm": "900 400 1 1 0 1 0\n",
            "/proc/12/comm": "redis-server\n",
        }
    )
    assert client.client_bytes() == 300 * PAGE


def test_memory_in_use_is_unknown_without_one_of_its_figures():
    assert in_use({"MemTotal": 5, "MemFree": 1}, 0) is None
