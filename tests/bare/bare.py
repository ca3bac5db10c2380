# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run commands in a bare system: a fresh clone of this checkout on a Debian or Ubuntu with git, make and sudo only.

    python3 tests/bare/bare.py trixie make test-sanity
    python3 tests/bare/bare.py --user bookworm make demo
    UBUNTU_ARCHIVE=http://... python3 tests/bare/bare.py noble make setup

It shows what the Makefile forgets to install, and tries other versions of Python and Ansible than this machine has.
The system is a directory tree that lives as long as the command. It shares the kernel, the network and the devices of
this machine. Needs root.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "playbooks/files"))

import debian_image

ROOT = pathlib.Path(__file__).resolve().parents[2]

PACKAGES_THERE = ["ca-certificates", "git", "make", "sudo"]
USER = "tester"
# A release of Ubuntu comes from an archive of Ubuntu that this variable of the environment names, because not every
# machine reaches the same one. Its keys are a package of Debian 13, and of no earlier Debian.
UBUNTU = ("noble",)
UBUNTU_ARCHIVE = "UBUNTU_ARCHIVE"
KEYS_SUITE, KEYS_PACKAGE, KEYS = "trixie", "ubuntu-keyring", "usr/share/keyrings/ubuntu-archive-keyring.gpg"
# How this machine reaches package repositories: name servers, certificates that it trusts, settings of pip.
SHARED = ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt", "etc/pip.conf")
# Where root and users of Debian find programs. Those of this machine may be in directories that nobody has there.
PATHS = {"root": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", USER: "/usr/local/bin:/usr/bin:/bin"}
# Runs as root in namespaces of its own, so that all mounts and processes end with it.
ENTER = """\
set -eu
# A mount of its own, so that programs there can make namespaces of mounts.
mount --bind "$1" "$1"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
mount -t tmpfs -o mode=755 tmpfs "$1/run"
# The packages there give the device to their group kvm, whose number means nothing on this machine: a node of its own.
if [ -e /dev/kvm ]; then
    cp --archive /dev/kvm "$1/run/kvm"
    mount --bind "$1/run/kvm" "$1/dev/kvm"
fi
exec chroot "$@"
"""


def ubuntu_sources(suite: str) -> list[str]:
    """Return the sources of a release of Ubuntu as one-line entries."""
    archive = os.environ.get(UBUNTU_ARCHIVE)
    if not archive:
        sys.exit(
            f"{UBUNTU_ARCHIVE} is not set. Set it to the address of an archive of Ubuntu that this machine reaches, as "
            "in the line that begins with URIs: in /etc/apt/sources.list.d/ubuntu.sources of an Ubuntu"
        )
    return [f"deb {archive} {suite}{part} main universe" for part in ("", "-updates", "-security")]


def mmdebstrap(
    variant: str, packages: Sequence[str], suite: str, tree: pathlib.Path, sources: Sequence[str], *options: str
) -> None:
    """Install a system, or for the variant C(extract) only take packages apart, from one-line entries of apt."""
    debian_image.run(
        "unshare",
        "--mount",
        "mmdebstrap",
        f"--variant={variant}",
        f"--include={','.join(packages)}",
        *options,
        suite,
        tree,
        "-",
        text="\n".join(sources) + "\n",
    )


def install(suite: str, tree: pathlib.Path, packages: Sequence[str] = ()) -> None:
    """Install the system, with a user who may use sudo, and further packages."""
    if suite in UBUNTU:
        sources = ubuntu_sources(suite)
        keys = tree.with_name(f"{tree.name}-keys")
        mmdebstrap("extract", [KEYS_PACKAGE], KEYS_SUITE, keys, debian_image.apt_sources(KEYS_SUITE))
        options = [f"--keyring={keys / KEYS}", "--include=apt"]  # Ubuntu's minimum has none
    else:
        sources, options = debian_image.apt_sources(suite), []
    mmdebstrap("minbase", [*PACKAGES_THERE, *packages], suite, tree, sources, *options)
    for name in SHARED:
        if (pathlib.Path("/") / name).is_file():
            shutil.copy(pathlib.Path("/") / name, tree / name)
    debian_image.run("chroot", tree, "useradd", "--create-home", "--shell", "/bin/bash", USER)
    (tree / "etc/sudoers.d" / USER).write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n", encoding="utf-8")


def clone(tree: pathlib.Path, user: str) -> pathlib.Path:
    """Clone what is committed here into the home of a user there, and return its path there."""
    place = pathlib.Path("/root" if user == "root" else f"/home/{user}") / "density"
    debian_image.run("git", "clone", "--quiet", "--no-local", ROOT, tree / place.relative_to("/"))
    debian_image.run("chroot", tree, "chown", "--recursive", f"{user}:", place)
    return place


def enter(tree: pathlib.Path, command: list[str], user: str) -> int:
    """Run a command in a clone in the home of a user, and return its exit status."""
    place = clone(tree, user)
    home = place.parent
    environment = ["env", f"HOME={home}", f"PATH={PATHS[user]}"]
    inside = ["runuser", "-u", user, "--", *environment, "sh", "-c", f"cd {place} && {shlex.join(command)}"]
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", str(tree), *inside],
        check=False,
    ).returncode


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--user", action="store_true", help="run the command as a user who may use sudo, not as root")
    parser.add_argument("suite", help="code name of the release: bookworm or trixie of Debian, noble of Ubuntu")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments")
    options = parser.parse_args()
    if not options.command:
        parser.error("the command is missing")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # the tree is removed then, too
    with tempfile.TemporaryDirectory(prefix="memstretch-bare-", dir="/var/tmp") as directory:
        tree = pathlib.Path(directory) / "tree"
        install(options.suite, tree)
        return enter(tree, options.command, USER if options.user else "root")


if __name__ == "__main__":
    sys.exit(main())
