# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""zram as sysfs shows it. tests/local/swap sets up real devices."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.swap import zram as zram_module
from ansible_collections.memstretch.density.plugins.module_utils.swap.areas import SwapError
from ansible_collections.memstretch.density.plugins.module_utils.swap.zram import Zram, ZramSwap

DEVICES = {
    "/sys/class/zram-control/hot_add": "",
    "/sys/block/zram0/disksize": "0\n",
    "/sys/block/zram0/comp_algorithm": "lzo [lz4] zstd \n",
    "/sys/block/zram10/disksize": "4096000\n",
    "/sys/block/zram10/comp_algorithm": "[lzo]\n",
    "/sys/block/loop0/size": "0\n",
}


def test_devices_with_their_sizes_and_algorithms(make_guard):
    zram = Zram(make_guard(DEVICES))
    assert zram.loaded() and not zram.missing()
    assert zram.numbers() == [0, 10]
    assert zram.unused() == [0]
    assert (zram.size(10), zram.algorithm(10), zram.algorithms(10)) == (4096000, "lzo", ["lzo"])
    assert (zram.size(0), zram.algorithm(0), zram.algorithms(0)) == (0, "lz4", ["lzo", "lz4", "zstd"])


def test_no_device_and_no_module(make_guard):
    zram = Zram(make_guard())
    assert not zram.loaded()
    assert (zram.numbers(), zram.size(0), zram.algorithm(0), zram.algorithms(0)) == ([], 0, None, [])


UBUNTU = 'NAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n'
MINT = 'NAME="Linux Mint"\nID=linuxmint\nID_LIKE="ubuntu debian"\n'
EXTRA = "; Ubuntu has the module of its kernels in the package linux-modules-extra-6.8.0-31-generic"


@pytest.mark.parametrize(
    ("system", "package"),
    [(UBUNTU, EXTRA), (MINT, EXTRA), ('NAME="Debian GNU/Linux"\nID=debian\n# ubuntu\n', ""), (None, "")],
)
def test_a_kernel_without_zram_is_told_with_the_package_that_has_it(
    make_guard, make_options, monkeypatch, system, package
):
    """Each kernel of Ubuntu has most drivers in a second package, which its images for clouds do not install."""
    files = {"/etc/os-release": system} if system else {}
    guard = make_guard({**files, "/proc/sys/kernel/osrelease": "6.8.0-31-generic\n"})
    asked = []
    monkeypatch.setattr(guard, "run_command", lambda command, **_options: (asked.append(command[1:]), (1, "", ""))[1])
    monkeypatch.setattr(zram_module, "find_tool", "/sbin/{}".format)
    assert ZramSwap(make_options(kind="zram"), guard, {}).refusals() == [
        "this kernel has no zram (CONFIG_ZRAM)" + package
    ]
    assert asked == [["--show-depends", "--quiet", "zram"]]


@pytest.mark.parametrize(
    ("steps", "program"),
    [
        ("install /bin/true \n", "/bin/true"),
        ("install /bin/false\ninsmod /lib/modules/6.1/zram.ko \n", "/bin/false"),
        ("insmod /lib/modules/6.1/zsmalloc.ko \ninsmod /lib/modules/6.1/zram.ko \n", ""),
        ("install /sbin/modprobe --ignore-install zram && logger zram\n", ""),
        ("builtin zram\n", ""),
    ],
)
def test_a_module_that_must_not_be_loaded_is_refused(make_guard, monkeypatch, steps, program):
    """As in microsoft/lisa#4106: modprobe ends with status 0 there, and nothing is loaded."""
    guard = make_guard()
    guard.run_command = lambda command, **_options: (0, steps, "")
    monkeypatch.setattr(zram_module, "find_tool", "/sbin/{}".format)
    refused = f"modprobe would run {program} in its place. Remove that line"
    assert Zram(guard).missing().partition(": ")[2] == (refused if program else "")
    with pytest.raises(SwapError, match="zram is not loaded; see the lines about it in /etc/modprobe.d"):
        Zram(guard).load()


def test_a_module_that_udev_still_uses_is_removed_soon_after(make_guard, monkeypatch):
    guard, ends = make_guard(), [(1, "", "modprobe: FATAL: Module zram is in use.")] * 2 + [(0, "", "")]
    guard.run_command = lambda command, **_options: ends.pop(0)
    monkeypatch.setattr(zram_module.time, "sleep", lambda _seconds: None)
    Zram(guard).unload()
    assert ends == []


def test_a_module_that_stays_in_use_is_an_error(make_guard, monkeypatch):
    guard = make_guard()
    guard.run_command = lambda command, **_options: (1, "", "modprobe: FATAL: Module zram is in use.")
    monkeypatch.setattr(zram_module, "_BUSY_S", 0)
    with pytest.raises(SwapError, match="Module zram is in use"):
        Zram(guard).unload()


def test_a_host_that_cannot_load_modules_is_told_which_package_can(make_guard, make_options, monkeypatch):
    monkeypatch.setattr(zram_module, "find_tool", lambda name: None)
    assert ZramSwap(make_options(kind="zram"), make_guard(), {}).refusals() == [
        "zram is not loaded, and modprobe is missing on this host; Debian and Ubuntu have it in the package kmod"
    ]


@pytest.mark.parametrize(
    ("wanted", "algorithm"), [(["no-such", "zstd", "lz4"], "zstd"), (["lz4"], "lz4"), (["no-such"], "")]
)
def test_the_first_algorithm_that_the_kernel_has_is_used(make_guard, make_options, wanted, algorithm):
    swap = ZramSwap(make_options(kind="zram", zram_algorithm=wanted), make_guard(DEVICES), {})
    assert swap.algorithm(0) == algorithm


def test_algorithms_that_the_kernel_lacks_are_refused(make_guard, make_options):
    guard = make_guard(DEVICES)
    assert ZramSwap(make_options(kind="zram"), guard, {}).refusals() == []
    assert ZramSwap(make_options(kind="zram", zram_algorithm=["842", "deflate"]), guard, {}).refusals() == [
        "zram_algorithm: this kernel has none of 842, deflate; it has lzo, lz4, zstd"
    ]


def test_zswap_in_front_of_zram_is_a_warning(make_guard, make_options):
    guard = make_guard({**DEVICES, "/sys/module/zswap/parameters/enabled": "Y\n"})
    assert ["zswap is on" in text for text in ZramSwap(make_options(kind="zram"), guard, {}).warnings()] == [True]


def test_devices_are_of_equal_size(make_guard, make_options):
    swap = ZramSwap(make_options(kind="zram", zram_size="10M", zram_devices=3), make_guard(DEVICES), {})
    assert swap.wanted_areas() == [
        (f"our zram device {number}", 10 * 2**20 // 3 // 4096 * 4096, 10) for number in (1, 2, 3)
    ]
    assert swap.pending() == ["set up 3 zram device(s) of 3.332 MiB"]


def test_what_existed_before_the_first_run_is_kept_in_the_record(make_guard, make_options):
    guard, options = make_guard(DEVICES), make_options(kind="zram")
    found = {"existing": [0, 10], "loaded": True, "boot": {}}
    assert ZramSwap(options, guard, {"zram": None}).claim() == {"zram": found}
    recorded = {"existing": [], "loaded": False, "boot": {"id": "1", "numbers": [0]}}
    assert ZramSwap(options, guard, {"zram": recorded}).claim() == {"zram": recorded}
