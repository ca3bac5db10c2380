# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loop devices with links below /dev/disk/by-id, like disks."""

from __future__ import annotations

import os
import subprocess
import tempfile

import pytest
from runs import snapshot, swap
from trial import BY_ID, TrialDisk, run

MIB = 1024 * 1024


@pytest.fixture(name="disks")
def _disks():
    """A function that makes a disk and returns its TrialDisk.

    The disks are files in memory: they do not wait for the drive of this machine.
    """
    made = []
    parents = [path for path in ("/dev/disk", BY_ID) if not os.path.isdir(path)]
    os.makedirs(BY_ID, exist_ok=True)

    def make(name="A", size=128 * MIB, sector=512, directory="/dev/shm"):
        with tempfile.NamedTemporaryFile(dir=directory) as file:
            file.truncate(size)
            node = run("losetup", "--find", "--show", "--sector-size", str(sector), file.name).strip()
            backing = os.dup(file.fileno())
        link = f"{BY_ID}/test-disk-{os.getpid()}-{name}"
        os.symlink(node, link)
        made.append((node, link, backing))
        return TrialDisk(link, backing)

    yield make
    for node, link, backing in made:
        subprocess.run(["swapoff", node], check=False, capture_output=True)
        subprocess.run(["partx", "--delete", node], check=False, capture_output=True)
        subprocess.run(["losetup", "--detach", node], check=False, capture_output=True)
        os.unlink(link)
        os.close(backing)
    for path in reversed(parents):
        if not os.listdir(path):
            os.rmdir(path)


@pytest.fixture(autouse=True)
def _host_is_free_to_use(needs_root):
    """Fail if this machine's swap is in use, for example by an applied profile: the tests would change it."""
    records = os.listdir("/var/lib/memstretch") if os.path.isdir("/var/lib/memstretch") else []
    with open("/proc/swaps", encoding="ascii") as file:
        used = file.read().splitlines()[1:]
    if used or records:
        pytest.fail(
            f"this host's swap or settings are in use ({', '.join(used + records)}); restore them before these tests"
        )


@pytest.fixture(name="nothing_remains")
def _nothing_remains(disks):
    """Restore the swap after the test, and compare this machine with what it was before."""
    before = snapshot()
    yield
    swap(state="restored")
    assert snapshot() == before
