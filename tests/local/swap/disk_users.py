# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Situations in which a disk is in use or will be used."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import typing as t

from trial import MIB, Attempt, CannotMakeError, TrialDisk, mounted, private_mounts, run, settle, situation, write_tree


@situation("held by the device mapper, as multipath, LVM and encryption do")
def _holder(disk):
    if "linear" not in subprocess.run(["dmsetup", "targets"], text=True, capture_output=True, check=False).stdout:
        raise CannotMakeError("this kernel has no device mapper")
    run("dmsetup", "create", "situation", "--table", f"0 2048 linear {disk.node} 0")
    try:
        settle()
        yield Attempt(disk.params(overwrite=[disk.path]), "is part of situation.*No option allows that")
    finally:
        run("dmsetup", "remove", "--retry", "situation")


@contextlib.contextmanager
def waiting(*command: str) -> t.Iterator[int]:
    """Run a program that prints "open" once it has done what it is for, and yield its pid."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "open\n"
        yield process.pid
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def holding(node: str, flags: str) -> t.ContextManager[int]:
    program = f"import os, sys, time; os.open({node!r}, {flags}); print('open', flush=True); time.sleep(600)"
    return waiting(sys.executable, "-c", program)


@situation("ext4, mounted where only a container sees it")
def _mounted_elsewhere(disk):
    run("mkfs.ext4", "-q", "-F", disk.node)
    script = f"mount -o ro,noload {disk.node} /mnt && echo open && exec sleep 600"
    with waiting("unshare", "--mount", "--propagation", "private", "sh", "-c", script):
        yield Attempt(
            disk.params(overwrite=[disk.path]), "is in use by the kernel or by a program.*No option allows that"
        )


@situation("the journal of a file system that is mounted from another disk")
def _journal(disk):
    run("mke2fs", "-q", "-F", "-b", "4096", "-O", "journal_dev", disk.node)
    with tempfile.NamedTemporaryFile(dir="/var/tmp", prefix="memstretch-situation-") as image:
        image.truncate(32 * MIB)
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-J", f"device={disk.node}", image.name)
        with mounted(image.name, "-o", "loop,ro"):
            yield Attempt(
                disk.params(overwrite=[disk.path]), "is in use by the kernel or by a program.*No option allows that"
            )


@situation("blank and in use, and a user has mounted something at a directory with an odd name")
def _odd_mount(disk):
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="memstretch-situation-") as above:
        place = os.path.join(above, "a\x0bb\x1cc \u2028d")
        os.mkdir(place)
        run("mount", "-t", "tmpfs", "x\u2003y", place)
        try:
            with holding(disk.node, "os.O_RDWR") as pid:
                yield Attempt(
                    disk.params(overwrite=[disk.path]),
                    rf"is open in python\S* \(process {pid}\).*No option allows that",
                )
        finally:
            run("umount", place)


@situation("held exclusively, as file systems, RAID and pools do")
def _exclusive(disk):
    with holding(disk.node, "os.O_RDONLY | os.O_EXCL"):
        yield Attempt(
            disk.params(overwrite=[disk.path]), "is in use by the kernel or by a program.*No option allows that"
        )


@situation("blank, and open in a program, as a virtual machine has it")
def _open(disk):
    with holding(disk.node, "os.O_RDWR") as pid:
        yield Attempt(
            disk.params(overwrite=[disk.path]), rf"is open in python\S* \(process {pid}\).*No option allows that"
        )


@situation("behind a loop device")
def _loop(disk):
    loop = run("losetup", "--find", "--show", "--read-only", disk.node).strip()
    try:
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            f"is the backing device of {os.path.basename(loop)}.*No option allows that",
        )
    finally:
        run("losetup", "--detach", loop)


@contextlib.contextmanager
def other_node(disk: TrialDisk) -> t.Iterator[str]:
    """Make another node of a disk outside of /dev, as a chroot has one."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="memstretch-situation-") as directory:
        path = os.path.join(directory, "disk")
        os.mknod(path, 0o600 | stat.S_IFBLK, os.stat(disk.node).st_rdev)
        try:
            os.close(os.open(path, os.O_RDONLY))
        except PermissionError as error:
            raise CannotMakeError("the file system of /var/tmp allows no device nodes") from error
        yield path


@situation("blank, and open in a program in a chroot, where it has another name")
def _open_in_chroot(disk):
    with other_node(disk) as path, holding(path, "os.O_RDWR") as pid:
        yield Attempt(
            disk.params(overwrite=[disk.path]), rf"is open in python\S* \(process {pid}\).*No option allows that"
        )


@situation("blank, and open in a program whose node has been removed")
def _open_without_node(disk):
    with contextlib.ExitStack() as stack:
        with other_node(disk) as path:
            pid = stack.enter_context(holding(path, "os.O_RDWR"))
        yield Attempt(
            disk.params(overwrite=[disk.path]), rf"is open in python\S* \(process {pid}\).*No option allows that"
        )


@contextlib.contextmanager
def mapping(path: str) -> t.Iterator[int]:
    """Let a program map a device and close it. Python's own mmap would keep a descriptor."""
    program = (
        "import ctypes, os, time; libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p; "
        f"fd = os.open({path!r}, os.O_RDWR); "
        "at = libc.mmap(None, ctypes.c_size_t(4096), 3, 1, fd, ctypes.c_long(0)); "
        "os.close(fd); print('mapped' if at != ctypes.c_void_p(-1).value else 'failed', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "mapped\n"
        yield process.pid
    finally:
        process.kill()
        process.wait()


@situation("blank, and mapped by a program that has closed it")
def _mapped(disk):
    with mapping(disk.node) as pid:
        yield Attempt(
            disk.params(overwrite=[disk.path]), rf"is open in python\S* \(process {pid}\).*No option allows that"
        )


@situation("behind a loop device that was set up by another node, which has been removed")
def _loop_without_node(disk):
    with other_node(disk) as path:
        loop = run("losetup", "--find", "--show", "--read-only", path).strip()
    try:
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            f"is the backing device of {os.path.basename(loop)}.*No option allows that",
        )
    finally:
        run("losetup", "--detach", loop)


@contextlib.contextmanager
def extra_file(path: str, text: str) -> t.Iterator[None]:
    made = []
    directory = os.path.dirname(path)
    while not os.path.isdir(directory):
        made.append(directory)
        directory = os.path.dirname(directory)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)
    try:
        yield
    finally:
        os.unlink(path)
        for directory in made:
            os.rmdir(directory)


@situation("blank, a storage pool of libvirt is on it")
def _pool(disk):
    source, target = f"<device path='{disk.path}'/>", "<path>/dev</path>"
    text = f"<pool type='disk'><name>situation</name><source>{source}</source><target>{target}</target></pool>"
    with extra_file("/etc/libvirt/storage/situation.xml", text):
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            "belongs to libvirt's storage pool situation .*No option allows that",
        )


@situation("mounted, with the directory of a storage pool of libvirt on it")
def _directory_pool(disk):
    run("mkfs.ext4", "-q", "-F", disk.node)
    text = (
        "<pool type='dir'><name>situation</name><target><path>/mnt/memstretch-situation/images</path></target></pool>"
    )
    with extra_file("/etc/libvirt/storage/situation.xml", text), mounted(disk.node, "-o", "ro,noload"):
        yield Attempt(disk.params(), "libvirt's storage pool situation is on it.*No option allows that")


@situation("blank, given to a virtual machine that is off")
def _machine(disk):
    device = f"<disk type='block'><source dev='{disk.node}'/></disk>"
    text = f"<domain><name>situation</name><devices>{device}</devices></domain>"
    with extra_file("/etc/libvirt/qemu/situation.xml", text):
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            "belongs to libvirt's virtual machine situation .*No option allows that",
        )


def _named_in(name: str, path: str, text: str, answer: str) -> None:
    """Register the situation that a file names the disk; {path}, {node} and {number} stand for it in the text."""

    @situation(name)
    def _make(disk):
        with open(f"/sys/class/block/{disk.name}/dev", encoding="ascii") as file:
            number = file.read().strip()
        with extra_file(path, text.format(path=disk.path, node=disk.node, number=number)):
            yield Attempt(disk.params(overwrite=[disk.path]), f"{answer}.*No option allows that")


for _manager, _path, _text in (
    ("Proxmox", "/etc/pve/qemu-server/100.conf", "scsi1: {path},size=128M\n"),
    ("Proxmox", "/etc/pve/nodes/situation/lxc/100.conf", "mp0: {path},mp=/srv\n"),
    ("Xen", "/etc/xen/auto/situation", "disk = ['phy:{node},xvda,w']\n"),
    ("LXC", "/var/lib/lxc/situation/config", "lxc.cgroup2.devices.allow = b {number} rwm\n"),
    ("Docker", "/var/lib/docker/containers/1/hostconfig.json", '{{"Devices": [{{"PathOnHost": "{path}"}}]}}'),
    ("Ganeti", "/var/lib/ganeti/config.data", '{{"disks": {{"1": {{"logical_id": ["manual", "{path}"]}}}}}}'),
    ("systemd", "/etc/systemd/system/situation.mount", "[Mount]\nWhat={path}\nWhere=/situation\n"),
):
    _named_in(f"blank, named in {_path} of {_manager}", _path, _text, rf"is named in {_path} \({_manager}\)")

for _driver, _text in (
    ("libxl", "<disk type='block'><source dev='{path}'/></disk>"),
    ("lxc", "<hostdev mode='capabilities' type='storage'><source><block>{node}</block></source></hostdev>"),
    ("qemu", "<arg value='-drive'/><arg value='file={node},if=none'/>"),
):
    _named_in(
        f"blank, given to a machine of libvirt's driver {_driver} that is off",
        f"/etc/libvirt/{_driver}/situation.xml",
        f"<domain><name>situation</name><devices>{_text}</devices></domain>",
        "belongs to libvirt's virtual machine situation",
    )


@situation("blank, Proxmox is here and its files are not mounted")
def _proxmox_without_files(disk):
    with extra_file("/var/lib/pve-cluster/config.db", ""):
        yield Attempt(disk.params(), "disks that Proxmox assigns cannot be listed.*Start pve-cluster")


@situation("blank, LXD is here and does not answer")
def _silent_lxd(disk):
    with extra_file("/var/lib/lxd/database/local.db", ""):
        yield Attempt(disk.params(), "disks that LXD assigns cannot be listed")


@contextlib.contextmanager
def overlay(below: str, *options: str) -> t.Iterator[str]:
    """Make an image that is an overlay of an overlay."""
    if not shutil.which("qemu-img"):
        raise CannotMakeError("this machine has no qemu-img")
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="memstretch-situation-") as directory:
        first, second = (os.path.join(directory, name) for name in ("first.qcow2", "second.qcow2"))
        run("qemu-img", "create", "-q", "-f", "qcow2", "-b", below, "-F", "raw", *options, first)
        run("qemu-img", "create", "-q", "-f", "qcow2", "-b", "first.qcow2", "-F", "qcow2", second)
        yield second


@situation("blank, below the overlay of an overlay that a virtual machine has")
def _overlay(disk):
    with overlay(disk.node) as path, machine(f"<disk type='file'><source file='{path}'/></disk>"):
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            f"is below the image {path} .*which belongs to libvirt's virtual machine situation.*No option allows that",
        )


@situation("blank, below a volume in a storage pool that no virtual machine has")
def _overlay_in_pool(disk):
    with overlay(disk.node, "-o", "compat=0.10") as path:
        text = f"<pool type='dir'><name>situation</name><target><path>{os.path.dirname(path)}</path></target></pool>"
        with extra_file("/etc/libvirt/storage/situation.xml", text):
            yield Attempt(
                disk.params(overwrite=[disk.path]),
                "is below the image .*which is a volume of libvirt's storage pool situation.*No option allows that",
            )


@situation("blank, its SCSI host is a storage pool")
def _scsi_pool(disk):
    source = "<source><adapter type='scsi_host' name='scsi_host2'/></source>"
    with extra_file("/etc/libvirt/storage/situation.xml", f"<pool type='scsi'><name>situation</name>{source}</pool>"):
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            "is behind scsi:2, which belongs to libvirt's storage pool situation .*No option allows that",
            behind(disk, "pci0000:00/0000:00:17.0/host2/target2:0:1/2:0:1:0"),
        )


@situation("blank, its controller given to a virtual machine of Proxmox that is off")
def _proxmox_pci(disk):
    with extra_file("/etc/pve/qemu-server/100.conf", "hostpci0: 3b:00,pcie=1\n"):
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            "is behind 0000:3b:00.0, which is named in /etc/pve/qemu-server/100.conf .*No option allows that",
            behind(disk, "pci0000:3a/0000:3b:00.0/nvme/nvme0"),
        )


@situation("blank, but in /etc/fstab")
def _fstab(disk):
    with open("/etc/fstab", encoding="utf-8") as file:
        before = file.read()
    with open("/etc/fstab", "a", encoding="utf-8") as file:
        file.write(f"\n{disk.path} /situation ext4 noauto 0 0\n")
    try:
        yield Attempt(disk.params(overwrite=[disk.path]), "is listed in /etc/fstab.*No option allows that")
    finally:
        with open("/etc/fstab", "w", encoding="utf-8") as file:
            file.write(before)


# ---- who has been given it: what the kernel shows of that is put into a tree that only the module sees


def configfs(files):
    """Return a function that shows files below /sys/kernel/config: not every kernel has nvmet or LIO."""

    def show():
        private_mounts()
        config = "/sys/kernel/config"
        run("mount", "-t", "tmpfs", "none", config if os.path.isdir(config) else os.path.dirname(config))
        write_tree(config, files)

    return show


@situation("blank, exported by nvmet")
def _nvmet(disk):
    namespace = "nvmet/subsystems/nqn.situation:disk/namespaces/1"
    files = {f"{namespace}/device_path": f"{disk.path}\n", f"{namespace}/enable": "1\n"}
    yield Attempt(
        disk.params(overwrite=[disk.path]),
        "is exported by nvmet .subsystem nqn.situation:disk, namespace 1.*No option allows that",
        configfs(files),
    )


@situation("blank, exported by LIO")
def _lio(disk):
    backstore = "target/core/iblock_0/situation"
    files = {f"{backstore}/udev_path": f"{disk.node}\n", f"{backstore}/info": "Status: ACTIVATED  Max Queue Depth: 0\n"}
    yield Attempt(
        disk.params(overwrite=[disk.path]),
        "is exported by LIO .backstore iblock_0/situation.*No option allows that",
        configfs(files),
    )


@situation("blank, exported by LIO, which names it only by its number")
def _lio_number(disk):
    with open(f"/sys/class/block/{disk.name}/dev", encoding="ascii") as file:
        major, minor = file.read().strip().split(":")
    text = f"iBlock device: {disk.name}  UDEV PATH: N/A\n        Major: {major} Minor: {minor}  CLAIMED: IBLOCK\n"
    yield Attempt(
        disk.params(overwrite=[disk.path]),
        "is exported by LIO .backstore iblock_0/situation.*No option allows that",
        configfs({"target/core/iblock_0/situation/info": text}),
    )


@situation("blank, exported at the next boot")
def _saved_export(disk):
    text = json.dumps({"storage_objects": [{"dev": disk.path, "name": "situation", "plugin": "block"}]})
    with extra_file("/etc/rtslib-fb-target/saveconfig.json", text):
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            "is exported by /etc/rtslib-fb-target/saveconfig.json.*No option allows that",
        )


@situation("blank, nvmet is loaded, but configfs is not mounted")
def _no_configfs(disk):
    def show():
        private_mounts()
        run("mount", "-t", "tmpfs", "none", "/sys/kernel")
        run("mount", "-t", "tmpfs", "none", "/sys/module")
        os.mkdir("/sys/module/nvmet")

    yield Attempt(disk.params(), "the kernel module nvmet exports cannot be listed.*Mount configfs", show)


def attributes(name, files, device):
    """Show a disk in sysfs with more attributes than it has, and behind another device."""
    directory = os.path.realpath(f"/sys/class/block/{name}")
    present = {}
    for path in [*glob.glob(f"{directory}/*"), *glob.glob(f"{directory}/loop/*")]:
        if os.path.isfile(path):
            with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
                present[os.path.relpath(path, directory)] = file.read()
    run("mount", "-t", "tmpfs", "none", directory)
    write_tree(directory, {**present, **files})
    for empty in ("holders", "slaves", f".devices/{device}"):
        os.makedirs(f"{directory}/{empty}")
    os.symlink(f".devices/{device}", f"{directory}/device")


def behind(disk, device):
    """Return a function that shows a disk behind a device."""

    def show():
        private_mounts()
        attributes(disk.name, {}, device)

    return show


PCI = "<address domain='0x0000' bus='0x3b' slot='0x00' function='0x0'/>"


@contextlib.contextmanager
def machine(devices):
    text = f"<domain><name>situation</name><devices>{devices}</devices></domain>"
    with extra_file("/etc/libvirt/qemu/situation.xml", text):
        yield


@situation("blank, its namespace given to a virtual machine that is off, as a disk of the type nvme")
def _nvme_disk(disk):
    source = f"<source type='pci' managed='yes' namespace='1'>{PCI}</source>"
    with machine(f"<disk type='nvme' device='disk'>{source}</disk>"):
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            "is behind 0000:3b:00.0, which belongs to libvirt's virtual machine situation .*No option allows that",
            behind(disk, "pci0000:3a/0000:3b:00.0/nvme/nvme0"),
        )


@situation("blank, its controller given to a virtual machine that is off")
def _controller(disk):
    with machine(f"<hostdev mode='subsystem' type='pci' managed='yes'><source>{PCI}</source></hostdev>"):
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            "is behind 0000:3b:00.0, which belongs to libvirt's virtual machine situation .*No option allows that",
            behind(disk, "pci0000:3a/0000:3b:00.0/nvme/nvme0"),
        )


@situation("blank, its SCSI address given to a virtual machine that is off")
def _scsi(disk):
    source = "<source><adapter name='scsi_host2'/><address bus='0' target='1' unit='0'/></source>"
    with machine(f"<hostdev mode='subsystem' type='scsi'>{source}</hostdev>"):
        yield Attempt(
            disk.params(overwrite=[disk.path]),
            "is behind scsi:2:0:1:0, which belongs to libvirt's virtual machine situation .*No option allows that",
            behind(disk, "pci0000:00/0000:00:17.0/host2/target2:0:1/2:0:1:0"),
        )


@situation("blank, another drive has its serial number")
def _twin_drive(disk):
    other = min(name for name in os.listdir("/sys/block") if name != disk.name)
    identity = {"wwid": "nvme.1234-53414d45-00000001\n", "serial": "SAME\n"}

    def show():
        private_mounts()
        for name in (disk.name, other):
            attributes(name, identity, "nvme")

    yield Attempt(
        disk.params(overwrite=[disk.path], devices=[{"path": disk.path, "serial": "SAME"}]),
        rf"has the same identity .nvme.1234-53414d45-00000001. as {other}.*two drives with one serial number.*No opt",
        show,
    )


@situation("a logical volume of a group with our name is active")
def _lvm_our_name_active(disk):
    if "linear" not in subprocess.run(["dmsetup", "targets"], text=True, capture_output=True, check=False).stdout:
        raise CannotMakeError("this kernel has no device mapper")
    run("vgcreate", "--yes", "--quiet", "memstretch", disk.node)
    run("lvcreate", "--yes", "--quiet", "--name", "01234567", "--size", "16M", "memstretch")
    try:
        settle()
        yield Attempt(disk.params(overwrite=[disk.path]), "is part of memstretch-01234567.*No option allows that")
    finally:
        run("vgchange", "--quiet", "--activate", "n", "memstretch")
