# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Red Hat's family, with a model of grubby: no distribution that this runs on has the real one.

The model does to files of the BootLoader Specification what grubby's manual and its script for such files (grubby-bls) say: --info=ALL lists
the entries, newest first; --update-kernel takes a path or ALL; arguments are taken away before others are added; one that is added
takes the place of those with its name; ALL reaches /etc/kernel/cmdline, for kernels to come, too.
"""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.boot import loader as bl

NEW, OLD = "/boot/vmlinuz-5.14.0-503.el9.x86_64", "/boot/vmlinuz-5.14.0-427.el9.x86_64"
LINE = "root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M,4G-64G:256M console=tty0 console=ttyS0 quiet"


class Grubby:
    """The model. Set `broken` to the number of the update that fails, counted from 1."""

    def __init__(self, root, quoted=True):
        self.root, self.quote, self.broken, self.updates = root, '"' if quoted else "", None, 0
        self.entries = root / "boot" / "loader" / "entries"
        self.cmdline = root / "etc" / "kernel" / "cmdline"
        self.entries.mkdir(parents=True)
        self.cmdline.parent.mkdir(parents=True)
        self.cmdline.write_text(LINE + "\n", encoding="utf-8")
        for kernel in (OLD, NEW):
            self.install(kernel, LINE)

    def install(self, kernel, line):
        version = kernel.partition("-")[2]
        (self.entries / f"0123-{version}.conf").write_text(
            f"title Red Hat Enterprise Linux ({version})\nversion {version}\nlinux {kernel}\ninitrd /boot/initramfs-{version}.img\noptions {line}\n"
            "grub_users $grub_users\n",
            encoding="utf-8",
        )

    def lines(self):
        return {
            re.search(r"^linux (.*)$", text, re.M)[1]: re.search(r"^options (.*)$", text, re.M)[1]
            for text in (file.read_text(encoding="utf-8") for file in self.entries.iterdir())
        }

    def __call__(self, command):
        options = dict(word[2:].partition("=")[::2] for word in command[1:])
        if options == {"info": "ALL"}:
            mark = self.quote
            return (
                0,
                "".join(
                    f'index={index}\nkernel={mark}{kernel}{mark}\nargs="{line}"\nroot="x"\n'
                    for index, (kernel, line) in enumerate(sorted(self.lines().items(), reverse=True))
                ),
                "",
            )
        assert set(options) <= {"update-kernel", "args", "remove-args"}, command
        self.updates += 1
        if self.updates == self.broken:
            return 1, "", "cannot write"
        files = [
            file
            for file in self.entries.iterdir()
            if options["update-kernel"]
            in ("ALL", re.search(r"^linux (.*)$", file.read_text(encoding="utf-8"), re.M)[1])
        ]
        for file in files:
            text = file.read_text(encoding="utf-8")
            file.write_text(
                re.sub(r"^options (.*)$", lambda found: "options " + self.updated(found[1], options), text, flags=re.M),
                encoding="utf-8",
            )
        if options["update-kernel"] == "ALL":
            self.cmdline.write_text(
                self.updated(self.cmdline.read_text(encoding="utf-8").strip(), options) + "\n", encoding="utf-8"
            )
        return 0, "", ""

    @staticmethod
    def updated(line, options):
        words = [
            word
            for word in line.split()
            if not any(word == away or word.startswith(away + "=") for away in options.get("remove-args", "").split())
        ]
        added = options.get("args", "").split()
        return " ".join(
            [word for word in words if word.partition("=")[0] not in {new.partition("=")[0] for new in added}] + added
        )


@pytest.fixture(params=[True, False], ids=["quoted", "bare"])
def grubby(request, tmp_path, monkeypatch):
    monkeypatch.setattr(bl.Grubby, "FILES", [str(tmp_path / name.lstrip("/")) for name in bl.Grubby.FILES])
    return Grubby(tmp_path, quoted=request.param)


def loader_of(model):
    return bl.Grubby(model, lambda name: "/usr/sbin/grubby")


def files(model):
    return {str(file.relative_to(model.root)): file.read_bytes() for file in model.root.rglob("*") if file.is_file()}


def test_it_is_chosen_where_it_is_there():
    assert isinstance(
        bl.find(None, {"grubby": "/usr/sbin/grubby", "grub-mkconfig": "/usr/sbin/grub-mkconfig"}.get), bl.Grubby
    )


def test_apply_and_restore_leave_every_byte_as_it_was(grubby):
    before = files(grubby)
    loader = loader_of(grubby)
    originals = json.loads(json.dumps(loader.prepare()))
    assert [entry.kernel for entry in loader.entries()] == [NEW, OLD]
    loader.apply(originals, ["rcu_nocbs=0-3,5", "nvme.io_queue_depth=64"], ["quiet"])
    wanted = LINE.replace(" quiet", "") + " rcu_nocbs=0-3,5 nvme.io_queue_depth=64"
    assert grubby.lines() == {NEW: wanted, OLD: wanted}
    assert grubby.cmdline.read_text(encoding="utf-8") == wanted + "\n"
    assert loader.restore(json.loads(json.dumps(originals))) == []
    assert files(grubby) == before


def test_another_profile_starts_from_the_originals(grubby):
    loader = loader_of(grubby)
    originals = loader.prepare()
    loader.apply(originals, ["rcu_nocbs=all", "console=ttyS1"], ["quiet"])
    loader.apply(originals, ["nvme.io_queue_depth=64"], [])
    for line in grubby.lines().values():
        assert sorted(line.split()) == sorted(LINE.split() + ["nvme.io_queue_depth=64"])
    assert bl.problems(loader.entries(), ["nvme.io_queue_depth=64"], ["rcu_nocbs"]) == []


def test_entries_that_differ_keep_their_differences(grubby):
    grubby.install(OLD, LINE + " rcu_nocbs=0-1 single")
    before = files(grubby)
    loader = loader_of(grubby)
    originals = loader.prepare()
    loader.apply(originals, ["rcu_nocbs=all"], [])
    assert grubby.lines() == {NEW: LINE + " rcu_nocbs=all", OLD: LINE + " single rcu_nocbs=all"}
    loader.restore(originals)
    assert files(grubby) == before


def test_a_kernel_that_came_later_loses_what_we_added(grubby):
    loader = loader_of(grubby)
    originals = loader.prepare()
    loader.apply(originals, ["rcu_nocbs=all"], [])
    newer = "/boot/vmlinuz-5.14.0-570.el9.x86_64"
    grubby.install(newer, grubby.cmdline.read_text(encoding="utf-8").strip())
    assert grubby.lines()[newer].endswith("rcu_nocbs=all")
    loader.restore(originals)
    assert grubby.lines() == {NEW: LINE, OLD: LINE, newer: LINE}
    assert grubby.cmdline.read_text(encoding="utf-8").strip() == LINE


@pytest.mark.parametrize("broken", [1, 2])
def test_a_grubby_that_fails_half_way_leaves_what_was(grubby, broken):
    grubby.install(OLD, LINE + " single")
    grubby.broken = broken
    before = files(grubby)
    loader = loader_of(grubby)
    with pytest.raises(bl.BootLoaderError, match="cannot write.*The kernel command line is as it was before"):
        loader.apply(loader.prepare(), ["rcu_nocbs=all"], ["single"])
    assert files(grubby) == before
