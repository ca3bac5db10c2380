# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How options are checked: numbers and their ranges, lists, sizes, and the messages for bad input.

The ranges themselves are next to the code that uses them, mostly in the options.py of a package.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

Number = t.TypeVar("Number", int, float)


class SettingError(ValueError):
    """An option has a value that cannot be used. The text names the option, the value and what is allowed."""


@dataclasses.dataclass(frozen=True)
class Range(t.Generic[Number]):
    """The numbers that an option allows, both ends included."""

    kind: type[Number]
    low: float
    high: float
    unit: str

    def __str__(self) -> str:
        noun = "a whole number" if self.kind is int else "a number"
        return f"{noun} from {self.low:,} to {self.high:,} ({self.unit})"


Ranges = t.Mapping[str, Range[t.Any]]


def number(option: str, value: t.Any, allowed: Range[Number]) -> Number:
    """Return value as a number in the allowed range. A string that holds a number is accepted.

    Args:
        option: the option's name as the user knows it, for the message.

    Raises:
        SettingError: the value is not a number or is out of range.
    """
    try:
        if isinstance(value, bool):
            raise ValueError
        result = allowed.kind(value)
        if allowed.kind is int and isinstance(value, float) and value != result:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise SettingError(f"{option}: {value!r} is not allowed; it must be {allowed}") from None
    if not allowed.low <= result <= allowed.high:
        raise SettingError(f"{option}: {value!r} is out of range; it must be {allowed}")
    return result


def numbers(option: str, value: t.Any, allowed: Range[Number]) -> list[Number]:
    """Return value as a list of distinct numbers. A single number and a text such as "0,10,25" are accepted.

    Raises:
        SettingError: the list is empty, or one of its values is not allowed or occurs twice.
    """
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    elif not isinstance(value, (list, tuple)):
        value = [value]
    result = [number(option, each, allowed) for each in value]
    if not result:
        raise SettingError(f"{option}: the list is empty; it must have at least one of {allowed}")
    if len(set(result)) != len(result):
        raise SettingError(
            f"{option}: {list(value)!r} has the same value twice; its values must be different, each {allowed}"
        )
    return result


def check_numbers(options: t.Mapping[str, t.Any], ranges: Ranges, prefix: str = "") -> dict[str, t.Any]:
    """Return those options that have a range, as numbers.

    Args:
        prefix: what the user's names of the options begin with, for the messages.

    Raises:
        SettingError: one of them is not a number or is out of range.
    """
    return {name: number(prefix + name, options[name], allowed) for name, allowed in ranges.items()}


def choice(option: str, value: t.Any, allowed: t.Sequence[str]) -> str:
    """Return value, which must be one of the allowed words.

    Raises:
        SettingError: it is none of them.
    """
    if value not in allowed:
        raise SettingError(f"{option}: {value!r} is not allowed; it must be one of {', '.join(allowed)}")
    return value


def yes_or_no(option: str, value: t.Any) -> bool:
    """Return value as a boolean. The words true, yes, 1, false, no and 0 are accepted.

    Raises:
        SettingError: the value is neither.
    """
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    found = value if isinstance(value, bool) else words.get(str(value).lower())
    if found is None:
        raise SettingError(f"{option}: {value!r} is not allowed; it must be true or false")
    return found


def size_in_bytes(option: str, value: t.Any, total: int | None = None) -> int:
    """Return value as bytes. A percentage such as 50% is a share of total and needs it.

    Raises:
        SettingError: the value is not a size.
    """
    match = re.match(r"^\s*(\d+(?:\.\d+)?)\s*(?:([KMGT]?)(?:i?B)?|(%))\s*$", str(value), re.IGNORECASE)
    if match and not match.group(3):
        return int(float(match.group(1)) * _UNITS[(match.group(2) or "").upper()])
    if match and total is not None:
        return int(total * float(match.group(1)) / 100)
    share = "" if total is None else ", or a share of the memory such as 50%"
    raise SettingError(
        f"{option}: {value!r} is not a size; it must be bytes, or a number with K, M, G or T (powers of 1024){share}"
    )


def size_text(size: float) -> str:
    """Return a size in bytes with four significant digits and a binary unit, such as "465.8 GiB"."""
    power = 0
    while abs(size) >= 1024 and power < len(_BINARY_UNITS) - 1:
        size /= 1024
        power += 1
    return f"{size:.4g} {_BINARY_UNITS[power]}"


def first_names(names: t.Sequence[str], most: int) -> str:
    """Return the first names for a message, and how many more there are, such as "a, b and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
