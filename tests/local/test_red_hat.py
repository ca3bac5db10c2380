# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role redis says on Red Hat's systems, on which it was not run: this machine with the release file of one."""

from __future__ import annotations

import shutil

import pytest

from .conftest import REDIS_OF_THE_PLAY, LocalFleet, write_inventory
from .other_host import python_with_mounts

RELEASE = (
    'NAME="AlmaLinux"\nVERSION="10.0 (Purple Lion)"\nID="almalinux"\nID_LIKE="rhel centos fedora"\nVERSION_ID="10.0"\n'
)


@pytest.mark.usefixtures("needs_root")
def test_what_to_set_on_red_hat_is_told_before_anything_is_installed(fleet: LocalFleet) -> None:
    etc = fleet.path / "etc"
    shutil.copytree("/etc", etc, symlinks=True)
    (etc / "os-release").unlink()
    (etc / "os-release").write_text(RELEASE, encoding="utf-8")
    (etc / "redhat-release").write_text("AlmaLinux release 10.0 (Purple Lion)\n", encoding="utf-8")
    (etc / "debian_version").unlink()
    # SELinux and systemd are not on this machine.
    kernel, run = fleet.path / "fs", fleet.path / "run"
    (kernel / "selinux").mkdir(parents=True)
    (kernel / "selinux" / "enforce").write_text("1", encoding="ascii")
    (run / "systemd" / "system").mkdir(parents=True)
    python = python_with_mounts(fleet.path / "python", {"/etc": etc})
    enforcing = python_with_mounts(fleet.path / "enforcing", {"/etc": etc, "/sys/fs": kernel, "/run": run})
    inventory = write_inventory(
        fleet.path / "hosts.yml", {"fleet": {"hosts": {"a": {"ansible_python_interpreter": python}}}}
    )
    role = {"name": "memstretch.density.redis"}
    directory = {"redis_directory": str(fleet.path / "redis"), **REDIS_OF_THE_PLAY}
    tasks = [
        {"ansible.builtin.include_role": role, "vars": {**directory, "redis_executable": "no-such-redis"}},
        {"ansible.builtin.include_role": role, "vars": {**directory, "ansible_python_interpreter": enforcing}},
    ]
    valkey, selinux = fleet.messages(tasks, inventory)
    assert valkey.startswith("redis_package: AlmaLinux 10 has Valkey instead of Redis. Set redis_package to valkey"), (
        valkey
    )
    assert "redis_supervisor: 'auto' is not allowed where SELinux is enforcing" in selinux, selinux
    assert not (fleet.path / "redis").exists()
