# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line is changed, restored and verified, with a GRUB whose generator is a small shell script."""

from __future__ import annotations

import errno
import os
import pathlib
import re

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.boot import loader as boot_loader
from ansible_collections.memstretch.density.plugins.module_utils.boot.command_line import (
    CommandLine,
    CommandLineError,
    reboot_required,
)
from ansible_collections.memstretch.density.plugins.module_utils.boot.rollback import (
    BootLoaderError,
    UnfinishedChangeError,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_command

# Like grub-mkconfig, it reads the settings and the drop-ins as shell code.
GENERATOR = """\
#!/bin/sh
set -e
. {defaults}/grub
for file in {defaults}/grub.d/*.cfg; do
    if [ -e "$file" ]; then . "$file"; fi
done
cat >"$2" <<END
### BEGIN /etc/grub.d/10_linux ###
\tlinux\t/boot/vmlinuz-6.1.0-56-amd64 root=$(cat {root}) ro $GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT
### END /etc/grub.d/10_linux ###
END
"""
RUNNING = "BOOT_IMAGE=/boot/vmlinuz-6.1.0-56-amd64 root=/dev/vda1 ro console=ttyS0 quiet"


class GrubHost:
    """A host that boots with GRUB, in a temporary directory."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root, self.boot, self.defaults = root, root / "boot" / "grub", root / "default"
        self.boot.mkdir(parents=True)
        self.defaults.mkdir()
        (self.defaults / "grub").write_text(
            "GRUB_CMDLINE_LINUX='console=ttyS0'\nGRUB_CMDLINE_LINUX_DEFAULT=quiet\n", encoding="utf-8"
        )
        self.menu = self.boot / "grub.cfg"
        self.root_device = root / "root-device"
        self.root_device.write_text("/dev/vda1", encoding="ascii")
        self.generator = root / "grub-mkconfig"
        self.write_generator(GENERATOR)
        self.generate()

    def generate(self) -> None:
        """Generate the menu, as update-grub does."""
        assert run_command([str(self.generator), "-o", str(self.menu)])[0] == 0

    def add_setting(self, name: str, text: str) -> None:
        """Write a file of another package next to our drop-in."""
        (self.defaults / "grub.d").mkdir(exist_ok=True)
        (self.defaults / "grub.d" / name).write_text(text, encoding="utf-8")

    def write_generator(self, text: str) -> None:
        self.generator.write_text(
            text.replace("{defaults}", str(self.defaults)).replace("{root}", str(self.root_device)), encoding="utf-8"
        )
        self.generator.chmod(0o755)

    @property
    def record(self) -> HostRecord:
        return HostRecord("kernel_cmdline", str(self.root / "state"))

    def command_line(self, *arguments: str, removed: tuple[str, ...] = ()) -> CommandLine:
        loader = boot_loader.Grub(
            run_command, lambda name: str(self.generator), boot=str(self.boot), defaults=str(self.defaults)
        )
        return CommandLine(loader, arguments, removed, self.record, str(self.root / "pending"))

    def lines(self) -> list[str]:
        return [" ".join(entry.words) for entry in self.command_line().loader.entries()]

    def files(self) -> dict[str, bytes]:
        return {str(file): file.read_bytes() for file in self.root.rglob("*") if file.is_file()}


@pytest.fixture
def host(tmp_path):
    return GrubHost(tmp_path)


def test_arguments_are_added_and_removed_as_predicted(host):
    command_line = host.command_line("rcu_nocbs=all", removed=("quiet",))
    before = host.files()

    assert command_line.change_needed()
    predicted = command_line.predicted_entries()
    assert host.files() == before, "a prediction changes nothing"
    assert command_line.change() == []

    assert host.lines() == ["root=/dev/vda1 ro console=ttyS0 rcu_nocbs=all"]
    assert [sorted(entry.words) for entry in predicted] == [sorted(host.lines()[0].split())]
    assert not host.command_line("rcu_nocbs=all", removed=("quiet",)).change_needed()


def test_a_restore_leaves_every_file_as_it_was(host):
    before = host.files()
    host.command_line("rcu_nocbs=all").change()

    restore = host.command_line()
    assert restore.change_needed()
    restore.change()

    after = host.files()
    assert after.pop(str(host.root / "pending")) == b'["rcu_nocbs"]\n'
    assert after == before
    assert not host.command_line().change_needed()


def test_the_arguments_of_an_earlier_run_are_restored(host):
    host.command_line("rcu_nocbs=all", removed=("quiet",)).change()
    host.command_line("nohz=off").change()

    assert host.lines() == ["root=/dev/vda1 ro console=ttyS0 nohz=off quiet"]
    assert host.command_line("nohz=off").affected_names() == {"rcu_nocbs", "quiet", "nohz"}


def test_arguments_that_are_present_need_no_change(host):
    assert not host.command_line("quiet", "console=ttyS0").change_needed()


def test_a_failed_change_leaves_no_record(host):
    host.write_generator("#!/bin/sh\necho nothing to boot from >&2\nexit 7\n")
    before = host.files()

    with pytest.raises(BootLoaderError, match="(?s)as it was before, because .* ended with status 7.*to boot from"):
        host.command_line("rcu_nocbs=all").change()

    assert host.files() == before and host.record.read() is None


def test_a_failed_change_keeps_the_earlier_record(host):
    host.command_line("rcu_nocbs=all").change()
    host.write_generator("#!/bin/sh\nexit 7\n")
    before = host.files()

    with pytest.raises(BootLoaderError, match="ended with status 7"):
        host.command_line("nohz=off").change()

    assert host.files() == before


def test_an_interrupted_change_is_finished(host):
    menu = (host.boot / "grub.cfg").read_bytes()
    host.command_line("rcu_nocbs=all").change()
    (host.boot / "grub.cfg").write_bytes(menu)

    again = host.command_line("rcu_nocbs=all")
    assert again.change_needed()
    again.change()
    assert host.lines() == ["root=/dev/vda1 ro console=ttyS0 rcu_nocbs=all quiet"]


def test_a_menu_that_was_edited_by_hand_is_reported_and_restored(host):
    host.menu.write_text(host.menu.read_text(encoding="utf-8") + "set timeout=30 # f\u00fcnf\n", encoding="latin-1")
    before = host.menu.read_bytes()

    assert "was edited by hand" in host.command_line("rcu_nocbs=all").change()[0]
    assert host.menu.read_bytes() != before
    assert host.command_line().change() == []
    assert host.menu.read_bytes() == before


def test_a_stale_menu_that_boots_something_else_is_kept_beside_the_generated_one(host):
    stale = host.menu.read_text(encoding="utf-8").replace("/dev/vda1", "/dev/sdz9")
    host.menu.write_text(stale, encoding="utf-8")

    host.command_line("rcu_nocbs=all").change()
    notes = host.command_line().change()

    assert f"boots something else; it is now {host.menu}.memstretch-original" in notes[0]
    assert (host.boot / "grub.cfg.memstretch-original").read_text(encoding="utf-8") == stale
    assert host.lines() == ["root=/dev/vda1 ro console=ttyS0 quiet"]


def test_a_root_file_system_that_has_moved_is_in_the_restored_menu(host):
    """Nothing but the answer of grub-probe changes: no file that the menu is made from."""
    host.command_line("rcu_nocbs=all").change()
    host.root_device.write_text("UUID=new", encoding="ascii")

    restore = host.command_line()
    assert [entry.words for entry in restore.predicted_entries()] == [
        ["root=/dev/vda1", "ro", "console=ttyS0", "quiet"]
    ]
    assert "its sources have changed" in restore.change()[0]

    assert host.lines() == ["root=UUID=new ro console=ttyS0 quiet"]
    assert not host.command_line().change_needed()


def test_a_menu_that_cannot_be_replaced_leaves_drop_in_and_record_as_they_were(host, monkeypatch):
    """A directory in the place of the file that replaces the menu: as on a full disk, the menu cannot be written."""
    obstacle = host.boot / "grub.cfg.memstretch-new"
    obstacle.mkdir()
    before = host.files()
    with pytest.raises(BootLoaderError, match="command line is as it was before, because .*grub.cfg.memstretch-new"):
        host.command_line("rcu_nocbs=all").change()
    assert host.files() == before and not (host.defaults / "grub.d").exists()

    obstacle.rmdir()
    host.command_line("rcu_nocbs=all").change()
    obstacle.mkdir()
    before = {**host.files(), str(host.root / "pending"): b'["rcu_nocbs"]\n'}
    for arguments in (["nohz=off"], []):
        with pytest.raises(BootLoaderError, match="command line is as it was before"):
            host.command_line(*arguments).change()
        assert {**before, **host.files()} == before


def test_a_change_that_cannot_be_undone_keeps_its_record_and_is_finished_later(host, monkeypatch):
    host.command_line("nohz=off").change()
    (host.boot / "grub.cfg.memstretch-new").mkdir()
    replace = os.replace

    def fails_for_copies(source, target):
        if source.endswith(".memstretch-old"):
            raise OSError(errno.EROFS, "Read-only file system", source)
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fails_for_copies)
        with pytest.raises(
            UnfinishedChangeError, match="(?s)cannot be undone.*zz-memstretch.cfg: Read-only file system"
        ):
            host.command_line("rcu_nocbs=all").change()
    (host.boot / "grub.cfg.memstretch-new").rmdir()

    assert host.record.read()["earlier"] == {"arguments": ["nohz=off"], "removed": []}
    again = host.command_line("rcu_nocbs=all")
    assert again.change_needed()
    again.change()
    assert host.lines() == ["root=/dev/vda1 ro console=ttyS0 rcu_nocbs=all quiet"]
    assert "earlier" not in host.record.read()
    host.command_line().change()
    assert host.lines() == ["root=/dev/vda1 ro console=ttyS0 quiet"] and host.record.read() is None


def test_a_record_that_cannot_be_written_leaves_everything_as_it_was(host):
    before = host.files()
    (host.root / "state").mkdir(mode=0o700)
    (host.root / "state" / "kernel_cmdline.json.memstretch-new").mkdir()
    with pytest.raises(OSError, match="kernel_cmdline.json"):
        host.command_line("rcu_nocbs=all").change()
    (host.root / "state" / "kernel_cmdline.json.memstretch-new").rmdir()
    (host.root / "state" / ".lock").unlink(missing_ok=True)
    assert host.files() == before


def test_a_drop_in_without_a_record_is_refused_until_it_is_restored(host):
    host.command_line("rcu_nocbs=all").change()
    host.record.remove()

    assert "zz-memstretch.cfg exists without a record" in host.command_line("rcu_nocbs=all").menu_problems()[0]
    with pytest.raises(CommandLineError, match="kernel_cmdline.json, is missing; restore first"):
        host.command_line("nohz=off").change()
    assert host.command_line().change() == []
    assert host.lines() == ["root=/dev/vda1 ro console=ttyS0 quiet"]


def test_a_record_of_another_boot_loader_is_refused(host):
    host.record.write({"boot_loader": "grubby", "arguments": ["nohz=off"], "removed": ["quiet"]})

    with pytest.raises(
        CommandLineError,
        match=r"for the boot loader grubby, and this host now has grub, .*\(nohz=off quiet \(removed\)\)",
    ):
        host.command_line()


def test_a_correct_command_line_has_no_problems(host):
    host.command_line("rcu_nocbs=all", removed=("quiet",)).change()
    command_line = host.command_line()
    command_line.expect_recorded()

    assert (command_line.arguments, command_line.removed) == (["rcu_nocbs=all"], ["quiet"])
    assert command_line.menu_problems() == []
    assert command_line.running_problems("ro rcu_nocbs=all") == []
    assert command_line.running_problems(RUNNING) == [
        "the running kernel: rcu_nocbs=all is missing",
        "the running kernel: quiet is present",
    ]


def test_a_changed_menu_and_a_changed_drop_in_are_reported(host):
    host.command_line("rcu_nocbs=all").change()
    menu = host.boot / "grub.cfg"
    menu.write_text(menu.read_text(encoding="utf-8").replace("rcu_nocbs=all", "rcu_nocbs=0"), encoding="utf-8")
    with open(host.defaults / "grub.d" / "zz-memstretch.cfg", "a", encoding="utf-8") as file:
        file.write("# edited\n")

    wrong_menu, wrong_drop_in = host.command_line("rcu_nocbs=all").menu_problems()

    assert "rcu_nocbs=all is missing (present: rcu_nocbs=0)" in wrong_menu
    assert wrong_drop_in.startswith(f"{host.defaults}/grub.d/zz-memstretch.cfg was changed")


# What the images of Ubuntu for clouds have in /etc/default/grub.d, and a package for crash dumps.
CLOUD = """# Cloud Image specific Grub settings for Generic Cloud Images
GRUB_CMDLINE_LINUX_DEFAULT="console=tty1 console=ttyS0"
GRUB_TIMEOUT=0
"""
KDUMP = 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT crashkernel=2G-4G:320M,4G-32G:512M"\n'


def test_the_settings_of_a_cloud_are_changed_like_those_of_the_host(host):
    """Such a file overrides /etc/default/grub, so others that write there change nothing."""
    host.add_setting("50-cloudimg-settings.cfg", CLOUD)
    host.add_setting("kdump-tools.cfg", KDUMP)
    host.generate()
    before = host.files()
    assert host.lines() == [
        "root=/dev/vda1 ro console=ttyS0 console=tty1 console=ttyS0 crashkernel=2G-4G:320M,4G-32G:512M"
    ]

    wanted = {"arguments": ("rcu_nocbs=all", "crashkernel=512M"), "removed": ("console=tty1",)}
    command_line = host.command_line(*wanted["arguments"], removed=wanted["removed"])
    predicted = [sorted(entry.words) for entry in command_line.predicted_entries()]
    assert command_line.change() == []
    assert host.lines() == ["root=/dev/vda1 ro console=ttyS0 rcu_nocbs=all crashkernel=512M console=ttyS0"]
    assert predicted == [sorted(host.lines()[0].split())]
    assert host.command_line(*wanted["arguments"], removed=wanted["removed"]).menu_problems() == []
    host.command_line().change()
    after = host.files()
    after.pop(str(host.root / "pending"))
    assert after == before


# What other roles have left in /etc/default/grub. The first two are lae/ansible-role-proxmox#274 and
# konstruktoid/ansible-role-hardening#900; the third is ansible-lockdown/RHEL7-CIS#217, whose file no shell can read.
LEFT_BY_OTHERS = [
    ('GRUB_CMDLINE_LINUX="nmi_watchdog=0 nmi_watchdog=0"\n' * 3, "nmi_watchdog=0 nmi_watchdog=0 rcu_nocbs=all"),
    (
        "".join(f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX lockdown={mode}"\n' for mode in ("none", "integrity")),
        "lockdown=none lockdown=integrity rcu_nocbs=all",
    ),
    ('GRUB_CMDLINE_LINUX="quiet audit=1\nvga=normal"\nvga=normal"\n', None),
    ("# GRUB_CMDLINE_LINUX=old\n  GRUB_CMDLINE_LINUX=new # not old\n", "new rcu_nocbs=all"),
    # A name that begins like another one, as in ComplianceAsCode/content#5756.
    (
        "GRUB_CMDLINE_LINUX='my_rcu_nocbs=1 rcu_nocbs=allow rcu_nocbs_poll'\n",
        "my_rcu_nocbs=1 rcu_nocbs_poll rcu_nocbs=all",
    ),
]


@pytest.mark.parametrize(("text", "line"), LEFT_BY_OTHERS)
def test_settings_that_other_roles_have_written_are_read_as_grub_reads_them(host, text, line):
    (host.defaults / "grub").write_text(text, encoding="utf-8")
    before = host.files()
    if line is None:
        with pytest.raises(BootLoaderError, match="the boot menu cannot be generated"):
            host.command_line("rcu_nocbs=all").change()
        assert host.files() == before
    else:
        host.command_line("rcu_nocbs=all").change()
        assert host.lines() == [f"root=/dev/vda1 ro {line}"]
        assert host.command_line("rcu_nocbs=all").menu_problems() == []


def test_a_menu_that_is_a_link_stays_one_and_the_file_behind_it_is_changed(host, tmp_path):
    """As in ComplianceAsCode/content#1737: GRUB reads the file on the partition of the firmware."""
    real = tmp_path / "efi" / "grub.cfg"
    real.parent.mkdir()
    host.menu.rename(real)
    host.menu.symlink_to("../../efi/grub.cfg")
    before = real.read_bytes()
    host.command_line("rcu_nocbs=all").change()
    assert host.menu.is_symlink() and b"rcu_nocbs=all" in real.read_bytes()
    host.command_line().change()
    assert host.menu.is_symlink() and real.read_bytes() == before


LATER = [
    ('GRUB_CMDLINE_LINUX="vendor=1"\n', "rcu_nocbs=all is missing"),
    ('GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"\n', "splash is present"),
    (
        'GRUB_CMDLINE_LINUX_DEFAULT="quiet rcu_nocbs=0"\n',
        r"rcu_nocbs=all is missing \(present: rcu_nocbs=all rcu_nocbs=0",
    ),
]


@pytest.mark.parametrize(("text", "wrong"), LATER)
def test_settings_that_would_override_ours_are_refused_in_check_mode_too(host, text, wrong):
    host.add_setting("zzz-vendor.cfg", text)
    before = host.files()
    command_line = host.command_line("rcu_nocbs=all", removed=("splash",))
    named = f"{wrong}.*zzz-vendor.cfg is read after .*zz-memstretch.cfg and sets GRUB_CMDLINE_LINUX"
    with pytest.raises(CommandLineError, match=f"the generated boot menu would be wrong: .*{named}"):
        command_line.predicted_entries()
    with pytest.raises(BootLoaderError, match=f"as it was before, because the generated boot menu is wrong: .*{named}"):
        command_line.change()
    assert host.files() == before


def test_arguments_of_init_are_named_where_ours_would_be_behind_them(host):
    host.add_setting("50-vendor.cfg", 'GRUB_CMDLINE_LINUX="console=ttyS0 -- single"\n')
    with pytest.raises(CommandLineError, match="rcu_nocbs=all is missing.* has --, and what stands behind it goes to"):
        host.command_line("rcu_nocbs=all").predicted_entries()


# Normal entries would have the argument, those for recovery would not, if there are any.
NORMAL_ONLY = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet rcu_nocbs=all"\nGRUB_CMDLINE_LINUX=\n'


@pytest.mark.parametrize(("text", "wrong"), [*LATER, (NORMAL_ONLY, "rcu_nocbs=all is missing")])
def test_settings_that_came_later_and_override_ours_are_found_before_the_next_kernel(host, text, wrong):
    host.command_line("rcu_nocbs=all", removed=("splash",)).change()
    host.add_setting("zzz-harmless.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX vendor=1"\n')
    assert host.command_line("rcu_nocbs=all", removed=("splash",)).menu_problems() == []
    host.add_setting("zzz-vendor.cfg", text)
    (problem,) = host.command_line("rcu_nocbs=all", removed=("splash",)).menu_problems()
    assert re.match(f"the next kernel that is installed would get other arguments: .*{wrong}.*zzz-vendor.cfg", problem)
    if text == NORMAL_ONLY:
        host.add_setting("vendor.cfg", "GRUB_DISABLE_RECOVERY=true\n")
        assert host.command_line("rcu_nocbs=all", removed=("splash",)).menu_problems() == []


def test_settings_that_a_shell_cannot_read_are_reported(host):
    host.command_line("rcu_nocbs=all").change()
    host.add_setting("vendor.cfg", "no-such-command --here\n")
    with pytest.raises(BootLoaderError, match="(?s)default/grub.d cannot be read: .* status 127: .*no-such-command"):
        host.command_line("rcu_nocbs=all").menu_problems()


def test_a_menu_without_entries_is_reported(host):
    (host.boot / "grub.cfg").write_text("set timeout=5\n", encoding="utf-8")

    assert host.command_line("a=1").menu_problems() == ["the boot menu has no entry for this system's kernels"]


def test_a_reboot_is_required_until_the_kernel_runs_with_the_menus_values(host):
    command_line = host.command_line("rcu_nocbs=all")
    command_line.change()
    entries, names = command_line.loader.entries(), command_line.affected_names()

    assert reboot_required(entries, RUNNING, names)
    assert not reboot_required(entries, RUNNING + " rcu-nocbs=all", names)
    assert not reboot_required([], RUNNING, names)


def test_a_reboot_is_required_after_a_restore_too(host):
    host.command_line("rcu_nocbs=all").change()
    host.command_line().change()
    command_line = host.command_line()

    assert command_line.affected_names() == {"rcu_nocbs"}
    assert reboot_required(command_line.loader.entries(), RUNNING + " rcu_nocbs=all", command_line.affected_names())
    assert not reboot_required(command_line.loader.entries(), RUNNING, command_line.affected_names())


def test_grubby_is_changed_and_restored(grubby, tmp_path):
    def command_line(*arguments):
        loader = boot_loader.Grubby(grubby, lambda name: "/usr/sbin/grubby")
        return CommandLine(
            loader, arguments, [], HostRecord("kernel_cmdline", str(tmp_path / "state")), str(tmp_path / "pending")
        )

    before = grubby.lines()
    command_line("rcu_nocbs=all").change()
    assert set(grubby.lines().values()) == {f"{grubby.LINE} rcu_nocbs=all"}
    assert not command_line("rcu_nocbs=all").change_needed()
    assert command_line("rcu_nocbs=all").menu_problems() == []
    command_line().change()
    assert grubby.lines() == before


def test_a_grubby_that_fails_and_cannot_be_undone_keeps_what_a_restore_needs(grubby, tmp_path, monkeypatch):
    def command_line(*arguments, removed=()):
        loader = boot_loader.Grubby(grubby, lambda name: "/usr/sbin/grubby")
        return CommandLine(
            loader, arguments, removed, HostRecord("kernel_cmdline", str(tmp_path / "state")), str(tmp_path / "pending")
        )

    def refuse(source, target):
        raise OSError(errno.EROFS, "Read-only file system", source)

    before = grubby.lines()
    command_line("nohz=off", removed=["quiet"]).change()
    grubby.broken = grubby.updates + 1
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *paths: refuse(*paths) if "loader" in paths[0] else os.rename(*paths))
        with pytest.raises(UnfinishedChangeError, match="(?s)cannot write.*conf: Read-only file system"):
            command_line("rcu_nocbs=all", removed=["console=tty0"]).change()
    assert len(set(grubby.lines().values())) == 2, "one entry is changed, the other one is not"
    command_line().change()
    assert {kernel: sorted(line.split()) for kernel, line in grubby.lines().items()} == {
        kernel: sorted(line.split()) for kernel, line in before.items()
    }
