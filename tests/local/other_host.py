# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that share this machine's kernel and most of its files: their modules run in mount namespaces of their own."""

from __future__ import annotations

import pathlib
import shlex
import typing as t

SYSTEM_PYTHON = "/usr/bin/python3"


def python_with_mounts(path: pathlib.Path, mounts: t.Mapping[str, object], read_only: t.Collection[str] = ()) -> str:
    """Write an interpreter for ansible_python_interpreter, to which other files or directories appear; needs root.

    Args:
        path: where to write it.
        mounts: what appears at each path, which must exist: another file or directory.
        read_only: those of the paths that cannot be written.
    """
    binds = "".join(f"mount --rbind {shlex.quote(str(ours))} {shlex.quote(place)}\n" for place, ours in mounts.items())
    binds += "".join(f"mount -o remount,bind,ro {shlex.quote(place)}\n" for place in read_only)
    script = f'{binds}exec {SYSTEM_PYTHON} "$@"'
    path.write_text(
        f"#!/bin/sh\nexec unshare --mount --propagation=private sh -ec '{script}' python \"$@\"\n", encoding="utf-8"
    )
    path.chmod(0o755)
    return str(path)


def bare_package_manager(path: pathlib.Path, sources: str = "", packages: t.Collection[str] = ()) -> dict[str, object]:
    """Return the mounts of a host whose apt has no package lists, as in a fresh image.

    Args:
        path: an empty directory for its state.
        sources: the contents of sources.list.
        packages: packages of this machine that are not installed there.
    """
    places = ("/etc/apt", "/var/lib/apt", "/var/lib/dpkg", "/var/cache/apt", "/var/log", "/opt")
    mounts: dict[str, object] = {}
    for place in places:
        (path / place[1:]).mkdir(parents=True)
        mounts[place] = path / place[1:]
    for each in ("etc/apt/sources.list.d", "etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/trusted.gpg.d"):
        (path / each).mkdir()
    for each in ("var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/log/apt"):
        (path / each).mkdir(parents=True)
    for each in ("info", "updates", "triggers", "alternatives", "parts"):
        (path / "var/lib/dpkg" / each).mkdir()
    (path / "etc/apt/sources.list").write_text(sources, encoding="utf-8")
    known = pathlib.Path("/var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n")
    kept = [each for each in known if each.partition("\n")[0].removeprefix("Package: ") not in packages]
    (path / "var/lib/dpkg/status").write_text("\n\n".join(kept), encoding="utf-8")
    return mounts


# What the role vm_fleet installs.
LIBVIRT_PACKAGES = (
    "python3-libvirt",
    "python3-lxml",
    "qemu-utils",
    "genisoimage",
    "qemu-system-x86",
    "qemu-system-arm",
)
_LIBVIRT = pathlib.Path("/usr/lib/python3/dist-packages/libvirt.py")


def without_libvirt(path: pathlib.Path) -> dict[str, object]:
    """Return the mounts of a host on which libvirt's Python package and QEMU are not installed.

    Args:
        path: where to write the state of its package manager.
    """
    mounts = bare_package_manager(path, packages=LIBVIRT_PACKAGES)
    if _LIBVIRT.exists():
        (path / "libvirt.py").write_text("raise ImportError('not installed')\n", encoding="utf-8")
        mounts[str(_LIBVIRT)] = path / "libvirt.py"
    return mounts
