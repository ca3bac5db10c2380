# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of a kernel command line: their names, which of them may be changed, and how a change affects a line.

Two words name the same argument if they are equal up to the first C(=). As for the kernel, C(-) and C(_) are the same.
"""

from __future__ import annotations

import re
import typing as t

# No blanks, no quotes, and no characters with a meaning in a shell or in GRUB's menu.
ARGUMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(=[A-Za-z0-9_.,:/@%+=!-]*)?")
ARGUMENT_RULE = (
    "it must be NAME or NAME=VALUE; a name has letters, digits, '_', '.' and '-', a value also ',', ':', '/', '@', "
    "'%', '+', '=' and '!'"
)
# The boot loader sets these from the disk that the system is on: a change would not last, or the host would not boot.
BOOT_LOADER_ARGUMENTS = {"BOOT_IMAGE", "initrd", "root", "rootfstype", "ro", "rw", "init"}


# hugepages= is about the size that the last hugepagesz= before it has named, so these belong together, in their order.
_REPEATED = {"hugepagesz", "hugepages"}
_TOGETHER = {"default_hugepagesz": "hugepages", "hugepagesz": "hugepages"}


class ArgumentError(ValueError):
    """An argument cannot be used; the message is for the user."""


def words(line: str) -> list[str]:
    """Split a command line as the kernel does: at blanks outside of double quotes, and only up to C(--)."""
    found = re.findall(r'(?:[^\s"]|"[^"]*"?)+', line)
    return found[: found.index("--")] if "--" in found else found


def name(word: str) -> str:
    """Return the name of an argument."""
    return word.strip('"').partition("=")[0].replace("-", "_")


def subject(word: str) -> str:
    """Return the subject of an argument. The arguments with one subject are set together, and their order counts."""
    return _TOGETHER.get(name(word), name(word))


def about(line: t.Iterable[str], one: str) -> list[str]:
    """Return the words of a command line with a subject, in their order."""
    return [word for word in line if subject(word) == one]


def replaced_names(arguments: t.Iterable[str]) -> list[str]:
    """Return the names, as they are written, of all arguments that these replace."""
    found = []
    for argument in arguments:
        found.append(argument.partition("=")[0])
        found += [other for other, one in _TOGETHER.items() if one == subject(argument)]
        found += [subject(argument)] if subject(argument) != name(argument) else []
    return list(dict.fromkeys(found))


def same(line: t.Sequence[str], other: t.Sequence[str]) -> bool:
    """Check whether two command lines mean the same: each subject has the same words in the same order."""
    subjects = {subject(word) for word in [*line, *other]}
    return all(about(line, one) == about(other, one) for one in subjects)


def check(option: str, arguments: t.Sequence[str]) -> None:
    """Raise ArgumentError for an argument that is not allowed."""
    for argument in arguments:
        if not ARGUMENT.fullmatch(argument):
            raise ArgumentError(f"{option}: {argument!r} is not allowed; {ARGUMENT_RULE}")
        if name(argument) in BOOT_LOADER_ARGUMENTS:
            raise ArgumentError(f"{option}: {argument!r} is not allowed: the boot loader sets {name(argument)} itself")


def check_both(arguments: t.Sequence[str], removed: t.Sequence[str]) -> None:
    """Raise ArgumentError for an argument that is not allowed, or that is in both lists or twice in one."""
    check("arguments", arguments)
    check("removed", removed)
    for argument in arguments:
        if is_removed(argument, removed):
            raise ArgumentError(f"removed: {argument!r} is in the option arguments too; name it in only one of them")
    for argument in arguments:
        if list(arguments).count(argument) > 1 and name(argument) not in _REPEATED:
            raise ArgumentError(
                f"arguments: {argument!r} is named {list(arguments).count(argument)} times; name it once"
            )


def is_removed(word: str, removed: t.Iterable[str]) -> bool:
    """Check whether the list removes a word: NAME removes it with any value, NAME=VALUE only with that value."""
    return any(
        name(word) == name(entry) and ("=" not in entry or word.partition("=")[2] == entry.partition("=")[2])
        for entry in removed
    )


def changed(line: t.Sequence[str], arguments: t.Sequence[str], removed: t.Sequence[str]) -> list[str]:
    """Return the words of a command line after a change."""
    subjects = {subject(argument) for argument in arguments}
    return [word for word in line if subject(word) not in subjects and not is_removed(word, removed)] + list(arguments)


class Words(t.NamedTuple):
    """The arguments that a change adds to a command line and removes from it."""

    added: t.Sequence[str]
    removed: t.Sequence[str]


def undone(line: t.Sequence[str], original: t.Sequence[str], ours: Words) -> list[str]:
    """Return the words of a command line without our change, and with the changes that others have made since.

    Args:
        line: the present words.
        original: the words before our change.
        ours: what we have added and removed.
    """
    kept = [word for word in line if word in original or word not in ours.added]
    subjects = {subject(word) for word in ours.added}
    for word in original:
        one = subject(word)
        values = about(kept, one)
        # If another value was set since, that one counts.
        if word in kept or not (one in subjects or is_removed(word, ours.removed)) or not set(values) <= set(original):
            continue
        # The order counts for an argument with several values, such as console.
        kept = [other for other in kept if subject(other) != one]
        kept += [other for other in about(original, one) if other in [*values, word]]
    for one in subjects:
        # The same words in another order are ours, too.
        if sorted(about(kept, one)) == sorted(about(original, one)) != about(kept, one):
            kept = [word for word in kept if subject(word) != one] + about(original, one)
    return list(original) if sorted(kept) == sorted(original) and same(kept, original) else kept


def problems(line: t.Sequence[str], arguments: t.Sequence[str], removed: t.Sequence[str]) -> list[str]:
    """Return the differences between a command line and the wanted arguments, one message for each."""
    found = []
    for one in dict.fromkeys(map(subject, arguments)):
        wanted, present = about(arguments, one), about(line, one)
        # The spelling of the name may differ.
        if [(name(word), word.partition("=")[1:]) for word in present] != [
            (name(word), word.partition("=")[1:]) for word in wanted
        ]:
            found.append(f"{' '.join(wanted)} is missing" + (f" (present: {' '.join(present)})" if present else ""))
    return found + [f"{word} is present" for word in line if is_removed(word, removed)]
