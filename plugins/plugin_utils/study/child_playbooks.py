# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run whole playbooks one after another from within a task.

A study is a sequence of runs, each under another profile, but Ansible loops over tasks, not over plays. Delegated
include_tasks would be a second site.yml for this purpose only: a host that dies in one run would be lost to all later
runs, and facts of one profile would leak into the next. So each run is what a user would type: ansible-playbook with
the same inventory, variables and connection options, in its own process, with its output passed on line by line.

What this collection adds to these variables is in a file that only this user can read. No text in it is a template.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import typing as t

from ansible import context
from ansible.utils.color import ANSIBLE_COLOR
from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.plugin_utils import inert_yaml
from ansible_collections.memstretch.density.plugins.plugin_utils.collection import ROOT
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import message
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.run.reproduction import VARIABLE_FILES
from ansible_collections.memstretch.density.plugins.plugin_utils.study import typed_passwords
from ansible_collections.memstretch.density.plugins.plugin_utils.study.status_line import StatusLine

_PLAYBOOKS = os.path.join(ROOT, "playbooks")

# Options of ansible-playbook that a child inherits. Not tags: they would select other tasks.
_VALUES = (
    ("remote_user", "--user"),
    ("private_key_file", "--private-key"),
    ("connection", "--connection"),
    ("timeout", "--timeout"),
    ("ssh_common_args", "--ssh-common-args"),
    ("sftp_extra_args", "--sftp-extra-args"),
    ("scp_extra_args", "--scp-extra-args"),
    ("ssh_extra_args", "--ssh-extra-args"),
    ("become_method", "--become-method"),
    ("become_user", "--become-user"),
    ("become_password_file", "--become-password-file"),
    ("connection_password_file", "--connection-password-file"),
    ("forks", "--forks"),
    ("subset", "--limit"),
)
_SWITCHES = (
    ("become", "--become"),
    ("diff", "--diff"),
    ("force_handlers", "--force-handlers"),
    ("flush_cache", "--flush-cache"),
)
_LISTS = (
    ("inventory", "--inventory"),
    ("vault_ids", "--vault-id"),
    ("vault_password_files", "--vault-password-file"),
    ("extra_vars", "--extra-vars"),
)
# Options that prompt on the terminal, and their replacement where many playbooks run unattended. Of the first two, the
# answer is known as a rule.
_QUESTIONS = (
    ("become_ask_pass", "--ask-become-pass (-K)", "--become-password-file"),
    ("ask_pass", "--ask-pass (-k)", "--connection-password-file"),
    ("ask_vault_pass", "--ask-vault-password (-J)", "--vault-password-file"),
    ("step", "--step", "it without this option"),
)


# A line of a quiet playbook that begins so is a result, and is shown.
RESULT_MARK = "| "
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

# An interrupted playbook that has not ended by then is interrupted again.
_AGAIN_SECONDS = 30.0


class Interrupted(Exception):
    """Ctrl-C or SIGTERM; the running playbook has ended."""


class ChildPlaybooks:
    """Runs playbooks of this collection. Catches signals while it is open and passes them on to the running playbook.

    When ansible-core is interrupted, it signals the worker processes of its tasks and waits for them when it exits, so
    there is time to clean up. It ignores their output by then, so say() writes to the parent's output directly.

    Args:
        log: receives each line.
        explain: is called at once when a playbook is interrupted, before it has ended.

    Attributes:
        interrupted: whether the user has interrupted a playbook.
    """

    def __init__(self, log: t.Callable[[str], None], explain: t.Callable[[], None]) -> None:
        self._log = log
        self._explain = explain
        self.interrupted = False
        self._before: dict[int, t.Any] = {}
        self._terminal = f"/proc/{os.getppid()}/fd/1"
        self._status = StatusLine(self._terminal)

    def __enter__(self) -> ChildPlaybooks:
        self._before = {each: signal.signal(each, self._interrupt) for each in (signal.SIGINT, signal.SIGTERM)}
        _signal_when_the_parent_dies(signal.SIGTERM)  # a killed ansible-playbook leaves this process running
        return self

    def __exit__(self, *error: t.Any) -> None:
        _signal_when_the_parent_dies(0)
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _interrupt(self, signum: int, frame: t.Any) -> None:
        # The parent sends a second signal soon after the first; the clean-up must go on.
        if not self.interrupted:
            self.interrupted = True
            raise Interrupted

    def say(self, line: str) -> None:
        """Show a line and log it."""
        if not self.interrupted:
            self._status.clear()
            Display().display(line)
        else:
            # A file that the shell has opened has its own write position, which this would overwrite.
            with contextlib.suppress(OSError):
                if not stat.S_ISREG(os.stat(self._terminal).st_mode):
                    with open(self._terminal, "a", encoding="utf-8") as stream:
                        stream.write(line + "\n")
        self._log(line)

    def _follow(self, line: str) -> None:
        """Log a line of a quiet playbook, and show the step that it announces, or what it has measured."""
        if line.startswith(RESULT_MARK):
            self.say(message(line))  # a host may have written it
            return
        if not self.interrupted:
            self._status.follow(line)
        self._log(line)

    def run(
        self,
        name: str,
        variables: t.Mapping[str, t.Any],
        quiet: bool = False,
        check: bool = False,
        limited: bool = True,
    ) -> int:
        """Run a playbook of this collection to its end and return its exit status.

        Args:
            name: path below playbooks/, without .yml.
            variables: override those of the parent.
            quiet: whether to log its output without showing it, except for the step that it is at, in one line that is
                erased at the end. With -v all output is shown.
            check: whether to use check mode.
            limited: whether the parent's --limit applies. It would leave out hosts that the playbook adds.

        Raises:
            Interrupted: the user interrupted it; the playbook has ended.
            RunError: a variable looks like a template.
        """
        refuse_templates(variables)
        take = self._follow if quiet and not context.CLIARGS.get("verbosity") else self.say
        with typed_passwords.handed_over() as passwords, _variable_file(variables) as path, subprocess.Popen(
            [*_command(name, path, check, limited), *passwords],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_environment(path),
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=lambda: _signal_when_the_parent_dies(signal.SIGINT),
        ) as process:
            output = t.cast("t.IO[str]", process.stdout)
            try:
                for line in output:
                    take(line.rstrip("\n"))
                self._status.clear()
                return process.wait()
            except BaseException:
                process.send_signal(signal.SIGINT)
                # Python ignores an interrupt that arrives in a destructor, for example. The playbook would go on.
                again = threading.Timer(_AGAIN_SECONDS, process.send_signal, [signal.SIGINT])
                again.start()
                if self.interrupted:
                    self._explain()
                for line in output:
                    self.say(line.rstrip("\n"))
                again.cancel()
                raise


def _signal_when_the_parent_dies(number: int) -> None:
    """Let the kernel send this process a signal when its parent dies, however it dies; 0 for none."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")


def refuse_questions() -> None:
    """Refuse options that would make each playbook prompt on the terminal.

    Raises:
        RunError: one is given; the text names its replacement.
    """
    for name, option, instead in _QUESTIONS:
        if context.CLIARGS.get(name) and not typed_passwords.known(name):
            raise RunError(f"{option} prompts on the terminal, but this command runs many playbooks; use {instead}")


def refuse_templates(value: t.Any, name: str = "") -> None:
    """Refuse variables that look like templates.

    Names of hosts come from clouds too, and those of runs and studies from a results directory that others may
    write to. A playbook does not run those of its variable file as templates, but what it makes of them may become one.

    Raises:
        RunError: a text, also one that is a key, looks like a template; the message names it.
    """
    if isinstance(value, t.Mapping):
        for key, each in value.items():
            refuse_templates(str(key), name or "the name of a variable")
            refuse_templates(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for each in value:
            refuse_templates(each, name)
    elif isinstance(value, str) and any(each in value for each in inert_yaml.TEMPLATES):
        raise RunError(
            f"{name}: {value[:80]!r} is not allowed; a name of a host, a run or a study must not hold "
            f"{', '.join(inert_yaml.TEMPLATES)}, because Ansible could run it as a template"
        )


@contextlib.contextmanager
def _variable_file(variables: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """Keep variables in a file of this user's for a while; yield its path."""
    with tempfile.NamedTemporaryFile("w", prefix="memstretch-", suffix=".yml", encoding="utf-8") as file:
        file.write(inert_yaml.text(variables))
        file.flush()
        yield file.name


def _command(name: str, variable_file: str, check: bool = False, limited: bool = True) -> list[str]:
    left_out = typed_passwords.replaced() | (set() if limited else {"subset"})
    given = {key: value for key, value in context.CLIARGS.items() if key not in left_out}
    command = [sys.executable, "-m", "ansible", "playbook", os.path.join(_PLAYBOOKS, f"{name}.yml")]
    command += [
        word for key, option in _VALUES if given.get(key) not in (None, "") for word in (option, str(given[key]))
    ]
    command += [option for key, option in _SWITCHES if given.get(key)]
    command += [word for key, option in _LISTS for each in given.get(key) or () for word in (option, str(each))]
    command += ["-" + "v" * given["verbosity"]] if given.get("verbosity") else []
    command += ["--check"] if check else []
    return [*command, "--extra-vars", f"@{variable_file}"]


def _environment(variable_file: str) -> dict[str, str]:
    """Return the parent's environment without its log path; the parent logs the child's output."""
    environment = {name: value for name, value in os.environ.items() if name != "ANSIBLE_LOG_PATH"}
    environment["PYTHONUNBUFFERED"] = "1"
    # The child shows in run.json what is in them. Its parent may be a child, too.
    environment[VARIABLE_FILES] = os.pathsep.join(filter(None, (os.environ.get(VARIABLE_FILES), variable_file)))
    if ANSIBLE_COLOR:
        environment["ANSIBLE_FORCE_COLOR"] = "1"
    return environment
