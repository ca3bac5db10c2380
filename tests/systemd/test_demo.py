# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo in small: one round of DRAM and zram, with large steps and half of the memory."""

from __future__ import annotations

import pathlib

from . import demo
from .conftest import Host


def test_a_user_with_a_sudo_password_gets_an_answer(host: Host, checkout: pathlib.Path) -> None:
    document = demo.play(
        host,
        checkout,
        profiles="dram,zram",
        density_once=[],
        density_rounds=1,
        density_budget="128M",
        density_growth=0.3,
        density_references=4,
        site_check_blocks=3,
        site_check_block_seconds=0.1,
    )
    assert [arm["name"] for arm in document["arms"]] == ["dram", "zram"]
    assert [ramp["realtime"] for ramp in document["ramps"]] == [True, True], "the clients had real-time priority"
    without = [arm for arm in document["arms"] if arm["density"] is None]
    assert not without, [(arm, [ramp["end"] for ramp in document["ramps"]]) for arm in without]
