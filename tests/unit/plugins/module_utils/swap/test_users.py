# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has been given a disk: libvirt, other hosts through nvmet and LIO, and the tables of the boot."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import Disk, GuardError
from ansible_collections.memstretch.density.plugins.module_utils.swap.managers import source_paths
from ansible_collections.memstretch.density.plugins.module_utils.swap.users import (
    boot_claims,
    claims_on,
    exports,
    libvirt_claims,
    parsed,
    pools_below,
)

NVME = "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/nvme/nvme0/nvme0n1"
SATA = "devices/pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0/block/sda"
MULTIPATH = "devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n1"
SUBSYSTEM = "/sys/kernel/config/nvmet/subsystems/nqn.test:disk/namespaces/7"
BACKSTORE = "/sys/kernel/config/target/core/iblock_0/disk"


@pytest.fixture
def files(tmp_path):
    """The files of a host with three disks: NVMe, SATA, and NVMe with two controllers."""
    sys = tmp_path / "sys"
    for name in ("block", "class/block"):
        (sys / name).mkdir(parents=True)
    controllers = [f"devices/pci0000:5d/0000:5d:0{slot}.0/0000:5{slot}:00.0/nvme/nvme{slot}" for slot in (4, 5)]
    for directory in (NVME, SATA, MULTIPATH, *controllers):
        (sys / directory).mkdir(parents=True)
    for number, (directory, device) in enumerate([(NVME, ".."), (SATA, "../.."), (MULTIPATH, "..")]):
        (sys / directory / "dev").write_text(f"259:{number}\n", encoding="ascii")
        (sys / directory / "device").symlink_to(device)
        for name in ("block", "class/block"):
            (sys / name / os.path.basename(directory)).symlink_to(sys / directory)
    for controller in controllers:
        (sys / MULTIPATH / ".." / os.path.basename(controller)).symlink_to(sys / controller)
    return HostFiles(str(tmp_path))


@pytest.fixture
def write(files):
    """A function that writes a file of the host."""

    def write_text(name, text):
        path = files.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    return write_text


def no_program(command, **_options):
    """This host has no manager that would have to be asked."""
    raise AssertionError(command)


@pytest.fixture
def claims(files):
    """A function that returns who has one of the three disks."""

    def of(name):
        disk = Disk.__new__(Disk)  # there is no such device on this machine, only its files
        disk.path, disk.files, disk.name = f"/dev/disk/by-id/{name}", files, name
        return claims_on(disk, no_program)

    return of


def domain(devices):
    return f"<domain><name>vm1</name><devices>{devices}</devices></domain>"


def address(bus, domain_number="0x0000", slot="0x00"):
    return f"<address domain='{domain_number}' bus='{bus}' slot='{slot}' function='0x0'/>"


HOSTDEV = "<hostdev mode='subsystem' type='pci' managed='yes'><source>{}</source></hostdev>"
NVME_DISK = "<disk type='nvme' device='disk'><source type='pci' managed='yes' namespace='1'>{}</source></disk>"
SCSI = (
    "<hostdev mode='subsystem' type='scsi'><source><adapter name='scsi_host{}'/>"
    "<address bus='0' target='0' unit='0'/></source></hostdev>"
)


@pytest.mark.parametrize("directory", ["/etc/libvirt/qemu", "/run/libvirt/qemu"])
@pytest.mark.parametrize(
    ("devices", "name", "behind"),
    [
        (HOSTDEV.format(address("0x3b")), "nvme0n1", "0000:3b:00.0"),
        (HOSTDEV.format(address("59")), "nvme0n1", "0000:3b:00.0"),
        (NVME_DISK.format(address("0x3b")), "nvme0n1", "0000:3b:00.0"),
        (HOSTDEV.format(address("0x00", slot="0x17")), "sda", "0000:00:17.0"),
        (SCSI.format(2), "sda", "scsi:2:0:0:0"),
        (HOSTDEV.format(address("0x54")), "nvme1n1", "0000:54:00.0"),
        (NVME_DISK.format(address("0x55")), "nvme1n1", "0000:55:00.0"),
    ],
)
def test_a_disk_behind_a_device_of_a_virtual_machine_is_claimed(write, claims, directory, devices, name, behind):
    write(f"{directory}/vm1.xml", domain(devices))
    who = f"is behind {behind}, which belongs to libvirt's virtual machine vm1"
    assert [text.split(" (")[0] for text in claims(name)] == [who]
    others = {"nvme0n1", "sda", "nvme1n1"} - {name}
    assert [claims(other) for other in others] == [[], []]


@pytest.mark.parametrize(
    "devices",
    [
        HOSTDEV.format(address("0x3c")),
        HOSTDEV.format(address("0x3b", domain_number="0x0001")),
        SCSI.format(3),
        # The address of the device inside the virtual machine is another matter.
        "<hostdev type='pci'><source/><address type='pci' domain='0' bus='0x3b' slot='0' function='0'/></hostdev>",
        "<hostdev mode='subsystem' type='usb'><source><address bus='1' device='2'/></source></hostdev>",
    ],
)
def test_other_devices_of_virtual_machines_do_not_matter(write, claims, devices):
    write("/etc/libvirt/qemu/vm1.xml", domain(devices))
    assert [claims(name) for name in ("nvme0n1", "sda", "nvme1n1")] == [[], [], []]


@pytest.mark.parametrize(
    ("adapter", "name", "behind"),
    [
        ("<adapter type='scsi_host' name='host2'/>", "sda", "scsi:2"),
        ("<adapter type='scsi_host' name='scsi_host2'/>", "sda", "scsi:2"),
        ("<adapter type='fc_host' wwnn='2000000000000002' wwpn='1000000000000002'/>", "sda", "scsi:2"),
        (
            "<adapter type='scsi_host'><parentaddr unique_id='1'>"
            + address("0x00", slot="0x17")
            + "</parentaddr></adapter>",
            "sda",
            "0000:00:17.0",
        ),
    ],
)
def test_all_disks_of_a_scsi_host_belong_to_its_pool(write, claims, adapter, name, behind):
    write("/sys/class/fc_host/host2/port_name", "0x1000000000000002\n")
    write("/etc/libvirt/storage/san.xml", f"<pool type='scsi'><name>san</name><source>{adapter}</source></pool>")
    who = f"is behind {behind}, which belongs to libvirt's storage pool san"
    assert [text.split(" (")[0] for text in claims(name)] == [who]
    assert claims("nvme0n1") == []


def test_all_disks_of_an_iscsi_target_belong_to_its_pool(files, write, claims):
    target = "iqn.2026-01.example:target1"
    directory = "devices/platform/host2/session7/target2:0:0/2:0:0:0"
    os.makedirs(files.path(f"/sys/{directory}"))
    os.unlink(files.path(f"/sys/{SATA}/device"))
    os.symlink(files.path(f"/sys/{directory}"), files.path(f"/sys/{SATA}/device"))
    write("/sys/class/iscsi_session/session7/targetname", f"{target}\n")
    source = f"<source><host name='san'/><device path='{target}'/></source>"
    write("/etc/libvirt/storage/san.xml", f"<pool type='iscsi'><name>san</name>{source}</pool>")
    who = f"is behind {target}, which belongs to libvirt's storage pool san"
    assert [text.split(" (")[0] for text in claims("sda")] == [who]
    assert claims("nvme0n1") == []


@pytest.mark.parametrize("driver", ["qemu", "libxl", "lxc"])
def test_devices_of_every_driver_of_libvirt_count_wherever_they_stand(files, write, driver):
    devices = (
        "<hostdev mode='capabilities' type='storage'><source><block>/dev/sdb</block></source></hostdev>"
        "<arg value='file=/dev/sdc,if=none'/>"
    )
    write(f"/run/libvirt/{driver}/vm.xml", domain(devices))
    assert [claim.device for claim in libvirt_claims(files)] == ["/dev/sdb", "/dev/sdc"]


def test_an_address_that_cannot_be_read_is_an_error(write, claims):
    write("/etc/libvirt/qemu/vm1.xml", domain(HOSTDEV.format(address("3b"))))
    with pytest.raises(GuardError, match=r"vm1\.xml has a device address that cannot be read"):
        claims("sda")


def test_an_nvmet_namespace_is_an_export_whether_it_is_enabled_or_not(files, write):
    write(f"{SUBSYSTEM}/device_path", "/dev/disk/by-id/x\n")
    write(f"{SUBSYSTEM}/enable", "0\n")
    assert exports(files) == [("/dev/disk/by-id/x", "is exported by nvmet (subsystem nqn.test:disk, namespace 7)")]


@pytest.mark.parametrize(
    ("udev_path", "information", "devices"),
    [
        ("/dev/sdb\n", "Status: DEACTIVATED\n", ["/dev/sdb"]),
        ("", "iBlock device: sda  UDEV PATH: N/A\n        Major: 259 Minor: 1  CLAIMED: IBLOCK", ["", "259:1"]),
        ("", "TCM FILEIO ID: 0        File: /dev/sdc  Size: 1024  Mode: O_DSYNC", ["", "/dev/sdc"]),
    ],
)
def test_a_backstore_of_lio_is_an_export(files, write, udev_path, information, devices):
    write(f"{BACKSTORE}/udev_path", udev_path)
    write(f"{BACKSTORE}/info", information)
    assert exports(files) == [(device, "is exported by LIO (backstore iblock_0/disk)") for device in devices]


def test_an_export_by_number_claims_the_disk(write, claims):
    write(f"{BACKSTORE}/info", "Major: 259 Minor: 1  CLAIMED: IBLOCK")
    assert claims("sda") == ["is exported by LIO (backstore iblock_0/disk)"]
    assert claims("nvme0n1") == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("/etc/nvmet/config.json", {"subsystems": [{"namespaces": [{"device": {"path": "/dev/sdb"}, "nsid": 1}]}]}),
        ("/etc/rtslib-fb-target/saveconfig.json", {"storage_objects": [{"dev": "/dev/sdb", "plugin": "block"}]}),
    ],
)
def test_what_is_exported_at_the_next_boot_is_an_export(files, write, name, content):
    write(name, json.dumps(content))
    assert exports(files) == [("/dev/sdb", f"is exported by {name}")]
    write(name, "{")
    with pytest.raises(GuardError, match=f"{name} cannot be read, but it may export a disk"):
        exports(files)


@pytest.mark.parametrize(("module", "name"), [("nvmet", "nvmet"), ("target_core_mod", "target")])
def test_exports_that_cannot_be_listed_are_an_error(files, write, module, name):
    os.makedirs(files.path(f"/sys/module/{module}"))
    with pytest.raises(GuardError, match="Mount configfs on /sys/kernel/config"):
        exports(files)
    os.makedirs(files.path(f"/sys/kernel/config/{name}"))
    assert exports(files) == []


def test_devices_of_libvirt_pools_and_machines(files, write):
    write("/etc/libvirt/storage/a", "ignored, not .xml")
    write(
        "/etc/libvirt/storage/fast.xml",
        "<pool type='logical'><name>fast</name><source><device path='/dev/disk/by-id/x'/></source>"
        "<target><path>/dev/fast</path></target></pool>",
    )
    disks = "<disk><source file='/a.qcow2'/></disk><disk><source dev='/dev/sdb'/></disk>"
    write("/etc/libvirt/qemu/vm.xml", domain(disks))
    assert [(claim.device, claim.text.split(" (")[0]) for claim in libvirt_claims(files)] == [
        ("/dev/disk/by-id/x", "belongs to libvirt's storage pool fast"),
        ("/dev/fast", "belongs to libvirt's storage pool fast"),
        ("/a.qcow2", "belongs to libvirt's virtual machine vm1"),
        ("/dev/sdb", "belongs to libvirt's virtual machine vm1"),
    ]


def test_a_pool_below_a_mount_is_named(files, write):
    write(
        "/etc/libvirt/storage/d.xml",
        "<pool type='dir'><name>d</name><target><path>/srv/vms</path></target></pool>",
    )
    assert pools_below(files, "/srv") == "libvirt's storage pool d"
    assert pools_below(files, "/srv/vm") == ""
    assert pools_below(files, "/") == ""


def test_devices_that_the_boot_uses(files, write):
    write("/etc/fstab", "# /dev/sda\n\nLABEL=data /srv ext4 defaults 0 0\n")
    write("/etc/crypttab", "secret UUID=AB none luks\n")
    assert boot_claims(files) == [
        ("/dev/disk/by-label/data", "is listed in /etc/fstab (LABEL=data)"),
        ("/dev/disk/by-uuid/AB", "is listed in /etc/crypttab (UUID=AB)"),
        ("/dev/disk/by-uuid/ab", "is listed in /etc/crypttab (UUID=AB)"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "source"),
    [
        ("/etc/initramfs-tools/conf.d/resume", "# RESUME=/dev/no\nRESUME=UUID=ab-12\n", "UUID=ab-12"),
        ("/etc/initramfs-tools/initramfs.conf", 'MODULES=most\nRESUME="UUID=ab-12"\n', "UUID=ab-12"),
        ("/proc/cmdline", "root=/dev/sda1 noresume=x resume=UUID=ab-12 quiet\n", "UUID=ab-12"),
    ],
)
def test_the_area_of_a_hibernated_system_is_claimed(files, write, name, text, source):
    """As in systemd/systemd#35180: without that area, some systems wait at boot, and some for ever."""
    write(name, text)
    assert boot_claims(files)[0] == (
        "/dev/disk/by-uuid/ab-12",
        f"is where the boot looks for a hibernated system ({source} in {name})",
    )


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        # The links of FAT and NTFS have capital letters, as in fox-it/dissect.target#273.
        ("UUID=AB-12", ["/dev/disk/by-uuid/AB-12", "/dev/disk/by-uuid/ab-12"]),
        ("UUID=ab-12", ["/dev/disk/by-uuid/ab-12", "/dev/disk/by-uuid/AB-12"]),
        ('LABEL="swap"', ["/dev/disk/by-label/swap"]),
        # fstab and udev write blanks differently, as in storaged-project/udisks#888, and slashes, as in
        # systemd/systemd#50.
        (r"LABEL=my\040data", [r"/dev/disk/by-label/my\x20data"]),
        ("LABEL=/boot", [r"/dev/disk/by-label/\x2fboot"]),
        ("LABEL=Größe", ["/dev/disk/by-label/Größe"]),
        ("PARTLABEL=a~b", [r"/dev/disk/by-partlabel/a\x7eb"]),
        ("PARTUUID=12-34", ["/dev/disk/by-partuuid/12-34"]),
        ("/dev/sda1", ["/dev/sda1"]),
        (r"/dev/disk/by-label/my\x20data", [r"/dev/disk/by-label/my\x20data"]),
        ("tmpfs", ["tmpfs"]),
    ],
)
def test_paths_of_a_device_in_fstab(source, paths):
    assert source_paths(source) == paths


def test_a_libvirt_file_that_cannot_be_read_is_an_error(tmp_path):
    path = tmp_path / "pool.xml"
    path.write_text("<pool>", encoding="utf-8")
    with pytest.raises(GuardError, match=r"pool\.xml cannot be read, but it may give a disk to libvirt"):
        parsed(str(path))
