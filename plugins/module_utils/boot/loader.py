# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot loaders whose kernel command lines can be changed, behind one small interface.

A boot loader tells its C(entries), says what it was before the first change (C(prepare), for the record) and what it would be without
us (C(base)), C(apply)s a set of arguments so that either all of it is done or nothing, and C(restore)s what was there before. It does
not ask whether a change is wanted: that is the module's part.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import stat
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.boot import arguments as ba
from ansible_collections.memstretch.density.plugins.module_utils.host.files import remove_file, write_file

Record = t.Dict[str, t.Any]
# run_command(words) -> exit status, output, errors; find_program(name) -> path or None
RunCommand = t.Callable[..., t.Tuple[int, str, str]]
FindProgram = t.Callable[[str], t.Optional[str]]

OUTPUT_LINES = 15
DROP_IN_HEAD = """\
# Managed by the Ansible module memstretch.density.kernel_cmdline: changes are overwritten.
# What it takes from the kernel command line that the files before this one have set, and what it adds.
"""


class BootLoaderError(Exception):
    """The boot loader cannot be changed; the text is for the user."""


class Entry(t.NamedTuple):
    """One entry of the boot menu."""

    kernel: str
    line: str

    @property
    def words(self) -> list[str]:
        return ba.words(self.line)

    def without(self, added: t.Sequence[str]) -> Entry:
        return Entry(self.kernel, " ".join(word for word in self.words if word not in added))


def find(run_command: RunCommand, find_program: FindProgram) -> Grub | Grubby | None:
    """The boot loader of this host, if it is one that we know."""
    for kind in (Grubby, Grub):
        loader = kind(run_command, find_program)
        if loader.present():
            return loader
    return None


def problems(entries: t.Iterable[Entry], arguments: t.Sequence[str], removed: t.Sequence[str]) -> list[str]:
    """What is not so in the boot menu."""
    return [f"{entry.kernel}: {text}" for entry in entries for text in ba.problems(entry.words, arguments, removed)]


def read_text(path: str) -> str | None:
    """A file's text; bytes that are not UTF-8 come through as they are. None if it is not there."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return None


def replace_text(path: str, text: str | None, mode: int = 0o644) -> None:
    """Write a file, with the mode that it has if it is there; None removes it."""
    if text is None:
        remove_file(path)
    else:
        write_file(path, text, stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else mode)


def digest(text: str | None) -> str:
    """Stands for a text; for None, a file that is not there, too."""
    return "absent" if text is None else hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def tail(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-OUTPUT_LINES:]) or "(it said nothing)"


class Grub:
    """GRUB as Debian has it: a menu that grub-mkconfig makes from /etc/default/grub, its drop-ins and /etc/grub.d."""

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
        # Sorted behind what distributions and clouds put there, since the last one has the say.
        self.drop_in = os.path.join(self.directory, "zz-memstretch.cfg")

    def present(self) -> bool:
        return bool(self.generator) and os.path.isfile(self.menu)

    def entries(self) -> list[Entry]:
        return self._entries(read_text(self.menu) or "")

    @staticmethod
    def _entries(menu: str) -> list[Entry]:
        """The entries of this system's own kernels; what os-prober and administrators add has command lines of its own."""
        section = re.search(r"^### BEGIN \S*/10_linux ###$(.*?)^### END \S*/10_linux ###$", menu, re.M | re.S)
        lines = re.findall(r"^\s*linux(?:efi|16)?\s+(\S+)[ \t]*(.*)$", section[1], re.M) if section else []
        return [Entry(kernel, line.strip()) for kernel, line in lines]

    def ours(self) -> str:
        """What we have there, as text; empty if nothing."""
        return read_text(self.drop_in) or ""

    @staticmethod
    def text(arguments: t.Sequence[str], removed: t.Sequence[str]) -> str:
        """The drop-in. It is shell, read by grub-mkconfig each time a kernel is installed."""
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

    def prepare(self) -> Record:
        return {
            "menu": read_text(self.menu),
            "sources": self._sources(),
            "directory_was_there": os.path.isdir(self.directory),
        }

    def base(self, originals: Record, added: t.Sequence[str]) -> list[Entry]:
        if originals and originals["sources"] == self._sources():
            return self._entries(originals["menu"])
        return [entry.without(added) for entry in self.entries()]

    def apply(self, originals: Record, arguments: t.Sequence[str], removed: t.Sequence[str]) -> list[str]:
        self._change(self.text(arguments, removed), lambda: self._check(self._generate(), arguments, removed))
        if originals["sources"] == self._sources() and self._frame(originals["menu"]) != self._frame(
            read_text(self.menu)
        ):
            return [
                f"{self.menu} was older than what it is made from, or was edited by hand: making it anew has changed more in it than the "
                "kernel command line. Restoring puts the old one back."
            ]
        return []

    def restore(self, originals: Record) -> list[str]:
        """Put the original menu back, byte for byte; or make it anew, if what it is made from has changed."""
        same = originals.get("sources") == self._sources()
        self._change("", lambda: originals["menu"] if same else self._generate())
        if (
            not originals.get("directory_was_there", True)
            and os.path.isdir(self.directory)
            and not os.listdir(self.directory)
        ):
            os.rmdir(self.directory)
        return (
            []
            if same
            else [
                f"{self.menu} was made anew and not put back as it was: since the first change, what it is made from has "
                "changed (a kernel, GRUB, a file in /etc/default or in /etc/grub.d)"
            ]
        )

    def _sources(self) -> str:
        """A digest of what a menu is made from: all settings but ours, the scripts, and the names of kernels and initrds."""
        files = [
            os.path.join(self.defaults, "grub"),
            *glob.glob(os.path.join(self.directory, "*.cfg")),
            *glob.glob("/etc/grub.d/*"),
            self.generator,
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
        """A menu without its kernel command lines."""
        return re.sub(r"^(\s*linux(?:efi|16)?\s+\S+).*$", r"\1", menu, flags=re.M)

    def _change(self, text: str, make_menu: t.Callable[[], str]) -> None:
        """Write the drop-in and the menu. The menu in force is only replaced, in one step, by one that is complete and right."""
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
        # update-grub is "grub-mkconfig -o grub.cfg", which copies into the file that the host boots from: a power cut in the middle
        # would leave half a menu. So it makes a file of its own, which then takes the place of the menu.
        new = self.menu + ".memstretch-menu"
        try:
            status, output, errors = self.run_command([self.generator, "-o", new])
            if status:
                raise BootLoaderError(
                    f"the boot menu cannot be made, {self.generator} ended with {status}; the kernel command line is as it was "
                    f"before. Its output ends with:\n{tail(output + errors)}"
                )
            return read_text(new) or ""
        finally:
            for rest in (new, new + ".new"):
                remove_file(rest)

    def _check(self, menu: str, arguments: t.Sequence[str], removed: t.Sequence[str]) -> str:
        entries = self._entries(menu)
        if not entries:
            raise BootLoaderError(
                "the boot menu that grub-mkconfig makes has no entry from /etc/grub.d/10_linux, so that no kernel would get "
                "the arguments; the kernel command line is as it was before"
            )
        wrong = problems(entries, arguments, removed)
        if wrong:
            raise BootLoaderError(
                f"the boot menu would not be right, and the kernel command line is as it was before: {'; '.join(wrong)}. "
                + self.blame()
            )
        return menu

    def blame(self) -> str:
        """Which files may overrule ours."""
        later = [
            path
            for path in sorted(glob.glob(os.path.join(self.directory, "*.cfg")))
            if path > self.drop_in and "GRUB_CMDLINE_LINUX" in (read_text(path) or "")
        ]
        if later:
            return f"{', '.join(later)} is read after {self.drop_in} and sets GRUB_CMDLINE_LINUX"
        return f"look for what sets it in {self.directory} and /etc/grub.d"


class Grubby:
    """Red Hat's family: grubby changes the entries of the boot menu, one by one, and the defaults for kernels to come."""

    NAME = "grubby"
    FILES = ["/etc/default/grub", "/etc/kernel/cmdline", "/boot/grub2/grubenv", "/boot/loader/entries/*.conf"]

    def __init__(self, run_command: RunCommand, find_program: FindProgram) -> None:
        self.run_command = run_command
        self.program = find_program("grubby")

    def present(self) -> bool:
        return bool(self.program)

    def entries(self) -> list[Entry]:
        output = self._grubby("--info=ALL")
        return [
            Entry(kernel, args) for kernel, args in re.findall(r'^kernel="?([^"\n]*)"?\nargs="(.*)"$', output, re.M)
        ]

    def ours(self) -> str:
        return ""

    @staticmethod
    def text(unused_arguments: t.Sequence[str], unused_removed: t.Sequence[str]) -> str:
        return ""

    def prepare(self) -> Record:
        entries = self.entries()
        if not entries:
            raise BootLoaderError(
                f"{self.program} --info=ALL names no kernel, so that there is no command line to change"
            )
        return {
            "entries": {entry.kernel: entry.line for entry in entries},
            "files": self._files(),
            "left": {},
            "added": [],
        }

    def apply(self, originals: Record, arguments: t.Sequence[str], removed: t.Sequence[str]) -> list[str]:
        before = self._files()
        try:
            self._bring(originals, arguments, removed)
            wrong = problems(self.entries(), arguments, removed)
            if wrong:
                raise BootLoaderError(f"grubby has not made it so: {'; '.join(wrong)}")
        except BootLoaderError as error:
            for path, text in before.items():
                if read_text(path) != text:
                    replace_text(path, text)
            raise BootLoaderError(f"{error}. The kernel command line is as it was before.") from error
        # What the files hold now: one that still does at the end is put back byte for byte.
        originals["left"] = {path: digest(text) for path, text in self._files().items()}
        originals["added"] = list(arguments)
        return []

    def restore(self, originals: Record) -> list[str]:
        untouched = [path for path in originals["files"] if originals["left"].get(path) == digest(read_text(path))]
        self._bring(originals, [], [])
        for path in untouched:
            replace_text(path, originals["files"][path])
        return []

    def base(self, originals: Record, added: t.Sequence[str]) -> list[Entry]:
        """A kernel that came after the first change had our arguments from the start."""
        before = originals["entries"] if originals else {}
        return [
            Entry(entry.kernel, before[entry.kernel]) if entry.kernel in before else entry.without(added)
            for entry in self.entries()
        ]

    def blame(self) -> str:
        return "see the files in /boot/loader/entries and /etc/kernel/cmdline"

    def _files(self) -> dict[str, str]:
        paths = [path for pattern in self.FILES for path in sorted(glob.glob(pattern))]
        return {path: read_text(path) or "" for path in paths}

    def _bring(self, originals: Record, arguments: t.Sequence[str], removed: t.Sequence[str]) -> None:
        self._set(
            {
                entry.kernel: ba.changed(entry.words, arguments, removed)
                for entry in self.base(originals, originals["added"])
            }
        )

    def _set(self, wanted: dict[str, list[str]]) -> None:
        steps = []
        for entry in self.entries():
            new = wanted.get(entry.kernel, entry.words)
            away = [word for word in entry.words if word not in new]
            more = [word for word in new if word not in entry.words]
            if away or more:
                steps.append((entry.kernel, " ".join(away), " ".join(more)))
        # ALL reaches the defaults for kernels to come too.
        if len({step[1:] for step in steps}) == 1 and len(steps) == len(wanted):
            steps = [("ALL", *steps[0][1:])]
        for kernel, away, more in steps:
            self._grubby(
                f"--update-kernel={kernel}",
                *([f"--remove-args={away}"] if away else []),
                *([f"--args={more}"] if more else []),
            )

    def _grubby(self, *words: str) -> str:
        status, output, errors = self.run_command([self.program, *words])
        if status:
            raise BootLoaderError(f"grubby {' '.join(words)} ended with {status}: {tail(output + errors)}")
        return output
