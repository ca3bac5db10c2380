# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that fail or vanish, drives with sectors of 4 KiB, and power cuts between two writes.

The loop devices get real I/O errors: a read beyond the end of a truncated file fails with EIO, and a write that finds
no room on the file's file system with ENOSPC.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal

import pytest
from situations import race
from trial import BY_ID, MIB, ModuleRun, after_sfdisk, call_module, fingerprint, run

RECORD = "/var/lib/memstretch/swap_space.json"


def in_use():
    """The names of the areas in use."""
    return sorted(line.split()[0] for line in pathlib.Path("/proc/swaps").read_text("ascii").splitlines()[1:])


def recorded_disks():
    return json.loads(pathlib.Path(RECORD).read_text("utf-8"))["disks"]


@pytest.fixture(autouse=True)
def _nothing_remains(disks):
    """Give everything back; it depends on the disks, which are there until then."""
    yield
    call_module(state="restored")
    assert in_use() == []
    assert not os.path.exists("/var/lib/memstretch")


@pytest.fixture(name="small_room")
def _small_room(tmp_path):
    """A file system with room for 2 MiB, on which larger files with holes can be, and a function that changes that."""
    directory = str(tmp_path / "room")
    os.mkdir(directory)
    run("mount", "-t", "tmpfs", "-o", "size=2M", "none", directory)
    yield directory, lambda size: run("mount", "-o", f"remount,size={size}", directory)
    run("umount", "--lazy", directory)


def drop_caches(disk):
    """Make the next read of a disk reach the disk."""
    run("blockdev", "--flushbufs", disk.node)


def refused(answer, check=False, **params):
    result = call_module(check, **params)
    assert result.get("failed"), result
    assert re.search(answer, result["msg"]), result["msg"]


# ---- reads that fail


@pytest.mark.parametrize("missing", [512, 2 * MIB, 5 * MIB, 100 * MIB])
def test_a_disk_that_cannot_be_read_is_not_blank(disks, missing):
    disk = disks()
    os.ftruncate(disk.backing, disk.size - missing)
    drop_caches(disk)
    for check in (True, False):
        refused(
            r"cannot be examined: .*(cannot be read|Input/output error).*No option allows that", check, **disk.params()
        )
    assert os.fstat(disk.backing).st_size == disk.size - missing, "the disk was written to"
    assert not any(os.pread(disk.backing, 8 * MIB, 0))
    assert not os.path.exists(RECORD)


def test_a_disk_that_shrinks_between_check_and_write_is_not_blank(disks):
    disk = disks()

    def shrink():
        os.ftruncate(disk.backing, disk.size - MIB)
        run("losetup", "--set-capacity", disk.node)

    with pytest.raises(Exception, match=r"cannot be read: only \d+ of 4194304 bytes"):
        race(disk, shrink)
    assert not any(os.pread(disk.backing, disk.size, 0))


def test_a_drive_that_is_gone_but_for_its_device_is_not_blank(disks):
    disk = disks()
    run("losetup", "--detach", disk.node)
    refused("cannot be examined: .* has no bytes: the drive is gone.*No option allows that", **disk.params())


# ---- writes that fail


@pytest.mark.long
def test_a_drive_that_fails_while_it_is_partitioned_is_reported_and_can_be_restored(disks, small_room):
    directory, resize = small_room
    disk = disks(directory=directory)
    params = disk.params(partitions=2)
    fails = r"(has not stored what was written|cannot be written at|failing|No space left)"
    refused(fails, **params)
    assert in_use() == []
    assert list(recorded_disks()) == [disk.path]
    # It still fails: the same command is refused again, and nothing is in use.
    refused(fails, **params)
    assert in_use() == []
    # Now the drive is well again, and the same command continues.
    resize("200M")
    result = call_module(**params)
    assert not result.get("failed"), result
    assert in_use() == [f"{disk.node}p1", f"{disk.node}p2"]
    assert call_module(state="restored")["warnings_list"] == []
    assert run("wipefs", disk.node) == ""


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_drive_that_is_removed_while_it_is_partitioned(disks, small_room, partitions):
    """From one moment on every read and write fails, and then the device and its path are gone."""
    directory, resize = small_room
    resize("200M")
    disk = disks(directory=directory)

    def fail():
        os.ftruncate(disk.backing, 0)
        resize("4k")

    result = ModuleRun(False, after_sfdisk(fail), **disk.params(partitions=partitions)).result()
    assert result.get("failed"), result
    assert in_use() == []
    assert recorded_disks() == {disk.path: "nothing"}
    os.rename(disk.path, f"{disk.path}-gone")
    try:
        refused("cannot be found", **disk.params(partitions=partitions))
        result = call_module(state="restored")
        assert not result.get("failed"), result
        assert any("left alone" in text and "cannot be found" in text for text in result["warnings_list"])
        assert not os.path.exists(RECORD)
    finally:
        os.rename(f"{disk.path}-gone", disk.path)


def test_a_drive_that_is_detached_while_it_is_partitioned(disks):
    """The kernel detaches a loop device when the last program closes it, so all is written and then it is gone."""
    disk = disks()
    result = ModuleRun(False, after_sfdisk(lambda: run("losetup", "--detach", disk.node)), **disk.params(partitions=1))
    message = result.result()
    assert message.get("failed"), message
    assert in_use() == []
    restored = call_module(state="restored")
    assert not restored.get("failed"), restored
    assert any("left alone" in text and "the drive is gone" in text for text in restored["warnings_list"])


def test_a_drive_that_can_only_be_read_keeps_no_other_from_being_restored(disks):
    """As at the end of the life of many drives. Its record stays, and a later run tries again."""
    worn, well = disks("worn"), disks("well")
    result = call_module(**worn.params(partitions=1, devices=[worn.path, well.path]))
    assert not result.get("failed"), result
    run("blockdev", "--setro", worn.node)
    try:
        restored = call_module(state="restored")
        assert not restored.get("failed"), restored
        assert [text for text in restored["warnings_list"] if f"the next run tries again: {worn.path}" in text]
        assert in_use() == [] and recorded_disks() == {worn.path: "nothing"} and run("wipefs", well.node) == ""
    finally:
        run("blockdev", "--setrw", worn.node)
    assert call_module(state="restored")["warnings_list"] == []
    assert run("wipefs", worn.node) == "" and not os.path.exists(RECORD)


# ---- power cuts


def killed_after_sfdisk(**params):
    """Run the module and kill it between the partition table and the headers of the areas."""
    module = ModuleRun(False, after_sfdisk(lambda: os.kill(os.getpid(), signal.SIGKILL)), **params)
    with pytest.raises(EOFError):
        module.result()
    assert module.process.exitcode == -signal.SIGKILL


@pytest.mark.long
@pytest.mark.parametrize("then", ["continue", "restore"])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("before", ["blank", "ext4 named in overwrite", "another layout of ours"])
def test_a_power_cut_between_partition_table_and_headers(disks, then, partitions, before):
    disk = disks()
    params = disk.params(partitions=partitions)
    if before == "ext4 named in overwrite":
        run("mkfs.ext4", "-q", "-F", disk.node)
        params["overwrite"] = [{"path": disk.path, "content": fingerprint(call_module(**params))}]
    elif before == "another layout of ours":
        assert call_module(**disk.params(partitions=2))["changed"]
    killed_after_sfdisk(**params)
    assert in_use() == []
    table = json.loads(run("sfdisk", "--json", disk.node))["partitiontable"]["partitions"]
    assert [part["name"] for part in table] == ["memstretch-swap"] * partitions
    if then == "continue":
        for changed in (True, False):
            result = call_module(**params)
            assert not result.get("failed"), result
            assert result["changed"] is changed
        assert len(in_use()) == partitions
    result = call_module(state="restored")
    assert [text for text in result["warnings_list"] if "left alone" in text] == []
    assert run("wipefs", disk.node) == ""
    assert call_module(True, **disk.params())["changed"], "the disk is not blank again"


# ---- sectors of 4 KiB


@pytest.mark.parametrize("partitions", [0, 1, 3])
def test_a_drive_with_sectors_of_4_kib(disks, partitions):
    disk = disks(sector=4096)
    assert pathlib.Path(f"/sys/block/{disk.name}/queue/logical_block_size").read_text("ascii") == "4096\n"
    params = disk.params(partitions=partitions)
    for changed in (True, False):
        result = call_module(**params)
        assert not result.get("failed"), result
        assert result["changed"] is changed
    assert len(in_use()) == max(1, partitions)
    assert call_module(state="restored")["warnings_list"] == []
    assert run("wipefs", disk.node) == ""
    assert call_module(True, **params)["changed"], "the disk is not blank again"


@pytest.mark.parametrize("sector", [512, 4096])
def test_more_partitions_than_the_kernel_has_swap_areas(disks, sector):
    disk = disks(size=512 * MIB, sector=sector)
    before = disk.checksum()
    refused("128", **disk.params(partitions=128))
    assert disk.checksum() == before
    assert in_use() == [] and not os.path.exists(RECORD)


# ---- what the middle of a disk holds


@pytest.mark.long
def test_a_disk_that_was_swapped_to_is_blank_again_when_it_is_restored(disks):
    """The pages that were swapped out are still there; what the guard looks at must be blank."""
    disk = disks(size=600 * MIB)
    assert call_module(**disk.params())["changed"]
    run("swapoff", disk.node)
    with open(disk.node, "r+b") as file:
        for offset in range(8 * MIB, disk.size - 8 * MIB, MIB):
            file.seek(offset)
            file.write(b"\xa5" * MIB)
    assert call_module(state="restored")["warnings_list"] == []
    predicted = call_module(True, **disk.params())
    assert not predicted.get("failed"), predicted


def test_data_in_the_middle_of_a_large_disk_is_found_and_part_of_its_fingerprint(disks):
    disk = disks(size=4096 * MIB)
    place = 3000 * MIB
    disk.write(place, os.urandom(4 * MIB + 100_000))
    first = call_module(**disk.params())
    assert "data of a format that wipefs does not know" in first["msg"]
    content = fingerprint(first)
    assert fingerprint(call_module(**disk.params())) == content
    disk.write(place, os.urandom(4 * MIB + 100_000))
    overwrite = [{"path": disk.path, "content": content}]
    refused(f"not the content {content} that the option overwrite names", **disk.params(overwrite=overwrite))


def test_our_own_partitions_without_the_first_copy_of_their_table_are_refused(disks):
    disk = disks()
    assert call_module(**disk.params(partitions=2))["changed"]
    for name in in_use():
        run("swapoff", name)
    run("partx", "--delete", disk.node)
    disk.write(0, bytes(MIB))
    refused("holds gpt, a partition table that sfdisk cannot read", **disk.params(partitions=2))
    result = call_module(state="restored")
    assert any("left alone" in text and "sfdisk cannot read" in text for text in result["warnings_list"])


def test_two_drives_of_one_path(disks):
    """udev gives the path of two drives with one serial number to one of them, and later perhaps to the other one."""
    first, second = disks("A"), disks("B")
    assert call_module(**first.params())["changed"]
    run("swapoff", first.node)
    before = first.checksum(), second.checksum()
    link = os.readlink(first.path)
    os.unlink(first.path)
    os.symlink(second.node, first.path)
    try:
        assert BY_ID in first.path
        result = call_module(state="restored")
        assert not result.get("failed"), result
        assert (first.checksum(), second.checksum()) == before
    finally:
        os.unlink(first.path)
        os.symlink(link, first.path)
