# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.redis.config import Config


@pytest.fixture
def write_config(tmp_path):
    """Write a configuration file, and return it as Config."""

    def write(**directives):
        lines = {
            "port": 6401,
            "bind": "127.0.0.1",
            "dir": tmp_path,
            "pidfile": tmp_path / "redis.pid",
            **directives,
        }
        path = tmp_path / "redis.conf"
        path.write_text("".join(f"{name} {value}\n" for name, value in lines.items()), encoding="utf-8")
        return Config(str(path))

    return write
