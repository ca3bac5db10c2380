# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Situations in which the module swap_space must refuse a disk, each made for real on one disk that may be lost.

After each attempt, the disk's checksum must be the same as before and the message must give the right reason. As a
program, this runs as root on any Debian host that has the packages of PACKAGES and a disk of at least 112 MiB, with
C(ansible) and C(ansible_collections) below PYTHONPATH:

    python3 situations.py /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_OPT0

Its exit status is 1 if a situation was not refused; it lists each situation that this host cannot make.
test_situations.py runs the same situations on loop devices.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import glob
import hashlib
import io
import json
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import struct
import subprocess
import sys
import time
import typing as t
import zlib

from ansible.module_utils.testing import patch_module_args

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import FormatError
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import Guard
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import DEFAULTS, read
from ansible_collections.memstretch.density.plugins.module_utils.swap.steps import SwapChange
from ansible_collections.memstretch.density.plugins.modules import swap_space

PACKAGES = "btrfs-progs cryptsetup-bin dmsetup e2fsprogs fdisk lvm2 util-linux xfsprogs"
BY_ID = "/dev/disk/by-id"
MIB = 1024 * 1024
# The ioctl that zeroes a range of a block device (linux/fs.h).
BLKZEROOUT = 0x127F


class CannotMakeError(Exception):
    """This host cannot make the situation; the text names what is missing."""


class Attempt(t.NamedTuple):
    """The parameters of the module, and a pattern for its message."""

    params: dict[str, t.Any]
    answer: str


class ModuleRun:
    """One run of the module, in its own process.

    The process is forked from this one, which has already imported Ansible: a new Python would need a second for that.
    """

    def __init__(self, check: bool = False, **params: t.Any) -> None:
        arguments = {**params, "_ansible_check_mode": check, "_ansible_diff": True, "_ansible_remote_tmp": "/tmp"}
        fork = multiprocessing.get_context("fork")
        self._output, sender = fork.Pipe(duplex=False)
        self.process = fork.Process(target=self._run, args=(arguments, sender))
        self.process.start()
        sender.close()

    @staticmethod
    def _run(arguments: dict[str, t.Any], sender: multiprocessing.connection.Connection) -> None:
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output), patch_module_args(arguments):
                swap_space.main()
        finally:
            sender.send(output.getvalue())

    def result(self) -> dict[str, t.Any]:
        """Wait for the end of the run and return the module's result."""
        output = self._output.recv()
        self.process.join()
        assert output.strip(), "the module returned no result; its traceback is on standard error"
        return json.loads(output.strip().splitlines()[-1])


def call_module(check: bool = False, **params: t.Any) -> dict[str, t.Any]:
    """Run the module and return its result."""
    return ModuleRun(check, **params).result()


def fingerprint(refusal: dict[str, t.Any]) -> str:
    """Return the fingerprint of a disk's content that a refusal shows."""
    return re.search(r"content: ([0-9a-f]{8}-[0-9a-f]{8})", refusal["msg"]).group(1)


def run(*command: str, data: str | None = None) -> str:
    """Run a command that must succeed, and return its output."""
    result = subprocess.run(command, input=data, text=True, capture_output=True, check=False, close_fds=True)
    if result.returncode:
        raise AssertionError(f"{' '.join(command)} ended with {result.returncode}: {result.stderr or result.stdout}")
    return result.stdout


def settle() -> None:
    """Wait for udev, if it runs."""
    if os.path.exists("/run/udev/control"):
        run("udevadm", "settle")


class TrialDisk:
    """The disk that the situations are made on."""

    def __init__(self, path: str, second: str | None = None) -> None:
        self.path, self.second = path, second
        self.node = os.path.realpath(path)
        self.name = os.path.basename(self.node)
        with open(f"/sys/class/block/{self.name}/size", encoding="ascii") as file:
            self.size = int(file.read()) * 512

    def checksum(self) -> str:
        """Return a checksum of the whole disk."""
        digest, part, blank = hashlib.blake2b(), bytearray(4 * MIB), bytes(4 * MIB)
        settle()
        with open(self.node, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while True:
                length = file.readinto(part)
                if not length:
                    return digest.hexdigest()
                # Most of the disk is blank, and a comparison is much faster than a checksum.
                digest.update(b"blank" if part == blank else struct.pack("<II", length, zlib.crc32(part[:length])))

    def blank(self) -> None:
        """Make the disk blank, whatever was on it."""
        for number in range(1, 9):
            name = f"{self.name}p{number}" if self.name[-1].isdigit() else f"{self.name}{number}"
            if os.path.exists(f"/sys/class/block/{name}"):
                run("partx", "--delete", "--nr", str(number), self.node)
        with open(self.node, "r+b") as file:
            fcntl.ioctl(file, BLKZEROOUT, struct.pack("QQ", 0, self.size))
        settle()

    def write(self, offset: int, data: bytes) -> None:
        with open(self.node, "r+b") as file:
            file.seek(offset)
            file.write(data)
        settle()

    def partition(self, label: str, *lines: str) -> str:
        """Write a partition table, and return the first partition."""
        run(
            "sfdisk",
            "--quiet",
            "--no-reread",
            "--no-tell-kernel",
            self.node,
            data=f"label: {label}\n" + "\n".join(lines) + "\n",
        )
        run("partx", "--update", self.node)
        settle()
        return f"{self.node}p1" if self.name[-1].isdigit() else f"{self.node}1"

    def params(self, **more: t.Any) -> dict[str, t.Any]:
        return {"kind": "devices", "devices": [self.path], "min_size": "16M", **more}


SITUATIONS: dict[str, t.Callable[[TrialDisk], t.ContextManager[Attempt]]] = {}


def situation(name: str) -> t.Callable:
    """Register a situation: a generator that makes it, yields the attempt, and undoes it."""

    def register(function: t.Callable) -> t.Callable:
        SITUATIONS[name] = contextlib.contextmanager(function)
        return function

    return register


# ---- what is on the disk


@contextlib.contextmanager
def mounted(node: str, *options: str) -> t.Iterator[str]:
    directory = "/mnt/memstretch-situation"
    os.makedirs(directory, exist_ok=True)
    run("mount", *options, node, directory)
    try:
        yield directory
    finally:
        run("umount", directory)
        os.rmdir(directory)


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


@situation("Btrfs, mounted")
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


@situation("Btrfs member, not mounted")
def _btrfs(disk):
    run("mkfs.btrfs", "-q", "-f", disk.node)
    yield Attempt(disk.params(), "holds btrfs.*overwrite")


@situation("ZFS member")
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
    # A superblock of version 1.2 with its checksum, see linux/raid/md_p.h. mdadm writes one only when it assembles an
    # array.
    block = bytearray(256 + 2 * 128)
    struct.pack_into("<IIII", block, 0, 0xA92B4EFC, 1, 0, 0)
    block[16:32], block[32:39] = os.urandom(16), b"situate"
    struct.pack_into("<QIIQII", block, 64, 0, 1, 0, disk.size // 512 - 4096, 0, 2)
    struct.pack_into("<QQQ", block, 128, 2048, disk.size // 512 - 4096, 8)
    struct.pack_into("<I", block, 220, 128)
    total = sum(struct.unpack(f"<{len(block) // 4}I", block))
    struct.pack_into("<I", block, 216, ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF)
    disk.write(4096, bytes(block))
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
    disk.partition("gpt", "size=32MiB")
    yield Attempt(disk.params(), "holds gpt with 1 partitions.*overwrite")


@situation("MBR with a blank partition")
def _mbr(disk):
    disk.partition("dos", "size=32MiB")
    yield Attempt(disk.params(), "holds MBR with 1 partitions.*overwrite|holds MBR.*overwrite")


@situation("GPT without partitions")
def _gpt_empty(disk):
    run("sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", disk.node, data="label: gpt\n")
    yield Attempt(disk.params(), "holds gpt with 0 partitions.*overwrite")


@situation("GPT, a partition of it mounted")
def _partition_mounted(disk):
    node = disk.partition("gpt", "size=64MiB")
    run("mkfs.ext4", "-q", "-F", node)
    with mounted(node, "-o", "ro,noload") as directory:
        yield Attempt(
            disk.params(overwrite=[disk.path]), f"carries the file system on {directory}.*No option allows that"
        )


@situation("GPT with our partition's name, and a file system in it")
def _our_name(disk):
    node = disk.partition("gpt", 'size=64MiB, name="memstretch-swap"')
    run("mkfs.ext4", "-q", "-F", node)
    yield Attempt(disk.params(partitions=1), "holds gpt, ext4.*overwrite")


@situation("GPT with the name of our encrypted partition, and a file system in it")
def _our_encrypted_name(disk):
    node = disk.partition("gpt", 'size=64MiB, name="memstretch-crypt"')
    run("mkfs.ext4", "-q", "-F", "-L", "precious", node)
    yield Attempt(disk.params(), "holds gpt, ext4 .label precious.*overwrite")


@situation("GPT with the name of our encrypted partition, a file system in it, and the kernel does not show it")
def _our_encrypted_name_hidden(disk):
    node = disk.partition("gpt", 'size=64MiB, name="memstretch-crypt"')
    run("mkfs.ext4", "-q", "-F", node)
    run("partx", "--delete", disk.node)
    yield Attempt(disk.params(), "holds gpt, ext4.*overwrite")


@situation("partition table lost, its first file system still there")
def _lost_table(disk):
    node = disk.partition("gpt", "size=64MiB")
    run("mkfs.ext4", "-q", "-F", node)
    run("partx", "--delete", disk.node)
    disk.write(0, bytes(MIB))
    disk.write(disk.size - MIB, bytes(MIB))
    yield Attempt(disk.params(), "data of a format that wipefs does not know.*overwrite")


@situation("data of an unknown format")
def _raw(disk):
    disk.write(64 * 1024, os.urandom(4096))
    yield Attempt(disk.params(), "data of a format that wipefs does not know.*overwrite")


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


# ---- who uses the disk


@situation("held by the device mapper, as multipath, LVM and encryption do")
def _holder(disk):
    if "linear" not in subprocess.run(["dmsetup", "targets"], text=True, capture_output=True, check=False).stdout:
        raise CannotMakeError("this kernel has no device mapper")
    run("dmsetup", "create", "situation", "--table", f"0 2048 linear {disk.node} 0")
    try:
        settle()
        yield Attempt(disk.params(overwrite=[disk.path]), "is part of situation.*No option allows that")
    finally:
        run("dmsetup", "remove", "--retry", "situation")


@contextlib.contextmanager
def holding(node: str, flags: str) -> t.Iterator[int]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import os, sys, time; os.open({node!r}, {flags}); print('open', flush=True); time.sleep(600)",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "open\n"
        yield process.pid
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@situation("held exclusively, as file systems, RAID and pools do")
def _exclusive(disk):
    with holding(disk.node, "os.O_RDONLY | os.O_EXCL"):
        yield Attempt(
            disk.params(overwrite=[disk.path]), "is in use by the kernel or by a program.*No option allows that"
        )


@situation("blank, and open in a program, as a virtual machine has it")
def _open(disk):
    with holding(disk.node, "os.O_RDWR") as pid:
        yield Attempt(
            disk.params(overwrite=[disk.path]), rf"is open in python\S* \(process {pid}\).*No option allows that"
        )


@situation("behind a loop device")
def _loop(disk):
    loop = run("losetup", "--find", "--show", "--read-only", disk.node).strip()
    try:
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            f"is the backing device of {os.path.basename(loop)}.*No option allows that",
        )
    finally:
        run("losetup", "--detach", loop)


@contextlib.contextmanager
def extra_file(path: str, text: str) -> t.Iterator[None]:
    made = []
    directory = os.path.dirname(path)
    while not os.path.isdir(directory):
        made.append(directory)
        directory = os.path.dirname(directory)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)
    try:
        yield
    finally:
        os.unlink(path)
        for directory in made:
            os.rmdir(directory)


@situation("blank, a storage pool of libvirt is on it")
def _pool(disk):
    source, target = f"<device path='{disk.path}'/>", "<path>/dev</path>"
    text = f"<pool type='disk'><name>situation</name><source>{source}</source><target>{target}</target></pool>"
    with extra_file("/etc/libvirt/storage/situation.xml", text):
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            "belongs to libvirt's storage pool situation .*No option allows that",
        )


@situation("mounted, with the directory of a storage pool of libvirt on it")
def _directory_pool(disk):
    run("mkfs.ext4", "-q", "-F", disk.node)
    text = (
        "<pool type='dir'><name>situation</name><target><path>/mnt/memstretch-situation/images</path></target></pool>"
    )
    with extra_file("/etc/libvirt/storage/situation.xml", text), mounted(disk.node, "-o", "ro,noload"):
        yield Attempt(disk.params(), "libvirt's storage pool situation is on it.*No option allows that")


@situation("blank, given to a virtual machine that is off")
def _machine(disk):
    device = f"<disk type='block'><source dev='{disk.node}'/></disk>"
    text = f"<domain><name>situation</name><devices>{device}</devices></domain>"
    with extra_file("/etc/libvirt/qemu/situation.xml", text):
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            "belongs to libvirt's virtual machine situation .*No option allows that",
        )


@situation("blank, but in /etc/fstab")
def _fstab(disk):
    with open("/etc/fstab", encoding="utf-8") as file:
        before = file.read()
    with open("/etc/fstab", "a", encoding="utf-8") as file:
        file.write(f"\n{disk.path} /situation ext4 noauto 0 0\n")
    try:
        yield Attempt(disk.params(overwrite=[disk.path]), "is listed in /etc/fstab.*No option allows that")
    finally:
        with open("/etc/fstab", "w", encoding="utf-8") as file:
            file.write(before)


# ---- the wrong disk


def aliases_of_root() -> list[str]:
    """Return every path of the disk from which this system runs."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        number = next(line.split()[2] for line in file if line.split()[4] == "/")
    directory = os.path.realpath(f"/sys/dev/block/{number}")
    if not os.path.exists(directory):
        raise CannotMakeError(f"the root file system is on no disk ({number})")
    names = {os.path.basename(directory)}
    if os.path.exists(f"{directory}/partition"):
        names.add(os.path.basename(os.path.dirname(directory)))
    nodes = {f"/dev/{name}" for name in names}
    return sorted(nodes) + sorted(path for path in glob.glob("/dev/disk/by-*/*") if os.path.realpath(path) in nodes)


@contextlib.contextmanager
def link(target: str, name: str) -> t.Iterator[str]:
    path = f"{BY_ID}/{name}"
    os.symlink(target, path)
    try:
        yield path
    finally:
        os.unlink(path)


@situation("the root disk, by each of its paths at once")
def _root(disk):
    # In check mode, which refuses by the same code: this machine must survive even if the disk is not refused.
    found = aliases_of_root()
    node = [node for node in found if not re.search(r"\dp\d+$|[a-z]\d+$", node)][0]
    with link(node, "situation-root") as path:
        paths = [
            path,
            *(name for name in found if not name.startswith(BY_ID)),
            *(name for name in found if name.startswith(BY_ID)),
        ]
        why = {BY_ID: "(carries the file system on /|is the same disk as|is a partition)"}
        yield Attempt(
            {**disk.params(devices=paths, overwrite=[path]), "check": True},
            "(?s)from which this system runs.*"
            + ".*".join(
                f"{re.escape(name)} [^\n]*{why.get(os.path.dirname(name), 'is not a path below')}" for name in paths[1:]
            ),
        )


@situation("a kernel name")
def _kernel_name(disk):
    yield Attempt(disk.params(devices=[disk.node]), f"{disk.node} is not a path below /dev/disk/by-id")


@situation("a path that leads out of by-id")
def _way_out(disk):
    yield Attempt(disk.params(devices=[f"{BY_ID}/../../{disk.name}"]), "is not a path below /dev/disk/by-id")


@situation("a pattern")
def _pattern(disk):
    yield Attempt(disk.params(devices=[f"{disk.path[:-1]}*"]), "is a pattern")


@situation("a pattern in overwrite")
def _pattern_overwrite(disk):
    run("mkfs.ext4", "-q", "-F", disk.node)
    yield Attempt(disk.params(overwrite=[f"{BY_ID}/*"]), r"in the option overwrite\) is a pattern")


@situation("an empty list")
def _empty(disk):
    yield Attempt(disk.params(devices=[]), "devices: the list is empty")


@situation("a path that does not exist")
def _missing(disk):
    yield Attempt(disk.params(devices=[f"{BY_ID}/situation-none"]), "situation-none cannot be found")


@situation("a path to something that is not a disk")
def _no_disk(disk):
    with link("/dev/null", "situation-null") as path:
        yield Attempt(disk.params(devices=[path]), "is not a block device")


@situation("one disk by two paths")
def _twice(disk):
    with link(disk.node, "situation-twin") as path:
        yield Attempt(disk.params(devices=[disk.path, path]), "is the same disk as")


@situation("one disk twice")
def _double(disk):
    yield Attempt(disk.params(devices=[disk.path, disk.path]), "is the same disk as")


@situation("a partition")
def _partition(disk):
    node = disk.partition("gpt", "size=64MiB")
    with link(node, "situation-part1") as path:
        yield Attempt(disk.params(devices=[path], overwrite=[path]), "is a partition.*No option allows that")


@situation("the wrong serial number")
def _serial(disk):
    yield Attempt(
        disk.params(devices=[{"path": disk.path, "serial": "WRONG"}]),
        "has the serial number .*'WRONG'.*No option allows that",
    )


@situation("the wrong size")
def _size(disk):
    yield Attempt(
        disk.params(devices=[{"path": disk.path, "size": disk.size + 512}]),
        rf"has {disk.size} bytes, not {disk.size + 512} \(option size\)",
    )


@situation("too small")
def _small(disk):
    yield Attempt(disk.params(min_size=str(disk.size + 1)), r"has .*, less than .* \(option min_size\)")


@situation("read-only")
def _read_only(disk):
    run("blockdev", "--setro", disk.node)
    try:
        yield Attempt(disk.params(overwrite=[disk.path]), "is read-only.*No option allows that")
    finally:
        run("blockdev", "--setrw", disk.node)


@situation("a good disk together with a bad one")
def _good_and_bad(disk):
    with link("/dev/null", "situation-null") as path:
        yield Attempt(disk.params(devices=[disk.path, path]), "is not a block device")


# ---- between the check and the write


def race(disk: TrialDisk, happens: t.Callable[[], None], **more: t.Any) -> str:
    """Prepare the change, let something happen, run the change; return the message with which that is refused."""

    def run_command(command, data=None):
        result = subprocess.run(command, input=data, text=True, capture_output=True, check=False)
        return result.returncode, result.stdout, result.stderr

    options = read({**DEFAULTS, **disk.params(**more)}, 2**30, {})
    record = HostRecord("swap_space", "/run/memstretch-situation")
    change = SwapChange(options, Guard(run_command, HostFiles()), record, None)
    assert not change.refusals, change.refusals
    happens()
    before = disk.checksum()
    try:
        change.run()
    except FormatError as error:
        assert disk.checksum() == before, "the disk was written to"
        return str(error)
    finally:
        record.remove()
    raise AssertionError("the disk was taken")


class Race(t.NamedTuple):
    """Something that happens between the check and the write, and a pattern for the message."""

    happens: t.Callable[[TrialDisk], None]
    answer: str


RACES: dict[str, Race] = {
    "a file system appears between check and write": Race(
        lambda disk: run("mkfs.ext4", "-q", "-F", disk.node), "has changed since it was checked, it now holds ext4;"
    ),
    "a partition table appears between check and write": Race(
        lambda disk: disk.partition("gpt", "size=32MiB"),
        "has changed since it was checked, it now holds gpt with 1 partitions;",
    ),
    "foreign swap appears between check and write": Race(
        lambda disk: run("mkswap", disk.node), "has changed since it was checked, it now holds swap;"
    ),
    "data of an unknown format appears between check and write": Race(
        lambda disk: disk.write(0, b"precious"),
        "has changed since it was checked, it now holds data of a format that wipefs does not know .*;",
    ),
}


def try_race(disk: TrialDisk, name: str) -> None:
    """Try one of RACES; raises AssertionError if the disk is taken or touched."""
    disk.blank()
    entry = RACES[name]
    answer = race(disk, lambda: entry.happens(disk))
    assert re.search(entry.answer, answer), answer
    disk.blank()


def try_situation(disk: TrialDisk, name: str) -> None:
    """Try one of SITUATIONS; raises AssertionError if it is not refused or the disk has changed."""
    disk.blank()
    try:
        with SITUATIONS[name](disk) as attempt:
            params = dict(attempt.params)
            modes = [True] if params.pop("check", False) else [True, False]
            before = disk.checksum()
            for check in modes:
                result = call_module(check, **params)
                assert result.get("failed"), f"not refused: {result}"
                assert re.search(attempt.answer, result["msg"]), f"{result['msg']!r} does not match {attempt.answer!r}"
                assert disk.checksum() == before, "the disk has changed"
                assert not os.path.exists("/var/lib/memstretch/swap_space.json"), "a record was written"
    finally:
        disk.blank()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("disk", help="path below /dev/disk/by-id of a disk whose content will be lost")
    parser.add_argument("--only", default="", help="only the situations whose name contains this")
    options = parser.parse_args()
    disk = TrialDisk(options.disk)
    bad, not_made = 0, 0
    attempts = [*((name, try_situation) for name in SITUATIONS), *((name, try_race) for name in RACES)]
    attempts = [entry for entry in attempts if options.only in entry[0]]
    for name, attempt in attempts:
        started = time.monotonic()
        try:
            attempt(disk, name)
            verdict = "refused, disk unchanged"
        except CannotMakeError as error:
            not_made += 1
            verdict = f"NOT TRIED: {error}"
        except AssertionError as error:
            bad += 1
            verdict = f"FAILED: {error}"
        print(f"{name}: {verdict} ({time.monotonic() - started:.1f} s)", flush=True)
    print(f"{len(attempts)} situations: {bad} failed, {not_made} could not be made here")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
