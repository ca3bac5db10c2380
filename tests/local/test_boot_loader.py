# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel command line of a host whose root and /boot are loop devices, with Debian's own grub-mkconfig.

The host is a directory: grub-mkconfig runs there in a chroot, and this machine's boot loader is not touched.
extensions/molecule/host boots such menus.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.boot.command_line import CommandLine
from ansible_collections.memstretch.density.plugins.module_utils.boot.loader import Grub
from ansible_collections.memstretch.density.plugins.module_utils.boot.rollback import BootLoaderError, flush_journal
from ansible_collections.memstretch.density.plugins.module_utils.host.files import sync_directory, write_file
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_command

from .conftest import write_inventory

KERNEL = "vmlinuz-6.1.0-56-amd64"
MIB = 1024 * 1024


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def _make_node(path, device):
    """Make another node of a device."""
    what = os.stat(device)
    os.mknod(path, what.st_mode, what.st_rdev)


class Host:
    """A host in a directory, with a root and a boot file system of their own."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.root, self.state = directory / "root", directory / "state"
        self.loops: list[str] = []
        self.devices: list[str] = []
        self.mounts: list[pathlib.Path] = []
        self.root.mkdir()
        self.root_device = self._file_system(directory / "root.img", 16 * MIB, self.root)
        (self.root / "boot").mkdir()
        self.boot_device = self._file_system(directory / "boot.img", 2 * MIB, self.root / "boot")
        for name in ("bin", "lib", "lib64", "sbin"):
            (self.root / name).symlink_to(f"usr/{name}")
        for name in ("dev", "proc", "run", "sys", "tmp", "usr", "etc/default"):
            (self.root / name).mkdir(parents=True)
        for name in ("usr", "proc", "sys"):
            self._mount("--bind", f"/{name}", self.root / name)
        self._mount("-ttmpfs", "none", self.root / "dev")
        for device in ("/dev/null", self.root_device, self.boot_device):
            _make_node(f"{self.root}{device}", device)
        shutil.copytree("/etc/grub.d", self.root / "etc" / "grub.d")
        (self.root / "etc" / "default" / "grub").write_text(
            "GRUB_CMDLINE_LINUX_DEFAULT=quiet\nGRUB_CMDLINE_LINUX=console=ttyS0\n", encoding="ascii"
        )
        (self.root / "boot" / "grub").mkdir()
        self.menu = self.root / "boot" / "grub" / "grub.cfg"
        self.install(KERNEL)
        self.link_uuids()
        self.generator = directory / "grub-mkconfig"
        self.generator.write_text(
            f'#!/bin/sh\nset -e\nchroot {self.root} grub-mkconfig -o /dev/menu\ncat {self.root}/dev/menu >"$2"\n',
            encoding="utf-8",
        )
        self.generator.chmod(0o755)
        run(str(self.generator), "-o", str(self.menu))

    def _file_system(self, image: pathlib.Path, size: int, place: pathlib.Path) -> str:
        with open(image, "wb") as file:
            file.truncate(size)
        # With checksums of its metadata, the UUID of a mounted file system cannot be changed. By default, Ubuntu's
        # blocks are larger, and so few of them have no journal.
        run("mkfs.ext4", "-q", "-m0", "-b1024", "-O^metadata_csum", str(image))
        loop = run("losetup", "--find", "--show", str(image))
        self.loops.append(loop)
        # GRUB makes no entry for a root file system on a loop device, so it has another name here.
        self.devices.append(f"/dev/test-{os.path.basename(loop)}")
        _make_node(self.devices[-1], loop)
        self._mount(self.devices[-1], place)
        return self.devices[-1]

    def _mount(self, *words) -> None:
        run("mount", *map(str, words))
        self.mounts.append(pathlib.Path(words[-1]))

    def close(self) -> None:
        for place in reversed(self.mounts):
            run("umount", str(place))
        for loop in self.loops:
            run("losetup", "--detach", loop)
        for device in self.devices:
            os.unlink(device)

    def link_uuids(self) -> None:
        """Make /dev/disk/by-uuid as udev does."""
        directory = self.root / "dev" / "disk" / "by-uuid"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for device in self.devices:
            (directory / run("blkid", "--probe", "--match-tag=UUID", "--output=value", device)).symlink_to(device)

    def change_uuid(self, device: str) -> str:
        run("tune2fs", "-f", "-Urandom", device)
        self.link_uuids()
        return run("blkid", "--probe", "--match-tag=UUID", "--output=value", device)

    def install(self, kernel: str) -> None:
        for name in (kernel, kernel.replace("vmlinuz", "initrd.img")):
            (self.root / "boot" / name).write_text("a kernel\n", encoding="ascii")

    def command_line(self, *arguments: str, removed: tuple[str, ...] = ()) -> CommandLine:
        loader = Grub(
            run_command,
            lambda name: str(self.generator),
            boot=str(self.menu.parent),
            defaults=str(self.root / "etc" / "default"),
        )
        record = HostRecord("kernel_cmdline", str(self.state))
        return CommandLine(loader, arguments, removed, record, str(self.state.parent / "pending"))

    def roots(self) -> set[str]:
        """Return the root file systems that the menu boots from."""
        return {word for entry in self.command_line().loader.entries() for word in entry.words if "root=" in word}

    def at_boot(self, name: str) -> bytes:
        """Return a file next to the menu as the boot loader reads it after a power cut, without the journal."""
        image = self.root.parent / "boot-after-power-cut.img"
        shutil.copyfile(self.root.parent / "boot.img", image)
        command = ["debugfs", "-c", "-R", f"cat /grub/{name}", str(image)]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def menu_at_boot(self) -> bytes:
        """Return the menu as the boot loader reads it after a power cut now."""
        return self.at_boot(self.menu.name)

    def use_free_blocks(self) -> None:
        """Write to each block of /boot that is free, without filling the journal, which the kernel would then flush."""
        filler = self.root / "boot" / "filler"
        with open(filler, "wb", buffering=0) as file:
            with pytest.raises(OSError, match="No space"):
                while True:
                    file.write(b"x" * 1024)
            os.fsync(file.fileno())
        filler.unlink()

    def files(self) -> dict[str, tuple]:
        """Return content and mode of each file of the boot loader and of the record."""
        return {
            str(file): (file.read_bytes(), stat.S_IMODE(file.stat().st_mode))
            for directory in (self.root / "boot", self.root / "etc", self.state)
            for file in directory.rglob("*")
            if file.is_file()
        }


@pytest.fixture(name="host")
def _host(needs_root, tmp_path):
    host = Host.__new__(Host)
    try:
        host.__init__(tmp_path)
        yield host
    finally:
        host.close()


def test_a_restored_host_is_as_it_was_byte_for_byte(host):
    before = host.files()
    uuid = host.roots()
    assert len(uuid) == 1 and next(iter(uuid)).startswith("root=UUID=")

    assert host.command_line("rcu_nocbs=all", removed=("quiet",)).change() == []
    lines = [entry.words[2:] for entry in host.command_line().loader.entries()]
    assert lines[0] == ["console=ttyS0", "rcu_nocbs=all"] and len(lines) == 3
    assert host.command_line().change() == []
    assert host.files() == before


def test_the_settings_of_an_image_for_clouds_are_changed_and_restored(host):
    """They are read after /etc/default/grub, and override it (stackhpc/ansible-collection-linux, pull request 29)."""
    drop_ins = host.root / "etc" / "default" / "grub.d"
    drop_ins.mkdir()
    cloud = 'GRUB_CMDLINE_LINUX_DEFAULT="console=tty1 console=ttyS0 nohz=on"\nGRUB_TIMEOUT=0\n'
    (drop_ins / "50-cloudimg-settings.cfg").write_text(cloud, encoding="ascii")
    run(str(host.generator), "-o", str(host.menu))
    before = host.files()

    wanted = {"removed": ("console=tty1",)}
    assert host.command_line("nohz=off", **wanted).change() == []
    normal, again, recovery = ([word for word in entry.words if "=" in word] for entry in _entries(host))
    assert normal[1:] == again[1:] == ["console=ttyS0", "nohz=off", "console=ttyS0"]
    assert recovery[1:] == ["console=ttyS0", "nohz=off"]
    assert host.command_line("nohz=off", **wanted).menu_problems() == []

    later = drop_ins / "zzz-vendor.cfg"
    later.write_text("GRUB_CMDLINE_LINUX=vendor=1\n", encoding="ascii")
    (problem,) = host.command_line("nohz=off", **wanted).menu_problems()
    assert "the next kernel that is installed would get other arguments: nohz=off is missing" in problem
    assert f"{later} is read after {drop_ins}/zz-memstretch.cfg" in problem
    run(str(host.generator), "-o", str(host.menu))
    assert all("nohz=off" not in entry.words for entry in _entries(host)), "the forecast was right"
    with pytest.raises(BootLoaderError, match="as it was before, because .*zzz-vendor.cfg is read after"):
        host.command_line("nohz=off", **wanted).change()

    later.unlink()
    host.command_line("nohz=off", **wanted).change()
    assert host.command_line().change() == []
    assert host.files() == before


def _entries(host):
    return host.command_line().loader.entries()


def test_a_file_that_is_only_in_the_journal_is_not_what_the_host_boots(host):
    """The fault that the next tests guard against: fsync() is not enough."""
    os.sync()
    flush_journal(str(host.menu.parent))
    before = host.menu_at_boot()
    assert before == host.menu.read_bytes()
    write_file(str(host.menu), "new\n")
    assert host.menu_at_boot() == before
    host.use_free_blocks()
    assert host.menu_at_boot() not in (before, b"new\n")
    flush_journal(str(host.menu.parent))
    assert host.menu_at_boot() == b"new\n"


def test_a_power_cut_at_any_moment_leaves_the_old_or_the_new_menu(host, monkeypatch):
    old, seen, prepared, replace = host.menu.read_bytes(), [], [], os.replace

    def watched(source, target):
        seen.append(host.menu_at_boot())
        if target == str(host.menu):
            prepared.append(host.at_boot(os.path.basename(source)))
        replace(source, target)
        if target == str(host.menu):
            sync_directory(str(host.menu.parent))
            host.use_free_blocks()
            seen.append(host.menu_at_boot())

    monkeypatch.setattr(os, "replace", watched)
    host.command_line("rcu_nocbs=all").change()
    monkeypatch.undo()
    new = host.menu.read_bytes()
    assert b"rcu_nocbs=all" in new and host.menu_at_boot() == new
    assert prepared == [new] and seen[0] == old and set(seen) <= {old, new}
    host.command_line().change()
    assert host.menu_at_boot() == old


@pytest.mark.parametrize("file_system", ["root_device", pytest.param("boot_device", marks=pytest.mark.long)])
def test_a_file_system_whose_uuid_has_changed_is_booted_after_a_restore(host, file_system):
    """No file that the menu is made from changes, so the stale menu looked like the right one."""
    host.command_line("rcu_nocbs=all").change()
    stale = host.menu.read_text(encoding="utf-8")
    uuid = host.change_uuid(getattr(host, file_system))

    notes = host.command_line().change()

    menu = host.menu.read_text(encoding="utf-8")
    assert uuid in menu and uuid not in stale and "rcu_nocbs" not in menu
    assert "was generated again instead of being restored" in notes[0]
    if file_system == "root_device":
        assert host.roots() == {f"root=UUID={uuid}"}
    else:
        assert f"search --no-floppy --fs-uuid --set=root {uuid}" in menu


@pytest.mark.long
def test_a_menu_of_another_language_is_restored(host):
    host.menu.write_text(
        host.menu.read_text(encoding="utf-8").replace("Advanced options for", "Erweiterte Optionen f\u00fcr"), "utf-8"
    )
    before = host.files()
    assert "in another language" in host.command_line("rcu_nocbs=all").change()[0]
    assert host.command_line().change() == []
    assert host.files() == before


@pytest.mark.long
def test_the_role_says_that_a_reboot_is_due(host, fleet):
    booted = fleet.path / "cmdline"
    booted.write_text("BOOT_IMAGE=/boot/vmlinuz root=/dev/vda console=ttyS0 quiet\n", encoding="ascii")
    run("mount", "--make-private", str(host.root / "proc"))
    host._mount("--bind", booted, host.root / "proc" / "cmdline")
    (host.root / "var" / "lib").mkdir(parents=True)
    (host.root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="ascii")
    grub = {
        "ansible_connection": "community.general.chroot",
        "ansible_host": str(host.root),
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_remote_tmp": "/tmp",
    }
    inventory = write_inventory(fleet.path / "hosts.yml", {"fleet": {"hosts": {"grub": grub}}})
    role = {"name": "memstretch.density.kernel_cmdline"}
    tasks = [{"ansible.builtin.include_role": role, "vars": {"kernel_cmdline_arguments": ["rcu_nocbs=all"]}}]
    playbook = fleet.custom_playbook(tasks)
    for arguments, told in (
        (["--check"], "A reboot would be due: grub runs with its old kernel command line until then"),
        ([], "A reboot is due: grub runs with its old kernel command line until then"),
    ):
        outcome = fleet.run_playbook(*arguments, playbook=playbook, inventory=inventory)
        assert outcome.status == 0 and told in outcome.output, outcome.output
    booted.write_text(f"{booted.read_text(encoding='ascii').strip()} rcu_nocbs=all\n", encoding="ascii")
    again = fleet.run_playbook(playbook=playbook, inventory=inventory)
    assert again.status == 0 and "reboot" not in again.output, again.output


def test_a_kernel_that_was_installed_since_is_in_the_restored_menu(host):
    host.command_line("rcu_nocbs=all").change()
    host.install("vmlinuz-6.1.0-57-amd64")
    assert "was generated again" in host.command_line().change()[0]
    entries = host.command_line().loader.entries()
    assert entries[0].kernel.endswith("6.1.0-57-amd64") and entries[0].words[2:] == ["console=ttyS0", "quiet"]


@pytest.mark.parametrize("fault", [pytest.param("full", marks=pytest.mark.long), "read-only"])
def test_a_boot_file_system_that_cannot_be_written_leaves_nothing_half_done(host, fault):
    boot = host.root / "boot"

    def break_it():
        if fault == "read-only":
            run("mount", "-oremount,ro", str(boot))
            return
        with open(boot / "filler", "wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            while True:
                file.write(b"x" * 1024)

    def repair_it():
        if fault == "read-only":
            run("mount", "-oremount,rw", str(boot))
        else:
            (boot / "filler").unlink()

    original = host.files()
    for wanted in (["rcu_nocbs=all"], ["nohz=off"], []):
        before = host.files()
        break_it()
        with pytest.raises(
            BootLoaderError, match="the kernel command line is as it was before, because .*(space|only)"
        ):
            host.command_line(*wanted).change()
        repair_it()
        assert host.files() == before
        host.command_line(*wanted).change()
        assert host.command_line(*wanted).menu_problems() == []
    assert host.files() == original


def test_an_unmounted_boot_file_system_is_not_mistaken_for_one_without_kernels(host):
    """The menu is on the root file system, and the kernels are on a file system that is not mounted."""
    host.command_line("rcu_nocbs=all").change()
    kernels = [file for file in (host.root / "boot").iterdir() if file.is_file()]
    contents = {file: file.read_bytes() for file in kernels}
    for file in kernels:
        file.unlink()
    before = host.files()
    with pytest.raises(BootLoaderError, match="would boot no kernel. Is /boot mounted"):
        host.command_line().change()
    assert host.files() == before
    for file, content in contents.items():
        file.write_bytes(content)
    host.command_line().change()
    assert "rcu_nocbs" not in host.menu.read_text(encoding="utf-8")
