# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB: the shell code of the drop-in, and menus that are refused. Red Hat: apply and restore with a model of grubby.

tests/local/test_boot_loader.py restores menus of the real GRUB, and extensions/molecule/host boots them.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.boot import loader as boot_loader
from ansible_collections.memstretch.density.plugins.module_utils.boot.arguments import Words
from ansible_collections.memstretch.density.plugins.module_utils.boot.rollback import BootLoaderError
from ansible_collections.memstretch.density.tests.unit.fixtures.boot_loaders import MENU, Generator, GrubbyModel

NOTHING = Words([], [])


def cmdlines(drop_in, linux, default):
    """Return the command line that grub-mkconfig gets from the drop-in, which it reads with sh and set -e."""
    script = (
        f"set -e\nGRUB_CMDLINE_LINUX={shlex.quote(linux)}\n"
        f"GRUB_CMDLINE_LINUX_DEFAULT={shlex.quote(default)}\n{drop_in}\n"
        'printf \'%s\\n%s\\n\' "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT"'
    )
    # Without any program: one that is missing must not remove arguments of others.
    return subprocess.run(
        [shutil.which("sh"), "-c", script], check=True, capture_output=True, text=True, cwd="/", env={"PATH": ""}
    ).stdout.splitlines()


@pytest.mark.parametrize(
    "arguments, removed, linux, default, expected",
    [
        (["rcu_nocbs=all"], [], "console=ttyS0", "quiet", ["console=ttyS0 rcu_nocbs=all", "quiet"]),
        (["rcu_nocbs=all"], [], "rcu-nocbs=0-3 a", "rcu_nocbs quiet", ["a rcu_nocbs=all", "quiet"]),
        (["hugepages=9"], [], "a hugepagesz=1G hugepages=8", "default_hugepagesz=1G b", ["a hugepages=9", "b"]),
        (
            ["hugepagesz=1G", "hugepages=2", "hugepagesz=2M", "hugepages=2"],
            [],
            "hugepages=8",
            "",
            ["hugepagesz=1G hugepages=2 hugepagesz=2M hugepages=2", ""],
        ),
        ([], ["quiet", "splash"], "", "quiet splash x", ["", "x"]),
        ([], ["console=tty0"], "console=tty0 console=ttyS0", "", ["console=ttyS0", ""]),
        (
            ["nvme.io_queue_depth=64"],
            [],
            "nvmexio_queue_depth=1",
            "",
            ["nvmexio_queue_depth=1 nvme.io_queue_depth=64", ""],
        ),
        (["a=1"], [], "b=* c", "quiet", ["b=* c a=1", "quiet"]),  # the star is not expanded to file names
        (["a=1"], [], "aa=2", "a1", ["aa=2 a=1", "a1"]),
        # A value in quotes may have blanks and what looks like an argument, as in redhat-performance/tuned#780.
        (
            ["a=1"],
            ["quiet"],
            'd="module kvm +p;  module quiet +p" quiet',
            'e="x quiet',
            ['d="module kvm +p;  module quiet +p" a=1', 'e="x quiet'],
        ),
        (["a=1"], ["d"], 'd="b c" e="a=2 f" "d=g h" "a=i j"', "", ['e="a=2 f" a=1', ""]),
        (["a=1"], [], r"memmap=64M\$1G c", "x\n y\tz", [r"memmap=64M\$1G c a=1", "x y z"]),
    ],
)
def test_drop_in(arguments, removed, linux, default, expected):
    lines = cmdlines(boot_loader.Grub.wanted_drop_in(arguments, removed), linux, default)
    assert [line.strip() for line in lines] == expected


def test_the_drop_in_works_with_unset_variables():
    script = "set -e\n" + boot_loader.Grub.wanted_drop_in(["a=1"], ["b"]) + 'echo "$GRUB_CMDLINE_LINUX"'
    assert subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True).stdout == " a=1\n"


def test_without_arguments_there_is_no_drop_in():
    assert boot_loader.Grub.wanted_drop_in([], []) == ""


def test_only_entries_of_this_system_are_read(tmp_path):
    (tmp_path / "grub.cfg").write_text(MENU, encoding="utf-8")
    loader = boot_loader.Grub(None, lambda name: None, boot=str(tmp_path))
    assert [(entry.kernel, entry.line) for entry in loader.entries()] == [
        ("/boot/vmlinuz-6.1.0-56-amd64", "root=UUID=c588ba0c ro  quiet"),
        ("/boot/vmlinuz-6.1.0-56-amd64", "root=UUID=c588ba0c ro single"),
    ]
    assert boot_loader.problems(loader.entries(), ["quiet"], ["single"]) == [
        "/boot/vmlinuz-6.1.0-56-amd64: quiet is missing",
        "/boot/vmlinuz-6.1.0-56-amd64: single is present",
    ]


def test_a_later_drop_in_that_overrides_ours_is_found(tmp_path):
    directory = tmp_path / "grub.d"
    directory.mkdir()
    for name in ("50-cloud.cfg", "zzz-vendor.cfg"):
        (directory / name).write_text('GRUB_CMDLINE_LINUX="vendor"\n', encoding="utf-8")
    (directory / "zzz-theme.cfg").write_text("GRUB_THEME=x\n", encoding="utf-8")
    loader = boot_loader.Grub(None, lambda name: None, defaults=str(tmp_path))
    assert (
        loader.explain_override()
        == f"{directory}/zzz-vendor.cfg is read after {directory}/zz-memstretch.cfg and sets GRUB_CMDLINE_LINUX"
    )


def tree(path):
    """Return path, content and mode of each file below a directory."""
    return sorted(
        (str(file.relative_to(path)), file.read_bytes(), oct(file.stat().st_mode))
        for file in path.rglob("*")
        if file.is_file()
    )


@pytest.mark.parametrize(
    "generator, text",
    [
        (Generator("half", status=1), "ended with status 1.*no such disk"),
        (Generator("an empty menu"), "has no entry from /etc/grub.d/10_linux"),
        (Generator(MENU), "a=1 is missing"),
    ],
)
def test_a_wrong_menu_changes_nothing(grub, tmp_path, generator, text):
    before = tree(tmp_path)
    with pytest.raises(BootLoaderError, match=f"(?s){text}"):
        grub(generator).apply({}, ["a=1"], [], NOTHING)
    assert tree(tmp_path) == before


def loader_of(model):
    return boot_loader.Grubby(model, lambda name: "/usr/sbin/grubby")


def files(model):
    """Return the content of each file of the model."""
    return {str(file.relative_to(model.root)): file.read_bytes() for file in model.root.rglob("*") if file.is_file()}


def test_grubby_is_preferred_to_grub_mkconfig():
    assert isinstance(
        boot_loader.find(None, {"grubby": "/usr/sbin/grubby", "grub-mkconfig": "/usr/sbin/grub-mkconfig"}.get),
        boot_loader.Grubby,
    )


def test_grubby_is_restored_byte_for_byte(grubby):
    before = files(grubby)
    loader = loader_of(grubby)
    originals = json.loads(json.dumps(loader.originals()))
    assert [entry.kernel for entry in loader.entries()] == [GrubbyModel.NEW, GrubbyModel.OLD]
    loader.apply(originals, ["rcu_nocbs=0-3,5", "nvme.io_queue_depth=64"], ["quiet"], NOTHING)
    wanted = GrubbyModel.LINE.replace(" quiet", "") + " rcu_nocbs=0-3,5 nvme.io_queue_depth=64"
    assert grubby.lines() == {GrubbyModel.NEW: wanted, GrubbyModel.OLD: wanted}
    assert grubby.cmdline.read_text(encoding="utf-8") == wanted + "\n"
    ours = Words(["rcu_nocbs=0-3,5", "nvme.io_queue_depth=64"], ["quiet"])
    assert loader.restore(json.loads(json.dumps(originals)), ours) == []
    assert files(grubby) == before


def test_another_set_of_arguments_starts_from_the_originals(grubby):
    loader = loader_of(grubby)
    originals = loader.originals()
    loader.apply(originals, ["rcu_nocbs=all", "console=ttyS1"], ["quiet"], NOTHING)
    loader.apply(originals, ["nvme.io_queue_depth=64"], [], Words(["rcu_nocbs=all", "console=ttyS1"], ["quiet"]))
    for line in grubby.lines().values():
        assert sorted(line.split()) == sorted(GrubbyModel.LINE.split() + ["nvme.io_queue_depth=64"])
    assert boot_loader.problems(loader.entries(), ["nvme.io_queue_depth=64"], ["rcu_nocbs"]) == []


def test_different_entries_stay_different(grubby):
    grubby.install(GrubbyModel.OLD, GrubbyModel.LINE + " rcu_nocbs=0-1 single")
    before = files(grubby)
    loader = loader_of(grubby)
    originals = loader.originals()
    loader.apply(originals, ["rcu_nocbs=all"], [], NOTHING)
    assert grubby.lines() == {
        GrubbyModel.NEW: GrubbyModel.LINE + " rcu_nocbs=all",
        GrubbyModel.OLD: GrubbyModel.LINE + " single rcu_nocbs=all",
    }
    loader.restore(originals, Words(["rcu_nocbs=all"], []))
    assert files(grubby) == before


PAGES = ["hugepagesz=1G", "hugepages=32", "hugepagesz=2M", "hugepages=1024"]


@pytest.mark.parametrize(
    "before",
    ["", " hugepagesz=2M hugepages=512", " hugepagesz=1G hugepagesz=2M hugepages=32 hugepages=1024", " hugepages=8"],
)
def test_arguments_whose_order_counts_keep_it(grubby, before):
    for kernel in (GrubbyModel.OLD, GrubbyModel.NEW):
        grubby.install(kernel, GrubbyModel.LINE + before)
    loader, untouched = loader_of(grubby), files(grubby)
    assert boot_loader.problems(loader.entries(), PAGES, [])
    originals = loader.originals()
    loader.apply(originals, PAGES, [], NOTHING)
    assert set(grubby.lines().values()) == {f"{GrubbyModel.LINE} {' '.join(PAGES)}"}
    assert boot_loader.problems(loader.entries(), PAGES, []) == []
    loader.restore(originals, Words(PAGES, []))
    assert files(grubby) == untouched


def test_several_entries_of_one_kernel_keep_their_own_arguments(grubby):
    """Those of a snapshot or for debugging."""
    for variant, more in (("~debug", " systemd.log_level=debug nohz=on"), ("~snapshot", " rd.snapshot=3 quiet_not=1")):
        grubby.install(GrubbyModel.NEW, GrubbyModel.LINE + more, variant)
    loader, before = loader_of(grubby), files(grubby)
    lines = [entry.line for entry in loader.entries()]
    originals = json.loads(json.dumps(loader.originals()))
    loader.apply(originals, ["nohz=off"], ["rd.snapshot"], NOTHING)
    assert [entry.line for entry in loader.entries()] == [
        " ".join([word for word in line.split() if not word.startswith(("nohz", "rd.snap"))] + ["nohz=off"])
        for line in lines
    ]
    for position in ("0", "1"):  # the files of these two are not restored byte for byte
        grubby(["grubby", f"--update-kernel={position}", "--args=mitigations=off"])
    assert loader.restore(originals, Words(["nohz=off"], ["rd.snapshot"])) == []
    assert [entry.line for entry in loader.entries()] == [
        # grubby adds what it gives back at the end.
        GrubbyModel.LINE + " quiet_not=1 mitigations=off rd.snapshot=3",
        GrubbyModel.LINE + " systemd.log_level=debug mitigations=off nohz=on",
        *lines[2:],
    ]
    for position in ("0", "1"):
        grubby(["grubby", f"--update-kernel={position}", "--remove-args=mitigations=off"])
    after = files(grubby)
    assert after.keys() == before.keys()
    assert [path for path in before if after[path] != before[path] and "~snapshot" not in path] == []


def test_our_arguments_are_removed_from_a_kernel_that_was_installed_later(grubby):
    loader = loader_of(grubby)
    originals = loader.originals()
    loader.apply(originals, ["rcu_nocbs=all"], [], NOTHING)
    newer = "/boot/vmlinuz-5.14.0-570.el9.x86_64"
    grubby.install(newer, grubby.future())
    assert grubby.lines()[newer].endswith("rcu_nocbs=all")
    loader.restore(originals, Words(["rcu_nocbs=all"], []))
    assert grubby.lines() == {
        GrubbyModel.NEW: GrubbyModel.LINE,
        GrubbyModel.OLD: GrubbyModel.LINE,
        newer: GrubbyModel.LINE,
    }
    assert grubby.future() == GrubbyModel.LINE


@pytest.mark.parametrize("broken", [1, 2, 3])
def test_a_failing_grubby_changes_nothing(grubby, broken):
    grubby.install(GrubbyModel.OLD, GrubbyModel.LINE.replace("quiet", "single"))
    before = files(grubby)
    loader, ours = loader_of(grubby), Words(["rcu_nocbs=all"], ["single", "quiet"])
    originals = loader.originals()
    grubby.broken = 1
    with pytest.raises(BootLoaderError, match="cannot write"):
        loader.apply(originals, *ours, NOTHING)
    assert files(grubby) == before
    grubby.broken = None
    loader.apply(originals, *ours, NOTHING)
    applied = files(grubby)
    grubby.broken = grubby.updates + broken
    with pytest.raises(BootLoaderError, match="cannot write"):
        loader.restore(originals, ours)
    assert files(grubby) == applied
    grubby.broken = None
    assert loader.restore(originals, ours) == []
    assert files(grubby) == before


def test_what_an_administrator_changes_with_grubby_stays(grubby):
    loader = loader_of(grubby)
    originals = loader.originals()
    loader.apply(originals, ["rcu_nocbs=all", "nohz=off"], ["quiet", "console=tty0"], NOTHING)
    grubby(["grubby", f"--update-kernel={GrubbyModel.NEW}", "--remove-args=nohz=off", "--args=mitigations=off nohz=on"])
    assert loader.restore(originals, Words(["rcu_nocbs=all", "nohz=off"], ["quiet", "console=tty0"])) == []
    assert sorted(grubby.lines()[GrubbyModel.NEW].split()) == sorted(
        [*GrubbyModel.LINE.split(), "mitigations=off", "nohz=on"]
    )
    assert grubby.lines()[GrubbyModel.OLD] == GrubbyModel.LINE


def test_another_set_of_arguments_keeps_what_an_administrator_has_added(grubby):
    loader = loader_of(grubby)
    originals = loader.originals()
    loader.apply(originals, ["rcu_nocbs=all"], [], NOTHING)
    grubby(["grubby", "--update-kernel=ALL", "--args=mitigations=off"])
    loader.apply(originals, ["nohz=off"], [], Words(["rcu_nocbs=all"], []))
    assert set(grubby.lines().values()) == {GrubbyModel.LINE + " mitigations=off nohz=off"}
    loader.restore(originals, Words(["nohz=off"], []))
    assert set(grubby.lines().values()) == {GrubbyModel.LINE + " mitigations=off"}
    assert grubby.cmdline.read_text(encoding="utf-8") == GrubbyModel.LINE + " mitigations=off\n"


def stays(file):
    """Return the note on a file that grubby has made and somebody else has changed."""
    return f"{file} stays, because it was changed since grubby made it at our change; remove it if nothing needs it"


@pytest.mark.parametrize("second_change", [True, False])
def test_the_root_file_system_that_was_changed_meanwhile_stays(grubby, second_change):
    """Also if a second change of ours came after it, whose result is what the files have at the restore."""
    loader = loader_of(grubby)
    originals, ours = loader.originals(), Words(["rcu_nocbs=all"], ["quiet"])
    loader.apply(originals, *ours, NOTHING)
    for file in [grubby.cmdline, *grubby.entries.iterdir()]:
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("root=/dev/mapper/rhel-root", "root=UUID=new"), encoding="utf-8")
    if second_change:
        loader.apply(originals, ["nohz=off"], ["quiet"], ours)
        ours = Words(["nohz=off"], ["quiet"])
    assert loader.restore(originals, ours) == ([] if grubby.had_cmdline else [stays(grubby.cmdline)])
    wanted = sorted(GrubbyModel.LINE.replace("root=/dev/mapper/rhel-root", "root=UUID=new").split())
    assert [sorted(line.split()) for line in grubby.lines().values()] == [wanted, wanted]
    assert sorted(grubby.cmdline.read_text(encoding="utf-8").split()) == wanted


@pytest.mark.parametrize("grubby", ["no defaults"], indirect=True)
def test_what_grubby_makes_is_removed_at_a_restore(grubby):
    before, loader = files(grubby), loader_of(grubby)
    originals = loader.originals()
    loader.apply(originals, ["rcu_nocbs=all"], ["quiet"], NOTHING)
    assert grubby.cmdline.exists()
    loader.apply(originals, ["nohz=off"], [], Words(["rcu_nocbs=all"], ["quiet"]))
    assert loader.restore(json.loads(json.dumps(originals)), Words(["nohz=off"], [])) == []
    assert files(grubby) == before


@pytest.mark.parametrize("grubby", ["no defaults"], indirect=True)
def test_a_file_that_grubby_makes_at_a_restore_only_is_removed(grubby):
    before, loader = files(grubby), loader_of(grubby)
    originals = loader.originals()
    loader.apply(originals, ["rcu_nocbs=all"], [], NOTHING)
    grubby.cmdline.unlink()
    assert loader.restore(originals, Words(["rcu_nocbs=all"], [])) == []
    assert files(grubby) == before


@pytest.mark.parametrize("grubby", ["no defaults"], indirect=True)
def test_a_grubby_that_fails_leaves_no_file_that_it_has_made(grubby):
    def fail_at_last(command, **options):
        status, output, errors = grubby(command, **options)
        if "--update-kernel=ALL" in command:
            assert grubby.cmdline.exists()
            return 1, "", "no space left"
        return status, output, errors

    before, loader = files(grubby), loader_of(fail_at_last)
    originals = loader.originals()
    with pytest.raises(BootLoaderError, match="no space left"):
        loader.apply(originals, ["rcu_nocbs=all"], [], NOTHING)
    assert files(grubby) == before


@pytest.mark.parametrize("grubby", ["quoted"], indirect=True)
def test_a_record_of_an_earlier_version_is_restored(grubby):
    """It has neither the list of files that grubby has made nor those that do not exist."""
    before, loader = files(grubby), loader_of(grubby)
    originals = loader.originals()
    loader.apply(originals, ["rcu_nocbs=all"], [], NOTHING)
    del originals["made"]
    originals["files"] = {path: text for path, text in originals["files"].items() if text is not None}
    originals["left"] = {path: left for path, left in originals["left"].items() if left != "absent"}
    assert loader.restore(originals, Words(["rcu_nocbs=all"], [])) == []
    assert files(grubby) == before


def test_an_argument_that_somebody_else_wrote_into_the_defaults_is_named(grubby):
    loader = loader_of(grubby)
    originals = loader.originals()
    loader.apply(originals, ["rcu_nocbs=all"], [], NOTHING)
    grubenv = grubby.root / "boot" / "grub2" / "grubenv"
    grubenv.parent.mkdir()
    grubenv.write_text("# GRUB Environment Block\nkernelopts=root=/dev/sda1 rcu_nocbs=all\n", encoding="utf-8")
    assert loader.restore(originals, Words(["rcu_nocbs=all"], [])) == [
        f"{grubenv} still has rcu_nocbs=all; remove it, because future kernels would get it"
    ]


def test_a_grubenv_that_is_a_symbolic_link_stays_one(grubby):
    """On UEFI systems of Red Hat /boot/grub2/grubenv leads to the EFI system partition."""
    kept = grubby.root / "boot" / "efi" / "EFI" / "redhat" / "grubenv"
    link = grubby.root / "boot" / "grub2" / "grubenv"
    kept.parent.mkdir(parents=True)
    kept.write_text("# GRUB Environment Block\nsaved_entry=0\n", encoding="utf-8")
    link.parent.mkdir()
    link.symlink_to("../efi/EFI/redhat/grubenv")
    loader = loader_of(grubby)
    originals = loader.originals()
    grubby.broken = 1
    with pytest.raises(BootLoaderError):
        loader.apply(originals, ["rcu_nocbs=all"], [], NOTHING)
    grubby.broken = None
    loader.apply(originals, ["rcu_nocbs=all"], [], NOTHING)
    loader.restore(originals, Words(["rcu_nocbs=all"], []))
    assert link.is_symlink() and kept.read_text(encoding="utf-8") == "# GRUB Environment Block\nsaved_entry=0\n"
    assert sorted(kept.parent.iterdir()) == [kept] and list(link.parent.iterdir()) == [link]


def test_a_new_file_gets_mode_and_owner_of_the_one_that_it_is_like(tmp_path):
    menu, kept = tmp_path / "grub.cfg", tmp_path / "grub.cfg.memstretch-original"
    menu.write_text("password_pbkdf2 root hash\n", encoding="ascii")
    menu.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(menu, 0, 4)
    boot_loader.replace_text(str(kept), "password_pbkdf2 root hash\n", like=str(menu))
    boot_loader.replace_text(str(menu), "new\n")
    for path in (kept, menu):
        status = path.stat()
        assert stat.S_IMODE(status.st_mode) == 0o640
        assert (status.st_uid, status.st_gid) == ((0, 4) if os.geteuid() == 0 else (os.geteuid(), os.getegid()))
