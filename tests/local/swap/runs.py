# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the module swap_space that must succeed, and what they leave on this machine."""

from __future__ import annotations

import json
import os

from trial import call_module

RECORD = "/var/lib/memstretch/swap_space.json"


def swap(check=False, **params):
    result = call_module(check, **params)
    assert not result.get("failed"), result.get("msg")
    return result


def in_use():
    """The areas in use, as priority by name."""
    with open("/proc/swaps", encoding="ascii") as file:
        return {line.split()[0]: int(line.split()[4]) for line in file.read().splitlines()[1:]}


def snapshot():
    """What the module could change on this host apart from its disks."""
    zram = {name for name in os.listdir("/sys/block") if name.startswith("zram")}
    with open("/proc/swaps", encoding="ascii") as file:
        swaps = file.read()
    return (
        swaps,
        {name: open(f"/sys/block/{name}/disksize", encoding="ascii").read() for name in zram},
        os.path.exists("/var/lib/memstretch"),
    )


def settled(**params):
    """Change the swap; a second run and check mode then have nothing to do."""
    result = swap(**params)
    assert result["changed"]
    for check in (True, False):
        again = swap(check, **params)
        assert (again["changed"], again["actions"]) == (False, [])
        assert again["areas"] == result["areas"]
    return result


def read_record():
    with open(RECORD, encoding="utf-8") as file:
        return json.load(file)
