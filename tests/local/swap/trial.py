# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that may be lost, runs of the module swap_space, and the register of situations."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import io
import json
import multiprocessing
import multiprocessing.connection
import os
import re
import struct
import subprocess
import typing as t
import zlib

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args

from ansible_collections.memstretch.density.plugins.modules import swap_space

BY_ID = "/dev/disk/by-id"
MIB = 1024 * 1024
# A disk is read in parts of this size.
_PART = 4 * MIB
# From linux/sched.h: a process gets a mount namespace of its own.
CLONE_NEWNS = 0x00020000
# The ioctl that zeroes a range of a block device (linux/fs.h).
BLKZEROOUT = 0x127F


class CannotMakeError(Exception):
    """This host cannot make the situation; the text names what is missing."""


class Attempt(t.NamedTuple):
    """The parameters of the module, and a pattern for its message.

    Args:
        inside: called in the process of the module before it runs.
    """

    params: dict[str, t.Any]
    answer: str
    inside: t.Callable[[], None] | None = None


class ModuleRun:
    """One run of the module, in its own process.

    The process is forked from this one, which has already imported Ansible: a new Python would need a second for that.
    """

    def __init__(self, check: bool = False, inside: t.Callable[[], None] | None = None, **params: t.Any) -> None:
        arguments = {**params, "_ansible_check_mode": check, "_ansible_diff": True, "_ansible_remote_tmp": "/tmp"}
        fork = multiprocessing.get_context("fork")
        self._output, sender = fork.Pipe(duplex=False)
        self.process = fork.Process(target=self._run, args=(arguments, sender, inside))
        self.process.start()
        sender.close()

    @staticmethod
    def _run(
        arguments: dict[str, t.Any],
        sender: multiprocessing.connection.Connection,
        inside: t.Callable[[], None] | None,
    ) -> None:
        output = io.StringIO()
        try:
            if inside:
                inside()
            with contextlib.redirect_stdout(output), patch_module_args(arguments):
                swap_space.main()
        finally:
            sender.send(output.getvalue())

    def result(self) -> dict[str, t.Any]:
        """Wait for the end of the run and return the module's result. Raises EOFError if the run was killed."""
        try:
            output = self._output.recv()
        finally:
            self.process.join()
        assert output.strip(), "the module returned no result; its traceback is on standard error"
        return json.loads(output.strip().splitlines()[-1])


def call_module(check: bool = False, inside: t.Callable[[], None] | None = None, **params: t.Any) -> dict[str, t.Any]:
    """Run the module and return its result."""
    return ModuleRun(check, inside, **params).result()


def without_program(name: str) -> None:
    """Let the module run on a host that lacks a program. For C(inside)."""
    original = AnsibleModule.get_bin_path

    def get_bin_path(self: AnsibleModule, arg: str, *more: t.Any, **options: t.Any) -> str | None:
        return None if arg == name else original(self, arg, *more, **options)

    AnsibleModule.get_bin_path = get_bin_path


def after_sfdisk(happens: t.Callable[[], None]) -> t.Callable[[], None]:
    """Return a function for C(inside) with which something happens just after the partition table was written."""

    def patch() -> None:
        original = AnsibleModule.run_command

        def run_command(self: AnsibleModule, args: list[str], **options: t.Any) -> tuple[int, str, str]:
            result = original(self, args, **options)
            if os.path.basename(args[0]) == "sfdisk" and options.get("data"):
                happens()
            return result

        AnsibleModule.run_command = run_command

    return patch


def private_mounts() -> None:
    """Let this process mount file systems that no other process sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    run("mount", "--make-rprivate", "/")


def write_tree(directory: str, files: dict[str, str]) -> None:
    """Write files below a directory, by their relative paths."""
    for name, text in files.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


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
    """The disk that the situations are made on.

    Args:
        backing: a descriptor of the file that a loop device is made of.
    """

    def __init__(self, path: str, backing: int | None = None) -> None:
        self.path, self.backing = path, backing
        self.node = os.path.realpath(path)
        self.name = os.path.basename(self.node)
        with open(f"/sys/class/block/{self.name}/size", encoding="ascii") as file:
            self.size = int(file.read()) * 512

    def checksum(self) -> str:
        """Return a checksum of the whole disk."""
        digest, blank = hashlib.blake2b(), bytes(_PART)
        settle()
        with open(self.node, "rb", buffering=0) as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for offset in range(0, self.size, _PART):
                # Most of the disk is blank, and a comparison is much faster than a checksum.
                part = os.pread(file.fileno(), _PART, offset) if self._may_hold_data(offset) else blank
                digest.update(b"blank" if part == blank else struct.pack("<II", len(part), zlib.crc32(part)))
        return digest.hexdigest()

    def _may_hold_data(self, offset: int) -> bool:
        """Return whether a part must be read: not if it is a hole in the file that a loop device is made of."""
        if self.backing is None:
            return True
        try:
            return os.lseek(self.backing, offset, os.SEEK_DATA) < offset + _PART
        except OSError as error:
            if error.errno == errno.ENXIO:  # there is none from here on
                return False
            raise

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
# What the disk of a situation must have. Each attempt reads all of it.
SIZES: dict[str, int] = {}


def situation(name: str, size: int = 32 * MIB) -> t.Callable:
    """Register a situation: a generator that makes it, yields the attempt, and undoes it."""

    def register(function: t.Callable) -> t.Callable:
        SITUATIONS[name] = contextlib.contextmanager(function)
        SIZES[name] = size
        return function

    return register


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
