# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorded host with two sockets, a memory-only node, two NVMe drives and zram, under control group version 2."""

from __future__ import annotations

import os
import typing as t

import pytest

from ansible_collections.memstretch.density.tests.unit.fixtures.record_tree import replay


@pytest.fixture
def quiet(tmp_path):
    """Return the root directory of the host before it swaps."""
    return replay(str(tmp_path / "quiet"), "two_sockets.json")


@pytest.fixture
def pressed(tmp_path):
    """Return the root directory of the same host after it has swapped."""
    return replay(str(tmp_path / "pressed"), "two_sockets.json", "two_sockets_pressed.json")


@pytest.fixture
def write() -> t.Callable[..., None]:
    """Return a function that writes a file below a root directory."""

    def write(root: str, path: str, content: str | bytes, mode: int = 0o644) -> None:
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        with open(root + path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        os.chmod(root + path, mode)

    return write
