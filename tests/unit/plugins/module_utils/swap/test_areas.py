# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Head-room, and which areas are ours."""

from __future__ import annotations

import uuid

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.areas import (
    MOST_AREAS,
    Area,
    areas,
    head_room,
    too_many,
    uuid_text,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import header

MIB = 1024 * 1024


def host(tmp_path, available_mib=1000, swaps=""):
    (tmp_path / "proc").mkdir(exist_ok=True)
    (tmp_path / "proc/meminfo").write_text(
        f"MemTotal: 9999999 kB\nMemAvailable: {available_mib * 1024} kB\n", encoding="utf-8"
    )
    (tmp_path / "proc/swaps").write_text("Filename\tType\tSize\tUsed\tPriority\n" + swaps, encoding="utf-8")
    return HostFiles(str(tmp_path))


def area(used_mib, name="/dev/a"):
    return Area(name, 10 * 1024 * MIB, used_mib * MIB, 10, "", True, False)


@pytest.mark.parametrize(
    ("used", "reserve", "fits"),
    [
        ([0], 5000, True),  # an empty area may always be turned off
        ([499], 500, True),
        ([500], 500, False),
        ([300, 250], 500, False),
        ([300, 150], 500, True),
        ([1], 1000, False),
    ],
)
def test_what_is_swapped_out_must_fit_and_leave_the_reserve(tmp_path, used, reserve, fits):
    reason = head_room(host(tmp_path), [area(mib) for mib in used], reserve * MIB)
    assert (reason is None) is fits


def test_refusal_contains_the_figures(tmp_path):
    reason = head_room(host(tmp_path), [area(600, "/dev/x"), area(0, "/dev/empty")], 500 * MIB)
    assert reason.startswith(
        "600 MiB are swapped out to /dev/x and must go back to memory, but only 1000 MiB are available, of which the "
        "option reserve keeps 500 MiB"
    )


def test_an_area_is_ours_by_its_label(tmp_path):
    ours, other = tmp_path / "ours", tmp_path / "other"
    ours.write_bytes(header(MIB, uuid.UUID(int=1)))
    other.write_bytes(header(MIB, uuid.UUID(int=2), "SWAP"))
    files = host(tmp_path, swaps=f"{ours} file 1020 8 10\n{other} file 1020 0 -2\n/gone\\040(deleted) file 1020 0 -3\n")
    found = areas(files)
    assert [(entry.name, entry.ours, entry.priority) for entry in found] == [
        (str(ours), True, 10),
        (str(other), False, -2),
        ("/gone (deleted)", False, -3),
    ]
    assert found[0].used == 8192
    assert uuid_text(found[0].uuid) == str(uuid.UUID(int=1))


@pytest.mark.parametrize(
    ("wanted", "others", "allowed"), [(MOST_AREAS, 0, True), (MOST_AREAS, 1, False), (128, 0, False)]
)
def test_the_kernel_allows_so_many_areas(wanted, others, allowed):
    reason = too_many(wanted, others)
    assert (reason is None) is allowed
    assert allowed or f"the options ask for {wanted} swap areas" in reason
