# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options on the command line of QEMU, as libvirt, Proxmox and people write them."""

from __future__ import annotations

import json
import re

_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parts(option: str) -> dict[str, str]:
    """Return the parts of an option by name; a first part without a name is the one without a name.

    Args:
        option: such as C(size=2097152k,slots=16), C(2048) or C(pc-dimm,memdev=dimm0), or one in JSON, whose driver or
            type is then the part without a name.
    """
    if option.startswith("{"):
        try:
            found = json.loads(option)
        except (ValueError, RecursionError):  # any user of a host may have chosen it
            return {}
        named = {name: str(value) for name, value in found.items()}
        return {"": named.get("driver") or named.get("qom-type") or "", **named}
    first, *others = option.split(",")
    found = {name: value for name, _separator, value in (part.partition("=") for part in others)}
    name, separator, value = first.partition("=")
    return {**found, name: value} if separator else {**found, "": first}


def bytes_of(size: str, plain: int = 1) -> int | None:
    """Return a size in bytes; None if it is none.

    Args:
        size: such as C(2097152k) or C(4G).
        plain: the bytes of 1 without a unit: MiB after C(-m), otherwise bytes.
    """
    match = re.fullmatch(r"(\d{1,18})([kmgt]?)", size.lower())
    return int(match[1]) * _UNITS.get(match[2], plain) if match else None


def boot_memory(option: str) -> int | None:
    """Return the bytes that a value of C(-m) gives to a VM at its start; None if it does not say it."""
    found = parts(option)
    return bytes_of(found.get("size", found.get("", "")), plain=2**20)
