# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role vm_fleet refuses before any host is touched."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.vm.problems import problems

PLAY = {"host": "a", "hosts": ["a", "b"], "limit": None, "hypervisors": ["a", "b"]}
SETTINGS = {
    "state": "started",
    "name": "fleet",
    "hypervisors": ["a", "b"],
    "count": 4,
    "image": "/images/debian.qcow2",
    "image_checksum": "",
    "master": "",
    "memory": "6G",
    "reach": "auto",
    "reached": "hypervisor",
    "connection": "ssh",
    "network": {},
    "seed": True,
    "host_key": "",
    "private_key_file": "",
    "has_private_key": False,
    "has_host_private_key": False,
    "play": PLAY,
}
DIGEST = "sha256:" + "0" * 64


def play(**changes):
    return {"play": {**PLAY, **changes}}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"state": "absent", "count": None, "memory": "", "image": ""},
        {"image": "https://example.com/debian.qcow2", "image_checksum": DIGEST},
        {"image": "", "master": "golden", "memory": ""},
        {"network": {"type": "user"}},
        {"network": {"type": "user"}, "reached": "direct", "connection": "local"},
        {"network": {"address": "10.77.0.1/22"}},
        {"seed": False, "host_key": "ssh-ed25519 AAAA", "has_private_key": True},
        {"has_host_private_key": True},
        {"play": {**PLAY, "limit": "a:b"}},
        {"hypervisors": ["b", "a"], "play": {**PLAY, "hypervisors": [], "limit": "a:b"}},
    ],
)
def test_what_can_be_done_is_not_refused(changes):
    assert problems({**SETTINGS, **changes}) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"state": "running"}, 'vm_fleet_state: "running" is not allowed; it must be present, started,'),
        ({"name": "Fleet"}, 'vm_fleet_name: "Fleet" is not allowed; it must be 1 to 32 lower-case letters'),
        ({"name": "fleet\n"}, 'vm_fleet_name: "fleet\\n" is not allowed'),
        (play(hosts=["a"], limit="a"), "--limit a leaves out b, but fleet fleet is spread over a, b "),
        (play(hosts=["a"]), "this play leaves out b, but fleet fleet is spread over a, b "),
        (play(host="c", hosts=["a", "b", "c"]), 'vm_fleet_hypervisors: ["a", "b"] lacks c, a host of this play'),
        (play(limit="kvm", hypervisors=[]), "vm_fleet_hypervisors: is missing; with --limit kvm it must list every"),
        ({"count": None}, "vm_fleet_count: is missing; it must be the number of VMs"),
        ({"master": "golden"}, "vm_fleet_image, vm_fleet_master: set exactly one of the two"),
        ({"image": ""}, "vm_fleet_image, vm_fleet_master: set exactly one of the two"),
        ({"image": "http://example.com/x"}, "vm_fleet_image_checksum: is missing; an image that is downloaded"),
        ({"image_checksum": "md5:00"}, 'vm_fleet_image_checksum: "md5:00" is not allowed; it must be sha256:'),
        ({"memory": ""}, "vm_fleet_memory: is missing; it must be the memory of one VM, such as 6G"),
        ({"reach": "ssh"}, 'vm_fleet_reach: "ssh" is not allowed; it must be auto, direct or hypervisor'),
        ({"network": {"type": "user"}, "reached": "direct"}, "vm_fleet_reach: direct is impossible with user"),
        ({"seed": False, "has_private_key": True}, "vm_fleet_host_key: is missing; without a seed"),
        ({"seed": False, "host_key": "ssh-ed25519 A"}, "vm_fleet_private_key_file: is missing; without a seed"),
        (
            {"has_private_key": True, "private_key_file": "~/key"},
            "vm_fleet_private_key, vm_fleet_private_key_file: set at most one of the two",
        ),
        (
            {"has_host_private_key": True, "host_key": "ssh-ed25519 A"},
            "vm_fleet_host_private_key, vm_fleet_host_key: set at most one of the two",
        ),
        ({"network": {"address": "10.77.0.1"}}, 'vm_fleet_network.address: "10.77.0.1" is not allowed'),
    ],
)
def test_each_invalid_value_has_one_line(changes, text):
    (line,) = problems({**SETTINGS, **changes})

    assert line.startswith(text)


def test_all_invalid_values_are_told_at_once():
    assert len(problems({**SETTINGS, "state": "x", "name": "X", "count": None, "memory": "", "reach": "x"})) == 5
