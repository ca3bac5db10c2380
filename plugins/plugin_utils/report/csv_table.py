# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables as CSV, in which no text is a formula."""

from __future__ import annotations

import csv
import io
import typing as t

# What begins a formula in spreadsheet programs.
_FORMULAS = ("=", "+", "-", "@", "\t", "\n")


def table(header: t.Sequence[str], rows: t.Iterable[t.Sequence[t.Any]]) -> str:
    """Return a table as in RFC 4180, but with line feeds only and with true and false in lower case."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(map(_field, row) for row in rows)
    return stream.getvalue()


def _field(value: t.Any) -> t.Any:
    """Return a value as it is written. A spreadsheet program would run a text such as a host's name as a formula."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    text = value.replace("\r", " ")  # the writer does not quote it, and readers take it for the end of a line
    return f"'{text}" if text.startswith(_FORMULAS) else text
