# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot loaders whose kernel command lines can be changed, with one interface.

A boot loader returns its C(entries), its C(originals) before the first change, for the record, and its
C(original_entries), those without our change. C(apply) sets the arguments, all or none of them. C(restore) takes out
our words and gives back those that we removed; what others have changed since stays. Whether a change is needed is
decided in C(command_line).
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shlex
import stat
import tempfile
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.boot import arguments as boot_arguments
from ansible_collections.memstretch.density.plugins.module_utils.boot.arguments import Words
from ansible_collections.memstretch.density.plugins.module_utils.boot.rollback import (
    BootLoaderError,
    all_or_nothing,
    flush_journal,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.host.files import remove_file, write_file

Record = t.Dict[str, t.Any]
# AnsibleModule.get_bin_path: name of a program -> its path or None
FindProgram = t.Callable[[str], t.Optional[str]]

OUTPUT_LINES = 15
DROP_IN_HEAD = """\
# Managed by the Ansible module memstretch.density.kernel_cmdline: changes are overwritten.
# It removes arguments from the kernel command line that earlier files have set, and adds others.
"""


class Entry(t.NamedTuple):
    """One entry of the boot menu."""

    kernel: str
    line: str
    # Its place, and what distinguishes it from other entries of the same kernel, such as those of a snapshot.
    key: str = ""
    position: str = ""

    @property
    def words(self) -> list[str]:
        """Return the arguments of the command line."""
        return boot_arguments.words(self.line)

    def undone(self, original: str, ours: Words) -> Entry:
        """Return the entry without our change.

        Args:
            original: its command line before our change.
            ours: what we have added and removed.
        """
        original_words = boot_arguments.words(original)
        words = boot_arguments.undone(self.words, original_words, ours)
        return self._replace(line=original if words == original_words else " ".join(words))


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


def replace_text(path: str, text: str | None, like: str = "") -> None:
    """Write a file, with its present mode and owner if it exists. If the text is None, remove the file.

    Args:
        like: another file, whose mode and owner a new one gets: a menu may hold the hash of a password.
    """
    if text is None:
        remove_file(path)
        return
    model = path if os.path.exists(path) else like
    status = os.stat(model) if model else None
    mode = stat.S_IMODE(status.st_mode) if status else 0o644
    owner = (status.st_uid, status.st_gid) if status else None
    # Only a new file that the boot loader can find on the disk may get the name of the old one.
    write_file(path, text, mode, before_replacing=flush_journal, owner=owner)


def digest(text: str | None) -> str:
    """Return a digest of a file's text; "absent" for None, a file that does not exist."""
    return "absent" if text is None else hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def tail(output: str) -> str:
    """Return the last lines of a program's output."""
    return "\n".join(output.strip().splitlines()[-OUTPUT_LINES:]) or "(no output)"


class Grub:
    """GRUB of Debian and Ubuntu: grub-mkconfig makes the menu of /etc/default/grub, its drop-ins and /etc/grub.d."""

    NAME = "grub"

    def __init__(
        self,
        run_command: RunCommand,
        find_program: FindProgram,
        boot: str = "/boot/grub",
        defaults: str = "/etc/default",
    ) -> None:
        self.run_command = run_command
        self.generator = find_program("grub-mkconfig") or ""
        self.boot = boot
        # It may be a link, for example to the partition of the firmware. The file behind it is what GRUB reads.
        self.menu = os.path.realpath(os.path.join(boot, "grub.cfg"))
        self.settings = os.path.join(defaults, "grub")
        self.directory = os.path.join(defaults, "grub.d")
        # Its name sorts after the drop-ins of distributions and clouds, because the last one wins.
        self.drop_in = os.path.join(self.directory, "zz-memstretch.cfg")

    def present(self) -> bool:
        """Check whether this host boots with GRUB."""
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
        for word in [*boot_arguments.replaced_names(arguments), *removed]:
            shell = re.sub("[-_]", "[-_]", word.partition("=")[0])
            if "=" in word:
                patterns.append(shell + "=" + word.partition("=")[2])
            else:
                patterns += [shell, shell + "=*", f'\\"{shell}=*']  # the kernel also takes "NAME=a value"
        if not patterns:
            return ""
        return (
            DROP_IN_HEAD
            + f"""\
memstretch_replaced() (
    front=
    rest="$1"
    while :; do
        case "$rest" in
        *"$2"*) front="$front${{rest%%"$2"*}}$3"; rest="${{rest#*"$2"}}" ;;
        *) break ;;
        esac
    done
    printf '%s' "$front$rest"
)
memstretch_without() (
    set -f
    kept=
    # A blank between double quotes belongs to a value.
    blank="$(printf '\\001')"
    rest="$1"
    words=
    quoted=
    while :; do
        case "$rest" in
        *\\"*) piece="${{rest%%\\"*}}"; rest="${{rest#*\\"}}"; mark='"' ;;
        *) piece="$rest"; mark= ;;
        esac
        if [ -n "$quoted" ]; then piece="$(memstretch_replaced "$piece" ' ' "$blank")"; fi
        words="$words$piece$mark"
        if [ -z "$mark" ]; then break; fi
        if [ -n "$quoted" ]; then quoted=; else quoted=yes; fi
    done
    for word in $words; do
        case "$word" in
        {" | ".join(dict.fromkeys(patterns))}) ;;
        *) kept="$kept${{kept:+ }}$word" ;;
        esac
    done
    memstretch_replaced "$kept" "$blank" ' '
)
GRUB_CMDLINE_LINUX="$(memstretch_without "$GRUB_CMDLINE_LINUX"){"".join(" " + argument for argument in arguments)}"
GRUB_CMDLINE_LINUX_DEFAULT="$(memstretch_without "$GRUB_CMDLINE_LINUX_DEFAULT")"
"""
        )

    def originals(self) -> Record:
        """Return the state to record before the first change."""
        return {
            "menu": read_text(self.menu),
            "generated": digest(self._generate()),
            "directory_was_there": os.path.isdir(self.directory),
        }

    def original_entries(self, originals: Record, ours: Words) -> list[Entry]:
        """Return the entries as they would be without our change."""
        present, before = self.entries(), self._entries(originals.get("menu", ""))
        if [entry.kernel for entry in present] != [entry.kernel for entry in before]:
            before = [Entry(entry.kernel, "") for entry in present]  # kernels have come or gone
        return [entry.undone(old.line, ours) for entry, old in zip(present, before)]

    def apply(self, originals: Record, arguments: t.Sequence[str], removed: t.Sequence[str], _ours: Words) -> list[str]:
        """Set the arguments, all or none of them; return notes for the user."""
        self._change(self.wanted_drop_in(arguments, removed), lambda: self._check(self._generate(), arguments, removed))
        if originals["generated"] == digest(originals["menu"]):
            return []
        return [
            f"{self.menu} was older than its source files, was edited by hand, or was generated in another language: "
            "generating it again has changed more than the kernel command line."
        ]

    def restore(self, originals: Record, _ours: Words) -> list[str]:
        """Remove our drop-in and generate the menu; return notes.

        The original menu is restored byte for byte if that is certain to boot: the generator still makes the menu that
        it made before our change, and the original menu boots the same kernels from the same file systems. So a root
        file system that has moved keeps the host bootable.
        """
        notes: list[str] = []

        def menu() -> str:
            generated = self._checked_for_entries(self._generate())
            original = originals.get("menu", generated)
            unchanged = originals.get("generated") == digest(generated)
            if generated == original or (unchanged and self._boots(generated) == self._boots(original)):
                return original
            if unchanged:
                kept = self.menu + ".memstretch-original"
                replace_text(kept, original, like=self.menu)
                reason = f"the original menu boots something else; it is now {kept}"
            else:
                reason = (
                    "since the first change, its sources have changed (a kernel, GRUB, a file system, a file "
                    "in /etc/default or in /etc/grub.d)"
                )
            notes.append(f"{self.menu} was generated again instead of being restored: {reason}")
            return generated

        self._change("", menu)
        if (
            not originals.get("directory_was_there", True)
            and os.path.isdir(self.directory)
            and not os.listdir(self.directory)
        ):
            os.rmdir(self.directory)
        return notes

    @staticmethod
    def _boots(menu: str) -> list[str]:
        """Return the commands of a menu that decide what is booted, without titles, messages and time limits."""
        commands = (
            r"linux\S*|initrd\S*|module\S*|multiboot\S*|chainloader|configfile|devicetree|search\S*|cryptomount|insmod|"
            r"set\s+root=\S*|root="
        )
        return [" ".join(line.split()) for line in re.findall(rf"^\s*(?:{commands})(?:\s.*)?$", menu, re.M)]

    def _change(self, text: str, make_menu: t.Callable[[], str]) -> None:
        """Write the drop-in and the menu, both or none of them. Only a correct menu replaces the old one."""
        directory_was_there = os.path.isdir(self.directory)
        try:
            with all_or_nothing([self.drop_in, self.menu]):
                os.makedirs(self.directory, exist_ok=True)
                replace_text(self.drop_in, text or None)
                menu = make_menu()
                if menu != read_text(self.menu):
                    replace_text(self.menu, menu)
        except BootLoaderError:
            if not directory_was_there and os.path.isdir(self.directory) and not os.listdir(self.directory):
                os.rmdir(self.directory)
            raise

    def _generate(self) -> str:
        # update-grub is "grub-mkconfig -o grub.cfg". It copies into the file that the host boots from, so a power cut
        # could leave an incomplete menu. Therefore we generate another file, which then replaces the menu.
        with tempfile.TemporaryDirectory(prefix="memstretch-") as directory:
            new = os.path.join(directory, "grub.cfg")
            status, output, errors = run_to_end(self.run_command, [self.generator, "-o", new])
            if status:
                raise BootLoaderError(
                    f"the boot menu cannot be generated: {self.generator} ended with status {status}. Its output ends "
                    f"with:\n{tail(output + errors)}"
                )
            return read_text(new) or ""

    def _checked_for_entries(self, menu: str) -> str:
        if not self._entries(menu):
            raise BootLoaderError(
                "the boot menu that grub-mkconfig generates has no entry from /etc/grub.d/10_linux, so it would boot "
                "no kernel. Is /boot mounted?"
            )
        return menu

    def _check(self, menu: str, arguments: t.Sequence[str], removed: t.Sequence[str]) -> str:
        wrong = problems(self._entries(self._checked_for_entries(menu)), arguments, removed)
        if wrong:
            raise BootLoaderError(f"the generated boot menu is wrong: {'; '.join(wrong)}. {self.explain_override()}")
        return menu

    def overridden(self, arguments: t.Sequence[str], removed: t.Sequence[str]) -> str | None:
        """Explain how other settings override our drop-in in the next menu that is generated; None if they do not.

        Packages and clouds have settings of their own in the directory of our drop-in, and may bring them after us.
        """
        lines = self._next_lines(self.wanted_drop_in(arguments, removed))
        wrong = [
            text for line in lines for text in boot_arguments.problems(boot_arguments.words(line), arguments, removed)
        ]
        if not wrong:
            return None
        cause = self.explain_override()
        if any("--" in line.split() for line in lines):
            cause = (
                f"GRUB_CMDLINE_LINUX in {self.settings} has --, and what stands behind it goes to init. Move -- and "
                "the rest to the end of GRUB_CMDLINE_LINUX_DEFAULT"
            )
        return f"{'; '.join(dict.fromkeys(wrong))}; {cause}"

    def _next_lines(self, drop_in: str) -> list[str]:
        """Return what grub-mkconfig would read for normal entries and, if there are any, for those for recovery.

        Args:
            drop_in: the text that our drop-in would have.
        """
        shell = ["set -e", "exec 3>&1 >&2"]
        for path in [self.settings, *sorted({*self._drop_ins(), self.drop_in})]:
            if path == self.drop_in:
                shell.append(drop_in)
            elif os.path.exists(path):
                shell.append(f". {shlex.quote(path)}")
        shell.append('printf "%s\\n" "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT" >&3')
        shell.append('[ "$GRUB_DISABLE_RECOVERY" = true ] || printf "%s\\n" "$GRUB_CMDLINE_LINUX" >&3')
        status, output, errors = run_to_end(self.run_command, ["/bin/sh", "-c", "\n".join(shell)])
        if status:
            raise BootLoaderError(
                f"the settings in {self.settings} and {self.directory} cannot be read: the shell ended with status "
                f"{status}: {tail(errors)}"
            )
        return output.splitlines()

    def _drop_ins(self) -> list[str]:
        return glob.glob(os.path.join(self.directory, "*.cfg"))

    def explain_override(self) -> str:
        """Return a message on the files that may override our drop-in."""
        later = [
            path
            for path in sorted(self._drop_ins())
            if path > self.drop_in and "GRUB_CMDLINE_LINUX" in (read_text(path) or "")
        ]
        if later:
            return f"{', '.join(later)} is read after {self.drop_in} and sets GRUB_CMDLINE_LINUX"
        return f"another file in {self.directory} or /etc/grub.d may set it"


class Grubby:
    """Red Hat and its derivatives: grubby changes each entry of the boot menu, and the defaults for future kernels."""

    NAME = "grubby"
    drop_in = ""  # grubby needs none
    # grubby may make those that are no pattern, such as /etc/kernel/cmdline.
    FILES = ["/etc/default/grub", "/etc/kernel/cmdline", "/boot/grub2/grubenv", "/boot/loader/entries/*.conf"]

    def __init__(self, run_command: RunCommand, find_program: FindProgram) -> None:
        self.run_command = run_command
        self.program = find_program("grubby") or ""

    def present(self) -> bool:
        """Check whether this host has grubby."""
        return bool(self.program)

    def entries(self) -> list[Entry]:
        """Return the present entries of the menu."""
        found = []
        for block in re.split(r"^(?=index=)", self._grubby("--info=ALL"), flags=re.M):
            values = dict(re.findall(r'^(index|kernel|args|title|id)="?(.*?)"?$', block, re.M))
            if "args" in values:
                key = values.get("id") or values.get("title") or values["kernel"]
                found.append(Entry(values["kernel"], values["args"], key, values["index"]))
        return found

    def drop_in_text(self) -> str:
        """Return an empty string: with grubby there is no drop-in."""
        return ""

    @staticmethod
    def wanted_drop_in(_arguments: t.Sequence[str], _removed: t.Sequence[str]) -> str:
        """Return an empty string: with grubby there is no drop-in."""
        return ""

    def originals(self) -> Record:
        """Return the state to record before the first change."""
        entries = self.entries()
        if not entries:
            raise BootLoaderError(f"{self.program} --info=ALL lists no kernel, so there is no command line to change")
        return {
            "entries": {entry.key: entry.line for entry in entries},
            "files": self._files(),
            "left": {},
            "made": [],
        }

    def apply(self, originals: Record, arguments: t.Sequence[str], removed: t.Sequence[str], ours: Words) -> list[str]:
        """Set the arguments, all or none of them; return notes for the user."""
        before = self._files()
        with all_or_nothing(before):
            wanted = [
                boot_arguments.changed(entry.words, arguments, removed)
                for entry in self.original_entries(originals, ours)
            ]
            self._update(wanted)
            wrong = problems(self.entries(), arguments, removed)
            if wrong:
                raise BootLoaderError(f"grubby has not set the arguments: {'; '.join(wrong)}")
        after = self._files()
        made = [path for path, text in after.items() if text is not None and before.get(path, "") is None]
        # Only a file that has not been changed otherwise is later restored byte for byte, or removed.
        originals["files"] = {
            path: text
            for path, text in originals["files"].items()
            if before.get(path) == text or digest(before.get(path)) == originals["left"].get(path)
        }
        originals["files"].update(dict.fromkeys(made))
        originals["left"] = {path: digest(text) for path, text in after.items()}
        # A record of an earlier version has no list.
        originals["made"] = sorted({*originals.get("made", []), *made})
        return []

    def restore(self, originals: Record, ours: Words) -> list[str]:
        """Undo our change in each entry, and restore byte for byte the files that have no other change.

        A file that grubby has made for us is removed, unless somebody has changed it since.
        """
        before = self._files()
        with all_or_nothing(before):
            wanted = [entry.words for entry in self.original_entries(originals, ours)]
            self._update(wanted)
            for path in [path for path, text in before.items() if text is None]:
                remove_file(path)  # grubby makes it again
            for path, text in originals["files"].items():
                if digest(before.get(path)) == originals["left"].get(path):
                    replace_text(path, text)
            restored = [entry.words for entry in self.entries()]
            if len(restored) != len(wanted) or not all(map(boot_arguments.same, restored, wanted)):
                raise BootLoaderError("grubby ended without an error and has not restored the arguments")
        return self._leftovers(originals, ours)

    def original_entries(self, originals: Record, ours: Words) -> list[Entry]:
        """Return the entries as they would be without our change."""
        before = originals.get("entries", {})
        # A kernel that was installed later got its arguments from the others.
        default = next(iter(before.values()), "")
        return [entry.undone(before.get(entry.key, default), ours) for entry in self.entries()]

    def overridden(self, _arguments: t.Sequence[str], _removed: t.Sequence[str]) -> str | None:
        """Return None: each entry has a command line of its own, which no other setting overrides."""
        return None

    def explain_override(self) -> str:
        """Return a message on the files that may override our arguments."""
        return "see the files in /boot/loader/entries and /etc/kernel/cmdline"

    def _files(self) -> dict[str, str | None]:
        """Return the text of each file that grubby may change, None for one that it may make."""
        paths = [
            os.path.realpath(path)
            for pattern in self.FILES
            for path in (sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern])
        ]
        return {path: read_text(path) for path in paths}

    def _leftovers(self, originals: Record, ours: Words) -> list[str]:
        """Return notes on defaults for future kernels that still have arguments of ours, or that grubby has made."""
        notes = []
        for path, text in self._files().items():
            if text is None:
                continue
            if path in originals.get("made", []):
                notes.append(
                    f"{path} stays, because it was changed since grubby made it at our change; remove it if nothing "
                    "needs it"
                )
            before = re.split(r"[\s\"']+", originals["files"].get(path) or "")
            left = [word for word in re.split(r"[\s\"']+", text) if word in ours.added and word not in before]
            if left and not path.endswith(".conf"):
                notes.append(f"{path} still has {' '.join(left)}; remove it, because future kernels would get it")
        return notes

    def _update(self, wanted: t.Sequence[t.Sequence[str]]) -> None:
        """Give each entry the wanted words.

        What all entries need is changed in all of them at once, because this also changes the defaults for future
        kernels.
        """
        entries = self.entries()
        away = [[word for word in entry.words if word not in words] for entry, words in zip(entries, wanted)]
        # grubby replaces all arguments with the name of an added one, so all words about one subject are added
        # together, in their order.
        new = [
            [
                one
                for one in _subjects(words)
                if boot_arguments.about(words, one) != boot_arguments.about(entry.words, one)
            ]
            for entry, words in zip(entries, wanted)
        ]
        away_all = [word for word in _unique(away) if not any(word in words for words in wanted)]
        new_all = [
            one for one in _unique(new) if len({tuple(boot_arguments.about(words, one)) for words in wanted}) == 1
        ]
        self._update_one("ALL", away_all, [word for word in wanted[0] if boot_arguments.subject(word) in new_all])
        for entry, words, gone, subjects in zip(entries, wanted, away, new):
            own = [one for one in subjects if one not in new_all]
            self._update_one(
                entry.position,
                [word for word in gone if word not in away_all],
                [word for word in words if boot_arguments.subject(word) in own],
            )

    def _update_one(self, which: str, removed: t.Sequence[str], added: t.Sequence[str]) -> None:
        if removed or added:
            self._grubby(
                f"--update-kernel={which}",
                *([f"--remove-args={' '.join(removed)}"] if removed else []),
                *([f"--args={' '.join(added)}"] if added else []),
            )

    def _grubby(self, *words: str) -> str:
        status, output, errors = run_to_end(self.run_command, [self.program, *words])
        if status:
            raise BootLoaderError(f"grubby {' '.join(words)} ended with status {status}: {tail(output + errors)}")
        return output


def _subjects(words: t.Sequence[str]) -> list[str]:
    """Return the subjects of arguments, each one once."""
    return list(dict.fromkeys(map(boot_arguments.subject, words)))


def _unique(lists: t.Iterable[t.Iterable[str]]) -> list[str]:
    """Return the elements of all lists, each one once."""
    return list(dict.fromkeys(element for elements in lists for element in elements))
