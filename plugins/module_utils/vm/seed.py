# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seed disk that gives the VMs of a fleet their keys at the first boot."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import VmHostError

# Programs that write ISO 9660, with the same options.
TOOLS = ("genisoimage", "mkisofs", "xorrisofs")

Files = t.Mapping[str, str]


def check_files(files: t.Mapping[str, t.Any]) -> None:
    """Raise SettingError for files that a disk cannot hold. The contents are secret, so the message has their types."""
    wrong = [name for name in files if not name or "/" in name or name in (".", "..")]
    if wrong:
        raise SettingError(f"seed: {wrong} are not allowed; file names must not be empty, '.' or '..', or contain '/'")
    others = {name: type(content).__name__ for name, content in files.items() if not isinstance(content, str)}
    if others:
        found = ", ".join(f"that of {name!r} is of type {kind}" for name, kind in others.items())
        raise SettingError(f"seed: each content must be text (a quoted string), but {found}")


def seed_path(directory: str, files: Files) -> str:
    """Return the path of the disk with these files. The same files give the same path."""
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]
    return os.path.join(directory, f"seed-{digest}.iso")


def find_tool(find: t.Callable[[str], str | None]) -> str:
    """Return the program that writes the disk.

    Args:
        find: returns the path of a program, None if the host does not have it.

    Raises:
        VmHostError: the host has none.
    """
    tool = next(filter(None, map(find, TOOLS)), None)
    if tool is None:
        raise VmHostError(f"the host has none of {', '.join(TOOLS)}; on Debian install the package genisoimage")
    return tool


def create(run_command: RunCommand, tool: str, path: str, files: Files) -> None:
    """Write the disk, which only its owner can read.

    Raises:
        VmHostError: the program failed.
    """
    # In the target's directory, so that a rename replaces the target atomically. Others cannot enter the temporary one.
    with tempfile.TemporaryDirectory(prefix=".seed-", dir=os.path.dirname(path)) as work:
        tree = os.path.join(work, "tree")
        os.mkdir(tree)
        for name, content in files.items():
            with open(os.path.join(tree, name), "w", encoding="utf-8") as file:
                file.write(content)
        new = os.path.join(work, "new")
        status, output, errors = run_command([tool, "-quiet", "-o", new, "-V", "cidata", "-J", "-R", tree])
        if status:
            raise VmHostError(f"{tool} ended with status {status}: {errors.strip() or output.strip()}")
        os.chmod(new, 0o600)
        os.replace(new, path)
