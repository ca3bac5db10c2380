# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are a directory with the files that a test needs."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import Guard
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import DEFAULTS, read


@pytest.fixture
def make_guard(tmp_path):
    """A function that returns the guard of a host with these files, by absolute path; it runs no command."""

    def make(files=()):
        for name, text in dict(files).items():
            path = tmp_path / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Guard(lambda command, **_options: pytest.fail(f"runs {command}"), HostFiles(str(tmp_path)))

    return make


@pytest.fixture
def make_options():
    """A function that returns the options of a host with 8 GiB, with the defaults of those that are not given."""

    def make(**params):
        return read({**DEFAULTS, **params}, 8 * 2**30, {"cryptsetup": "/usr/sbin/cryptsetup"})

    return make
