# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What README offers, on a Debian as it comes: its own kernel and systemd, a swap partition, sudo with a password.

The machine is emulated, since no other has the kernel of Debian, or control groups of version 2 alone. Its latencies
mean nothing, but the demo must run to its end, name a density, and leave the machine as it was. Takes two hours and
needs root. The machine has no network: packages come from a repository on its disk, and Python packages are copied.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import typing as t

import memory_settings
import pytest
import readme_commands
from noisy_login import PASSWORD
from packaging.requirements import Requirement

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from vm import CPUS_OF_LONG_RUNS, Drive, Image, Machine

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEMORY_MIB, DISK = 2048, "8G"
USER = "tester"
PYTHON = {"bookworm": "3.11.2", "trixie": "3.13.5"}
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux_2_17_x86_64")
SWAP_DRIVE, SWAP = Drive("virtio", "SWAP", "256M"), "/dev/disk/by-id/virtio-SWAP-part1"
# An emulated machine is noisy, which must not end the demo. It answers few requests, takes a minute for each size, and
# each idle Redis takes some 4 % of its CPU. So a few large servers fill the budget: memory ends before the CPU does.
VARIABLES = {
    "site_check_max_stolen": 1,
    "site_check_max_gap": 1e6,
    "density_max_stolen": 1,
    "density_rounds": 1,
    "density_growth": 0.5,
    "density_references": 2,
    "latency_benchmark_key_count": 30_000,
    "latency_benchmark_rate": 10,
}
INSTALL = f"""\
set -eu
useradd --create-home --shell /bin/bash {USER}
echo {shlex.quote(f"{USER}:{PASSWORD}")} | chpasswd
usermod --append --groups sudo {USER}
echo type=swap | sfdisk --quiet /dev/disk/by-id/virtio-SWAP
udevadm settle
mkswap --quiet {SWAP}
echo "UUID=$(blkid -s UUID -o value {SWAP}) none swap sw 0 0" >>/etc/fstab
swapon --all
printf '[global]\\nno-index = true\\nfind-links = /opt/wheels\\n' >/etc/pip.conf
mkdir /opt/wheels
"""


def packages() -> tuple[str, ...]:
    """Return the Debian packages that the demo installs."""
    rule = "--eval=packages: ; @echo $(PACKAGES)"
    found = subprocess.run(["make", "-s", "-C", ROOT, rule, "packages"], check=True, capture_output=True, text=True)
    return tuple(found.stdout.split())


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Machine]:
    """A machine of a release of Debian, with a user who has cloned this repository."""
    suite = request.param
    found, directory = Machine(f"demo-{os.getpid()}"), tmp_path_factory.mktemp("machine")
    try:
        image = Image(suite=suite, include=("fdisk", "git", "make", "python3", "sudo"), offer=packages(), disk=DISK)
        found.start(image, memory=MEMORY_MIB, cpus=CPUS_OF_LONG_RUNS, drives=[SWAP_DRIVE])
        run(found, INSTALL, stdin=subprocess.DEVNULL)
        (directory / "wheels").mkdir()
        wheels(directory / "wheels", PYTHON[suite])
        copy(found, directory / "wheels", "/opt/wheels")
        subprocess.run(["git", "clone", "-q", "--no-local", ROOT, directory / "clone/density"], check=True)
        copy(found, directory / "clone", f"/home/{USER}")
        run(found, f"chown -R {USER}: /home/{USER}/density", stdin=subprocess.DEVNULL)
        yield found
    finally:
        found.remove()


def run(machine: Machine, script: str, **options: t.Any) -> str:
    """Run a script as root there, and return what it prints."""
    command = machine.ssh_command(script)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def settings(machine: Machine) -> list[str]:
    """Return the settings of memory, and the swap, as the machine sees them."""
    return memory_settings.settings(run(machine, memory_settings.READ, stdin=subprocess.DEVNULL))


def copy(machine: Machine, directory: pathlib.Path, there: str) -> None:
    """Copy what is in a directory."""
    with subprocess.Popen(["tar", "-C", directory, "-cf", "-", "."], stdout=subprocess.PIPE) as packed:
        run(machine, f"tar -C {there} -xf - --no-same-owner", stdin=packed.stdout)


def left_over(machine: Machine) -> str:
    """Return the files of ours that are still there."""
    return run(machine, "find /etc /var/lib -name '*memstretch*'", stdin=subprocess.DEVNULL)


def log_in(machine: Machine, command: str, output: pathlib.Path) -> tuple[int, str]:
    """Run a command of the user's shell, whose input has the sudo password, and return its status and output."""
    login = machine.ssh_command(f"su --login {USER} --command {shlex.quote(command)}")
    with output.open("w+") as stream:
        done = subprocess.run(
            login, input=f"{PASSWORD}\n", text=True, stdout=stream, stderr=subprocess.STDOUT, check=False
        )
        stream.seek(0)
        text = stream.read()
    sys.stdout.write(text)
    return done.returncode, text


def wheels(directory: pathlib.Path, python: str) -> None:
    """Download the Python packages of the demo for a version of Python. The demo compares their hashes."""
    minor = python.rpartition(".")[0]
    there = {"python_version": minor, "python_full_version": python}
    lines = re.findall(
        r"^[\w.-]+==.*?(?= *\\\\?$)", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE
    )
    locked = map(Requirement, lines)
    # pip download would judge the markers by the Python that runs it.
    wanted = [f"{each.name}{each.specifier}" for each in locked if not each.marker or each.marker.evaluate(there)]
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", *platforms]
        + ["--python-version", minor, "-d", directory, *wanted],
        check=True,
    )


@pytest.mark.parametrize("machine", ["trixie"], indirect=True)
def test_a_user_with_a_sudo_password_gets_an_answer(machine: Machine, tmp_path: pathlib.Path) -> None:
    before = settings(machine)

    demo = f"sudo -S -p '' make demo DEMO={shlex.quote('-e ' + shlex.quote(json.dumps(VARIABLES)))}"
    status, text = log_in(machine, f"cd density && {demo}", tmp_path / "output")
    assert status == 0, text
    path = f"/home/{USER}/density/results/density-*/density.json"
    document = json.loads(run(machine, f"cat {path}", stdin=subprocess.DEVNULL))
    assert document["restored"], text
    assert [arm["name"] for arm in document["arms"]][:2] == ["dram", "zram"]
    assert all(arm["density"] for arm in document["arms"]), text
    assert settings(machine) == before
    assert not left_over(machine)


@pytest.mark.parametrize(("machine", "damon"), [("trixie", True), ("bookworm", False)], indirect=["machine"])
def test_an_owner_with_a_sudo_password_gets_an_answer_to_each_command(
    machine: Machine, damon: bool, tmp_path: pathlib.Path
) -> None:
    status, text = log_in(machine, "cd density && sudo -S -p '' make setup", tmp_path / "output")
    assert status == 0, text
    before = settings(machine)

    def on_a_terminal(command: str) -> list[str]:
        ssh, *rest = machine.ssh_command(f"su --login {USER} --session-command {shlex.quote(command)}")
        return [ssh, "-tt", *rest]

    outputs = readme_commands.type_all(on_a_terminal, "density", damon)
    assert "Verdict: safe" in outputs["headroom"], "the Redis is small"
    assert settings(machine) == before
    assert not left_over(machine)
