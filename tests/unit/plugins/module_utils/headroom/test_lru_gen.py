# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's file of generations. That they show what was accessed is tried on a real kernel that has them."""

from __future__ import annotations

import errno
import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom import lru_gen
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

# As Linux 6.12 of Debian 13 writes it, without the blanks at the ends of lines.
TEXT = """\
memcg     1 /
 node     0
          0      93840          0       5220
          1      93840       1181       1083
memcg    41 /system.slice/two  words.service
 node     0
          5     300100      12000          7x
          6      60050        800          0
          7      10020        300          0
          8         10         40          0
 node     1
          0      93840          0          0
          1      93840          0          0
"""


def test_the_groups_by_path():
    found = lru_gen.parse(TEXT)

    assert list(found) == ["/", "/system.slice/two  words.service"]
    assert found["/"].nodes[0] == [(0, 93.84, 0), (1, 93.84, 1181)]
    assert found["/system.slice/two  words.service"].number == 41
    assert [each.number for each in found["/system.slice/two  words.service"].nodes[0]] == [5, 6, 7, 8]


@pytest.mark.parametrize(
    ("age", "seconds", "pages"),
    [
        (60, 60.05, 1140),
        (10, 10.02, 340),
        (300, None, None),  # the oldest generation also has everything that is older
        (30, None, None),  # none is as old
    ],
)
def test_what_was_accessed_within_an_age(age, seconds, pages):
    (generations,) = lru_gen._nodes(lru_gen.parse(TEXT), "/system.slice/two  words.service")
    border = lru_gen.border(generations, age)
    assert (border.age, lru_gen.active(generations, border)) == (seconds, pages) if border else seconds is None


@pytest.mark.parametrize(
    ("ages", "found"),
    [
        ([1, 3, 10, 30, 60, 180, 300], [[1], [3, 10], [30, 60], [180, 300]]),
        ([1, 3], [[1, 3]]),
        ([5], [[5]]),
    ],
)
def test_two_ages_at_a_time(ages, found):
    assert lru_gen.pairs(ages) == found


@pytest.fixture
def host(tmp_path):
    """A function that makes a host with MGLRU."""

    def make(switch="0x0007", debugfs=True):
        for path, text in ((lru_gen.SWITCH, switch), (lru_gen.GENERATIONS, TEXT)):
            if text is not None and (debugfs or path != lru_gen.GENERATIONS):
                file = tmp_path / path[1:]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="ascii")
        return HostFiles(str(tmp_path))

    return make


@pytest.mark.parametrize(
    ("changes", "probe", "reason"),
    [
        ({}, False, None),
        ({"switch": None}, True, r"this kernel has no MGLRU \(CONFIG_LRU_GEN\)"),
        ({"switch": "0x0000"}, False, r"MGLRU is off \(.* is 0x0000\), and only headroom_probe switches it on"),
        ({"switch": "0x0001"}, False, "MGLRU is off .*"),
        ({"switch": "0x0000"}, True, None),
        ({"debugfs": False}, False, "there is no /sys/kernel/debug/lru_gen: debugfs is not mounted"),
    ],
)
def test_what_speaks_against_it(host, changes, probe, reason):
    files = host(**changes)
    if reason is None:
        assert lru_gen.objection(files, probe) is None
    else:
        with pytest.raises(lru_gen.LruGenError, match=f"^{reason}$"):
            lru_gen.LruGen(files, [], probe)


def test_a_file_that_cannot_be_read_is_named(host, tmp_path):
    """The kernel's lockdown refuses it; root of this test may read any file, but not a directory."""
    files = host(debugfs=False)
    (tmp_path / lru_gen.GENERATIONS[1:]).mkdir(parents=True)
    reason = "^/sys/kernel/debug/lru_gen cannot be read: Is a directory$"
    with pytest.raises(lru_gen.LruGenError, match=reason):
        lru_gen.LruGen(files, [], False)


def test_a_vm_under_kvm_is_refused(host, tmp_path):
    """The kernel does not look into the page tables of its guest, so that everything there would seem cold."""
    files = host()
    (tmp_path / "proc" / "7" / "fd").mkdir(parents=True)
    os.symlink("anon_inode:kvm-vm", tmp_path / "proc" / "7" / "fd" / "9")
    with pytest.raises(lru_gen.LruGenError, match="MGLRU does not see what vm1 accesses, since it is under KVM"):
        lru_gen.LruGen(files, [Unit("vm1", "vm", (7,))], False)


def test_it_is_switched_back_if_it_cannot_be_used(host, tmp_path):
    """The unit of this host has no control group of its own."""
    files = host("0x0000")
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text("0::/\n", encoding="ascii")
    with pytest.raises(lru_gen.LruGenError, match="vm1 has no memory control group of its own"):
        lru_gen.LruGen(files, [Unit("vm1", "vm", (7,))], True).__enter__()
    assert files.text(lru_gen.SWITCH) == "0x0000"


def test_the_name_of_a_group_does_not_end_the_look():
    """Whoever may make a group chooses its name; Python takes more characters for the end of a line than the kernel."""
    odd = TEXT.replace("two  words", "two\x0ba b c d\x1cmemcg x")
    found = lru_gen.parse(odd)
    assert list(found) == ["/", "/system.slice/two\x0ba b c d\x1cmemcg x.service"]
    assert [each.number for each in found["/system.slice/two\x0ba b c d\x1cmemcg x.service"].nodes[0]] == [5, 6, 7, 8]


def test_it_is_switched_back_if_a_look_fails_half_way(host, tmp_path, monkeypatch):
    files = host("0x0000")
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text("0::/system.slice/two  words.service\n", encoding="ascii")
    real = lru_gen.set_kernel_file

    def refuse(path, value):
        if path.endswith("debug/lru_gen"):
            raise OSError(errno.EINVAL, "Invalid argument")
        real(path, value)

    monkeypatch.setattr(lru_gen, "set_kernel_file", refuse)
    look = lru_gen.LruGen(files, [Unit("vm1", "vm", (7,))], True)
    told = r"refused a new generation \(\+ 41 0 8 1 1\): Invalid argument"
    with pytest.raises(lru_gen.LruGenError, match=told), look as generations:
        assert files.text(lru_gen.SWITCH)[:3] == "0x7"
        generations.watch([1])
    assert files.text(lru_gen.SWITCH)[:6] == "0x0000"
