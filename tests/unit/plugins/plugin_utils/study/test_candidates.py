# SPDX-License-Identifier: GPL-3.0-or-later
"""The candidates of profiles, and the profiles that are made of them."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.profile import load
from ansible_collections.memstretch.density.plugins.plugin_utils.study.candidates import (
    Candidate,
    candidates,
    changed_profile,
    profile_name,
)

OURS = str(pathlib.Path(__file__).resolve().parents[5] / "roles/host_tuning/profiles")
ZRAM = load("zram", OURS, [])


def read(tmp_path, text):
    path = tmp_path / "made.yml"
    path.write_text(text, encoding="utf-8")
    return load(str(path), OURS, [])


def test_the_candidates_of_a_profile_and_of_what_it_extends():
    found = {each.name for each in candidates("zram", ZRAM, [])}
    assert {"vm.page-cluster=3", "vm.swappiness=200", "zram_algorithm=zstd", "vm.watermark_scale_factor=10"} <= found
    assert not any(name.startswith("scheduler") for name in found), "zram removes the settings of drives"
    zswap = {each.name for each in candidates("zswap", load("zswap", OURS, []), [])}
    assert {"/sys/module/zswap/parameters/compressor=zstd", "scheduler=kyber"} <= zswap


def test_the_value_itself_is_no_candidate(tmp_path):
    data = read(
        tmp_path,
        "name: mine\ndescription: x\nsysctl: {vm.swappiness: {value: 60, candidates: [60, '60', 80, 80]}}\n"
        "sysfs: {/sys/x/y: {value: [lz4, zstd], candidates: [zstd, lz4]}, /sys/x/z: {value: true, candidates: ['Y', "
        "false]}}\ncpu_governor: {value: performance, candidates: [schedutil]}\n",
    )
    assert [each.name for each in candidates("mine.yml", data, [])] == [
        "vm.swappiness=80",
        "/sys/x/y=zstd",
        "/sys/x/z=false",
        "cpu_governor=schedutil",
    ]


def test_settings_can_be_chosen():
    assert {each.setting for each in candidates("zram", ZRAM, ["vm.swappiness"])} == {"vm.swappiness"}
    with pytest.raises(SettingError, match="study_settings: vm.nothing has no candidates in profile zram; those"):
        candidates("zram", ZRAM, ["vm.nothing"])
    with pytest.raises(SettingError, match="profile: dram has no candidates; give its settings some"):
        candidates("dram", load("dram", OURS, []), [])


def test_a_changed_profile_extends_a_profile_of_the_collection(tmp_path):
    changes = [
        (Candidate("sysctl", "vm.swappiness", 200), "Faster."),
        (Candidate("swap", "zram_algorithm", "zstd"), "Smaller."),
    ]
    text = changed_profile("zram", ZRAM, "zram_optimized", "Better.", changes)
    made = read(tmp_path, text)
    assert made["sysctl"]["vm.swappiness"] == {
        "value": 200,
        "reason": "Faster.",
        "since": "5.8",
        "candidates": [150, 60, 100, 180],
    }
    assert made["swap"] == {**ZRAM["swap"], "zram_algorithm": ["zstd"]}
    assert "# zram_algorithm=zstd: Smaller." in text and yaml.safe_load(text)["extends"] == "zram"
    assert {**made["sysctl"], "vm.swappiness": 0} == {**ZRAM["sysctl"], "vm.swappiness": 0}


def test_a_changed_profile_copies_the_file_of_a_user(tmp_path):
    data = read(
        tmp_path,
        "name: mine\ndescription: x\nextends: zram\n"
        "cpu_governor: {value: performance, reason: Fast., candidates: [schedutil]}\n",
    )
    change = (Candidate("cpu_governor", "cpu_governor", "schedutil"), "Faster.")
    made = read(tmp_path, changed_profile("./mine.yml", data, "mine_optimized", "Better.", [change]))
    assert made["cpu_governor"] == {"value": "schedutil", "reason": "Faster.", "candidates": ["performance"]}
    same = ("sysctl", "sysfs", "swap", "services_stopped", "kernel_cmdline", "swap_candidates", "block_queue")
    assert {key: made[key] for key in same} == {key: data[key] for key in same}


@pytest.mark.parametrize(
    "profile, suffix, name",
    [
        ("zram", "optimized", "zram_optimized"),
        ("/x/My own-profile.yml", "c01", "my_own_profile_c01"),
        ("./2.yml", "c01", "p_2_c01"),
        ("a" * 32, "optimized", "a" * 22 + "_optimized"),
    ],
)
def test_the_name_of_a_changed_profile(profile, suffix, name):
    assert profile_name(profile, suffix) == name
