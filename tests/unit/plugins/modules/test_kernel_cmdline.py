# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that another boot loader boots, and a record that was made with a boot loader that the host no longer has."""

from __future__ import annotations

import functools

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.boot import loader as boot_loader
from ansible_collections.memstretch.density.plugins.module_utils.boot.command_line import CommandLine
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.modules import kernel_cmdline
from ansible_collections.memstretch.density.tests.unit.fixtures.boot_loaders import MENU, Generator
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_module

RECORD = {"boot_loader": "grub", "arguments": ["rcu_nocbs=all"], "removed": [], "originals": {}, "names": ["rcu_nocbs"]}


@pytest.fixture(name="record")
def _record(tmp_path, monkeypatch):
    record = HostRecord("kernel_cmdline", str(tmp_path / "records"))
    monkeypatch.setattr(kernel_cmdline, "HostRecord", lambda name: record)
    monkeypatch.setattr(kernel_cmdline, "find", lambda *programs: None)
    record.write(RECORD)
    return record


@pytest.fixture(name="run")
def _run(tmp_path):
    def run(check_mode=False, **arguments):
        return run_module(kernel_cmdline, tmp_path, check_mode, **arguments)

    return run


def test_a_restore_keeps_the_record_and_warns_until_it_is_forgotten(record, run, monkeypatch):
    warnings = []
    monkeypatch.setattr(kernel_cmdline.AnsibleModule, "warn", lambda module, text: warnings.append(text))
    for check_mode in (True, False):
        result = run(check_mode, state="restored")
        assert not result.get("failed") and not result["changed"]
        assert "for the boot loader grub, and this host now has no supported boot loader" in result["notes"][0]
        assert "(rcu_nocbs=all) cannot be undone" in result["notes"][0]
        assert "host_tuning_forget: [kernel_cmdline]" in result["notes"][0]
        assert warnings.pop() == f"not restored: {result['notes'][0]}"
        assert record.read() is not None

    assert run(True, state="restored", forget=True)["changed"] and record.read() is not None
    assert run(state="restored", forget=True)["changed"] and record.read() is None
    assert not run(state="restored", forget=True)["changed"]


BIOS = b"BOOT_IMAGE=/boot/vmlinuz-6.1.0-56-amd64 root=/dev/vda1 ro quiet\n"
DIRECT = b"root=/dev/vda1 console=ttyS0\n"
SYSTEMD_BOOT = b"\6\0\0\0" + "systemd-boot 252.38-1\0".encode("utf-16-le")
# The files that show what boots the host, and what a message must say of it: its name, and what to do.
OTHERS = {
    "systemd-boot": (
        {
            "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f": SYSTEMD_BOOT,
            "proc/cmdline": BIOS,
        },
        ["systemd-boot 252.38-1 boots this host", "kernel-install add-all"],
    ),
    "proxmox": (
        {"etc/kernel/proxmox-boot-uuids": b"1234-ABCD\n", "proc/cmdline": BIOS},
        ["because proxmox-boot-tool (", "run proxmox-boot-tool refresh"],
    ),
    "hypervisor": ({"proc/cmdline": DIRECT}, ["the hypervisor of this VM", "Add the arguments there"]),
}


@pytest.fixture(name="other", params=OTHERS)
def _other(request, tmp_path, monkeypatch):
    """Return the words on a host that has the files of GRUB, and that something else boots."""
    files, words = OTHERS[request.param]
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "boot" / "grub").mkdir(parents=True)
    (tmp_path / "boot" / "grub" / "grub.cfg").write_text(MENU, encoding="utf-8")
    grub = boot_loader.Grub(
        Generator(MENU), lambda name: "/bin/true", boot=str(tmp_path / "boot" / "grub"), defaults=str(tmp_path / "etc")
    )
    monkeypatch.setattr(kernel_cmdline, "find", lambda *programs: grub)
    monkeypatch.setattr(kernel_cmdline, "HostFiles", lambda: HostFiles(str(tmp_path)))
    monkeypatch.setattr(kernel_cmdline, "read_text", lambda path: (tmp_path / path[1:]).read_text(encoding="ascii"))
    monkeypatch.setattr(
        kernel_cmdline, "CommandLine", functools.partial(CommandLine, pending=str(tmp_path / "pending"))
    )
    return words


@pytest.fixture(name="untouched")
def _untouched(record, other, tmp_path):
    """Fail if a test without a record has changed a file."""
    record.remove()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    yield
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize("state", ["present", "verified"])
def test_arguments_that_another_boot_loader_has_to_pass_are_refused_by_its_name(other, run, state, check_mode):
    result = run(check_mode, arguments=["rcu_nocbs=all"], state=state)
    assert result["failed"]
    assert [word for word in other if word not in result["msg"]] == []


@pytest.mark.usefixtures("untouched")
def test_arguments_that_are_not_required_leave_a_note_with_the_name_of_the_boot_loader(other, run):
    result = run(arguments=["rcu_nocbs=all"], required=False)
    assert not result.get("failed") and not result["changed"]
    assert (result["boot_loader"], result["entries"], result["reboot_required"]) == (None, [], False)
    assert len(result["notes"]) == 1
    assert [word for word in other if word not in result["notes"][0]] == []


@pytest.mark.usefixtures("untouched", "other")
@pytest.mark.parametrize("options", [{"arguments": ["root_delay=3"]}, {}, {"state": "restored"}])
def test_what_the_running_kernel_has_leaves_no_note(run, tmp_path, options):
    """Arguments may have been set by hand, as the note says, and a profile may have none."""
    running = tmp_path / "proc" / "cmdline"
    before = running.read_text(encoding="ascii")
    running.write_text(f"{before.strip()} root_delay=3\n", encoding="ascii")
    result = run(required=False, **options)
    running.write_text(before, encoding="ascii")
    assert not result.get("failed") and not result["changed"] and result["notes"] == []


def test_a_record_is_restored_though_another_boot_loader_boots_the_host_now(record, run, other, tmp_path):
    originals = {"menu": MENU, "generated": boot_loader.digest(MENU), "directory_was_there": False}
    record.write({**RECORD, "originals": originals})
    drop_in, menu = tmp_path / "etc" / "grub.d" / "zz-memstretch.cfg", tmp_path / "boot" / "grub" / "grub.cfg"
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text(boot_loader.Grub.wanted_drop_in(["rcu_nocbs=all"], []), encoding="utf-8")
    menu.write_text(MENU.replace(" ro ", " ro rcu_nocbs=all "), encoding="utf-8")

    result = run(state="restored")

    assert not result.get("failed") and result["changed"] and result["notes"] == []
    assert menu.read_text(encoding="utf-8") == MENU
    assert not drop_in.parent.exists() and record.read() is None
    assert not run(state="restored")["changed"]
