# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that the role client_program builds."""

from __future__ import annotations

import hashlib
import os
import typing as t

_DIGITS = 12  # enough to tell the programs of one host apart


def content_digest(names: t.Sequence[str], directory: str) -> str:
    """Return a digest of files, which changes with their names, order and content.

    Args:
        names: paths of the files, relative to the directory.
        directory: where they are.

    Raises:
        OSError: one of them cannot be read.
    """
    lines = []
    for name in names:
        with open(os.path.join(directory, name), "rb") as file:
            lines.append(f"{name} {hashlib.sha256(file.read()).hexdigest()}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:_DIGITS]
