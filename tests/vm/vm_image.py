# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the images of the throwaway machines of vm.py, once for each recipe, and cache them."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import sys
import typing as t
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "playbooks" / "files"))
import debian_image
from debian_image import Recipe, WriteFile, run

CACHE = Path(os.environ.get("VM_CACHE") or Path(__file__).resolve().parents[2] / ".cache" / "vm")
# Increase it when a change here or in debian_image.py changes the images.
RECIPE_VERSION = 3
ADDRESS, GATEWAY = "10.0.2.15/24", "10.0.2.2"  # of the first guest in qemu's user networking


@contextmanager
def locked(path: Path) -> t.Iterator[None]:
    """Hold a lock; other processes wait for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@dataclasses.dataclass(frozen=True)
class Image(Recipe):
    """A Debian system on a disk, with its keys and either a boot loader or a separate kernel.

    Equal recipes share one image.
    """

    @property
    def directory(self) -> Path:
        recipe = json.dumps(
            [
                RECIPE_VERSION,
                debian_image.PACKAGES_THERE,
                debian_image.INITRD_MODULES,
                debian_image.KERNEL_ARGUMENTS,
                debian_image.UNITS_OFF,
                debian_image.FIRST_BOOT_UNIT,
                dataclasses.asdict(self),
            ],
            sort_keys=True,
        )
        return CACHE / "images" / f"{self.suite}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"

    def make(self) -> Image:
        """Build the image unless it exists. Using it requires only read access to .cache/vm."""
        # A lock for each image, so that different images are built at the same time.
        with locked(CACHE / "images" / f".{self.directory.name}.lock"):
            if not self.directory.exists():
                work = self.directory.with_suffix(".new")
                if work.exists():  # left by an interrupted build
                    shutil.rmtree(work)
                work.mkdir(parents=True)
                try:
                    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "throwaway", "-f", work / "key")
                    self.build(work, lambda tree, write: self._give_keys(work, tree, write))
                    (work / "recipe.json").write_text(
                        json.dumps(dataclasses.asdict(self), indent=1) + "\n", encoding="utf-8"
                    )
                    work.rename(self.directory)
                except BaseException:
                    shutil.rmtree(work, ignore_errors=True)
                    raise
        return self

    @staticmethod
    def _give_keys(work: Path, tree: Path, write: WriteFile) -> None:
        (tree / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
        write("root/.ssh/authorized_keys", (work / "key.pub").read_text(encoding="utf-8"), 0o600)
        write(
            "etc/systemd/network/10-vm.network",
            f"[Match]\nType=ether\n[Network]\nAddress={ADDRESS}\nGateway={GATEWAY}\n",
        )
        (work / "hostkey").write_text(
            (tree / "etc/ssh/ssh_host_ed25519_key.pub").read_text(encoding="utf-8").rsplit(" ", 1)[0], encoding="utf-8"
        )
