# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers with their nouns, and lists in words."""

from __future__ import annotations

import typing as t


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as C(1 host) or C(1,200 hosts)."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(parts: t.Sequence[str], most: int | None = None) -> str:
    """Return C(a, b and c); of more parts than most, the first ones and how many are left out."""
    if most is not None and len(parts) > most:
        parts = [*parts[:most], f"{len(parts) - most} more"]
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
