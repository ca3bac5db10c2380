# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils import selftest_answers

DEBIAN = {"id": "debian", "version": "12", "proxmox": "", "systemd": True}


def each(result, reason="a reason", advice="", **found):
    return {"result": result, "reason": reason, "advice": advice, "found": found}


def answers(os=None, **judged):
    return {one["what"]: one for one in selftest_answers.answers({"os": DEBIAN if os is None else os}, judged)}


# As the systems themselves write them: /etc/os-release, and the first line of pveversion.
@pytest.mark.parametrize(
    ("os", "works", "why"),
    [
        (DEBIAN, True, ""),
        ({**DEBIAN, "version": "13"}, True, ""),
        ({**DEBIAN, "version": "11"}, None, "debian 11 was not tried"),
        (
            {**DEBIAN, "id": "ubuntu", "version": "24.04"},
            None,
            "ubuntu 24.04 was tried without its kernel and libvirt: its packages have",
        ),
        ({**DEBIAN, "id": "ubuntu", "version": "22.04"}, None, "ubuntu 22.04 was not tried: its packages have"),
        (
            {**DEBIAN, "proxmox": "pve-manager/8.4.10/293f4abc4b22fa08 (running kernel: 6.8.12-13-pve)"},
            None,
            "Proxmox VE 8.4.10 was not tried: its QEMU conflicts with that of Debian",
        ),
        (
            {**DEBIAN, "version": "13", "proxmox": "pve-manager/9.1.1/1a2b3c4d (running kernel: 6.17.2-1-pve)"},
            None,
            "Proxmox VE 9.1.1 was not tried",
        ),
        ({**DEBIAN, "proxmox": "pveversion: not found"}, True, ""),
        ({**DEBIAN, "id": "", "version": ""}, None, "this system, which has no /etc/os-release, was not tried"),
    ],
)
def test_what_is_said_of_a_system(os, works, why):
    said = answers(os)["the operating system"]
    assert said["works"] is works and said["why"].startswith(why) and bool(said["why"]) == bool(why)
    assert bool(said["instead"]) == (works is None)


def test_without_systemd_nothing_lasts():
    what = "swap, settings and limits after a reboot"
    assert answers()[what]["works"] is True
    assert answers({**DEBIAN, "systemd": False})[what]["works"] is False


def test_each_profile_has_an_answer():
    said = answers(profiles=each("passed", profiles={"zram": "", "zswap": "this kernel has no zswap"}))
    assert said["swap of the profile zram"]["works"] is True
    assert said["swap of the profile zswap"] == {
        "what": "swap of the profile zswap",
        "works": False,
        "why": "this kernel has no zswap",
        "instead": "",
    }


def test_swap_on_a_drive_is_not_known_without_a_drive():
    why = "devices: the list is empty; kind=devices needs at least one path below /dev/disk/by-id"
    said = answers(profiles=each("passed", profiles={"swap": why}))["swap of the profile swap"]
    assert said["works"] is None and "swap_space_devices" in said["instead"]


@pytest.mark.parametrize(
    ("name", "result", "found", "works"),
    [
        ("budget", "passed", {}, True),
        ("budget", "failed", {}, False),
        ("budget", "skipped", {}, None),  # in check mode
        ("kvm", "skipped", {"present": False}, False),
        ("kvm", "skipped", {"present": True}, None),  # there is no image to try it with
        ("headroom", "skipped", {}, False),
        ("kernel_arguments", "skipped", {}, False),
        ("vm", "skipped", {}, None),
        ("drives", "passed", {"drives": [{"against": ["it is mounted"]}, {"against": []}]}, True),
        ("drives", "passed", {"drives": [{"against": ["it is mounted"]}]}, False),
        ("drives", "failed", {}, False),
        ("drives", "skipped", {}, None),  # its tools are missing
    ],
)
def test_what_a_check_says_of_a_host(name, result, found, works):
    *_about_the_system, said = selftest_answers.answers({"os": DEBIAN}, {name: each(result, "why", "do", **found)})
    assert said["works"] is works
    assert (said["why"], said["instead"]) == (("", "") if works else ("why", "do"))


def test_a_check_that_check_mode_skips_says_nothing_of_the_host():
    said = answers(headroom=each("skipped", "check mode changes nothing"))["headroom without a trial"]
    assert said["works"] is None


def test_vms_that_are_alike_have_an_answer_without_their_names():
    groups = [
        {"names": ["a"], "kinds": ["UEFI", "2 NUMA cells"], "against": ""},
        {"names": ["b", "c"], "kinds": [], "against": "the master has 2 disks"},
    ]
    said = answers(masters=each("passed", masters=groups))
    assert said["clones of 1 VM (UEFI, 2 NUMA cells)"]["works"] is True
    refused = said["clones of 2 VMs"]
    assert (refused["works"], refused["why"]) == (False, "the master has 2 disks") and "virsh edit" in refused[
        "instead"
    ]


def test_checks_of_the_way_to_the_host_say_nothing_of_it():
    assert (
        answers(transport=each("failed"), page_in=each("skipped"), put_back=each("passed")).keys() == answers().keys()
    )


def test_the_text_has_what_does_not_work_and_what_is_not_known():
    found = selftest_answers.answers(
        {"os": {**DEBIAN, "version": "11"}},
        {"budget": each("failed", "no control groups", "mount them"), "clock": each("passed")},
    )
    assert selftest_answers.lines(found) == [
        "Would not work here:",
        "  a DRAM budget by a control group: no control groups",
        "    -> mount them",
        "Not known to work here:",
        "  the operating system: debian 11 was not tried",
        "    -> docs/support.md says what is tested on which system",
    ]
    assert selftest_answers.lines(selftest_answers.answers({"os": DEBIAN}, {})) == []
