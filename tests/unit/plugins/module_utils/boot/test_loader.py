# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shell of the drop-in, and the reading of menus. That a menu is made, booted from and put back is shown by molecule/host."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.boot import loader as bl

MENU = """\
### BEGIN /etc/grub.d/10_linux ###
menuentry 'Debian GNU/Linux' {
\tlinux\t/boot/vmlinuz-6.1.0-56-amd64 root=UUID=c588ba0c ro  quiet
\tinitrd\t/boot/initrd.img-6.1.0-56-amd64
}
submenu 'Advanced options' {
\t\tlinux\t/boot/vmlinuz-6.1.0-56-amd64 root=UUID=c588ba0c ro single
}
### END /etc/grub.d/10_linux ###
### BEGIN /etc/grub.d/30_os-prober ###
\tlinux /boot/vmlinuz-of-another-system root=/dev/sdb1
### END /etc/grub.d/30_os-prober ###
"""


def cmdlines(drop_in, linux, default):
    """What grub-mkconfig would get from the drop-in, read as it reads it: by sh, with set -e."""
    script = (
        f"set -e\nGRUB_CMDLINE_LINUX={shlex.quote(linux)}\nGRUB_CMDLINE_LINUX_DEFAULT={shlex.quote(default)}\n{drop_in}\n"
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
        (["a=1"], [], "b=* c", "quiet", ["b=* c a=1", "quiet"]),  # no file names for the star
        (["a=1"], [], "aa=2", "a1", ["aa=2 a=1", "a1"]),
    ],
)
def test_drop_in(arguments, removed, linux, default, expected):
    lines = cmdlines(bl.Grub.text(arguments, removed), linux, default)
    assert [line.strip() for line in lines] == expected


def test_drop_in_does_not_need_the_variables_to_be_set():
    script = "set -e\n" + bl.Grub.text(["a=1"], ["b"]) + 'echo "$GRUB_CMDLINE_LINUX"'
    assert subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True).stdout == " a=1\n"


def test_without_arguments_there_is_no_drop_in():
    assert bl.Grub.text([], []) == ""


def test_entries_of_this_system_alone(tmp_path):
    (tmp_path / "grub.cfg").write_text(MENU, encoding="utf-8")
    loader = bl.Grub(None, lambda name: None, boot=str(tmp_path))
    assert [tuple(entry) for entry in loader.entries()] == [
        ("/boot/vmlinuz-6.1.0-56-amd64", "root=UUID=c588ba0c ro  quiet"),
        ("/boot/vmlinuz-6.1.0-56-amd64", "root=UUID=c588ba0c ro single"),
    ]
    assert bl.problems(loader.entries(), ["quiet"], ["single"]) == [
        "/boot/vmlinuz-6.1.0-56-amd64: quiet is missing",
        "/boot/vmlinuz-6.1.0-56-amd64: single is there",
    ]


def test_names_the_file_that_has_the_last_word(tmp_path):
    directory = tmp_path / "grub.d"
    directory.mkdir()
    for name in ("50-cloud.cfg", "zzz-vendor.cfg"):
        (directory / name).write_text('GRUB_CMDLINE_LINUX="vendor"\n', encoding="utf-8")
    (directory / "zzz-theme.cfg").write_text("GRUB_THEME=x\n", encoding="utf-8")
    loader = bl.Grub(None, lambda name: None, defaults=str(tmp_path))
    assert (
        loader.blame()
        == f"{directory}/zzz-vendor.cfg is read after {directory}/zz-memstretch.cfg and sets GRUB_CMDLINE_LINUX"
    )


class Generator:
    """Stands for grub-mkconfig where only what is done around it is of interest: its end, and its output file."""

    def __init__(self, menu, status=0):
        self.menu, self.status, self.seen = menu, status, None

    def __call__(self, words):
        with open(words[2], "w", encoding="utf-8") as file:
            file.write(self.menu)
        return self.status, "", "no such disk"


@pytest.fixture
def grub(tmp_path):
    (tmp_path / "boot" / "grub").mkdir(parents=True)
    (tmp_path / "boot" / "grub" / "grub.cfg").write_text(MENU, encoding="utf-8")
    (tmp_path / "boot" / "grub" / "grub.cfg").chmod(0o600)

    def make(generator):
        return bl.Grub(
            generator,
            lambda name: "/bin/true",
            boot=str(tmp_path / "boot" / "grub"),
            defaults=str(tmp_path / "default"),
        )

    return make


def tree(path):
    return sorted(
        (str(file.relative_to(path)), file.read_bytes(), oct(file.stat().st_mode))
        for file in path.rglob("*")
        if file.is_file()
    )


@pytest.mark.parametrize(
    "generator, text",
    [
        (Generator("half", status=1), "ended with 1.*no such disk"),
        (Generator("an empty menu"), "has no entry from /etc/grub.d/10_linux"),
        (Generator(MENU), "a=1 is missing"),
    ],
)
def test_a_menu_that_is_not_right_changes_nothing(grub, tmp_path, generator, text):
    before = tree(tmp_path)
    with pytest.raises(bl.BootLoaderError, match=f"(?s){text}"):
        grub(generator).apply({}, ["a=1"], [])
    assert tree(tmp_path) == before


def test_apply_and_restore_leave_every_byte_as_it_was(grub, tmp_path):
    with open(tmp_path / "boot" / "grub" / "grub.cfg", "a", encoding="latin-1") as file:
        file.write("# Menü\n")
    before = tree(tmp_path)
    originals = json.loads(json.dumps(grub(None).prepare()))
    loader = grub(Generator(MENU.replace("quiet", "quiet a=1").replace("single", "single a=1")))
    loader.apply(originals, ["a=1"], [])
    assert bl.problems(loader.entries(), ["a=1"], []) == []
    assert len(tree(tmp_path)) == 2
    assert loader.base(originals, ["a=1"])[0].words[-1] == "quiet"
    assert loader.restore(originals) == []
    assert tree(tmp_path) == before
    assert not (tmp_path / "default" / "grub.d").exists()


def test_a_menu_that_was_edited_by_hand_is_told_and_put_back(grub, tmp_path):
    (tmp_path / "boot" / "grub" / "grub.cfg").write_text(MENU + "set timeout=30\n", encoding="utf-8")
    before = tree(tmp_path)
    loader = grub(Generator(MENU.replace("quiet", "quiet a=1").replace("single", "single a=1")))
    originals = loader.prepare()
    assert "was edited by hand" in loader.apply(originals, ["a=1"], [])[0]
    assert loader.restore(originals) == []
    assert tree(tmp_path) == before


def test_a_new_kernel_has_the_menu_made_anew(grub, tmp_path):
    loader = grub(Generator(MENU.replace("quiet", "quiet a=1").replace("single", "single a=1")))
    originals = loader.prepare()
    loader.apply(originals, ["a=1"], [])
    (tmp_path / "boot" / "vmlinuz-6.1.0-57-amd64").write_text("", encoding="utf-8")
    new = MENU.replace("6.1.0-56", "6.1.0-57")
    loader = grub(Generator(new))
    assert "was made anew" in loader.restore(originals)[0]
    assert (tmp_path / "boot" / "grub" / "grub.cfg").read_text(encoding="utf-8") == new
