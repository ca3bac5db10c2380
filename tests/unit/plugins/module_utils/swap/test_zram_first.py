# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""zram before a file, before anything is made. tests/local/swap makes both."""

from __future__ import annotations

import uuid

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.swap.file import SwapFile
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import header
from ansible_collections.memstretch.density.plugins.module_utils.swap.zram_first import ZramFirst

DEVICE = {
    "/sys/class/zram-control/hot_add": "",
    "/sys/block/zram0/disksize": "0\n",
    "/sys/block/zram0/comp_algorithm": "lzo [lz4] zstd \n",
}
MIB = 2**20
OURS = uuid.uuid4()


@pytest.fixture(name="make_swap")
def _make_swap(make_guard, make_options, tmp_path):
    """A function that returns zram before a file on ext4, neither of which exists."""

    def make(files=None, **params):
        mounts = {"/proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"}
        options = make_options(
            **{
                "kind": "file",
                "file": str(tmp_path / "swap"),
                "file_size": "8M",
                "zram_first": True,
                "zram_size": "16M",
                "priority": 7,
                **params,
            }
        )
        guard = make_guard({**mounts, **(DEVICE if files is None else files)})
        return ZramFirst(SwapFile(options, guard, {"files": {str(tmp_path / "swap"): [OURS.hex]}}))

    return make


def test_both_are_made_and_zram_has_the_higher_priority(make_swap, tmp_path):
    swap = make_swap()
    assert swap.wanted_areas() == [("our zram device 1", 16 * MIB, 8), (f"{tmp_path}/swap", 8 * MIB, 7)]
    assert swap.pending() == ["set up 1 zram device(s) of 16 MiB", f"make the swap file {tmp_path}/swap of 8 MiB"]
    assert swap.manner == "priority 8, discard none (zram) and priority 7, discard once (the others)"
    assert swap.claim() == {
        "zram": {"existing": [0], "loaded": True, "boot": {}},
        "files": {f"{tmp_path}/swap": [OURS.hex]},
    }


def test_the_units_turn_both_on_with_their_priorities(make_swap, tmp_path):
    (tmp_path / "swap").write_bytes(header(8 * MIB, OURS).ljust(8 * MIB, b"\0"))
    (tmp_path / "swap").chmod(0o600)
    swap = make_swap()
    (location,) = swap.locations()  # the file; zram is not there yet
    assert location == (f"{tmp_path}/swap", f"{tmp_path}/swap", 7, "once")
    (text,) = swap.units().values()
    assert "Priority=7\n" in text, text
    zram, _file = swap.kinds
    units = zram.unit(zram.location("/dev/zram0", "/dev/zram0"))
    assert any("What=/dev/zram0\n" in text and "Priority=8\n" in text for text in units.values()), units


def test_what_forbids_one_of_them_forbids_both(make_swap, tmp_path):
    assert make_swap().refusals() == []
    (tmp_path / "swap").write_bytes(b"precious")
    refused = make_swap(zram_algorithm=["842"]).refusals()
    assert [text.partition(":")[0] for text in refused] == ["zram_algorithm", "file"]


def test_zswap_in_front_of_it_is_a_warning(make_swap):
    warnings = make_swap({**DEVICE, "/sys/module/zswap/parameters/enabled": "Y\n"}).warnings()
    assert len(warnings) == 1 and "zswap is on" in warnings[0]
