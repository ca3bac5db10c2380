# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Swap is really made, changed and given back: on loop devices, in a file and in zram of this machine."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shlex
import subprocess
import sys
import time
import uuid

import pytest
from open_files import has_open
from runs import RECORD, in_use, read_record, settled, snapshot, swap
from trial import MIB, ModuleRun, call_module, fingerprint, run, without_program

from ansible_collections.memstretch.density.plugins.module_utils.swap.units import crypt_service

pytestmark = pytest.mark.usefixtures("nothing_remains")


@pytest.fixture(name="pair")
def _pair(disks):
    return [disks("A"), disks("B")]


def on(pair, **more):
    return {"kind": "devices", "devices": [disk.path for disk in pair], "min_size": "16M", **more}


def test_disks_get_equal_priorities_and_restored_makes_them_blank_again(pair):
    before = [disk.checksum() for disk in pair]
    result = settled(**on(pair, priority=7))
    assert in_use() == {disk.node: 7 for disk in pair}
    assert [(area["source"], area["device"], area["priority"]) for area in result["areas"]] == [
        (b.path, b.node, 7) for b in pair
    ]
    assert swap(state="restored")["changed"]
    assert not in_use()
    assert [disk.checksum() for disk in pair] == before
    assert not swap(state="restored")["changed"]


def test_check_mode_changes_nothing_and_predicts_the_change(pair):
    before, disks_before = snapshot(), [disk.checksum() for disk in pair]
    predicted = swap(True, **on(pair))
    assert (snapshot(), [disk.checksum() for disk in pair]) == (before, disks_before)
    assert predicted["changed"]
    done = swap(**on(pair))
    assert done["actions"] == predicted["actions"]
    assert [area["source"] for area in done["areas"]] == [area["source"] for area in predicted["areas"]]
    lines = predicted["diff"]["after"].splitlines()
    assert lines
    for line in lines:
        assert "our swap area" in line or re.search(r"128 MiB priority 10 ours$", line)


def test_areas_keep_their_identity_when_only_the_priority_changes(pair):
    swap(**on(pair))
    identity = [run("blkid", "-p", "-s", "UUID", "-o", "value", disk.node) for disk in pair]
    settled(**on(pair, priority=20))
    assert [run("blkid", "-p", "-s", "UUID", "-o", "value", disk.node) for disk in pair] == identity
    assert set(in_use().values()) == {20}


def test_check_mode_lists_each_area_once_when_a_disk_is_added(pair):
    first, second = pair
    swap(**on([first]))
    predicted = swap(True, **on(pair))
    assert [area["device"] for area in predicted["areas"]] == [first.node, None]
    assert [line.split()[1] for line in predicted["diff"]["after"].splitlines() if line.startswith("swap ")] == [
        first.node,
        second.path,
    ]


def test_another_discard_mode_is_a_change(pair):
    swap(**on(pair))
    settled(**on(pair, discard="none"))


@pytest.mark.parametrize("count", [1, 3])
def test_partitions_are_equal_and_restored_removes_them(pair, count):
    result = settled(**on(pair, partitions=count))
    assert len({area["size_bytes"] for area in result["areas"]}) == 1
    assert sorted(in_use()) == sorted(f"{disk.node}p{number}" for disk in pair for number in range(1, count + 1))
    swap(state="restored")
    assert not [name for disk in pair for name in os.listdir(f"/sys/block/{disk.name}") if name.startswith(disk.name)]
    # The checksums may differ: the ends of the partitions were zeroed inside the disks, too.
    assert [run("wipefs", disk.node) for disk in pair] == ["", ""]


def test_from_one_layout_to_another_and_to_other_kinds(pair, tmp_path):
    file = tmp_path / "swap"
    settled(**on(pair, partitions=2))
    settled(**on(pair))
    settled(**on(pair[:1]))
    assert run("wipefs", pair[1].node) == ""
    settled(kind="file", file=str(file), file_size="16M")
    assert in_use() == {str(file): 10}
    assert run("wipefs", pair[0].node) == ""
    settled(kind="zram", zram_size="32M")
    assert not file.exists()
    assert list(in_use()) == ["/dev/zram0"]
    settled(**on(pair))
    assert sorted(in_use()) == sorted(disk.node for disk in pair)


def test_a_disk_in_overwrite_is_used_and_restored_makes_it_blank(disks):
    disk = disks()
    run("mkfs.ext4", "-q", "-F", disk.node)
    content = fingerprint(call_module(**on([disk])))
    allowed = on([disk], overwrite=[{"path": disk.path, "content": content}])
    settled(**allowed)
    result = swap(state="restored")
    assert any(
        "held ext4 before our first run. It was overwritten, as the option overwrite allowed" in text
        for text in result["warnings_list"]
    )
    assert run("wipefs", disk.node) == ""
    # The permission is still in the inventory when the disk holds something else.
    run("mkfs.ext4", "-q", "-F", "-L", "backup", disk.node)
    before = disk.checksum()
    assert "holds ext4 (label backup). That is not the content" in call_module(**allowed)["msg"]
    assert disk.checksum() == before


def test_a_disk_that_others_have_taken_meanwhile_is_left_alone(disks):
    disk = disks()
    swap(**on([disk]))
    run("swapoff", disk.node)
    run("mkfs.ext4", "-q", "-F", disk.node)
    before = disk.checksum()
    result = swap(state="restored")
    assert any("left alone" in text and "ext4" in text for text in result["warnings_list"])
    assert disk.checksum() == before
    assert not os.path.exists(RECORD)


def test_only_swap_on_disks_needs_sfdisk(pair, tmp_path):
    lacks = functools.partial(without_program, "sfdisk")
    for params in ({"kind": "zram", "zram_size": "32M"}, {"kind": "file", "file": str(tmp_path / "swap")}):
        result = call_module(inside=lacks, **{"file_size": "16M", **params})
        assert result["changed"] and in_use(), result
        assert call_module(inside=lacks, state="restored")["changed"] and not in_use()
    missing = "sfdisk is missing on this host; Debian and Ubuntu have it in the package fdisk"
    missing = f"nothing was touched, because:\n- {missing}"
    assert call_module(inside=lacks, **on(pair))["msg"] == missing and not os.path.exists(RECORD)
    swap(**on(pair))
    assert call_module(inside=lacks, state="restored")["msg"] == missing and len(in_use()) == 2


def test_zram_is_before_the_disks_or_the_file_and_goes_with_them(pair, tmp_path):
    file = str(tmp_path / "swap")
    first = {"zram_first": True, "zram_size": "32M"}
    before = snapshot()
    predicted = swap(True, kind="file", file=file, file_size="16M", **first)
    assert snapshot() == before and [area["priority"] for area in predicted["areas"]] == [11, 10]
    done = settled(kind="file", file=file, file_size="16M", **first)
    assert done["actions"] == predicted["actions"]
    assert in_use() == {"/dev/zram0": 11, file: 10}
    # Each of the two is made again if it is missing, and nothing of the other.
    run("swapoff", "/dev/zram0")
    with open("/sys/block/zram0/reset", "w", encoding="ascii") as reset:
        reset.write("1")
    again = settled(kind="file", file=file, file_size="16M", **first)
    assert not any("make the swap file" in text for text in again["actions"])
    assert in_use() == {"/dev/zram0": 11, file: 10}

    settled(**on(pair, priority=5, **first))
    assert in_use() == {"/dev/zram0": 6, pair[0].node: 5, pair[1].node: 5} and not os.path.exists(file)
    settled(**on(pair, priority=5))
    assert in_use() == {disk.node: 5 for disk in pair}
    settled(**on(pair, priority=5, **first))
    settled(kind="zram", zram_size="32M", priority=5)
    assert in_use() == {"/dev/zram0": 5} and run("wipefs", pair[0].node) == ""


# Random bytes do not compress, so zram holds as many as a disk.
SWAPPED_OUT = """
import ctypes, mmap, os, sys, time
size = 24 * 2**20
area = mmap.mmap(-1, size)
area.write(os.urandom(size))
libc = ctypes.CDLL(None, use_errno=True)
address = ctypes.addressof(ctypes.c_char.from_buffer(area))
if libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), 21):
    sys.exit(f"madvise(MADV_PAGEOUT): {ctypes.get_errno()}")
print("out", flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def swapped_out():
    """24 MiB of a process are swapped out."""
    with subprocess.Popen([sys.executable, "-c", SWAPPED_OUT], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "out\n"
            yield
        finally:
            process.kill()


def used_mib():
    """MiB in use by name of area."""
    with open("/proc/swaps", encoding="ascii") as file:
        return {line.split()[0]: int(line.split()[3]) // 1024 for line in file.read().splitlines()[1:]}


def test_the_kernel_fills_zram_before_it_writes_to_the_disk(pair):
    swap(**on(pair[:1], zram_first=True, zram_size="16M"))
    with swapped_out():
        used = used_mib()
    assert used["/dev/zram0"] >= 14 and used[pair[0].node] >= 6, used


def test_a_foreign_zram_device_is_left_alone():
    with open("/sys/block/zram0/disksize", "w", encoding="ascii") as file:
        file.write("16M")
    try:
        result = settled(kind="zram", zram_size="64M", zram_devices=2)
        assert sorted(in_use()) == ["/dev/zram1", "/dev/zram2"]
        assert [area["size_bytes"] for area in result["areas"]] == [32 * MIB - 4096] * 2
        swap(state="restored")
        with open("/sys/block/zram0/disksize", encoding="ascii") as file:
            assert int(file.read()) == 16 * MIB
        assert not os.path.exists("/sys/block/zram1")
    finally:
        with open("/sys/block/zram0/reset", "w", encoding="ascii") as file:
            file.write("1")


def test_zram_uses_the_first_algorithm_that_the_kernel_has():
    with open("/sys/block/zram0/comp_algorithm", encoding="ascii") as file:
        known = file.read().replace("[", "").replace("]", "").split()
    settled(kind="zram", zram_size="32M", zram_algorithm=["no-such", known[-1], known[0]])
    with open("/sys/block/zram0/comp_algorithm", encoding="ascii") as file:
        assert f"[{known[-1]}]" in file.read()
    result = call_module(kind="zram", zram_size="32M", zram_algorithm=["no-such"])
    assert "this kernel has none of no-such; it has" in result["msg"]


@pytest.fixture(name="foreign")
def _foreign(tmp_path):
    path = str(tmp_path / "foreign")
    run("fallocate", "--length", "16M", path)
    os.chmod(path, 0o600)
    run("mkswap", path)
    run("swapon", "--priority", "3", path)
    yield path
    if path in in_use():
        run("swapoff", path)


def test_foreign_swap_is_turned_off_and_on_again_with_its_priority(foreign, tmp_path):
    file = str(tmp_path / "swap")
    settled(kind="file", file=file, file_size="16M", others="off")
    assert in_use() == {file: 10}
    settled(kind="none", others="off")
    assert not in_use()
    assert swap(state="restored")["changed"]
    assert in_use() == {foreign: 3}
    run("swapoff", foreign)


def test_foreign_swap_that_cannot_be_turned_on_does_not_stop_the_restore(foreign, tmp_path):
    """The file was replaced by a sparse one, which is swap by its header and which swapon refuses."""
    file = str(tmp_path / "swap")
    swap(kind="file", file=file, file_size="16M", others="off")
    os.unlink(foreign)
    run("truncate", "--size=16M", foreign)
    os.chmod(foreign, 0o600)
    run("mkswap", foreign)
    result = swap(state="restored")
    assert result["changed"] and not in_use() and not os.path.exists(RECORD) and not os.path.exists(file)
    [warning] = result["warnings_list"]
    assert f"{foreign} was swap with priority 3 before our first run and cannot be turned on: swapon" in warning


def test_foreign_swap_with_a_random_key_comes_back_although_its_uuid_has_changed(disks):
    """Such swap is made again at each boot, so the name by its UUID leads nowhere after the next one."""
    disk, links = disks(), []

    def make():
        identifier = str(uuid.uuid4())
        run("mkswap", "--uuid", identifier, disk.node)
        links.append(f"/dev/disk/by-uuid/{identifier}")
        os.makedirs(os.path.dirname(links[-1]), exist_ok=True)
        os.symlink(disk.node, links[-1])

    make()
    run("swapon", "--priority", "3", disk.node)
    try:
        swap(kind="zram", zram_size="16M", others="off")
        assert disk.node not in in_use()
        assert read_record()["others"][0]["source"] == links[0]
        os.unlink(links[0])  # a boot
        make()
        assert swap(state="restored")["warnings_list"] == []
        assert in_use() == {disk.node: 3}
    finally:
        subprocess.run(["swapoff", disk.node], check=False, capture_output=True)
        for link in links:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(link)


def test_foreign_swap_is_turned_on_again_with_others_keep(foreign, tmp_path):
    swap(kind="none", others="off")
    settled(kind="file", file=str(tmp_path / "swap"), file_size="16M", others="keep")
    assert in_use() == {foreign: 3, str(tmp_path / "swap"): 10}
    run("swapoff", foreign)


def test_swap_in_use_is_not_turned_off_without_head_room(pair):
    disk = pair[0]
    settled(**on([disk]))
    with swapped_out():
        # The last one also makes an area on another disk.
        for params in ({"state": "restored"}, {"kind": "none"}, on([disk], priority=11), on(pair, priority=11)):
            result = call_module(reserve="1000T", **params)
            assert result.get("failed"), result
            assert re.search(
                rf"[\d.]+ MiB are swapped out to {disk.node} and must go back to memory, but only .* are available",
                result["msg"],
            )
            assert in_use() == {disk.node: 10}
        assert swap(**on([disk], priority=11))["changed"]  # there is head-room
        assert in_use() == {disk.node: 11}


@pytest.mark.parametrize("moment", ["nothing done yet", "swap off", "header lost", "half a partition table"])
def test_an_interrupted_run_is_finished_or_undone(disks, moment):
    disk = disks()
    params = on([disk], partitions=2)
    swap(**params)
    record = read_record()
    assert record["disks"] == {disk.path: "nothing"}
    for name in list(in_use()) if moment != "nothing done yet" else []:
        run("swapoff", name)
    if moment == "header lost":
        with open(f"{disk.node}p2", "r+b") as file:
            file.write(bytes(4096))
    elif moment == "half a partition table":
        disk.blank()
        run(
            "sfdisk",
            "--quiet",
            "--no-reread",
            "--no-tell-kernel",
            disk.node,
            data=f'label: gpt\nsize=30MiB, type=S, name="memstretch-swap", uuid={record["areas"][disk.path][0]}\n',
        )
    result = swap(**params)
    assert result["changed"] is (moment != "nothing done yet")
    assert len(in_use()) == 2
    for name in list(in_use()):
        run("swapoff", name)
    swap(state="restored")
    assert run("wipefs", disk.node) == ""


@pytest.mark.parametrize("partitions", [0, 2])
@pytest.mark.parametrize("state", ["present", "restored"])
def test_a_disk_whose_erasing_was_interrupted_is_still_ours(disks, partitions, state):
    disk = disks()
    params = on([disk], partitions=partitions)
    swap(**params)
    for name in in_use():
        run("swapoff", name)
    if partitions:
        run("partx", "--delete", disk.node)
    disk.write(disk.size - 4 * MIB, b"swapped out, up to the end of the disk")
    disk.write(disk.size - 2 * MIB, bytes(2 * MIB))
    if state == "present":
        assert swap(**params)["changed"]
        assert len(in_use()) == max(1, partitions)
    else:
        assert swap(state="restored")["warnings_list"] == []
        assert disk.checksum() == disks("C").checksum() if not partitions else run("wipefs", disk.node) == ""


def test_a_record_that_cannot_be_read_is_not_overwritten(pair):
    swap(**on(pair))
    with open(RECORD, encoding="utf-8") as file:
        before = file.read()
    with open(RECORD, "w", encoding="utf-8") as file:
        file.write(before[:40])
    try:
        for params in (on(pair, priority=11), {"state": "restored"}):
            assert "has this host's original settings and cannot be read" in call_module(**params)["msg"]
        assert set(in_use().values()) == {10}
    finally:
        with open(RECORD, "w", encoding="utf-8") as file:
            file.write(before)


@pytest.fixture(name="other_host")
def _other_host(tmp_path):
    """The parameters by which the module keeps the record of another host that has the same disks."""
    parameters = {"record_directory": str(tmp_path / "other-host")}
    yield parameters
    swap(state="restored", **parameters)


@pytest.mark.parametrize("partitions", [0, 2])
def test_swap_that_another_host_made_on_a_shared_disk_is_refused(disks, other_host, partitions):
    disk = disks()
    swap(**on([disk], partitions=partitions), **other_host)
    for name in in_use():
        run("swapoff", name)  # the other host's swap is not in this host's /proc/swaps
    before = disk.checksum()
    for layout in (0, 2):
        for check in (True, False):
            result = call_module(check, **on([disk], partitions=layout))
            assert result.get("failed"), result
            assert re.search(
                "holds swap with our mark that this host's record does not list.*another host may use it.*overwrite",
                result["msg"],
            )
    assert disk.checksum() == before and not os.path.exists(RECORD)


def test_a_disk_with_the_swap_of_another_host_is_not_erased_by_restored(disks, other_host):
    disk = disks()
    swap(**on([disk]))
    run("swapoff", disk.node)
    disk.blank()
    swap(**on([disk]), **other_host)
    run("swapoff", disk.node)
    before = disk.checksum()
    result = swap(state="restored")
    assert any("left alone" in text and "does not list" in text for text in result["warnings_list"])
    assert disk.checksum() == before


PARTUUID = "01234567-89ab-4def-8123-456789abcdef"


@pytest.fixture(name="encrypted_partition")
def _encrypted_partition(disks):
    """A partition with our name and with random data, as encrypted data looks, and its link below by-partuuid."""
    disk = disks()
    node = disk.partition("gpt", f'size=64MiB, name="memstretch-crypt", uuid={PARTUUID}')
    # The bytes at which short signatures are expected are not random: a test must not fail once in 10,000 runs.
    with open(node, "r+b") as file:
        file.write(bytes(range(256)) * 1024)
    link = f"/dev/disk/by-partuuid/{PARTUUID}"
    made = not os.path.isdir(os.path.dirname(link))
    os.makedirs(os.path.dirname(link), exist_ok=True)
    if not os.path.lexists(link):  # udev makes it
        os.symlink(node, link)
    yield node
    if os.path.lexists(link):
        os.unlink(link)
    if made:
        os.rmdir(os.path.dirname(link))


def test_the_unit_of_encrypted_swap_opens_its_partition_only_if_nobody_else_uses_it(encrypted_partition):
    """Run the command that the unit runs first; this kernel may lack device mapper, which the next command needs."""
    ((_path, unit),) = crypt_service("name", PARTUUID, ["cryptsetup"], "/usr/sbin/wipefs", "/usr/sbin/mkswap").items()
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStartPre=")]
    assert unit.index(line) < unit.index("ExecStart=cryptsetup")
    command = shlex.split(line.partition("=")[2].replace("$$", "$"))

    def examine():
        return subprocess.run(command, text=True, capture_output=True, check=False)

    assert examine().returncode == 0, examine()
    run("mkfs.ext4", "-q", "-F", encrypted_partition)
    refused = examine()
    assert refused.returncode == 1 and "holds data that memstretch.density did not write" in refused.stderr
    with open(encrypted_partition, "r+b") as file:
        file.write(bytes(MIB))
    assert examine().returncode == 0


HOLD_LOCK = """
import fcntl, os, sys
os.makedirs("/var/lib/memstretch", mode=0o700, exist_ok=True)
with open("/var/lib/memstretch/.lock", "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_run_waits_for_another_one_to_end(pair):
    command = [sys.executable, "-c", HOLD_LOCK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        module = ModuleRun(**on(pair))
        deadline = time.monotonic() + 30
        while not has_open(module.process.pid, "/var/lib/memstretch/.lock"):
            assert time.monotonic() < deadline, "the module has not tried to get the lock"
            time.sleep(0.02)
        assert not in_use()
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert module.result()["changed"]
    assert in_use() == {disk.node: 10 for disk in pair}
