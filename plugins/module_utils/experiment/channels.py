# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory modules that the firmware lists, and the bandwidth of their channels in theory."""

from __future__ import annotations

import re
import typing as t

# How boards name a module's channel in its locators: "P0_Node0_Channel1_Dimm0", "NODE 1 CHANNEL 2 DIMM 0",
# "CPU1_DIMM_A1", "DIMM_A1", "A1".
_CHANNEL = (
    re.compile(r"channel\s*_?-?([0-9a-z]+?)(?:[_\s-]|dimm|$)", re.IGNORECASE),
    re.compile(r"(?:^|[_\s-])(?:dimm[_\s-]*)?([a-z])\d+$", re.IGNORECASE),
)
_SOCKET = re.compile(r"(?:node|cpu|proc|p)[_\s]*(\d+)", re.IGNORECASE)


def modules(text: str) -> list[dict[str, t.Any]]:
    """Return the memory modules that C(dmidecode --type 17) lists, without empty slots.

    Speed is in transfers per second, width in bits without those for error correction. C(socket) and C(channel) are
    text, or None if the locators do not name them.
    """
    found = []
    for block in re.split(r"\n(?=Handle )", text):
        fields = dict(re.findall(r"^\t([^:\t]+): *(.*)$", block, re.MULTILINE))
        size = re.match(r"^(\d+) (MB|GB|kB|TB)$", fields.get("Size", ""))
        if "Memory Device" not in block or not size:
            continue
        speed = next(
            (
                re.match(r"^(\d+) M(?:T/s|Hz)$", fields.get(name, ""))
                for name in ("Configured Memory Speed", "Configured Clock Speed", "Speed")
                if re.match(r"^\d+ M(?:T/s|Hz)$", fields.get(name, ""))
            ),
            None,
        )
        width = re.match(r"^(\d+) bits$", fields.get("Data Width", ""))
        places = [fields.get("Locator", ""), fields.get("Bank Locator", "")]
        found.append(
            {
                "place": " / ".join(filter(None, places)),
                "socket": _first(_SOCKET, places),
                "channel": _first(_CHANNEL[0], places) or _first(_CHANNEL[1], places),
                "bytes": int(size.group(1)) * {"kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}[size.group(2)],
                "transfers_per_second": int(speed.group(1)) * 10**6 if speed else None,
                "width_bits": int(width.group(1)) if width else None,
            }
        )
    return found


def _first(pattern: re.Pattern[str], places: t.Iterable[str]) -> str | None:
    return next((match.group(1).upper() for match in map(pattern.search, places) if match), None)


def theory(found: t.Sequence[t.Mapping[str, t.Any]], sockets: int, channels: int | None = None) -> dict[str, t.Any]:
    """Return the bandwidth of all channels in theory, in bytes per second, or None and the reason.

    A channel moves width / 8 bytes in each transfer, at the speed of its slowest module.

    Args:
        found: the modules.
        sockets: CPU packages of the host.
        channels: memory channels of the whole host, if the user gave them.
    """
    speeds = [module["transfers_per_second"] for module in found if module["transfers_per_second"]]
    widths = [module["width_bits"] for module in found if module["width_bits"]]
    if not speeds or not widths:
        return {
            "bytes_per_second": None,
            "channels": channels,
            "reason": "the firmware does not report the speed and width of the memory modules",
        }
    named = {(module["socket"], module["channel"]) for module in found}
    if (
        channels is None
        and all(channel for _socket, channel in named)
        and (sockets == 1 or all(socket for socket, _channel in named))
    ):
        channels = len(named)
    if channels is None:
        return {
            "bytes_per_second": None,
            "channels": None,
            "reason": "the firmware does not name the channels; set memory_bandwidth_channels",
        }
    return {"bytes_per_second": channels * min(speeds) * min(widths) // 8, "channels": channels, "reason": None}
