# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random
import zlib

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import page_in
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

HEADER = "Filename Type Size Used Priority\n"


@pytest.fixture
def host(tmp_path):
    """A function that makes a host of its swap areas and the state of zswap."""

    def make(areas, zswap=None):
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc" / "swaps").write_text(HEADER + areas, encoding="ascii")
        if zswap:
            directory = tmp_path / "sys" / "module" / "zswap" / "parameters"
            directory.mkdir(parents=True)
            (directory / "enabled").write_text(f"{zswap}\n", encoding="ascii")
        return HostFiles(str(tmp_path))

    return make


@pytest.mark.parametrize(
    "areas, zswap, expected",
    [
        ("/dev/zram0 partition 1024 0 100\n/dev/nvme0n1p1 partition 1024 0 5\n", "N", "zram"),
        ("/dev/zram0 partition 1024 0 1\n/dev/nvme0n1p1 partition 1024 0 5\n", None, "devices"),
        ("/swapfile file 1024 0 -2\n", None, "file"),
        ("/swapfile file 1024 0 -2\n", "Y", "zswap"),
    ],
)
def test_what_serves_the_page_ins(host, areas, zswap, expected):
    assert page_in.tier(host(areas, zswap)) == expected


def test_a_host_without_swap_is_refused(host):
    with pytest.raises(page_in.PageInError, match="no swap is active on this host; apply a profile with swap first"):
        page_in.tier(host(""))


@pytest.mark.parametrize("share", [0, 0.25, 0.5, 0.9, 1])
def test_contents_compress_as_asked(share):
    text = page_in.contents(random.Random(1), 4096, share)
    assert len(text) == 4096
    assert len(zlib.compress(text, 9)) / 4096 == pytest.approx(1 - share, abs=0.12)


def test_figures_are_those_of_all_page_ins():
    took = [1000 * number for number in range(1, 201)]
    found = page_in.figures(random.Random(1).sample(took, len(took)))
    assert found == {"page_ins": 200, "avg_us": 100.5, "p50_us": 100, "p99_us": 198, "max_us": 200}
    assert page_in.figures([500])["p99_us"] == 0.5
