# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB: the shell code of the drop-in, the menu, apply and restore. Red Hat: the same with a model of grubby.

molecule/host generates, boots and restores real menus.
"""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.boot import loader as boot_loader
from ansible_collections.memstretch.density.tests.unit.fixtures.boot_loaders import MENU, Generator, GrubbyModel


def cmdlines(drop_in, linux, default):
    """Return what grub-mkconfig gets from the drop-in, which it reads with sh and set -e."""
    script = (
        f"set -e\nGRUB_CMDLINE_LINUX={shlex.quote(linux)}\n"
        f"GRUB_CMDLINE_LINUX_DEFAULT={shlex.quote(default)}\n{drop_in}\n"
        'printf \'%s\\n%s\\n\' "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT"'
    )
    return subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True, cwd="/").stdout.splitlines()


@pytest.mark.parametrize(
    "arguments, removed, linux, default, expected",
    [
        (["rcu_nocbs=all"], [], "console=ttyS0", "quiet", ["console=ttyS0 rcu_nocbs=all", "quiet"]),
        (["rcu_nocbs=all"], [], "rcu-nocbs=0-3 a", "rcu_nocbs quiet", ["a rcu_nocbs=all", "quiet"]),
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
    assert [tuple(entry) for entry in loader.entries()] == [
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
        (Generator("half", status=1), "ended with status 1;.*no such disk"),
        (Generator("an empty menu"), "has no entry from /etc/grub.d/10_linux"),
        (Generator(MENU), "a=1 is missing"),
    ],
)
def test_a_wrong_menu_changes_nothing(grub, tmp_path, generator, text):
    before = tree(tmp_path)
    with pytest.raises(boot_loader.BootLoaderError, match=f"(?s){text}"):
        grub(generator).apply({}, ["a=1"], [])
    assert tree(tmp_path) == before


def test_grub_is_restored_byte_for_byte(grub, tmp_path):
    with open(tmp_path / "boot" / "grub" / "grub.cfg", "a", encoding="latin-1") as file:
        file.write("# Menü\n")
    before = tree(tmp_path)
    originals = json.loads(json.dumps(grub(None).originals()))
    loader = grub(Generator(MENU.replace("quiet", "quiet a=1").replace("single", "single a=1")))
    loader.apply(originals, ["a=1"], [])
    assert boot_loader.problems(loader.entries(), ["a=1"], []) == []
    assert len(tree(tmp_path)) == 2
    assert loader.original_entries(originals, ["a=1"])[0].words[-1] == "quiet"
    assert loader.restore(originals) == []
    assert tree(tmp_path) == before
    assert not (tmp_path / "default" / "grub.d").exists()


def test_a_menu_that_was_edited_by_hand_is_reported_and_restored(grub, tmp_path):
    (tmp_path / "boot" / "grub" / "grub.cfg").write_text(MENU + "set timeout=30\n", encoding="utf-8")
    before = tree(tmp_path)
    loader = grub(Generator(MENU.replace("quiet", "quiet a=1").replace("single", "single a=1")))
    originals = loader.originals()
    assert "was edited by hand" in loader.apply(originals, ["a=1"], [])[0]
    assert loader.restore(originals) == []
    assert tree(tmp_path) == before


def test_the_menu_is_generated_again_after_a_new_kernel(grub, tmp_path):
    loader = grub(Generator(MENU.replace("quiet", "quiet a=1").replace("single", "single a=1")))
    originals = loader.originals()
    loader.apply(originals, ["a=1"], [])
    (tmp_path / "boot" / "vmlinuz-6.1.0-57-amd64").write_text("", encoding="utf-8")
    new = MENU.replace("6.1.0-56", "6.1.0-57")
    loader = grub(Generator(new))
    assert "was generated again" in loader.restore(originals)[0]
    assert (tmp_path / "boot" / "grub" / "grub.cfg").read_text(encoding="utf-8") == new


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
    loader.apply(originals, ["rcu_nocbs=0-3,5", "nvme.io_queue_depth=64"], ["quiet"])
    wanted = GrubbyModel.LINE.replace(" quiet", "") + " rcu_nocbs=0-3,5 nvme.io_queue_depth=64"
    assert grubby.lines() == {GrubbyModel.NEW: wanted, GrubbyModel.OLD: wanted}
    assert grubby.cmdline.read_text(encoding="utf-8") == wanted + "\n"
    assert loader.restore(json.loads(json.dumps(originals))) == []
    assert files(grubby) == before


def test_another_set_of_arguments_starts_from_the_originals(grubby):
    loader = loader_of(grubby)
    originals = loader.originals()
    loader.apply(originals, ["rcu_nocbs=all", "console=ttyS1"], ["quiet"])
    loader.apply(originals, ["nvme.io_queue_depth=64"], [])
    for line in grubby.lines().values():
        assert sorted(line.split()) == sorted(GrubbyModel.LINE.split() + ["nvme.io_queue_depth=64"])
    assert boot_loader.problems(loader.entries(), ["nvme.io_queue_depth=64"], ["rcu_nocbs"]) == []


def test_different_entries_stay_different(grubby):
    grubby.install(GrubbyModel.OLD, GrubbyModel.LINE + " rcu_nocbs=0-1 single")
    before = files(grubby)
    loader = loader_of(grubby)
    originals = loader.originals()
    loader.apply(originals, ["rcu_nocbs=all"], [])
    assert grubby.lines() == {
        GrubbyModel.NEW: GrubbyModel.LINE + " rcu_nocbs=all",
        GrubbyModel.OLD: GrubbyModel.LINE + " single rcu_nocbs=all",
    }
    loader.restore(originals)
    assert files(grubby) == before


def test_our_arguments_are_removed_from_a_kernel_that_was_installed_later(grubby):
    loader = loader_of(grubby)
    originals = loader.originals()
    loader.apply(originals, ["rcu_nocbs=all"], [])
    newer = "/boot/vmlinuz-5.14.0-570.el9.x86_64"
    grubby.install(newer, grubby.cmdline.read_text(encoding="utf-8").strip())
    assert grubby.lines()[newer].endswith("rcu_nocbs=all")
    loader.restore(originals)
    assert grubby.lines() == {
        GrubbyModel.NEW: GrubbyModel.LINE,
        GrubbyModel.OLD: GrubbyModel.LINE,
        newer: GrubbyModel.LINE,
    }
    assert grubby.cmdline.read_text(encoding="utf-8").strip() == GrubbyModel.LINE


@pytest.mark.parametrize("broken", [1, 2])
def test_a_failing_grubby_changes_nothing(grubby, broken):
    grubby.install(GrubbyModel.OLD, GrubbyModel.LINE + " single")
    grubby.broken = broken
    before = files(grubby)
    loader = loader_of(grubby)
    with pytest.raises(boot_loader.BootLoaderError, match="cannot write.*The kernel command line is as it was before"):
        loader.apply(loader.originals(), ["rcu_nocbs=all"], ["single"])
    assert files(grubby) == before
