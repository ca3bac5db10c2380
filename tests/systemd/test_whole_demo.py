# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole demo, as it is. Takes about ten minutes: make test-demo."""

from __future__ import annotations

import pathlib

from . import demo
from .conftest import Host


def test_a_user_with_a_sudo_password_gets_the_answer_of_the_readme(host: Host, checkout: pathlib.Path) -> None:
    document = demo.play(host, checkout)
    names = [arm["name"] for arm in document["arms"]]
    assert names[0] == "dram" and len(names) > 1
    assert all(arm["density"] for arm in document["arms"])
    assert all(ramp["realtime"] for ramp in document["ramps"]), "the clients had real-time priority"
