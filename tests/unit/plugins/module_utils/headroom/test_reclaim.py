# SPDX-License-Identifier: GPL-3.0-or-later
"""What speaks against a trial, and what it brings back. Trials themselves run on a real kernel, in tests/local."""

from __future__ import annotations

import errno
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


def test_the_name_of_a_mapped_file_does_not_hide_what_is_out(host):
    """Python takes more characters for the end of a line than the kernel, and any user may map a file with any name."""
    odd = SMAPS.replace("/usr/bin/redis-server", "/tmp/a\x0b\x1cb-c 7\x0c\x0bSwap: 1")
    assert reclaim._areas(host(__proc__7__smaps=odd), 7) == [(0x7FFF00000000, 2**21), (0x7FFF00400000, 4096)]


@pytest.fixture
def two_units(host, monkeypatch):
    """A trial with two units in groups of version 1, and what is brought back."""
    texts = {"__proc__meminfo": "SwapFree: 1000000 kB\n"}
    for pid, name in ((7, "a"), (8, "b")):
        texts[f"__proc__{pid}__cgroup"] = f"4:memory:/{name}\n0::/\n"
        texts[f"__proc__{pid}__status"] = "RssAnon: 100000 kB\nVmSwap: 0 kB\n"
        texts[f"__proc__{pid}__smaps"] = SMAPS
        texts[f"__sys__fs__cgroup__memory__{name}__memory.limit_in_bytes"] = "200000000"
        texts[f"__sys__fs__cgroup__memory__{name}__memory.usage_in_bytes"] = "100000000"
    brought = []
    refused = {}

    def bring_back(pid, areas):
        brought.append((pid, len(areas)))
        return refused.get(pid, 0) if areas[0][1] > 4096 or len(areas) > 1 else 0  # not that of the objection

    monkeypatch.setattr(reclaim, "_bring_back", bring_back)
    monkeypatch.setattr(reclaim, "_PAUSE_S", 0.001)
    return host(**texts), [Unit("vm1", "vm", (7,)), Unit("vm2", "vm", (8,))], brought, refused


def limits(tmp_path):
    directory = tmp_path / "sys/fs/cgroup/memory"
    return [(directory / name / "memory.limit_in_bytes").read_text("ascii")[:9] for name in "ab"]


def test_a_trial_that_is_broken_off_half_way_puts_back_what_it_took(two_units, monkeypatch, tmp_path):
    files, units, brought, _refused = two_units
    monkeypatch.setattr(reclaim.Reclaim, "_waited", lambda trial, seconds: 1.0 if seconds > 0.5 else 0.0)
    told = "the trial was broken off: some task waited for memory in 100% of a second"
    with pytest.raises(reclaim.ReclaimError, match=told), reclaim.Reclaim(files, units) as trial:
        trial.watch([3])

    assert limits(tmp_path) == ["200000000"] * 2
    assert [(pid, areas) for pid, areas in brought if pid in (7, 8)] == [(7, 2), (8, 2)]


def test_what_one_unit_refuses_keeps_no_other_from_getting_its_memory_back(two_units, monkeypatch):
    files, units, brought, refused = two_units
    refused[7] = errno.EPERM
    trial = reclaim.Reclaim(files, units)

    def put_back():
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(trial._groups[0][0], "put_back", put_back)
    told = r"the limit of vm1 could not be restored: .*error; vm1 could not be brought back whole: Operation not perm"
    with pytest.raises(reclaim.ReclaimError, match=told):
        trial._give_back()
    assert brought[-2:] == [(7, 2), (8, 2)]


def test_a_vm_that_stopped_before_the_trial_is_no_obstacle(two_units):
    files, units, _brought, _refused = two_units
    trial = reclaim.Reclaim(files, [Unit("gone", "vm", (9,)), *units])
    assert [len(groups) for groups in trial._groups] == [0, 1, 1]
