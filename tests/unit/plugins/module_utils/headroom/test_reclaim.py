# SPDX-License-Identifier: GPL-3.0-or-later
"""What speaks against a trial, and what it brings back. Trials themselves run on a real kernel, in tests/local."""

from __future__ import annotations

import os
import shutil

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom import reclaim
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

SMAPS = """\
555555554000-555555558000 r--p 00000000 fe:00 123 /usr/bin/redis-server
Size:                 16 kB
Swap:                  0 kB
7fff00000000-7fff00200000 rw-p 00000000 00:00 0
Size:               2048 kB
Swap:                 64 kB
VmFlags: rd wr mr mw me ac sd
7fff00400000-7fff00401000 rw-s 00000000 00:01 4 /memfd:pc.ram (deleted)
Swap:                  4 kB
"""
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"


@pytest.fixture
def host(tmp_path):
    """A function that makes a host from the texts of its files."""

    def make(**texts):
        files = {
            "/proc/meminfo": "MemTotal: 100 kB\nSwapFree: 8 kB\n",
            "/proc/pressure/memory": PRESSURE,
            **{name.replace("__", "/"): text for name, text in texts.items()},
        }
        for name, text in files.items():
            if text is not None:
                path = tmp_path / name[1:]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="ascii")
        return HostFiles(str(tmp_path))

    return make


def test_only_areas_with_memory_in_swap_are_brought_back(host):
    assert reclaim._areas(host(__proc__7__smaps=SMAPS), 7) == [(0x7FFF00000000, 2**21), (0x7FFF00400000, 4096)]
    assert reclaim._areas(host(), 8) == []


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"__proc__meminfo": "SwapFree: 0 kB\n"}, "a trial needs free swap to evict to"),
        ({"__proc__pressure__memory": None}, r"a trial needs to know whether tasks wait .* \(PSI\)"),
        ({"__proc__7__cgroup": "0::/\n"}, "vm1 has no memory control group of its own"),
    ],
)
def test_what_speaks_against_a_trial(host, texts, reason):
    with pytest.raises(reclaim.ReclaimError, match=f"^{reason}$"):
        reclaim.Reclaim(host(**texts), [Unit("vm1", "vm", (7,))])


def test_nothing_is_brought_back_of_a_process_that_has_ended():
    started = os.fork()
    if not started:
        os._exit(0)
    os.waitpid(started, 0)
    assert os.strerror(reclaim._bring_back(started, [])) == "No such process"


@pytest.mark.parametrize("limit", ["9223372036854771712", "1048576"])
def test_a_limit_is_as_before_after_each_step(host, tmp_path, limit):
    texts = {
        "__sys__fs__cgroup__memory__a__memory.limit_in_bytes": limit,
        "__sys__fs__cgroup__memory__a__memory.usage_in_bytes": "900000",
    }
    group = reclaim._Group(host(**texts), "/a")
    assert group.take(4096)
    assert (tmp_path / "sys/fs/cgroup/memory/a/memory.limit_in_bytes").read_text("ascii")[: len(limit)] == limit


def test_the_group_of_a_vm_that_has_stopped_has_no_limit_to_restore(host, tmp_path):
    """The others are still restored."""
    directory = "__sys__fs__cgroup__memory__{}__memory.{}"
    texts = {directory.format(name, "limit_in_bytes"): "1048576" for name in "ab"}
    texts.update({directory.format(name, "usage_in_bytes"): "900000" for name in "ab"})
    files = host(**texts)
    stopped, running = (reclaim._Group(files, f"/{name}") for name in "ab")
    shutil.rmtree(tmp_path / "sys/fs/cgroup/memory/a")

    assert not stopped.take(4096)
    stopped.put_back()
    assert running.take(4096)
