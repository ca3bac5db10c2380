# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles as users write them."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from ansible_collections.memstretch.density.plugins.plugin_utils.profile import (
    ProfileError,
    changed,
    kernel_arguments,
    load,
    names,
)

ROOT = pathlib.Path(__file__).resolve().parents[4]
OURS = str(ROOT / "roles/host_tuning/profiles")
NAMES = ["dram", "dram_2018", "imdt", "imdt_2018", "swap", "swap_2018", "swap_2018_advice", "tiering", "zram"]
NAMES += ["zram_swap", "zswap"]
RECORD = {"cpu": {"online": 16, "rcu_nocb_config": True}}


def mine(tmp_path, **content):
    path = tmp_path / "mine.yml"
    path.write_text(yaml.safe_dump({"name": "mine", "description": "My settings.", **content}), encoding="utf-8")
    return str(path)


def test_the_names_of_the_profiles():
    assert names(OURS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_has_a_reason_and_a_first_kernel(name):
    profile = load(name, OURS, [])
    assert profile["name"] == name and profile["description"].endswith(".") and profile["source"]
    entries = [
        entry for section in ("sysctl", "sysfs", "block_queue", "kernel_cmdline") for entry in profile[section].values()
    ]
    entries.append(profile["cpu_governor"])
    assert len(entries) >= 6
    for entry in entries:
        assert entry["reason"].endswith(".") and entry["since"], entry
    assert all(entry["reason"] for entry in profile["services_stopped"].values())


def test_the_profile_of_2018_has_the_settings_of_its_script():
    """Section 4 of the brief: the values that the script set; "default" is the kernel's."""
    profile = load("swap_2018", OURS, [])
    assert {name: entry["value"] for name, entry in profile["sysctl"].items()} == {
        "vm.page-cluster": 3,
        "vm.swappiness": 60,
        "vm.watermark_scale_factor": 400,
    }
    assert (
        profile["swap"]["priority"] == 0 and profile["swap"]["partitions"] == 0 and profile["swap"]["others"] == "off"
    )
    assert profile["kernel_cmdline"] == {} and profile["swap"]["discard"] == "none"
    arms = [profile, load("dram_2018", OURS, []), load("imdt_2018", OURS, [])]
    for arm in arms:
        assert arm["guest_kernel_arguments"] == ["nohz=off", "highres=off", "lapic=notscdeadline"]
        assert "kernel.numa_balancing" not in arm["sysctl"]
    assert [arm["swap"]["kind"] for arm in arms] == ["devices", "none", "none"] and arms[2]["needs"] == ["imdt"]
    advice = load("swap_2018_advice", OURS, [])
    assert advice["sysctl"]["vm.page-cluster"]["value"] == 0 and advice["swap"]["priority"] == 10
    assert {name: entry["value"] for name, entry in advice["block_queue"].items()} == {
        "nomerges": 0,
        "scheduler": "mq-deadline",
        "max_sectors_kb": 32,
    }
    assert kernel_arguments(advice, RECORD)["arguments"] == ["nvme.io_queue_depth=64", "rcu_nocbs=0-15"]


def test_rcu_nocbs_ends_at_the_highest_processor_although_some_are_offline():
    record = {"cpu": {"online": 12, "last": 15, "rcu_nocb_config": True}}
    assert "rcu_nocbs=0-15" in kernel_arguments(load("swap_2018_advice", OURS, []), record)["arguments"]


def test_zram_and_zswap_exclude_each_other():
    assert load("zram", OURS, [])["sysfs"]["/sys/module/zswap/parameters/enabled"]["value"] is False
    assert load("zswap", OURS, [])["swap"]["kind"] == "devices"
    assert load("zram", OURS, [])["block_queue"] == {}


def test_zram_before_the_drives_has_the_settings_of_both():
    profile = load("zram_swap", OURS, [])
    assert profile["swap"]["kind"] == "devices" and profile["swap"]["zram_first"] is True
    assert profile["sysfs"]["/sys/module/zswap/parameters/enabled"]["value"] is False
    assert profile["block_queue"] == load("swap", OURS, [])["block_queue"]
    assert not any(load(name, OURS, [])["swap"]["zram_first"] for name in NAMES if name != "zram_swap")


def test_an_argument_that_the_kernel_does_not_support_is_left_out_with_a_note():
    result = kernel_arguments(load("swap", OURS, []), {"cpu": {"online": 4, "rcu_nocb_config": False}})
    assert result["arguments"] == [] and "without CONFIG_RCU_NOCB_CPU" in result["notes"][0]


def test_a_custom_profile_extends_another(tmp_path):
    path = mine(tmp_path, extends="swap", sysctl={"vm.swappiness": 10, "vm.page-cluster": None}, swap={"priority": 5})
    profile = load(path, OURS, [])
    assert profile["sysctl"]["vm.swappiness"] == 10 and "vm.page-cluster" not in profile["sysctl"]
    assert profile["swap"]["priority"] == 5 and profile["swap"]["kind"] == "devices"
    assert "extends" not in profile
    assert load("swap", OURS, [])["sysctl"]["vm.swappiness"]["value"] == 100, "the extended profile is not changed"


def test_a_relative_path_is_searched_for_in_the_places(tmp_path):
    mine(tmp_path)
    assert load("./mine.yml", OURS, ["/nowhere", str(tmp_path)])["swap"]["kind"] == "none"
    with pytest.raises(ProfileError, match="there is no such file: /nowhere/./mine.yml"):
        load("./mine.yml", OURS, ["/nowhere"])


def test_an_unknown_name_is_refused_with_the_list_of_names():
    with pytest.raises(
        ProfileError, match="is 'turbo', but there is no such profile. Allowed: dram, dram_2018, imdt, imdt_2018,"
    ):
        load("turbo", OURS, [])


@pytest.mark.parametrize(
    "content, message",
    [
        ({"sysctls": {}}, "'sysctls' is not a known key"),
        ({"name": "swap"}, "the name of a profile of this collection"),
        ({"name": "A"}, "1 to 32 lowercase letters"),
        ({"description": 3}, "description is 3; it must be a string"),
        ({"needs": ["x"]}, "a list of imdt, memory_only_node"),
        ({"extends": "../x.yml"}, "the name of a profile"),
        ({"extends": "turbo"}, "no such profile"),
        ({"swap": {"device": "/dev/sda"}}, "swap has 'device'"),
        ({"swap": 3}, "swap is 3"),
        ({"sysctl": {"vm.x": {"value": 1, "note": "x"}}}, "'note' is not a known key"),
        ({"sysctl": {"vm.x": {"value": 1, "candidates": 2}}}, "sysctl, vm.x: candidates is 2; it must be a list"),
        ({"sysfs": {"/sys/x": {"value": 1, "candidates": []}}}, "candidates is \\[\\]; it must be a list of numbers"),
        ({"sysctl": {"vm.x": {"value": 1, "candidates": ["a\nb"]}}}, "strings of one line"),
        ({"services_stopped": {"ksm": {"candidates": [1]}}}, "services_stopped, ksm: it cannot have candidates"),
        ({"kernel_cmdline": {"nohz": {"value": 1, "candidates": [2]}}}, "kernel_cmdline, nohz: it cannot have candid"),
        ({"kernel_cmdline": ["nohz=off"]}, "kernel_cmdline is \\['nohz=off'\\]; it must be a dictionary"),
        ({"kernel_cmdline": {"nohz": {"reason": "x"}}}, "kernel_cmdline, nohz: the value is None"),
        ({"kernel_cmdline": {"nohz": False}}, "kernel_cmdline, nohz: the value is False; .* in quotes"),
        ({"kernel_cmdline": {"nohz": {"value": 1, "note": "x"}}}, "kernel_cmdline, nohz: 'note' is not a known key"),
        ({"kernel_cmdline": {"root": "/dev/x"}}, "kernel_cmdline, root: 'root=/dev/x' is not allowed: the boot loader"),
        ({"kernel_cmdline": {"a b": 1}}, "'a b=1' is not allowed"),
        ({"swap_candidates": {"zram_size": ["9%"]}}, "a dictionary of lists by discard or zram_algorithm"),
        ({"swap_candidates": {"discard": "none"}}, "swap_candidates, discard: candidates is 'none'"),
    ],
)
def test_a_mistake_is_reported(tmp_path, content, message):
    with pytest.raises(ProfileError, match=message):
        load(mine(tmp_path, **content), OURS, [])


def test_a_null_removes_a_setting(tmp_path):
    assert load(mine(tmp_path, sysctl={"vm.swappiness": None}), OURS, [])["sysctl"] == {}


@pytest.mark.parametrize("text", ["- a\n", "a: [\n", "", "x" * 100001, "!!python/object/apply:os.system [true]\n"])
def test_a_file_that_is_not_a_profile_is_refused(tmp_path, text):
    path = tmp_path / "mine.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ProfileError, match=str(path)):
        load(str(path), OURS, [])


def test_settings_of_the_inventory_override_the_profile():
    profile = changed(
        load("swap", OURS, []),
        {"sysctl": {"vm.dirty_bytes": 15728640}},
        ["vm.page-cluster", "cpu_governor"],
        {"kind": "file"},
    )
    assert profile["sysctl"]["vm.dirty_bytes"] == 15728640 and "vm.page-cluster" not in profile["sysctl"]
    assert profile["cpu_governor"] == "" and profile["swap"]["kind"] == "file"
    with pytest.raises(ProfileError, match="'vm.nothing' cannot be left out, the profile does not set it"):
        changed(profile, {}, ["vm.nothing"], {})
    with pytest.raises(ProfileError, match="kernel_cmdline, a: the value is \\['b'\\]"):
        changed(profile, {"kernel_cmdline": {"a": ["b"]}}, [], {})
    with pytest.raises(ProfileError, match="'sysctls' is not a section; .*swap has 'devices'"):
        changed(profile, {"sysctls": {}}, [], {"devices": []})
