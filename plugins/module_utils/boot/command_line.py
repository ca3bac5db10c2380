# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel command line of a host: what has to change, the change and its record, and the verification."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.boot import arguments as boot_arguments
from ansible_collections.memstretch.density.plugins.module_utils.boot.arguments import Words
from ansible_collections.memstretch.density.plugins.module_utils.boot.loader import (
    Entry,
    Grub,
    Grubby,
    problems,
    read_text,
)
from ansible_collections.memstretch.density.plugins.module_utils.boot.rollback import (
    BootLoaderError,
    UnfinishedChangeError,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.files import write_file
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord

# The names of restored arguments, kept until the next boot, because the running kernel still has our values.
PENDING = "/run/memstretch-kernel_cmdline.json"


class CommandLineError(Exception):
    """The command line cannot be changed or is wrong; the message is for the user."""


class CommandLine:
    """The kernel command line of a host, and the arguments to add and remove. Empty lists restore the original.

    Args:
        loader: the boot loader of the host.
        arguments: arguments to add.
        removed: arguments to remove.
        record: the record of the original configuration.
        pending: path of the file with the names of restored arguments.
    """

    def __init__(
        self,
        loader: Grub | Grubby,
        arguments: t.Sequence[str],
        removed: t.Sequence[str],
        record: HostRecord | None = None,
        pending: str = PENDING,
    ) -> None:
        self.loader, self.arguments, self.removed = loader, list(arguments), list(removed)
        self._record = record or HostRecord("kernel_cmdline")
        self._pending = pending
        self._data = self._usable_record()

    def _usable_record(self) -> dict[str, t.Any] | None:
        """Return the record. Raises CommandLineError if it is for another boot loader."""
        stranded = stranded_record(self._record, self.loader)
        if stranded:
            raise CommandLineError(stranded)
        return self._record.read()

    @property
    def restoring(self) -> bool:
        """Check whether the original configuration is wanted."""
        return not self.arguments and not self.removed

    def change_needed(self) -> bool:
        """Check whether the configuration or the record has to change."""
        drop_in = self.loader.drop_in_text()
        if self.restoring:
            return bool(self._data or drop_in)
        wrong = problems(self.loader.entries(), self.arguments, self.removed)
        if not self._data and not drop_in:
            return bool(wrong)  # the arguments may be in the configuration without us
        if not self._data:
            return True  # a drop-in without its record, which change() refuses
        recorded = [self._data["arguments"], self._data["removed"]]
        return (
            bool(wrong)
            or recorded != [self.arguments, self.removed]
            or "earlier" in self._data
            or drop_in != self.loader.wanted_drop_in(self.arguments, self.removed)
        )

    def predicted_entries(self) -> list[Entry]:
        """Return the entries of the boot menu as they will be after the change.

        Raises CommandLineError if other settings would override ours, so that the change would be refused.
        """
        overridden = None if self.restoring else self.loader.overridden(self.arguments, self.removed)
        if overridden:
            raise CommandLineError(f"the generated boot menu would be wrong: {overridden}")
        originals = self._data["originals"] if self._data else {}
        return [
            Entry(entry.kernel, " ".join(boot_arguments.changed(entry.words, self.arguments, self.removed)))
            for entry in self.loader.original_entries(originals, self._ours())
        ]

    def _ours(self) -> Words:
        """Return our words that the boot loader may have: of the last run, and of a run before it if that failed.

        C(earlier) is in the record while a change is under way. It stays there if the change is cut off.
        """
        runs = [self._data, self._data.get("earlier", {})] if self._data else []
        return Words(
            [word for data in runs for word in data.get("arguments", [])],
            [word for data in runs for word in data.get("removed", [])],
        )

    def change(self) -> list[str]:
        """Apply the arguments or restore the original configuration, or leave everything as it is; return notes.

        Raises BootLoaderError, or UnfinishedChangeError if what was changed before an error cannot be undone.
        """
        with self._record.locked():
            self._data = self._usable_record()  # another process may have changed it before we got the lock
            if not self.change_needed():
                return []
            try:
                return self._restore() if self.restoring else self._apply()
            except UnfinishedChangeError:
                raise
            except BootLoaderError as error:
                raise BootLoaderError(f"the kernel command line is as it was before, because {error}") from error

    def _restore(self) -> list[str]:
        if self._data:
            write_file(self._pending, json.dumps(sorted(self.affected_names())) + "\n")
        notes = self.loader.restore(self._data["originals"] if self._data else {}, self._ours())
        self._record.remove()
        self._data = None
        return notes

    def _apply(self) -> list[str]:
        before = self._data
        if not before and self.loader.drop_in_text():
            raise CommandLineError(
                f"{self.loader.drop_in} was written by this module, but the record of the original configuration, "
                f"{self._record.path}, is missing; restore first (state=restored), which generates the boot menu "
                "without this file"
            )
        ours = self._ours()
        data = before or {"boot_loader": self.loader.NAME, "originals": self.loader.originals()}
        self._data = {
            **data,
            "arguments": self.arguments,
            "removed": self.removed,
            "names": sorted(self.affected_names()),
            "earlier": {"arguments": ours.added, "removed": ours.removed},
        }
        self._record.write(self._data)
        try:
            notes = self.loader.apply(self._data["originals"], self.arguments, self.removed, ours)
        except UnfinishedChangeError:
            raise  # the record has what is needed to continue or to restore
        except BootLoaderError:
            # The boot loader is as it was before, so the record must be too.
            if before:
                self._record.write(before)
            else:
                self._record.remove()
            raise
        del self._data["earlier"]
        self._record.write(self._data)
        return notes

    def affected_names(self) -> set[str]:
        """Return the names of all arguments that may differ between the running kernel and the menu because of us."""
        return {
            *map(boot_arguments.name, self.arguments),
            *map(boot_arguments.name, self.removed),
            *(self._data or {}).get("names", []),
            *json.loads(read_text(self._pending) or "[]"),
        }

    def expect_recorded(self) -> None:
        """If no arguments are given, expect those of the record."""
        if self.restoring and self._data:
            self.arguments, self.removed = self._data["arguments"], self._data["removed"]

    def menu_problems(self) -> list[str]:
        """List what is wrong in the boot loader's configuration."""
        entries = self.loader.entries()
        if not entries:
            return ["the boot menu has no entry for this system's kernels"]
        found = []
        wrong = problems(entries, self.arguments, self.removed)
        if wrong:
            found.append(f"the boot menu is wrong: {'; '.join(wrong)}; {self.loader.explain_override()}")
        drop_in = self.loader.drop_in_text()
        wanted_drop_in = self.loader.wanted_drop_in(self.arguments, self.removed)
        if not self._data:
            if drop_in:
                found.append(f"{self.loader.drop_in} exists without a record")
        elif [self._data["arguments"], self._data["removed"]] == [self.arguments, self.removed] and (
            drop_in != wanted_drop_in
        ):
            found.append(
                f"{self.loader.drop_in} was changed: the next kernel that is installed would get other arguments"
            )
        overridden = self.loader.overridden(self.arguments, self.removed) if drop_in == wanted_drop_in != "" else None
        if overridden and not wrong:
            found.append(f"the next kernel that is installed would get other arguments: {overridden}")
        return found

    def running_problems(self, running: str) -> list[str]:
        """List what is wrong on the command line of the running kernel."""
        return [
            f"the running kernel: {text}"
            for text in boot_arguments.problems(boot_arguments.words(running), self.arguments, self.removed)
        ]


def stranded_record(record: HostRecord, loader: Grub | Grubby | None) -> str | None:
    """Explain why the record cannot be used with the boot loader that this host has now; None if it can."""
    data = record.read()
    if data is None or (loader and data["boot_loader"] == loader.NAME):
        return None
    words = [*data["arguments"], *(f"{word} (removed)" for word in data["removed"])]
    return (
        f"{record.path} is for the boot loader {data['boot_loader']}, and this host now has "
        f"{loader.NAME if loader else 'no supported boot loader'}, so the change of its kernel command line "
        f"({' '.join(words)}) cannot be undone. Correct the kernel command line by hand, then discard the record: "
        "restore with host_tuning_forget: [kernel_cmdline] or, in the role kernel_cmdline, with kernel_cmdline_forget: "
        "true (the option forget of the module kernel_cmdline)"
    )


def forget_record(record: HostRecord, check_mode: bool) -> None:
    """Remove the record of a boot loader that this host no longer has."""
    if not check_mode:
        with record.locked():
            record.remove()


def reboot_required(entries: t.Sequence[Entry], running: str, names: t.Collection[str]) -> bool:
    """Check whether the running kernel and the first entry of the menu differ in the arguments with these names."""

    subjects = sorted({boot_arguments.subject(one) for one in names})

    def values(words: t.Sequence[str]) -> list[list[tuple[str, tuple[str, ...]]]]:
        return [
            [(boot_arguments.name(word), word.partition("=")[1:]) for word in boot_arguments.about(words, one)]
            for one in subjects
        ]

    return bool(entries) and values(entries[0].words) != values(boot_arguments.words(running))
