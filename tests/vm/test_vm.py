# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of vm.py that need no running machine. The scenarios of extensions/molecule/ run machines."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).with_name("vm.py")


@pytest.fixture
def vm(tmp_path, monkeypatch):
    monkeypatch.setenv("VM_CACHE", str(tmp_path / "vm"))
    monkeypatch.delitem(sys.modules, "vm_image", raising=False)  # it reads the variable
    spec = importlib.util.spec_from_file_location("vm", TOOL)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "vm", module)
    spec.loader.exec_module(module)
    return module


def test_sources_of_both_formats_for_another_suite(vm, tmp_path):
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(
        "# a comment\ndeb http://mirror.invalid/debian bookworm main contrib\n"
        "deb-src http://mirror.invalid/debian bookworm main\n"
        "deb [arch=amd64] http://other.invalid/tool stable main\n",
        encoding="utf-8",
    )
    (tmp_path / "sources.list.d" / "debian.sources").write_text(
        "Types: deb deb-src\n# a comment\nURIs: http://mirror.invalid/security\n"
        "Suites: bookworm-security bookworm-updates\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian.gpg\n\n"
        "Types: deb\nURIs: http://other.invalid/node\nSuites: nodistro\nComponents: main\n",
        encoding="utf-8",
    )
    assert [line.strip() for line in vm.debian_image.apt_sources("trixie", tmp_path, "bookworm")] == [
        "deb http://mirror.invalid/debian trixie main contrib",
        "deb [signed-by=/usr/share/keyrings/debian.gpg] http://mirror.invalid/security trixie-security main",
        "deb [signed-by=/usr/share/keyrings/debian.gpg] http://mirror.invalid/security trixie-updates main",
    ]
    with pytest.raises(vm.VmError, match="no Debian entry for sid"):
        vm.debian_image.apt_sources("trixie", tmp_path, "sid")


def test_a_system_that_is_not_debian_has_no_sources(vm, monkeypatch):
    ubuntu = {"ID": "ubuntu", "PRETTY_NAME": "Ubuntu 24.04.3 LTS", "VERSION_CODENAME": "noble"}
    monkeypatch.setattr(vm.debian_image.platform, "freedesktop_os_release", lambda: ubuntu)
    with pytest.raises(vm.VmError, match="runs Ubuntu 24.04.3 LTS, whose apt sources have no Debian; build the image"):
        vm.debian_image.apt_sources("bookworm")


def test_a_drive(vm, tmp_path):
    drive = vm.Drive.parse("nvme:FAST0:1G")
    assert "nvme,serial=FAST0,drive=nvme-FAST0" in drive.arguments(tmp_path)
    assert drive.path(tmp_path) == tmp_path / "nvme-FAST0.raw"


@pytest.mark.parametrize("text", ["nvme:FAST0", "scsi:A:1G", "nvme:A B:1G", "nvme:A:big", "nvme:" + "A" * 21 + ":1G"])
def test_a_bad_drive(vm, text):
    with pytest.raises(vm.VmError, match="KIND:SERIAL:SIZE"):
        vm.Drive.parse(text)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-x", "a" * 65])
def test_a_bad_name(vm, name):
    with pytest.raises(vm.VmError, match="not a valid name"):
        vm.Machine(name)


def test_equal_recipes_are_one_image(vm):
    assert vm.Image(offer=("a", "b")).directory == vm.Image(offer=("a", "b")).directory
    recipes = [vm.Image(), vm.Image(suite="trixie"), vm.Image(offer=("a",)), vm.Image(include=("a",))]
    assert len({recipe.directory for recipe in recipes}) == len(recipes)


def test_a_process_in_a_stale_pidfile_gets_no_signal(vm):
    machine = vm.Machine("old")
    machine.directory.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            (machine.directory / "pid").write_text(str(stranger.pid), encoding="utf-8")
            assert machine.pid is None
            machine.remove()
            assert stranger.poll() is None and not machine.directory.exists()
        finally:
            stranger.kill()


def test_errors_of_the_command_line(tmp_path):
    def error_of(*words):
        run = subprocess.run(
            [sys.executable, TOOL, *words],
            env={**os.environ, "VM_CACHE": str(tmp_path)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert run.returncode
        return run.stderr

    assert "there is no machine nobody" in error_of("show", "nobody")
    assert "KIND:SERIAL:SIZE" in error_of("start", "x", "--drive", "floppy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["512", "512M:", "512M:a", "0-1", "512M:0-1:2"])
def test_a_bad_numa_node(vm, text):
    with pytest.raises(vm.VmError, match=f"--numa {re.escape(repr(text))} is not allowed"):
        vm.NumaNode.parse(text)


def test_numa_arguments_of_qemu(vm):
    words = vm.numa_arguments([vm.NumaNode.parse("512M:0-1"), vm.NumaNode.parse("1G")], 2)
    assert words[:2] == ["-machine", "hmat=on"]
    assert (
        "node,nodeid=0,memdev=node0,initiator=0,cpus=0-1" in words and "node,nodeid=1,memdev=node1,initiator=0" in words
    )
    assert "memory-backend-ram,id=node1,size=1024M" in words
    # The node without CPUs must be slower, or the kernel sees only one tier.
    assert "hmat-lb,initiator=0,target=0,hierarchy=memory,data-type=access-latency,latency=10" in words
    assert "hmat-lb,initiator=0,target=1,hierarchy=memory,data-type=access-latency,latency=60" in words


def test_a_numa_node_needs_cpus(vm):
    with pytest.raises(vm.VmError, match="at least one node needs CPUs"):
        vm.numa_arguments([vm.NumaNode.parse("512M")], 2)


def test_append_is_refused_with_a_boot_loader(vm):
    with pytest.raises(vm.VmError, match="--append 'quiet' is not allowed with --boot grub"):
        vm.Machine("try").start(vm.Image(boot="grub"), append="quiet")


def test_the_preferred_port_is_used_if_it_is_free(vm):
    port = vm.free_port()
    assert vm.free_port(port) == port
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        assert vm.free_port(port) != port
