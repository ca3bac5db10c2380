# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Situations in which a disk holds something."""

from __future__ import annotations

import os
import struct

from trial import MIB, Attempt, call_module, fingerprint, mounted, run, situation


@situation("ext4, mounted")
def _mounted(disk):
    run("mkfs.ext4", "-q", "-F", disk.node)
    with mounted(disk.node, "-o", "ro,noload") as directory:
        yield Attempt(disk.params(), f"carries the file system on {directory}.*No option allows that")


@situation("ext4, mounted, and named in overwrite")
def _mounted_overwrite(disk):
    run("mkfs.ext4", "-q", "-F", disk.node)
    with mounted(disk.node, "-o", "ro,noload") as directory:
        yield Attempt(
            disk.params(overwrite=[disk.path]), f"carries the file system on {directory}.*No option allows that"
        )


@situation("Btrfs, mounted", size=112 * MIB)
def _mounted_btrfs(disk):
    run("mkfs.btrfs", "-q", "-f", disk.node)
    with mounted(disk.node, "-o", "ro") as directory:
        yield Attempt(
            disk.params(overwrite=[disk.path]), f"carries the file system on {directory}.*No option allows that"
        )


@situation("ext4, not mounted")
def _ext4(disk):
    run("mkfs.ext4", "-q", "-F", "-L", "precious", disk.node)
    yield Attempt(
        disk.params(), rf"holds ext4 .label precious.*overwrite: {{path: {disk.path}, content: [0-9a-f-]{{17}}}}"
    )


@situation("ext4, not mounted, and named in overwrite by its path alone")
def _ext4_path_alone(disk):
    run("mkfs.ext4", "-q", "-F", disk.node)
    yield Attempt(disk.params(overwrite=[disk.path]), "holds ext4.*name this content in the option overwrite")


@situation("ext4, not mounted, another content was named in overwrite")
def _ext4_other_content(disk):
    run("mkfs.ext4", "-q", "-F", "-L", "old", disk.node)
    content = fingerprint(call_module(True, **disk.params()))
    run("mkfs.ext4", "-q", "-F", "-L", "backup", disk.node)
    yield Attempt(
        disk.params(overwrite=[{"path": disk.path, "content": content}]),
        f"holds ext4 .label backup.*not the content {content} that the option overwrite names",
    )


@situation("XFS, not mounted")
def _xfs(disk):
    # Below 300 MiB, mkfs.xfs needs this option; the result is the same.
    run("mkfs.xfs", "-q", "-f", *(["--unsupported"] if disk.size < 300 * MIB else []), disk.node)
    yield Attempt(disk.params(), "holds xfs.*overwrite")


@situation("Btrfs member, not mounted", size=112 * MIB)
def _btrfs(disk):
    run("mkfs.btrfs", "-q", "-f", disk.node)
    yield Attempt(disk.params(), "holds btrfs.*overwrite")


@situation("ZFS member", size=112 * MIB)
def _zfs(disk):
    # Debian has no ZFS. These are the uberblocks of the first label, by which libblkid recognises it.
    for number in range(8):
        disk.write(128 * 1024 + number * 1024, struct.pack("<QQQ", 0x00BAB10C, 5000, 100 + number))
    yield Attempt(disk.params(), "holds zfs_member.*overwrite")


@situation("LVM physical volume")
def _lvm(disk):
    run("pvcreate", "--yes", "--quiet", disk.node)
    yield Attempt(disk.params(), "holds LVM2_member.*overwrite")


@situation("member of a RAID (md)")
def _md(disk):
    disk.write(4096, raid_superblock(disk, 8))
    # Where mdadm is installed, udev assembles the array at once.
    arrays = os.listdir(f"/sys/block/{disk.name}/holders")
    try:
        yield Attempt(
            disk.params(),
            f"is part of {arrays[0]}.*holds linux_raid_member.*No option"
            if arrays
            else "holds linux_raid_member.*overwrite",
        )
    finally:
        for array in arrays:
            run("mdadm", "--stop", f"/dev/{array}")


def raid_superblock(disk, place):
    """Return a superblock of version 1 with its checksum, see linux/raid/md_p.h.

    mdadm writes one only when it assembles an array.

    Args:
        place: its offset in sectors, which it contains.
    """
    block = bytearray(256 + 2 * 128)
    struct.pack_into("<IIII", block, 0, 0xA92B4EFC, 1, 0, 0)
    block[16:32], block[32:39] = os.urandom(16), b"situate"
    struct.pack_into("<QIIQII", block, 64, 0, 1, 0, disk.size // 512 - 4096, 0, 2)
    struct.pack_into("<QQQ", block, 128, 2048, disk.size // 512 - 4096, place)
    struct.pack_into("<I", block, 220, 128)
    total = sum(struct.unpack(f"<{len(block) // 4}I", block))
    struct.pack_into("<I", block, 216, ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF)
    return bytes(block)


@situation("member of a RAID (md), superblock 1.0 at the end")
def _md_10(disk):
    place = (disk.size // 512 - 16) & ~7
    disk.write(place * 512, raid_superblock(disk, place))
    yield Attempt(disk.params(), "holds linux_raid_member .label situate.*overwrite")


@situation("member of a RAID (md), superblock 0.90 at the end")
def _md_090(disk):
    block = bytearray(4096)
    struct.pack_into("<IIIIII", block, 0, 0xA92B4EFC, 0, 90, 0, 0, 0x01020304)
    struct.pack_into("<III", block, 28, 1, disk.size // 1024 - 64, 2)
    disk.write((disk.size & ~0xFFFF) - 65536, bytes(block))
    yield Attempt(disk.params(), "holds linux_raid_member.*overwrite")


@situation("member of a hardware RAID (DDF) at the end")
def _ddf(disk):
    block = bytearray(512)
    struct.pack_into(">I4x24s8s", block, 0, 0xDE11DE11, b"Linux-MD", b"01.02.00")
    struct.pack_into(">Q", block, 96, disk.size // 512 - 1)
    disk.write(disk.size - 512, bytes(block))
    yield Attempt(disk.params(), "holds ddf_raid_member.*overwrite")


@situation("member of a RAID of Intel's firmware (imsm) at the end")
def _imsm(disk):
    disk.write(disk.size - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00".ljust(512, b"\0"))
    yield Attempt(disk.params(), "holds isw_raid_member.*overwrite")


@situation("DRBD with its metadata at the end")
def _drbd(disk):
    block = struct.pack(">Q4QQ", disk.size // 512 - 264, 1, 2, 3, 4, 0x1122334455667788)
    disk.write(disk.size - 4096, block.ljust(60, b"\0") + struct.pack(">I", 0x8374026B))
    yield Attempt(disk.params(), "holds drbd.*overwrite")


@situation("GPT with only its backup header")
def _gpt_backup(disk):
    disk.partition("gpt", "size=24MiB")
    run("partx", "--delete", disk.node)
    disk.write(0, bytes(MIB))
    yield Attempt(disk.params(), "holds gpt, a partition table that sfdisk cannot read.*overwrite")


@situation("LVM group with our name, not active")
def _lvm_our_name(disk):
    run("pvcreate", "--yes", "--quiet", disk.node)
    run("vgcreate", "--yes", "--quiet", "memstretch", disk.node)
    yield Attempt(disk.params(), "holds LVM2_member.*overwrite")


@situation("data only in the middle")
def _middle(disk):
    disk.write(disk.size // 2, b"precious")
    yield Attempt(disk.params(), r"data of a format that wipefs does not know \(in the \d+ bytes at \d+\).*overwrite")


@situation("LUKS")
def _luks(disk):
    run(
        "cryptsetup",
        "luksFormat",
        "--batch-mode",
        "--pbkdf",
        "pbkdf2",
        "--pbkdf-force-iterations",
        "1000",
        disk.node,
        "-",
        data="secret",
    )
    yield Attempt(disk.params(), "holds crypto_LUKS.*overwrite")


@situation("GPT with a blank partition")
def _gpt(disk):
    disk.partition("gpt", "size=24MiB")
    yield Attempt(disk.params(), "holds gpt with 1 partitions.*overwrite")


@situation("MBR with a blank partition")
def _mbr(disk):
    disk.partition("dos", "size=24MiB")
    yield Attempt(disk.params(), "holds MBR with 1 partitions.*overwrite|holds MBR.*overwrite")


@situation("GPT without partitions")
def _gpt_empty(disk):
    run("sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", disk.node, data="label: gpt\n")
    yield Attempt(disk.params(), "holds gpt with 0 partitions.*overwrite")


@situation("GPT, a partition of it mounted")
def _partition_mounted(disk):
    node = disk.partition("gpt", "size=24MiB")
    run("mkfs.ext4", "-q", "-F", node)
    with mounted(node, "-o", "ro,noload") as directory:
        yield Attempt(
            disk.params(overwrite=[disk.path]), f"carries the file system on {directory}.*No option allows that"
        )


@situation("GPT with our partition's name, and a file system in it")
def _our_name(disk):
    node = disk.partition("gpt", 'size=24MiB, name="memstretch-swap"')
    run("mkfs.ext4", "-q", "-F", node)
    yield Attempt(disk.params(partitions=1), "holds gpt, ext4.*overwrite")


@situation("GPT with the name of our encrypted partition, and a file system in it")
def _our_encrypted_name(disk):
    node = disk.partition("gpt", 'size=24MiB, name="memstretch-crypt"')
    run("mkfs.ext4", "-q", "-F", "-L", "precious", node)
    yield Attempt(disk.params(), "holds gpt, ext4 .label precious.*overwrite")


@situation("GPT with the name of our encrypted partition, a file system in it, and the kernel does not show it")
def _our_encrypted_name_hidden(disk):
    node = disk.partition("gpt", 'size=24MiB, name="memstretch-crypt"')
    run("mkfs.ext4", "-q", "-F", node)
    run("partx", "--delete", disk.node)
    yield Attempt(disk.params(), "holds gpt, ext4.*overwrite")


@situation("partition table lost, its first file system still there")
def _lost_table(disk):
    node = disk.partition("gpt", "size=24MiB")
    run("mkfs.ext4", "-q", "-F", node)
    run("partx", "--delete", disk.node)
    disk.write(0, bytes(MIB))
    disk.write(disk.size - MIB, bytes(MIB))
    yield Attempt(disk.params(), "data of a format that wipefs does not know.*overwrite")


@situation("data of an unknown format")
def _raw(disk):
    disk.write(64 * 1024, os.urandom(4096))
    yield Attempt(disk.params(), "data of a format that wipefs does not know.*overwrite")


@situation("data only in the last sector, as NTFS has a copy of its boot sector there")
def _last_sector(disk):
    disk.write(disk.size - 512, b"\xeb\x52\x90NTFS    " + bytes(499) + b"\x55\xaa")
    yield Attempt(disk.params(), "data of a format that wipefs does not know.*overwrite")


@situation("disk of a Ceph BlueStore")
def _bluestore(disk):
    disk.write(0, b"bluestore block device\n" + b"5f0e2a1c-0000-4000-8000-000000000001\n")
    yield Attempt(disk.params(), "holds ceph_bluestore.*overwrite")


@situation("disk of Oracle ASM")
def _oracle(disk):
    disk.write(32, b"ORCLDISKDATA01" + bytes(18))
    yield Attempt(disk.params(), "holds oracleasm.*overwrite")


@situation("image of a machine in hibernation")
def _hibernation(disk):
    run("mkswap", "-L", "other", disk.node)
    disk.write(4096 - 10, b"S1SUSPEND\0")  # the kernel writes this in place of SWAPSPACE2
    yield Attempt(disk.params(), "holds swsuspend.*overwrite")


@situation("image of a machine in hibernation, on an area of our label")
def _own_hibernation(disk):
    run("mkswap", "-L", "memstretch", disk.node)
    disk.write(4096 - 10, b"S1SUSPEND\0")
    yield Attempt(disk.params(), "holds swsuspend.*overwrite")


@situation("foreign swap, not in use")
def _swap(disk):
    run("mkswap", "-L", "other", disk.node)
    yield Attempt(disk.params(), "holds swap .label other.*overwrite")


@situation("foreign swap, in use")
def _swap_used(disk):
    run("mkswap", disk.node)
    run("swapon", disk.node)
    try:
        yield Attempt(disk.params(overwrite=[disk.path]), "is in use as swap that is not ours.*No option allows that")
    finally:
        run("swapoff", disk.node)
