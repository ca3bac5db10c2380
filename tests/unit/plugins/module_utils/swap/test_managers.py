# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that managers of virtual machines and containers assign, from files as these write them."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import GuardError
from ansible_collections.memstretch.density.plugins.module_utils.swap.managers import devices_in, manager_claims

BY_ID = "/dev/disk/by-id/nvme-DISK_1"


@pytest.fixture
def claims(tmp_path):
    """A function that writes one file of a host and returns the devices that its managers name."""

    def of(name, text, run_command=None):
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return [claim.device for claim in manager_claims(HostFiles(str(tmp_path)), run_command)]

    return of


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("/etc/pve/qemu-server/100.conf", f"cores: 2\nscsi1: {BY_ID},size=100G\n"),
        ("/etc/pve/lxc/101.conf", f"mp0: {BY_ID},mp=/srv\n"),
        ("/etc/pve/nodes/other/qemu-server/100.conf", f"scsi1: {BY_ID},size=100G\n"),
        ("/etc/xen/auto/vm1", f"disk = ['phy:{BY_ID},xvda,w']\n"),
        ("/var/lib/lxc/c1/config", f"lxc.mount.entry = {BY_ID} srv ext4 defaults 0 0\n"),
        ("/var/lib/docker/containers/1/hostconfig.json", json.dumps({"Devices": [{"PathOnHost": BY_ID}]})),
        ("/var/lib/docker/containers/1/hostconfig.json", json.dumps({"Binds": [f"{BY_ID}:/dev/xvda:rw"]})),
        ("/etc/containers/systemd/db.container", f"[Container]\nAddDevice={BY_ID}:/dev/xvda\n"),
        ("/var/lib/ganeti/config.data", json.dumps({"disks": {"u": {"logical_id": ["manual", BY_ID]}}})),
        ("/etc/drbd.d/r0.res", f"resource r0 {{ on a {{ disk {BY_ID}; }} }}\n"),
        ("/etc/systemd/system/srv.mount", f"[Mount]\nWhat={BY_ID}\n"),
    ],
)
def test_a_disk_that_a_manager_names_is_claimed(claims, name, text):
    assert BY_ID in claims(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("/etc/pve/nodes/other/qemu-server/100.conf", "scsi1: /dev/sdb,size=100G\nhostpci0: 3b:00\n"),
        ("/var/lib/ganeti/config.data", json.dumps({"disk": "/dev/sdb"})),
    ],
)
def test_a_kernel_name_on_another_host_of_the_cluster_does_not_matter(claims, name, text):
    assert claims(name, text) == []


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("hostpci0: 0000:3b:00.0,pcie=1", ["0000:3b:00.0"]),
        ("hostpci0: 3B:00", [f"0000:3b:00.{number}" for number in range(8)]),
        ("hostpci0: 3b:00.1;0001:02:00.0", ["0000:3b:00.1", "0001:02:00.0"]),
        ("net0: virtio=BC:24:11:3B:00:01,bridge=vmbr0 # 12:10:05", []),
        ("lxc.cgroup2.devices.allow: b 8:16 rwm", ["8:16"]),
        ("/dev/disk/by-path/pci-0000:3b:00.0-nvme-1", ["/dev/disk/by-path/pci-0000:3b:00.0-nvme-1"]),
        ("What=/dev/disk/by-label/my\\x20data", ["/dev/disk/by-label/my\\x20data", "/dev/disk/by-label/my data"]),
        ("What=UUID=AB-12", ["/dev/disk/by-uuid/ab-12"]),
    ],
)
def test_what_a_text_may_name(text, devices):
    assert [name for name in devices_in(text) if name in devices] == devices
    assert [name for name in devices_in(text) if not name.startswith("/dev/")] == [
        name for name in devices if not name.startswith("/dev/")
    ]


def test_a_mapping_of_names_to_pci_devices_counts_for_its_own_host(claims):
    mapping = "fast\n\tmap id=8086:2701,node={},path=0000:3b:00.0\n"
    with open("/proc/sys/kernel/hostname", encoding="ascii") as file:
        host = file.read().strip()
    assert claims("/proc/sys/kernel/hostname", f"{host}.example\n") == []
    assert claims("/etc/pve/mapping/pci.cfg", mapping.format("other")) == []
    assert claims("/etc/pve/mapping/pci.cfg", mapping.format(host.split(".")[0])) == ["0000:3b:00.0"]


def test_images_in_storages_of_proxmox_are_looked_at(claims, tmp_path):
    for directory in ("var/lib/vz/images/100", "srv/fast/images/101"):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / "disk.qcow2").touch()
    found = claims("/etc/pve/storage.cfg", "dir: fast\n\tpath /srv/fast\n\tcontent images\n")
    assert {"/var/lib/vz/images/100/disk.qcow2", "/srv/fast/images/101/disk.qcow2"} <= set(found)


def test_proxmox_whose_files_are_not_shown_is_an_error(claims):
    with pytest.raises(GuardError, match="Start pve-cluster"):
        claims("/var/lib/pve-cluster/config.db", "")


def test_a_pipe_among_the_files_does_not_hold_us_up(claims, tmp_path):
    (tmp_path / "var/lib/one/datastores/0/1").mkdir(parents=True)
    os.mkfifo(tmp_path / "var/lib/one/datastores/0/1/deployment.0")
    assert claims("/etc/drbd.conf", "") == []


# What LXD 5.0.2 answered, of an instance that is off and has a disk.
INSTANCES = [{"name": "vm1", "expanded_devices": {"d1": {"path": "/dev/x", "source": BY_ID, "type": "unix-block"}}}]
NUMBERED = [{"name": "vm1", "devices": {"d1": {"major": "8", "minor": "16", "type": "unix-block"}}}]


@pytest.mark.parametrize(("answer", "device"), [(INSTANCES, BY_ID), (NUMBERED, "8:16")])
@pytest.mark.parametrize(
    ("program", "database"), [("lxc", "/var/lib/lxd/database"), ("incus", "/var/lib/incus/database")]
)
def test_lxd_and_incus_are_asked(claims, program, database, answer, device):
    def run_command(command, **_options):
        assert command[0] == f"/usr/bin/{program}"
        return 0, json.dumps(answer if command[1] == "list" else []), ""

    assert claims(f"/usr/bin/{program}", "", run_command) == []
    assert device in claims(f"{database}/local.db", "", run_command)


def test_a_manager_that_does_not_answer_is_an_error(claims):
    with pytest.raises(GuardError, match="not the program lxc"):
        claims("/var/lib/lxd/database/local.db", "")
    with pytest.raises(GuardError, match="LXD assigns cannot be listed: /usr/bin/lxc list .*connection refused"):
        claims("/usr/bin/lxc", "", lambda *_command, **_options: (1, "", "connection refused"))
