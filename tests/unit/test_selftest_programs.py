# SPDX-License-Identifier: GPL-3.0-or-later
"""The script of the self-test that reads the versions of programs, on hosts that lack some."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

TASKS = pathlib.Path(__file__).resolve().parents[2] / "roles" / "selftest" / "tasks" / "about.yml"


@pytest.fixture
def read(tmp_path):
    """A function that runs the script on a host with a few programs, and returns its lines."""
    (script,) = (
        task["ansible.builtin.raw"]
        for task in yaml.safe_load(TASKS.read_text(encoding="utf-8"))
        if "ansible.builtin.raw" in task
    )
    marker = "MARKER "
    script = script.replace("{{ __selftest_marker }}", marker)
    script = script.replace(":/usr/sbin:/sbin:/usr/libexec", "").replace(
        "/etc/os-release", str(tmp_path / "os-release")
    )

    def call():
        completed = subprocess.run(
            ["/bin/sh", "-c", script], env={"PATH": str(tmp_path)}, stdout=subprocess.PIPE, text=True, check=True
        )
        lines = completed.stdout.splitlines()
        return [line.removeprefix(marker) for line in lines if line.startswith(marker)]

    for name in ("uname", "head", "sed"):
        os.symlink(shutil.which(name), tmp_path / name)
    return call


def systemd():
    return ["systemd" if os.path.isdir("/run/systemd/system") else ""]


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
    path.chmod(0o755)


def test_each_program_that_is_there_has_a_line(read, tmp_path):
    (tmp_path / "os-release").write_text('PRETTY_NAME="Some Linux 1"\nID=some\nVERSION_ID="1.2"\n', encoding="ascii")
    program(tmp_path / "redis-server", "echo Redis 7")
    program(tmp_path / "ssh", "echo OpenSSH_9 >&2")
    program(tmp_path / "pveversion", "echo pve-manager/8")
    assert read() == [
        os.uname().nodename,
        "Some Linux 1",
        "some",
        "1.2",
        "pve-manager/8",
        *systemd(),
        "Redis 7",
        "OpenSSH_9",
    ]


def test_a_host_without_ssh_client_and_without_name_of_its_system_is_read_too(read):
    assert read() == [os.uname().nodename, "", "", "", "", *systemd()]
