# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The C programs of this collection: how they are built, how they are named, and how a host says which it has."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shlex
import subprocess
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.collection import ROOT
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import message

FILES = os.path.join(ROOT, "files")
_DIGITS = 12  # enough to tell the programs of one host apart
_COMPILER = ("cc", "-std=c11", "-O2", "-flto", "-pthread", "-Wall", "-Wextra")
# The line in which a host answers. What a login or sudo prints stands before it.
_MARK = "memstretch-program"
_ANSWER = re.compile(rf"^{_MARK} (found|absent|broken|failed) ([A-Za-z0-9_-]{{1,32}}) (/[^\x00-\x1f]{{1,4000}})$")


class ProgramError(ValueError):
    """A program cannot be built or installed; the message says why, and what to do."""


class Build(t.NamedTuple):
    """How a program is built.

    Attributes:
        name: of its first source, NAME.c. Its other sources are in the directory NAME, if there is one.
        definitions: options of the compiler.
        libraries: what is linked.
        packages: what the build needs, by the os_family of the builder.
    """

    name: str
    definitions: tuple[str, ...]
    libraries: tuple[str, ...]
    packages: dict[str, list[str]]


# By variant, which is part of the name of the program's file.
BUILDS = {
    "solotest": Build(
        "solotest",
        (),
        ("-lhiredis", "-lm"),
        {"Debian": ["gcc", "libc6-dev", "libhiredis-dev"], "RedHat": ["gcc", "glibc-devel", "hiredis-devel"]},
    ),
    "solotest-tls": Build(
        "solotest",
        ("-DSOLOTEST_TLS",),
        ("-lhiredis", "-lssl", "-lcrypto", "-lm"),
        {
            "Debian": ["gcc", "libc6-dev", "libhiredis-dev", "libssl-dev"],
            "RedHat": ["gcc", "glibc-devel", "hiredis-devel", "openssl-devel"],
        },
    ),
    "membw": Build(
        "membw",
        (),
        ("-lnuma", "-pthread"),
        {"Debian": ["gcc", "libc6-dev", "libnuma-dev"], "RedHat": ["gcc", "glibc-devel", "numactl-devel"]},
    ),
}


class Answer(t.NamedTuple):
    """What a host says about a program.

    Attributes:
        state: found (it starts), absent, broken (it is there, but does not start) or failed (it cannot be put there).
        architecture: of the host, as C(uname -m) prints it.
        path: of the program on the host.
        said: what the program or the failed command printed; untrusted, one line.
    """

    state: str
    architecture: str
    path: str
    said: str


def sources(name: str, directory: str = FILES) -> list[str]:
    """Return the paths of a program's sources, relative to the directory.

    Raises:
        OSError: they cannot be listed.
    """
    parts = os.path.join(directory, name)
    others = sorted(each for each in os.listdir(parts) if each.endswith((".c", ".h"))) if os.path.isdir(parts) else []
    return [f"{name}.c", *(f"{name}/{each}" for each in others)]


def content_digest(names: t.Sequence[str], directory: str) -> str:
    """Return a digest of files, which changes with their names, order and content.

    Args:
        names: paths of the files, relative to the directory.
        directory: where they are.

    Raises:
        OSError: one of them cannot be read.
    """
    lines = []
    for name in names:
        with open(os.path.join(directory, name), "rb") as file:
            lines.append(f"{name} {hashlib.sha256(file.read()).hexdigest()}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:_DIGITS]


class Program(t.NamedTuple):
    """A program, named after its sources, so that another version of them has another name.

    Attributes:
        variant: one of BUILDS.
        digest: of the sources.
    """

    variant: str
    digest: str

    @classmethod
    def of(cls, variant: str) -> Program:
        """Return a program as its sources are now."""
        return cls(variant, content_digest(sources(BUILDS[variant].name), FILES))

    @property
    def build(self) -> Build:
        """How it is built."""
        return BUILDS[self.variant]

    def file(self, architecture: str) -> str:
        """Return the name of its file for an architecture."""
        return f"{self.variant}-{architecture}-{self.digest}"

    def compiler_commands(self, output: str) -> tuple[list[str], list[str]]:
        """Return the command that links it statically, so that it runs on any distribution, and the one that does not.

        Args:
            output: the path of the program.
        """
        build = self.build
        compiled = [each for each in sources(build.name) if each.endswith(".c")]
        shared = [*_COMPILER, *build.definitions, *compiled, "-o", output]
        return [*shared, "-static", *build.libraries], [*shared, *build.libraries]

    def build_here(self, path: str) -> None:
        """Build the program on this machine, unless it is there already or another process is building it.

        Raises:
            ProgramError: it cannot be built.
        """
        try:
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            place = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(place, fcntl.LOCK_EX)
                if not os.path.exists(path):
                    self._compile(path)
            finally:
                os.close(place)
        except OSError as error:
            packages = " ".join(self.build.packages["Debian"])
            raise ProgramError(
                f"cannot build {self.variant} in {os.path.dirname(path)}: {error}; the controller needs a C compiler "
                f"and the libraries (Debian: {packages}), or let each host build its own (client_program_build_on: "
                "fleet)"
            ) from error

    def _compile(self, path: str) -> None:
        # It gets its name once it is complete: this playbook may be interrupted.
        part, said = f"{path}.part-{os.getpid()}", ""
        for command in self.compiler_commands(part):
            done = subprocess.run(command, cwd=FILES, capture_output=True, text=True, errors="replace", check=False)
            if done.returncode == 0:
                os.replace(part, path)
                return
            said = done.stderr
        packages = " ".join(self.build.packages["Debian"])
        raise ProgramError(
            f"the controller cannot build {self.variant} (Debian needs {packages}): {message(said[-1000:])}"
        )

    def look_script(self, directory: str) -> str:
        """Return a shell script that says whether a host has the program, and whether it starts."""
        return "\n".join([self._place(directory), _START, _SAY])

    def install_script(self, directory: str, uploaded: str) -> str:
        """Return a shell script that gives an uploaded file the program's name, and starts it once.

        Args:
            directory: where it goes on the host.
            uploaded: the path of the file on the host.
        """
        return self._put(directory, f'cp {shlex.quote(uploaded)} "$part" && chmod 755 "$part"')

    def build_script(self, directory: str, archive: str) -> str:
        """Return a shell script that builds the program on a host, and starts it once.

        Args:
            directory: where it goes on the host.
            archive: the path of a tar archive of the sources on the host; what it has is unpacked next to it.
        """
        static, shared = (shlex.join(each).replace("-o @", '-o "$part"') for each in self.compiler_commands("@"))
        unpack = f"cd {shlex.quote(os.path.dirname(archive))} && tar xf {shlex.quote(archive)}"
        return self._put(directory, f"{unpack} && {{ {static} 2>/dev/null || {shared}; }}")

    def _place(self, directory: str) -> str:
        return (
            f'place={shlex.quote(directory)}; case "$place" in "~/"*) place="$HOME/${{place#??}}";; esac\n'
            f'architecture=$(uname -m); program="$place/{self.variant}-$architecture-{self.digest}"\n'
            'part="$program.part-$$"'
        )

    def _put(self, directory: str, command: str) -> str:
        # It gets its name once it is complete: another playbook may be using it.
        put = f'umask 022; mkdir -p "$place" && {command} && mv -f "$part" "$program"'
        return "\n".join(
            [
                self._place(directory),
                f'if said=$( {{ {put}; }} 2>&1 ); then {_START}; else state=failed; rm -f "$part"; fi',
                _SAY,
            ]
        )


_START = 'state=found; said=$("$program" --version 2>&1) || { state=broken; [ -e "$program" ] || state=absent; }'
_SAY = f'echo; echo {_MARK} "$state" "$architecture" "$program"; echo "$said"'


def read_answer(output: str) -> Answer | None:
    """Return what a script of a program has printed; None if a host has printed something else."""
    lines = output.splitlines()
    for number in reversed(range(len(lines))):
        found = _ANSWER.match(lines[number].rstrip())
        if found:
            return Answer(found[1], found[2], found[3], message(" ".join(lines[number + 1 :])[-1000:]))
    return None
