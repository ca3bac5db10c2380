# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of a kernel command line: what they are called, which ones may be changed, and what a change makes of a line.

Two words name the same argument when they are equal up to the first C(=), where C(-) and C(_) are one, as for the kernel.
"""

from __future__ import annotations

import re
import typing as t

# No blanks, quotes or anything that means something to a shell or to the language of GRUB's menu.
ARGUMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(=[A-Za-z0-9_.,:/@%+=!-]*)?")
ARGUMENT_RULE = (
    "it takes NAME or NAME=VALUE, the name of letters, digits, '_', '.' and '-', the value of these and ',', ':', '/', '@', '%', "
    "'+', '=' and '!'"
)
# The boot loader writes these itself, from the disk that the system is on: a change would not last, or the host would not boot.
NOT_OURS = {"BOOT_IMAGE", "initrd", "root", "rootfstype", "ro", "rw", "init"}


class ArgumentError(ValueError):
    """An argument that cannot be used; the text is for the user."""


def words(line: str) -> list[str]:
    """Split a command line as the kernel does: at blanks, but not within double quotes; what follows C(--) is not the kernel's."""
    found = re.findall(r'(?:[^\s"]|"[^"]*"?)+', line)
    return found[: found.index("--")] if "--" in found else found


def name(word: str) -> str:
    """What an argument is called."""
    return word.strip('"').partition("=")[0].replace("-", "_")


def check(option: str, arguments: t.Sequence[str]) -> None:
    """Refuse what cannot stand on a command line."""
    for argument in arguments:
        if not ARGUMENT.fullmatch(argument):
            raise ArgumentError(f"{option}: {argument!r} is not allowed; {ARGUMENT_RULE}")
        if name(argument) in NOT_OURS:
            raise ArgumentError(f"{option}: {argument!r} is not allowed: the boot loader sets {name(argument)} itself")


def check_both(arguments: t.Sequence[str], removed: t.Sequence[str]) -> None:
    """Refuse two lists that contradict each other or themselves."""
    check("arguments", arguments)
    check("removed", removed)
    for argument in arguments:
        if is_removed(argument, removed):
            raise ArgumentError(f"removed: {argument!r} stands in the option arguments too; name it in one of the two")
    for argument in arguments:
        if list(arguments).count(argument) > 1:
            raise ArgumentError(
                f"arguments: {argument!r} is named {list(arguments).count(argument)} times; name it once"
            )


def is_removed(word: str, removed: t.Iterable[str]) -> bool:
    """Does the list take this word away? NAME takes every value of it away, NAME=VALUE that value alone."""
    return any(
        name(word) == name(entry) and ("=" not in entry or word.partition("=")[2] == entry.partition("=")[2])
        for entry in removed
    )


def changed(line: t.Sequence[str], arguments: t.Sequence[str], removed: t.Sequence[str]) -> list[str]:
    """What the words of a command line become."""
    names = {name(argument) for argument in arguments}
    return [word for word in line if name(word) not in names and not is_removed(word, removed)] + list(arguments)


def problems(line: t.Sequence[str], arguments: t.Sequence[str], removed: t.Sequence[str]) -> list[str]:
    """What is not so on a command line: a text for each name."""
    found = []
    for one in dict.fromkeys(name(argument) for argument in arguments):
        wanted = [argument for argument in arguments if name(argument) == one]
        there = [word for word in line if name(word) == one]
        # Equal up to the way the name is written.
        if [word.partition("=")[1:] for word in there] != [word.partition("=")[1:] for word in wanted]:
            found.append(f"{' '.join(wanted)} is missing" + (f" ({' '.join(there)} is there)" if there else ""))
    return found + [f"{word} is there" for word in line if is_removed(word, removed)]
