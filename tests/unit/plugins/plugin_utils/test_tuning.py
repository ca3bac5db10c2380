# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels of a host, and its part of a run's record."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils import tuning

NODE = {"memory_only": False}
MEMORY = {
    "imdt": {"detected": False},
    "numa": {"nodes": [NODE]},
    "cpu": {"idle": {"awake": False}},
    "ksm": {"pages_sharing": None},
    "damon": {"running": {}, "modules": []},
}
SETTING = {
    "name": "vm.x",
    "section": "sysctl",
    "wanted": "2",
    "effective": "2",
    "original": "1",
    "absent": False,
    "since": "",
    "also_set_by": [],
}
DAMON = {**SETTING, "name": "/sys/kernel/mm/damon/admin/kdamonds/*/state", "section": "sysfs", "wanted": "off"}
DAMON |= {"effective": "off"}
SWITCHED_OFF = (
    "DAMON of somebody else is switched off while the profile is applied, because it can evict or move memory; "
    "restoring the host switches it on again"
)
PAGING_OUT = {**MEMORY, "damon": {"running": {"0": ["pageout"]}, "modules": []}}
APPLIED = {
    "state": "applied",
    "profile": "zram",
    "needs": [],
    "memory": MEMORY,
    "set": {"settings": [SETTING], "persistent": True, "kept": []},
    "budget": None,
    "swap_areas": ["area"],
    "swap_warnings": [],
    "kernel_arguments": ["nohz=off"],
    "kernel_notes": [],
    "kernel_warnings": [],
    "reboot_required": False,
    "cpu_idle": "default",
    "ksm": False,
}


def settings(*changes):
    return {"set": {**APPLIED["set"], "settings": [{**SETTING, **change} for change in changes]}}


@pytest.mark.parametrize(
    ("facts", "labels"),
    [
        ({}, []),
        (
            settings({"absent": True, "since": "5.9"}, {"name": "vm.y", "absent": True}),
            ["not set, because this kernel lacks: vm.x since 5.9, vm.y"],
        ),
        (settings({"absent": True, "section": "services_stopped"}), []),
        (
            settings({"also_set_by": ["TuneD (x:1)", "/a:2"]}, {"also_set_by": ["/a:2"]}),
            ["the same settings are also made by: TuneD (x:1), /a:2"],
        ),
        (
            {"set": {"settings": [], "persistent": False, "kept": [{"entry": "a"}, {"entry": "b"}]}},
            ["not restored: a, b", "the settings last until the next boot: this host does not run systemd"],
        ),
        ({"ksm": True}, ["page merging (KSM) is on: compare this run only with runs that merge pages, too"]),
        ({"memory": {**MEMORY, "ksm": {"pages_sharing": 7}}}, ["page merging is off, but 7 pages are still merged"]),
        ({"memory": {**MEMORY, "damon": {"running": {"0": [], "1": ["stat"]}, "modules": []}}}, []),
        (
            {
                "memory": {
                    **MEMORY,
                    "damon": {"running": {"0": ["stat"], "1": ["pageout", "stat"]}, "modules": ["damon_reclaim"]},
                }
            },
            [
                "DAMON runs (damon_reclaim is enabled; kdamond 1: pageout): what it does to memory is measured "
                "together with the profile"
            ],
        ),
        (settings({**DAMON, "original": "off, on"}), [SWITCHED_OFF]),
        (settings({**DAMON, "original": "off"}, {**DAMON, "original": None}), []),
        # In check mode nothing has an original yet, and what is on is still on.
        ({**settings({**DAMON, "original": None, "effective": "on"}), "memory": PAGING_OUT}, [SWITCHED_OFF]),
        (settings({**DAMON, "original": "off", "effective": "off, on"}), [SWITCHED_OFF]),
        # Somebody has turned it on again, or the user's own profile does.
        (
            {**settings({**DAMON, "original": "on"}), "memory": PAGING_OUT},
            [
                SWITCHED_OFF,
                "DAMON runs (kdamond 0: pageout): what it does to memory is measured together with the profile",
            ],
        ),
        (settings({**DAMON, "wanted": "on", "original": "off", "effective": "on"}), []),
        (
            {"budget": {"size_bytes": 300 * 2**20 + 1, "mechanism": "cgroup", "group": "fleet"}},
            ["DRAM budget of 300 MiB by cgroup fleet"],
        ),
        (
            {"budget": {"size_bytes": 2**30, "mechanism": "hugepages", "group": ""}},
            ["DRAM budget of 1024 MiB by hugepages"],
        ),
        (
            {"swap_warnings": ["s"], "kernel_warnings": ["w"], "kernel_notes": ["n"], "reboot_required": True},
            ["s", "w", "n", "reboot required: the kernel command line of the profile is not in force"],
        ),
        ({"needs": ["imdt"]}, ['IMDT not detected: profile "zram" needs it, and this host runs natively']),
        (
            {"memory": {**MEMORY, "imdt": {"detected": True}}},
            ['IMDT detected: profile "zram" does not use it'],
        ),
        (
            {"needs": ["memory_only_node"]},
            ['no NUMA node without CPUs: profile "zram" needs one, such as CXL memory'],
        ),
        ({"needs": ["memory_only_node"], "memory": {**MEMORY, "numa": {"nodes": [NODE, {"memory_only": True}]}}}, []),
    ],
)
def test_labels_of_a_tuned_host(facts, labels):
    assert tuning.labels({**APPLIED, **facts}) == labels


def test_cpus_that_cannot_stay_awake_are_named():
    facts = {**APPLIED, "cpu_idle": "awake", "memory": {**MEMORY, "cpu": {"idle": {"awake": None}}}}
    (label,) = tuning.labels(facts)
    assert label.startswith("the CPUs sleep when they are idle, although host_tuning_cpu_idle is awake")


def test_labels_of_a_host_that_is_not_tuned():
    recorded = {"state": "recorded", "profile": "imdt", "needs": ["imdt"], "memory": MEMORY}
    assert tuning.labels(recorded) == [
        'host not tuned: no setting of profile "imdt" was applied',
        'IMDT not detected: profile "imdt" needs it, and this host runs natively',
    ]
    restored = {"state": "restored", "memory": MEMORY, "set": {"kept": [{"entry": "vm.x"}]}}
    assert tuning.labels(restored) == ["host not tuned", "not restored: vm.x"]


def test_the_record_says_what_is_in_force_on_a_tuned_host_only():
    assert tuning.record({"state": "recorded", "memory": MEMORY}) == MEMORY
    assert tuning.record(APPLIED) == {
        **MEMORY,
        "tuning": {
            "profile": "zram",
            "settings": [SETTING],
            "persistent": True,
            "swap_areas": ["area"],
            "kernel_arguments": ["nohz=off"],
            "dram_budget": None,
        },
    }


def test_drives_are_paths_or_dictionaries_and_each_is_named_once():
    assert tuning.device_paths(["/dev/a", {"path": "/dev/b", "serial": "X"}, "/dev/a"]) == ["/dev/a", "/dev/b"]
    assert tuning.device_paths("/dev/a, /dev/b") == ["/dev/a", "/dev/b"]
    assert tuning.device_paths("") == tuning.device_paths([]) == []
