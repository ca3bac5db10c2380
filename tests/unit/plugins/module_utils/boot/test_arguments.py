# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of a kernel command line."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.boot import arguments as boot_arguments


def test_words_are_split_at_blanks_outside_of_quotes_up_to_the_arguments_of_init():
    line = 'root=/dev/vda1 ro  dyndbg="file a.c +p" quiet -- rcu_nocbs=1'
    assert boot_arguments.words(line) == ["root=/dev/vda1", "ro", 'dyndbg="file a.c +p"', "quiet"]


@pytest.mark.parametrize(
    "word, name", [("quiet", "quiet"), ("rcu-nocbs=all", "rcu_nocbs"), ("a=b=c", "a"), ('"x=1 2"', "x")]
)
def test_names(word, name):
    assert boot_arguments.name(word) == name


@pytest.mark.parametrize(
    "argument",
    ["", "a b", "a=b c", "a='b'", 'a="b"', "a=$(x)", "a=`x`", "a=b;c", "-a", "=b", "a=\\", "a=*", "a\nb", "a={}"],
)
def test_characters_with_a_meaning_in_shell_or_grub_are_refused(argument):
    with pytest.raises(boot_arguments.ArgumentError) as error:
        boot_arguments.check("arguments", [argument])
    assert str(error.value).startswith(f"arguments: {argument!r} is not allowed")


@pytest.mark.parametrize("argument", ["root=/dev/sda1", "ro", "init=/bin/sh", "BOOT_IMAGE=x", "initrd"])
def test_arguments_that_the_boot_loader_sets_are_refused(argument):
    with pytest.raises(boot_arguments.ArgumentError, match="boot loader sets"):
        boot_arguments.check("removed", [argument])


@pytest.mark.parametrize(
    "argument",
    [
        "nvme.io_queue_depth=64",
        "crashkernel=384M-:128M",
        "isolcpus=domain,managed_irq,1-3",
        "memmap=4G!8G",
        "quiet",
        "console=ttyS0,115200n8",
        "lapic=notscdeadline",
    ],
)
def test_common_arguments_are_allowed(argument):
    boot_arguments.check("arguments", [argument])


@pytest.mark.parametrize(
    "arguments, removed, text",
    [
        (["a=1"], ["a"], "is in the option arguments too"),
        (["a-b=1"], ["a_b=1"], "is in the option arguments too"),
        (["a", "a"], [], "named 2 times"),
    ],
)
def test_contradictory_lists_are_refused(arguments, removed, text):
    with pytest.raises(boot_arguments.ArgumentError, match=text):
        boot_arguments.check_both(arguments, removed)


def test_another_value_of_a_removed_argument_may_be_added():
    boot_arguments.check_both(["console=ttyS1"], ["console=ttyS0"])


@pytest.mark.parametrize(
    "arguments, removed, line",
    [
        (["b=2"], [], "a b=2"),
        (["b=1", "b=2"], [], "a b=1 b=2"),
        ([], ["b"], "a"),
        ([], ["b=0"], "a b=1"),
        ([], ["b=1"], "a"),
        (["c-d"], [], "a b=1 c-d"),
        ([], [], "a b=1"),
    ],
)
def test_a_changed_line_has_no_problems(arguments, removed, line):
    assert " ".join(boot_arguments.changed(["a", "b=1"], arguments, removed)) == line
    assert boot_arguments.problems(line.split(), arguments, removed) == []


@pytest.mark.parametrize(
    "line, problems",
    [
        ("b=1", ["b=2 is missing (present: b=1)", "x is present"]),
        ("b=2", []),
        ("b=1 b=2", ["b=2 is missing (present: b=1 b=2)"]),  # it is unknown which of them the kernel uses
        ("", ["b=2 is missing"]),
    ],
)
def test_problems(line, problems):
    assert (
        boot_arguments.problems(line.split() + (["x"] if "x is present" in problems else []), ["b=2"], ["x"])
        == problems
    )


@pytest.mark.parametrize(
    "present, original, added, removed, expected",
    [
        ("ro quiet a=1", "ro quiet", ["a=1"], [], "ro quiet"),
        ("ro a=2", "ro a=1 quiet", ["a=2"], ["quiet"], "ro a=1 quiet"),
        ("ro a=1", "ro a=1", ["a=1"], [], "ro a=1"),  # it was there before
        ("ro a=3", "ro a=1", ["a=2"], [], "ro a=3"),  # another value was set since
        ("ro a=2 more", "ro a=1", ["a=2"], [], "ro more a=1"),
        ("root=new a=2", "root=old a=1", ["a=2"], [], "root=new a=1"),
        ("ro", "ro a=1 b", ["a=2"], [], "ro a=1"),  # b was removed since, and our word too
        ("ro c=2", "ro c=1 c=2", [], ["c=1"], "ro c=1 c=2"),  # the last console is /dev/console: the order counts
        ("ro c=2 c=3", "ro c=1 c=2", [], ["c=1"], "ro c=2 c=3"),
        ("ro c=9 x", "ro c=1 c=2", ["c=9"], [], "ro x c=1 c=2"),
    ],
)
def test_a_change_is_undone_and_what_others_have_changed_stays(present, original, added, removed, expected):
    ours = boot_arguments.Words(added, removed)
    assert " ".join(boot_arguments.undone(present.split(), original.split(), ours)) == expected
