# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab itself."""

from __future__ import annotations

import os
import subprocess
import sys

from .conftest import LAB_TOOL


def run_tool(directory, *words):
    """Run the tool on a lab in another directory."""
    environment = {**os.environ, "LAB_DIRECTORY": str(directory)}
    return subprocess.run(
        [sys.executable, LAB_TOOL, *words], env=environment, capture_output=True, text=True, check=False
    )


def test_only_root_may_open_the_sockets_of_libvirt(lab):
    """There is no authentication behind them, and libvirtd runs as root of this machine."""
    for hypervisor in lab.hypervisors:
        sockets = dict(
            line.split(" ", 1)[::-1]
            for line in hypervisor.run(
                "find", "/run/libvirt", "-name", "libvirt-*sock*", "-type", "s", "-printf", "%m %f\n"
            ).splitlines()
        )
        assert sockets == {"libvirt-sock": "700", "libvirt-sock-ro": "700", "libvirt-admin-sock": "700"}
        as_nobody = "virsh --connect qemu:///system uri 2>&1 || echo refused"
        told = hypervisor.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", as_nobody)
        assert "Permission denied" in told and "refused" in told, told


def test_a_second_lab_with_the_same_names_is_refused(lab, tmp_path):
    """It would share the networks of the first one, and the tests of each would end the VMs of the other."""
    name = lab.hypervisors[0].name
    second = run_tool(tmp_path / "lab", "up", name)
    assert second.returncode != 0 and f"another lab uses the network namespace memstretch-{name}" in second.stderr
    assert not (tmp_path / "lab" / name).exists()


def test_a_lab_that_ends_takes_no_mount_from_another_one(lab, tmp_path):
    record = "/var/lib/memstretch"
    lab.hypervisors[0].run("touch", f"{record}/kept")
    try:
        for command in (["up", "other"], ["down"]):
            done = run_tool(tmp_path / "lab", *command)
            assert done.returncode == 0, done.stderr
        assert lab.hypervisors[0].run("ls", record) == "kept\n"
    finally:
        lab.hypervisors[0].run("rm", "-f", f"{record}/kept")
