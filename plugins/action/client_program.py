# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private. Install a C program of this collection on a host that lacks it, without starting Python there."""

from __future__ import annotations

import os
import platform
import shlex
import tarfile
import tempfile
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.plugin_utils.documentation import documented_options
from ansible_collections.memstretch.density.plugins.plugin_utils.program import (
    FILES,
    Answer,
    Program,
    ProgramError,
    read_answer,
    sources,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import message

# Read once, and not in the process of each host.
_OPTIONS = documented_options("client_program")


class ActionModule(ActionBase):
    """One task for each host, whatever has to be done: each task takes a controller of many hosts time."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(_OPTIONS)
        try:
            found = self._install(options, task_vars["inventory_hostname"])
        except (ProgramError, OSError) as error:
            raise AnsibleActionFail(str(error)) from error
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return {**result, **found}

    def _install(self, options: t.Mapping[str, t.Any], host: str) -> dict[str, t.Any]:
        """Look for the program on the host, and install it unless it is there.

        Raises:
            ProgramError: it cannot be built or installed, or does not start there.
            OSError: the controller cannot keep it.
        """
        tls = options["tls"] and options["name"] == "solotest"
        program = Program.of("solotest-tls" if tls else options["name"])
        directory = options["directory"]
        if not directory.startswith(("/", "~/")):
            raise ProgramError(f"directory: {directory!r} is not allowed; it must begin with / or ~/")
        found = self._ask(program.look_script(directory))
        if found.state == "found":
            return {"changed": False, "path": found.path}
        cached = os.path.join(
            os.path.expanduser(options["cache_directory"]), "controller", program.file(found.architecture)
        )
        here = options["build_on"] == "controller" or (
            options["build_on"] == "auto" and (os.path.exists(cached) or platform.machine() == found.architecture)
        )
        if not here and not options["build"]:
            return {"changed": self._task.check_mode, "path": found.path, "packages": program.build.packages}
        if self._task.check_mode:
            return {"changed": True, "path": found.path}
        if here:
            program.build_here(cached)
            script = program.install_script(directory, self._upload(cached))
        else:
            script = program.build_script(directory, self._upload_sources(program))
        done = self._ask(script)
        if done.state != "found":
            raise ProgramError(refusal(done, cached if here else "", host))
        return {"changed": True, "path": done.path}

    def _ask(self, script: str) -> Answer:
        """Run a script of the program on the host and return its answer.

        Raises:
            ProgramError: it has none.
        """
        command = f"{self._compute_environment_string()} sh -c {shlex.quote(script)}".strip()
        done = self._low_level_execute_command(command)
        answer = read_answer(done["stdout"])
        if answer is None:
            said = message((done["stdout"] + done["stderr"])[-1000:])
            raise ProgramError(f"the shell of this host does not do what sh does: status {done['rc']}, {said}")
        return answer

    def _upload(self, path: str) -> str:
        """Copy a file to the host and return its path there."""
        self._make_tmp_path()
        temporary = self._connection._shell.tmpdir
        there = self._connection._shell.join_path(temporary, os.path.basename(path))
        self._transfer_file(path, there)
        self._fixup_perms2((temporary, there))
        return str(there)

    def _upload_sources(self, program: Program) -> str:
        """Copy an archive of the program's sources to the host and return its path there."""
        with tempfile.NamedTemporaryFile(prefix="memstretch-", suffix=".tar") as file:
            with tarfile.open(fileobj=file, mode="w") as archive:
                for name in sources(program.build.name):
                    archive.add(os.path.join(FILES, name), name)
            file.flush()
            return self._upload(file.name)


def refusal(answer: Answer, cached: str, host: str) -> str:
    """Say why the program cannot be used on this host, and what to do."""
    if answer.state != "broken":
        return f"cannot put the program at {answer.path}: {answer.said}"
    if "Permission denied" in answer.said:
        return (
            f"{answer.path} cannot be run on {host}: {answer.said}. Its file system is mounted with noexec, or a "
            "security policy forbids it. Choose another directory (client_program_directory)"
        )
    remove = f"{cached} from the controller" if cached else answer.path
    return (
        f"{answer.path} does not start on {host}: {answer.said}. Without static libraries on the builder, the program "
        "needs the builder's shared libraries on every host. Install the static ones on the builder, or the shared "
        f"ones on {host}, or let each host build its own (client_program_build_on: fleet). Then remove {remove}"
    )
