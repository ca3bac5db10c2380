# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot loaders whose kernel command lines can be changed, with one interface.

A boot loader returns its C(entries), its C(originals) before the first change, for the record, and its
C(original_entries), those without our arguments. C(apply) sets the arguments, all or none of them, and C(restore)
restores the originals. Whether a change is needed is decided in C(command_line).
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import stat
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.boot import arguments as boot_arguments
from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand
from ansible_collections.memstretch.density.plugins.module_utils.host.files import remove_file, write_file

Record = t.Dict[str, t.Any]
# AnsibleModule.get_bin_path: name of a program -> its path or None
FindProgram = t.Callable[[str], t.Optional[str]]

OUTPUT_LINES = 15
DROP_IN_HEAD = """\
# Managed by the Ansible module memstretch.density.kernel_cmdline: changes are overwritten.
# It removes arguments from the kernel command line that earlier files have set, and adds others.
"""


class BootLoaderError(Exception):
    """The boot loader cannot be changed; the message is for the user."""


class Entry(t.NamedTuple):
    """One entry of the boot menu."""

    kernel: str
    line: str

    @property
    def words(self) -> list[str]:
        """Return the arguments of the command line."""
        return boot_arguments.words(self.line)

    def without(self, added: t.Sequence[str]) -> Entry:
        """Return the entry without the arguments that were added."""
        return Entry(self.kernel, " ".join(word for word in self.words if word not in added))


def find(run_command: RunCommand, find_program: FindProgram) -> Grub | Grubby | None:
    """Return the boot loader of this host; None if it is not supported."""
    for kind in (Grubby, Grub):
        loader = kind(run_command, find_program)
        if loader.present():
            return loader
    return None


def problems(entries: t.Iterable[Entry], arguments: t.Sequence[str], removed: t.Sequence[str]) -> list[str]:
    """Return the differences between the boot menu and the wanted arguments, one message for each."""
    return [
        f"{entry.kernel}: {text}"
        for entry in entries
        for text in boot_arguments.problems(entry.words, arguments, removed)
    ]


def read_text(path: str) -> str | None:
    """Return the text of a file, with bytes that are not UTF-8 escaped; None if the file does not exist."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return None


def replace_text(path: str, text: str | None, mode: int = 0o644) -> None:
    """Write a file, with its present mode if it exists. If the text is None, remove the file."""
    if text is None:
        remove_file(path)
    else:
        write_file(path, text, stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else mode)


def digest(text: str | None) -> str:
    """Return a digest of a file's text; "absent" for None, a file that does not exist."""
    return "absent" if text is None else hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def tail(output: str) -> str:
    """Return the last lines of a program's output."""
    return "\n".join(output.strip().splitlines()[-OUTPUT_LINES:]) or "(no output)"


class Grub:
    """GRUB on Debian: grub-mkconfig generates the menu from /etc/default/grub, its drop-ins and /etc/grub.d."""

    NAME = "grub"

    def __init__(
        self,
        run_command: RunCommand,
        find_program: FindProgram,
        boot: str = "/boot/grub",
        defaults: str = "/etc/default",
    ) -> None:
        self.run_command = run_command
        self.generator = find_program("grub-mkconfig")
        self.boot, self.defaults = boot, defaults
        self.menu = os.path.join(boot, "grub.cfg")
        self.directory = os.path.join(defaults, "grub.d")
        # Its name sorts after the drop-ins of distributions and clouds, because the last one wins.
        self.drop_in = os.path.join(self.directory, "zz-memstretch.cfg")

    def present(self) -> bool:
        """Return whether this host boots with GRUB."""
        return bool(self.generator) and os.path.isfile(self.menu)

    def entries(self) -> list[Entry]:
        """Return the present entries of the menu."""
        return self._entries(read_text(self.menu) or "")

    @staticmethod
    def _entries(menu: str) -> list[Entry]:
        """Return the entries of this system's own kernels, without those that os-prober and administrators add."""
        section = re.search(r"^### BEGIN \S*/10_linux ###$(.*?)^### END \S*/10_linux ###$", menu, re.M | re.S)
        lines = re.findall(r"^\s*linux(?:efi|16)?\s+(\S+)[ \t]*(.*)$", section[1], re.M) if section else []
        return [Entry(kernel, line.strip()) for kernel, line in lines]

    def drop_in_text(self) -> str:
        """Return the present content of our drop-in, an empty string if it does not exist."""
        return read_text(self.drop_in) or ""

    @staticmethod
    def wanted_drop_in(arguments: t.Sequence[str], removed: t.Sequence[str]) -> str:
        """Return the content of our drop-in: shell that grub-mkconfig reads each time a kernel is installed."""
        patterns: list[str] = []
        for word in [*(argument.partition("=")[0] for argument in arguments), *removed]:
            shell = re.sub("[-_]", "[-_]", word.partition("=")[0])
            patterns += [shell + "=" + word.partition("=")[2]] if "=" in word else [shell, shell + "=*"]
        if not patterns:
            return ""
        return (
            DROP_IN_HEAD
            + f"""\
memstretch_without() (
    set -f
    kept=
    for word in $1; do
        case "$word" in
        {" | ".join(dict.fromkeys(patterns))}) ;;
        *) kept="$kept${{kept:+ }}$word" ;;
        esac
    done
    printf '%s' "$kept"
)
GRUB_CMDLINE_LINUX="$(memstretch_without "$GRUB_CMDLINE_LINUX"){"".join(" " + argument for argument in arguments)}"
GRUB_CMDLINE_LINUX_DEFAULT="$(memstretch_without "$GRUB_CMDLINE_LINUX_DEFAULT")"
"""
        )

    def originals(self) -> Record:
        """Return what must be recorded before the first change."""
        return {
            "menu": read_text(self.menu),
            "sources": self._sources(),
            "directory_was_there": os.path.isdir(self.directory),
        }

    def original_entries(self, originals: Record, added: t.Sequence[str]) -> list[Entry]:
        """Return the entries as they would be without our change."""
        if originals and originals["sources"] == self._sources():
            return self._entries(originals["menu"])
        return [entry.without(added) for entry in self.entries()]

    def apply(self, originals: Record, arguments: t.Sequence[str], removed: t.Sequence[str]) -> list[str]:
        """Set the arguments, all or none of them; return notes for the user."""
        self._change(self.wanted_drop_in(arguments, removed), lambda: self._check(self._generate(), arguments, removed))
        menu = read_text(self.menu) or ""
        if originals["sources"] == self._sources() and self._frame(originals["menu"]) != self._frame(menu):
            return [
                f"{self.menu} was older than its source files, or was edited by hand: generating it again has changed "
                "more than the kernel command line. A restore brings the old menu back."
            ]
        return []

    def restore(self, originals: Record) -> list[str]:
        """Restore the original menu byte for byte, or generate it if its source files have changed; return notes."""
        same = originals.get("sources") == self._sources()
        self._change("", lambda: originals["menu"] if same else self._generate())
        if (
            not originals.get("directory_was_there", True)
            and os.path.isdir(self.directory)
            and not os.listdir(self.directory)
        ):
            os.rmdir(self.directory)
        if same:
            return []
        return [
            f"{self.menu} was generated again instead of being restored: since the first change, its source files have "
            "changed (a kernel, GRUB, a file in /etc/default or in /etc/grub.d)"
        ]

    def _sources(self) -> str:
        """Return a digest of the menu's source files: all settings but ours, the scripts, and the names in /boot."""
        files = [
            os.path.join(self.defaults, "grub"),
            *glob.glob(os.path.join(self.directory, "*.cfg")),
            *glob.glob("/etc/grub.d/*"),
            self.generator or "",
            "/usr/share/grub/grub-mkconfig_lib",
        ]
        parts = [
            f"{path} {os.access(path, os.X_OK)} {digest(read_text(path))}"
            for path in sorted(files)
            if path != self.drop_in and os.path.isfile(path)
        ]
        return digest("\n".join(parts + sorted(os.listdir(os.path.dirname(self.boot)))))

    @staticmethod
    def _frame(menu: str) -> str:
        """Return a menu without its kernel command lines."""
        return re.sub(r"^(\s*linux(?:efi|16)?\s+\S+).*$", r"\1", menu, flags=re.M)

    def _change(self, text: str, make_menu: t.Callable[[], str]) -> None:
        """Write the drop-in and the menu. The menu is replaced atomically, and only by a complete and correct one."""
        before = read_text(self.drop_in)
        os.makedirs(self.directory, exist_ok=True)
        replace_text(self.drop_in, text or None)
        try:
            menu = make_menu()
        except BaseException:
            replace_text(self.drop_in, before)
            raise
        if menu != read_text(self.menu):
            replace_text(self.menu, menu)

    def _generate(self) -> str:
        # update-grub is "grub-mkconfig -o grub.cfg". It copies into the file that the host boots from, so a power cut
        # could leave an incomplete menu. Therefore we generate another file, which then replaces the menu.
        new = self.menu + ".memstretch-menu"
        try:
            status, output, errors = self.run_command([self.generator, "-o", new])
            if status:
                raise BootLoaderError(
                    f"the boot menu cannot be generated, because {self.generator} ended with status {status}; the "
                    f"kernel command line is as it was before. Its output ends with:\n{tail(output + errors)}"
                )
            return read_text(new) or ""
        finally:
            for path in (new, new + ".new"):
                remove_file(path)

    def _check(self, menu: str, arguments: t.Sequence[str], removed: t.Sequence[str]) -> str:
        entries = self._entries(menu)
        if not entries:
            raise BootLoaderError(
                "the boot menu that grub-mkconfig generates has no entry from /etc/grub.d/10_linux, so no kernel would "
                "get the arguments; the kernel command line is as it was before"
            )
        wrong = problems(entries, arguments, removed)
        if wrong:
            raise BootLoaderError(
                f"the generated boot menu is wrong, and the kernel command line is as it was before: "
                f"{'; '.join(wrong)}. {self.explain_override()}"
            )
        return menu

    def explain_override(self) -> str:
        """Return a message on the files that may override our drop-in."""
        later = [
            path
            for path in sorted(glob.glob(os.path.join(self.directory, "*.cfg")))
            if path > self.drop_in and "GRUB_CMDLINE_LINUX" in (read_text(path) or "")
        ]
        if later:
            return f"{', '.join(later)} is read after {self.drop_in} and sets GRUB_CMDLINE_LINUX"
        return f"another file in {self.directory} or /etc/grub.d may set it"


class Grubby:
    """Red Hat and its derivatives: grubby changes each entry of the boot menu, and the defaults for future kernels."""

    NAME = "grubby"
    drop_in = ""  # grubby needs none
    FILES = ["/etc/default/grub", "/etc/kernel/cmdline", "/boot/grub2/grubenv", "/boot/loader/entries/*.conf"]

    def __init__(self, run_command: RunCommand, find_program: FindProgram) -> None:
        self.run_command = run_command
        self.program = find_program("grubby")

    def present(self) -> bool:
        """Return whether this host has grubby."""
        return bool(self.program)

    def entries(self) -> list[Entry]:
        """Return the present entries of the menu."""
        output = self._grubby("--info=ALL")
        return [
            Entry(kernel, args) for kernel, args in re.findall(r'^kernel="?([^"\n]*)"?\nargs="(.*)"$', output, re.M)
        ]

    def drop_in_text(self) -> str:
        """Return an empty string: with grubby there is no drop-in."""
        return ""

    @staticmethod
    def wanted_drop_in(_arguments: t.Sequence[str], _removed: t.Sequence[str]) -> str:
        """Return an empty string: with grubby there is no drop-in."""
        return ""

    def originals(self) -> Record:
        """Return what must be recorded before the first change."""
        entries = self.entries()
        if not entries:
            raise BootLoaderError(f"{self.program} --info=ALL lists no kernel, so there is no command line to change")
        return {
            "entries": {entry.kernel: entry.line for entry in entries},
            "files": self._files(),
            "left": {},
            "added": [],
        }

    def apply(self, originals: Record, arguments: t.Sequence[str], removed: t.Sequence[str]) -> list[str]:
        """Set the arguments, all or none of them; return notes for the user."""
        before = self._files()
        try:
            self._set_arguments(originals, arguments, removed)
            wrong = problems(self.entries(), arguments, removed)
            if wrong:
                raise BootLoaderError(f"grubby has not set the arguments: {'; '.join(wrong)}")
        except BootLoaderError as error:
            for path, text in before.items():
                if read_text(path) != text:
                    replace_text(path, text)
            raise BootLoaderError(f"{error}. The kernel command line is as it was before.") from error
        # The content of the files after our change: a file that still has it is later restored byte for byte.
        originals["left"] = {path: digest(text) for path, text in self._files().items()}
        originals["added"] = list(arguments)
        return []

    def restore(self, originals: Record) -> list[str]:
        """Restore the original arguments of each entry, and unchanged files byte for byte; return notes."""
        untouched = [path for path in originals["files"] if originals["left"].get(path) == digest(read_text(path))]
        self._set_arguments(originals, [], [])
        for path in untouched:
            replace_text(path, originals["files"][path])
        return []

    def original_entries(self, originals: Record, added: t.Sequence[str]) -> list[Entry]:
        """Return the entries as they would be without our change."""
        # A kernel that was installed after the first change got our arguments when it was installed.
        before = originals["entries"] if originals else {}
        return [
            Entry(entry.kernel, before[entry.kernel]) if entry.kernel in before else entry.without(added)
            for entry in self.entries()
        ]

    def explain_override(self) -> str:
        """Return a message on the files that may override our arguments."""
        return "see the files in /boot/loader/entries and /etc/kernel/cmdline"

    def _files(self) -> dict[str, str]:
        paths = [path for pattern in self.FILES for path in sorted(glob.glob(pattern))]
        return {path: read_text(path) or "" for path in paths}

    def _set_arguments(self, originals: Record, arguments: t.Sequence[str], removed: t.Sequence[str]) -> None:
        self._update(
            {
                entry.kernel: boot_arguments.changed(entry.words, arguments, removed)
                for entry in self.original_entries(originals, originals["added"])
            }
        )

    def _update(self, wanted: dict[str, list[str]]) -> None:
        changes = []
        for entry in self.entries():
            new = wanted.get(entry.kernel, entry.words)
            removed = [word for word in entry.words if word not in new]
            added = [word for word in new if word not in entry.words]
            if removed or added:
                changes.append((entry.kernel, " ".join(removed), " ".join(added)))
        # ALL also changes the defaults for future kernels.
        if len({change[1:] for change in changes}) == 1 and len(changes) == len(wanted):
            changes = [("ALL", *changes[0][1:])]
        for kernel, remove, add in changes:
            self._grubby(
                f"--update-kernel={kernel}",
                *([f"--remove-args={remove}"] if remove else []),
                *([f"--args={add}"] if add else []),
            )

    def _grubby(self, *words: str) -> str:
        status, output, errors = self.run_command([self.program, *words])
        if status:
            raise BootLoaderError(f"grubby {' '.join(words)} ended with status {status}: {tail(output + errors)}")
        return output
