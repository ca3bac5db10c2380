# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes swap survive a reboot under systemd: our own units, and drop-ins that keep other swap off.

The host's own files are not edited. Removing our files, followed by C(systemctl daemon-reload), undoes everything. The
unit of an area on a drive is wanted by the drive's device unit: a missing drive does not delay the boot, and a late one
is still used.

On Debian and Ubuntu, each new kernel gets an initramfs that looks for a hibernated system in the largest swap device in
use, and waits half a minute for it. It would wait at each boot once our area is erased, and always for an encrypted
one. So one more file of ours keeps it from looking there.
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
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import device_number
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import LABEL

DIRECTORY = "/etc/systemd/system"
_COMMENT = "# Written by the role swap_space of memstretch.density; swap_space_state: restored removes this file.\n"
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
# The initramfs gets it when it is made, after the files of others.
RESUME_DIRECTORY = "/etc/initramfs-tools/conf.d"
RESUME_FILE = f"{RESUME_DIRECTORY}/zz-memstretch"
RESUME_TEXT = (
    _COMMENT + "# The initramfs would otherwise look for a hibernated system in its swap, and wait.\nRESUME=none\n"
)
# It starts swap in files and zram at boot. A drive starts its swap itself.
TARGET = "swap.target"
# Of zram-tools and zram-config, of foundObjects' zram-swap, of Raspberry Pi OS, of swapspace, and of Azure's agent.
_SWAP_SERVICES = tuple(
    f"{name}.service"
    for name in ("zramswap", "zram-config", "zram-swap", "dphys-swapfile", "swapspace", "walinuxagent", "waagent")
)
# The names of files that are ours, below DIRECTORY; each begins with the comment, too.
_OUR_NAMES = re.compile(rf"(?:[^/]+\.swap|memstretch-[^/]+\.service|[^/]+\.swap\.d/{re.escape(DROP_IN_NAME)})$")
# The condition is never met: the root directory always exists.
DROP_IN = _COMMENT + "# Keep swap off that this role did not create.\n[Unit]\nConditionPathExists=!/\n"


class UnitError(Exception):
    """A command of systemd failed; the text gives its output."""


def escape(path: str) -> str:
    """Return a path as C(systemd-escape --path) prints it."""
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
    """Return the unit that turns an area on at boot, as a text by its path.

    Args:
        what: path of the area.
        prepared_by: the unit that creates C(what), unless that is a drive or a file.
    """
    dependencies = f"Requires={prepared_by}\nAfter={prepared_by}" if prepared_by else ""
    wanted_by = TARGET if prepared_by else f"{escape(what)}.device"
    if not what.startswith("/dev/"):
        wanted_by, dependencies = TARGET, "After=systemd-remount-fs.service"
    options = {"none": "", "both": "Options=discard\n"}.get(discard, f"Options=discard={discard}\n")
    text = _UNIT.format(
        description=f"Swap of memstretch.density on {what.replace('%', '%%')}", dependencies=dependencies
    )
    text += _SWAP.format(what=what.replace("%", "%%"), priority=priority, options=options, wanted_by=wanted_by)
    return {f"{DIRECTORY}/{escape(what)}.swap": _COMMENT + _tidy(text)}


def crypt_service(name: str, partuuid: str, command: list[str], wipefs: str, mkswap: str) -> dict[str, str]:
    """Return the unit that opens an encrypted area with a new key at each boot, as a text by its path.

    The unit fails, and leaves the partition as it is, if it has a file system or anything else with a known
    signature on it: our own encrypted data looks random.

    Args:
        name: of the mapping.
        command: opens the partition as that mapping.
        wipefs: path of the program, which lists signatures.
        mkswap: path of the program.
    """
    partition = f"/dev/disk/by-partuuid/{partuuid}"
    device = escape(partition) + ".device"
    refusal = f"{partition} holds data that memstretch.density did not write; it is not used as swap"
    # In a unit, $$ is a dollar sign. blkid would report the entry in the partition table, too.
    examine = (
        f"found=$$({wipefs} --no-act --noheadings {partition}) || exit 1; "
        f'test -z "$$found" || {{ echo "$$found; {refusal}" >&2; exit 1; }}'
    )
    text = _UNIT.format(
        description=f"Throw-away key for swap on partition {partuuid}",
        dependencies=f"BindsTo={device}\nAfter={device} systemd-random-seed.service",
    )
    text += _SERVICE.format(
        condition=f"test ! -e /dev/mapper/{name}",
        commands=f"ExecStartPre=/bin/sh -c '{examine}'\n"
        f"ExecStart={' '.join(command)}\nExecStart={mkswap} --label {LABEL} /dev/mapper/{name}",
        install=f"\n[Install]\nWantedBy={device}\n",
    )
    return {f"{DIRECTORY}/{name}.service": _COMMENT + _tidy(text)}


def zram_service(number: int, size: int, algorithm: str) -> dict[str, str]:
    """Return the unit that sets up a zram device at boot, as a text by its path."""
    block, control = f"/sys/block/zram{number}", "/sys/class/zram-control"
    script = (
        f"test -d {control} || modprobe zram; "
        f"until test -e {block}; do cat {control}/hot_add; done; "
        f"grep -qx 0 {block}/disksize; "
        f"echo {algorithm} > {block}/comp_algorithm; echo {size} > {block}/disksize; "
        f"mkswap --label {LABEL} /dev/zram{number}"
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
    """A unit that is not ours and turns swap on at boot."""

    name: str
    what: str
    origin: str

    @property
    def drop_in(self) -> str:
        return f"{DIRECTORY}/{self.name}.d/{DROP_IN_NAME}"


class Systemd:
    """The systemd of this host; run_command is AnsibleModule's method."""

    def __init__(self, run_command: RunCommand) -> None:
        self.run_command = run_command

    def others(self, ours: t.Iterable[str]) -> list[OtherUnit]:
        """Return the swap units that come from a file and are not ours.

        Args:
            ours: the paths of our units.
        """
        found, known = {}, set(ours)
        # Without --all, a pattern matches active units only, and so misses what we have turned off.
        for values in self._show(("Id", "What", "FragmentPath", "SourcePath"), "--all", "*.swap"):
            fragment = values.get("FragmentPath", "")
            if fragment and fragment not in known:
                found[values["Id"]] = OtherUnit(
                    values["Id"], values.get("What", ""), values.get("SourcePath") or fragment
                )
        return [found[name] for name in sorted(found)]

    def swap_services(self) -> list[str]:
        """Return the services that are enabled and turn swap on by themselves, which no swap unit shows."""
        shown = self._show(("Id", "UnitFileState"), *_SWAP_SERVICES)
        return [values["Id"] for values in shown if values.get("UnitFileState", "").startswith("enabled")]

    def is_masked(self, unit: str) -> bool:
        """Check whether an administrator keeps a unit from starting, whatever wants it."""
        return [values.get("LoadState") for values in self._show(("LoadState",), unit)] == ["masked"]

    def _show(self, properties: t.Iterable[str], *words: str) -> list[dict[str, str]]:
        """Return the properties of each unit that systemctl show has for these words."""
        command = ["systemctl", "show", *(f"--property={name}" for name in properties), *words]
        output = run_checked(self.run_command, command, UnitError)
        return [
            dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            for block in output.strip().split("\n\n")
        ]

    def reload(self) -> None:
        run_checked(self.run_command, ["systemctl", "daemon-reload"], UnitError)


def turned_on_by(units: list[OtherUnit], name: str) -> str:
    """Return the unit and the file that turn an area on at boot, as a text; empty if none is known."""
    number = device_number(name)
    for unit in units:
        if unit.what == name or (number and device_number(unit.what) == number):
            return f"{unit.name} from {unit.origin}"
    return ""


def link_of(path: str, text: str) -> str | None:
    """Return the path of the link through which another unit wants this one, or None if the text has no WantedBy=."""
    wanted_by = re.search(r"^WantedBy=(.+)$", text, re.MULTILINE)
    return f"{DIRECTORY}/{wanted_by.group(1)}.wants/{os.path.basename(path)}" if wanted_by else None


def is_installed(path: str, text: str) -> bool:
    """Check whether a unit or drop-in exists with this text and, if it has a WantedBy=, is enabled."""
    link = link_of(path, text)
    return _text(path) == text and (link is None or os.path.lexists(link))


def install(path: str, text: str) -> None:
    """Write a unit or drop-in, then the link that enables it. Raises UnitError if there is a file that is not ours."""
    _require_ours(path)
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
    """Remove a unit or drop-in. Its link is removed first, because only the unit's text gives the link's path.

    Raises UnitError if the file is not ours.
    """
    _require_ours(path)
    link = link_of(path, _text(path) or "")
    if link:
        _remove(link)
    _remove(path)


def _require_ours(path: str) -> None:
    text = _text(path)
    is_unit = path.startswith(f"{DIRECTORY}/") and _OUR_NAMES.match(path[len(DIRECTORY) + 1 :])
    if path != RESUME_FILE and not is_unit:
        raise UnitError(f"{path} is not the path of one of our units, so this host's record of swap has been changed")
    if text is not None and not text.startswith(_COMMENT):
        raise UnitError(f"{path} was not written by swap_space; it was not touched. Move it away")


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _remove(path: str) -> None:
    """Remove a file, and its directory below that of the units if that is then empty."""
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        return
    remove_file(path)
    if directory.startswith(f"{DIRECTORY}/") and not os.listdir(directory):
        os.rmdir(directory)
