# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a bench in a Debian 13 that is emulated, for what the kernel of this machine lacks or somebody else uses.

The image is that of tests/vm, built once. The machine has one CPU, boots for each run, and is removed afterwards.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys
import tarfile
import tempfile
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "vm"))

import charged_dram
from vm import CPUS_OF_LONG_RUNS, Image, Machine

ROOT = charged_dram.ROOT
# What a bench imports or starts. ansible-core is there for module_utils.
PACKAGES = ("ansible-core", "redis-server")
SOURCES = (
    "plugins",
    "meta",
    "galaxy.yml",
    "playbooks/files",
    "tests/bench",
    "tests/vm",
    "tests/local/memory_load.py",
    "tests/programs/solotest/servers.py",
)
MEMORY_MIB = 1024
_THERE = "/root/density"
_COLLECTION = ".ansible/collections/ansible_collections/memstretch/density"


def run(program: str, arguments: t.Sequence[str]) -> t.Iterator[str]:
    """Run a bench with the same arguments in an emulated machine, and yield what it prints.

    Args:
        program: the file of the bench.
        arguments: its own; --emulated and --write stay here.
    """
    name = f"bench-{pathlib.Path(program).stem}-{os.getpid()}"
    there = [each for each in arguments if each not in ("--emulated", "--write")]
    command = ["python3", str(pathlib.Path(program).resolve().relative_to(ROOT)), *there, "--client=/root/solotest"]
    machine = Machine(name)
    try:
        machine.start(Image(suite="trixie", include=PACKAGES), memory=MEMORY_MIB, cpus=CPUS_OF_LONG_RUNS)
        _copy(machine)
        _in(machine, "systemctl disable --now --quiet redis-server && modprobe zram num_devices=0")
        words = machine.ssh_command(f"cd {_THERE} && exec {shlex.join(command)}")
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as running:
            if running.stdout is None:
                raise RuntimeError("no output")
            for line in running.stdout:
                yield line.rstrip("\n")
        if running.returncode:
            raise subprocess.CalledProcessError(running.returncode, command)
    finally:
        machine.remove()


def _copy(machine: Machine) -> None:
    """Copy the sources of a bench, and the client, which is built here: an emulated compiler takes minutes."""
    with tempfile.TemporaryDirectory() as directory:
        # The library of the other Debian has another name.
        client = charged_dram.build(directory, "-l:libhiredis.a")
        packed = pathlib.Path(directory, "sources.tar.gz")
        with tarfile.open(packed, "w:gz") as archive:
            for source in SOURCES:
                archive.add(ROOT / source, f"density/{source}", filter=_without_bytecode)
            archive.add(client, "solotest")
        with packed.open("rb") as file:
            subprocess.run(machine.ssh_command("tar -xzf - -C /root"), stdin=file, check=True)
    path = pathlib.PurePosixPath(_THERE, _COLLECTION)
    _in(machine, f"mkdir -p {path.parent} && ln -s {_THERE} {path}")


def _without_bytecode(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if pathlib.PurePosixPath(entry.name).name in ("__pycache__", "build") else entry


def _in(machine: Machine, script: str) -> None:
    subprocess.run(machine.ssh_command(script), stdin=subprocess.DEVNULL, check=True)
