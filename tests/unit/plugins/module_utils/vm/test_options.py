# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import Domain, VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.image import file_state
from ansible_collections.memstretch.density.plugins.module_utils.vm.options import build_template, check_options
from ansible_collections.memstretch.density.plugins.modules.vm_fleet import ARGUMENTS


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "golden.qcow2"
    path.write_bytes(b"image")
    return path


@pytest.fixture
def options(image):
    """The module's defaults, and the options that a fleet needs."""
    defaults = {name: argument.get("default") for name, argument in ARGUMENTS.items()}
    return {
        **defaults,
        "fleet": "redis",
        "vms": {"redis-001": 1, "redis-002": 2},
        "directory": "/images/fleet-redis",
        "image": str(image),
        "memory": "1G",
    }


def master(running, path):
    xml = f"<domain><devices><disk><source file='{path}'/></disk></devices></domain>"
    return {"master": Domain("master", "", running, False, None, set(), 0, xml)}


def test_defaults_are_accepted(options):
    check_options(options)


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"parallel": 0}, "parallel: 0 is out of range; it must be a whole number from 1 to 256 (VMs)"),
        ({"parallel": None}, "parallel: None is not allowed; it must be a whole number from 1 to 256 (VMs)"),
        ({"vcpus": 1025}, "vcpus: 1025 is out of range; it must be a whole number from 1 to 1,024 (vCPUs)"),
        (
            {"stop_timeout": -1},
            "stop_timeout: -1 is out of range; it must be a whole number from 0 to 86,400 (seconds)",
        ),
        ({"address_timeout": 86401}, "address_timeout: 86401"),
        (
            {"numa_nodes": [0, -1]},
            "numa_nodes: -1 is out of range; it must be a whole number from 0 to 1,023 (NUMA node)",
        ),
        ({"vms": {"r": 0}}, "vms.r: 0 is out of range; it must be a whole number from 1 to 65,535 (the VM's number"),
        ({"vms": {"r": "one"}}, "vms.r: 'one' is not allowed"),
        ({"vms": {"r": "²"}}, "vms.r: '²' is not allowed"),
        ({"vms": {"a": 3, "b": "3"}}, "vms: two VMs have the same number"),
        ({"network": {"type": "user", "first_port": 0}}, "network.first_port: 0 is out of range"),
        (
            {"network": {"type": "user", "first_port": 65535}},
            "network.first_port: 65535 is out of range; it must be a whole number from 1 to 65,534 "
            "(the VM with the number 2 has the last port, 65,535 at most)",
        ),
        ({"vms": {"a": 3, "b": 3}}, "vms: two VMs have the same number"),
        ({"pin": True}, "pin: true needs cpus"),
        ({"free_page_reporting": True, "balloon": False}, "needs balloon: true"),
        ({"master": "master"}, "exactly one of the two"),
        ({"image": None}, "exactly one of the two"),
        ({"memory": None}, "memory: "),
    ],
)
def test_bad_values_are_refused(options, changes, reason):
    with pytest.raises(SettingError) as error:
        check_options({**options, **changes})
    assert reason in str(error.value)


def test_the_last_port_is_the_last_vm_s(options):
    check_options({**options, "network": {"type": "user", "first_port": 65534}})


def test_template_of_an_image(options, image):
    template = build_template(options, {})
    assert (template.base, template.base_state, template.master) == (str(image), file_state(str(image)), "")
    assert (template.memory, template.vcpus) == (2**30, 1)
    assert template.network == {"type": "network", "name": "default"}


def test_template_of_a_master(options, image):
    domains = master(False, image)
    template = build_template({**options, "image": None, "master": "master", "memory": None}, domains)
    assert (template.base, template.master) == (str(image), domains["master"].xml)
    assert (template.memory, template.vcpus) == (0, 0), "the master's"


@pytest.mark.parametrize(
    "changes, running, reason",
    [
        ({"master": "nobody"}, False, "this host has no VM nobody; it has: master"),
        ({"master": "master"}, True, "master is running"),
        ({"image": "/none.qcow2"}, False, "golden image: /none.qcow2 does not exist"),
    ],
)
def test_unusable_golden_images_are_refused(options, image, changes, running, reason):
    with pytest.raises(VmHostError, match=reason):
        build_template({**options, **changes}, master(running, image))


def test_too_little_memory_is_refused(options):
    with pytest.raises(SettingError, match="it must be at least 64M"):
        build_template({**options, "memory": "1M"}, {})
