# SPDX-License-Identifier: GPL-3.0-or-later
"""Passwords that were typed reach a child, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest
from ansible import context
from ansible.cli import CLI
from ansible.module_utils.common.collections import ImmutableDict

from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.study import child_playbooks, typed_passwords

READ = "import sys; from ansible.cli import CLI; print(CLI.get_password_from_file(sys.argv[1]))"


@pytest.fixture
def typed(monkeypatch):
    """A function that sets the options of this ansible-playbook, and what its user has typed."""
    monkeypatch.setattr(typed_passwords, "_held", {})

    def give(become="", password="", **options):
        monkeypatch.setattr(context, "CLIARGS", ImmutableDict(options))
        typed_passwords.keep(types.SimpleNamespace(become_pass=become, password=password))

    return give


def test_a_child_reads_what_was_typed_as_ansible_reads_a_password_file(typed):
    typed(become="it's $hidden", password="other", become_ask_pass=True, ask_pass=True)
    child_playbooks.refuse_questions()
    with typed_passwords.handed_over() as words:
        assert words[::2] == ["--become-password-file", "--connection-password-file"]
        assert not any("hidden" in word for word in words)
        directory = os.path.dirname(words[1])
        assert os.stat(directory).st_mode & 0o077 == 0
        done = subprocess.run([sys.executable, "-c", READ, words[1]], capture_output=True, text=True, check=True)
        assert done.stdout == "it's $hidden\n"
        assert CLI.get_password_from_file(words[3]) == "other"
    assert not os.path.exists(directory)


def test_a_child_that_never_reads_it_keeps_nobody(typed):
    typed(become="x", become_ask_pass=True)
    with typed_passwords.handed_over() as words:
        assert len(words) == 2
    assert not os.path.exists(words[1])


def test_what_was_not_typed_is_not_handed_over(typed):
    typed(become="of a variable or a file", become_password_file=__file__)
    with typed_passwords.handed_over() as words:
        assert words == []
    assert "--become-password-file" in child_playbooks._command("site", "/tmp/own.yml")


@pytest.mark.parametrize("path", ["-", "/proc/nothing/fd/7", "a pipe"])
def test_a_password_file_that_can_be_read_only_once_is_handed_over_again(typed, tmp_path, path):
    """A child of a child has the pipe of its parent as its password file."""
    if path == "a pipe":
        path = str(tmp_path / "pipe")
        os.mkfifo(path)
    typed(become="x", become_password_file=path)
    with typed_passwords.handed_over() as words:
        assert words[0] == "--become-password-file" and words[1] != path
    assert path not in child_playbooks._command("site", "/tmp/own.yml")


def test_a_question_whose_answer_is_not_known_is_refused(typed):
    typed(become_ask_pass=True)
    with pytest.raises(RunError, match="--become-password-file"):
        child_playbooks.refuse_questions()
