# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How swap outlives a boot under systemd: units of our own, and drop-ins that keep other swap off.

Nothing of the host's own files is edited. Removing our files and one C(systemctl daemon-reload) undo it all. An area on a drive is
turned on by the drive: its unit is wanted by that device, so that a drive that is missing delays nothing, and one that is late is used.
"""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_checked
from ansible_collections.memstretch.density.plugins.module_utils.host.files import (
    remove_file,
    sync_directory,
    write_file,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import LABEL, device_number

DIRECTORY = "/etc/systemd/system"
_COMMENT = "# Written by the role swap_space of memstretch.density. Its state restored removes this file.\n"
_UNIT = """[Unit]
Description={description}
DefaultDependencies=no
Conflicts=umount.target
Before=umount.target
{dependencies}
"""
_SWAP = """[Swap]
What={what}
Priority={priority}
{options}
[Install]
WantedBy={wanted_by}
"""
_SERVICE = """[Service]
Type=oneshot
RemainAfterExit=yes
ExecCondition=/bin/sh -c '{condition}'
{commands}
{install}"""
DROP_IN_NAME = "50-memstretch.conf"
# A condition that never holds: there is always a root directory.
DROP_IN = _COMMENT + "# Swap that is not of this role stays off.\n[Unit]\nConditionPathExists=!/\n"


class UnitError(Exception):
    """systemd does not do what it is asked."""


def escape(path: str) -> str:
    """Return a path as systemd-escape --path writes it."""
    text = re.sub(r"/+", "/", path).strip("/")
    escaped = "".join(
        "-"
        if letter == "/"
        else letter
        if re.match(r"[A-Za-z0-9:_.]", letter) and not (letter == "." and not position)
        else "".join(f"\\x{byte:02x}" for byte in letter.encode())
        for position, letter in enumerate(text)
    )
    return escaped or "-"


def swap_unit(what: str, priority: int, discard: str, prepared_by: str = "") -> dict[str, str]:
    """Return the unit that turns an area on at boot, as its path and text.

    Args:
        prepared_by: the unit that brings what about, if that is not a drive or a file.
    """
    dependencies = f"Requires={prepared_by}\nAfter={prepared_by}" if prepared_by else ""
    wanted_by = "swap.target" if prepared_by else f"{escape(what)}.device"
    if not what.startswith("/dev/"):
        wanted_by, dependencies = "swap.target", "After=systemd-remount-fs.service"
    options = {"none": "", "both": "Options=discard\n"}.get(discard, f"Options=discard={discard}\n")
    text = _UNIT.format(
        description=f"Swap of memstretch.density on {what.replace('%', '%%')}", dependencies=dependencies
    )
    text += _SWAP.format(what=what.replace("%", "%%"), priority=priority, options=options, wanted_by=wanted_by)
    return {f"{DIRECTORY}/{escape(what)}.swap": _COMMENT + _tidy(text)}


def crypt_service(name: str, partuuid: str, command: list[str], mkswap: str) -> dict[str, str]:
    """Return the unit that opens an encrypted area with a new key at each boot."""
    device = escape(f"/dev/disk/by-partuuid/{partuuid}") + ".device"
    text = _UNIT.format(
        description=f"Throw-away key for swap on partition {partuuid}",
        dependencies=f"BindsTo={device}\nAfter={device} systemd-random-seed.service",
    )
    text += _SERVICE.format(
        condition=f"test ! -e /dev/mapper/{name}",
        commands=f"ExecStart={' '.join(command)}\nExecStart={mkswap} --label {LABEL} /dev/mapper/{name}",
        install=f"\n[Install]\nWantedBy={device}\n",
    )
    return {f"{DIRECTORY}/{name}.service": _COMMENT + _tidy(text)}


def zram_service(number: int, size: int, algorithm: str) -> dict[str, str]:
    """Return the unit that sets a zram device up at boot."""
    block, control = f"/sys/block/zram{number}", "/sys/class/zram-control"
    script = (
        f"test -d {control} || modprobe zram; "
        f"until test -e {block}; do cat {control}/hot_add; done; "
        f"grep -qx 0 {block}/disksize; "
        f"echo {algorithm} > {block}/comp_algorithm; echo {size} > {block}/disksize; mkswap --label {LABEL} /dev/zram{number}"
    )
    text = _UNIT.format(description=f"Set up /dev/zram{number} for swap", dependencies="")
    text += _SERVICE.format(
        condition=f'! grep -q "^/dev/zram{number} " /proc/swaps',
        commands=f"ExecStart=/bin/sh -ec '{script}'",
        install="",
    )
    return {f"{DIRECTORY}/memstretch-zram{number}.service": _COMMENT + _tidy(text)}


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text)


class OtherUnit(t.NamedTuple):
    """A unit of somebody else that turns swap on at boot."""

    name: str
    what: str
    origin: str

    @property
    def drop_in(self) -> str:
        return f"{DIRECTORY}/{self.name}.d/{DROP_IN_NAME}"


class Systemd:
    """What systemd knows about swap; run_command is AnsibleModule's method."""

    def __init__(self, run_command: RunCommand) -> None:
        self.run_command = run_command

    def others(self, ours: t.Iterable[str]) -> list[OtherUnit]:
        """Return the swap units that come from a file and are not ours; ours are the paths of our files."""
        # Without --all a pattern leaves out what is not active, and so what we have turned off.
        output = run_checked(
            self.run_command,
            [
                "systemctl",
                "show",
                "--all",
                "--property=Id",
                "--property=What",
                "--property=FragmentPath",
                "--property=SourcePath",
                "*.swap",
            ],
            UnitError,
        )
        found = {}
        for block in output.strip().split("\n\n"):
            values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            fragment = values.get("FragmentPath", "")
            if fragment and fragment not in set(ours):
                found[values["Id"]] = OtherUnit(
                    values["Id"], values.get("What", ""), values.get("SourcePath") or fragment
                )
        return [found[name] for name in sorted(found)]

    def reload(self) -> None:
        run_checked(self.run_command, ["systemctl", "daemon-reload"], UnitError)


def turned_on_by(units: list[OtherUnit], name: str) -> str:
    """Name the unit and the file that turn an area on at boot; an empty text if none is known."""
    number = device_number(name)
    for unit in units:
        if unit.what == name or (number and device_number(unit.what) == number):
            return f"{unit.name} from {unit.origin}"
    return ""


def link_of(path: str, text: str) -> str | None:
    """Return the path of the link by which another unit wants this one; None for a drop-in, or what is only required."""
    wanted_by = re.search(r"^WantedBy=(.+)$", text, re.MULTILINE)
    return f"{DIRECTORY}/{wanted_by.group(1)}.wants/{os.path.basename(path)}" if wanted_by else None


def is_installed(path: str, text: str) -> bool:
    """Return whether a unit or drop-in is in place, and wanted at boot."""
    link = link_of(path, text)
    return _text(path) == text and (link is None or os.path.lexists(link))


def install(path: str, text: str) -> None:
    """Write a unit or drop-in, then the link that has it wanted at boot."""
    old = link_of(path, _text(path) or "")
    link = link_of(path, text)
    if old and old != link:
        _remove(old)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_file(path, text)
    if link and not os.path.lexists(link):
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(path, link)
        sync_directory(os.path.dirname(link))
    sync_directory(DIRECTORY)


def uninstall(path: str) -> None:
    """Remove a unit or drop-in; its link goes first, since the unit tells where it is."""
    link = link_of(path, _text(path) or "")
    if link:
        _remove(link)
    _remove(path)


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _remove(path: str) -> None:
    """Remove a file; a directory that is then empty was made for it."""
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        return
    remove_file(path)
    if directory != DIRECTORY and not os.listdir(directory):
        os.rmdir(directory)
