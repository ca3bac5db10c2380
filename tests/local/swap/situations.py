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
import glob
import importlib
import os
import re
import subprocess
import sys
import time
import typing as t

from trial import BY_ID, SITUATIONS, Attempt, CannotMakeError, TrialDisk, call_module, run, situation

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import FormatError
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import Guard
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import DEFAULTS, read
from ansible_collections.memstretch.density.plugins.module_utils.swap.steps import SwapChange

for _name in ("contents", "disk_users"):
    importlib.import_module(_name)  # registers its situations

PACKAGES = "btrfs-progs cryptsetup-bin dmsetup e2fsprogs fdisk lvm2 qemu-utils util-linux xfsprogs"


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
    node = disk.partition("gpt", "size=24MiB")
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

    def run_command(command, data=None, **_options):
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
        lambda disk: disk.partition("gpt", "size=24MiB"),
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
                result = call_module(check, attempt.inside, **params)
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
