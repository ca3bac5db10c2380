# SPDX-License-Identifier: GPL-3.0-or-later
"""The role client_program on this machine: builds a program, keeps it in the cache, installs it and starts it once."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import typing as t

import pytest
import yaml

from .conftest import ANSIBLE_PLAYBOOK, PATIENCE, ROOT, write_inventory

# A compiler without static libraries, whose programs need a loader that no host has.
COMPILER_OF_BROKEN_PROGRAMS = """#!/bin/sh
for argument in "$@"; do [ "$argument" != -static ] || { echo "no static libraries" >&2; exit 1; }; done
exec /usr/bin/cc "$@" -Wl,--dynamic-linker,/nonexistent/loader
"""

# What follows -o is the program.
HOSTILE_COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\necho hostile\\n' > "$2"
chmod 755 "$2"
"""


@pytest.fixture
def install(
    tmp_path: pathlib.Path, bytecode_environment: dict[str, str]
) -> t.Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the role for membw on two hosts."""
    playbook = tmp_path / "play.yml"
    variables = {
        "client_program_name": "membw",
        "client_program_cache_directory": str(tmp_path / "cache"),
        "client_program_directory": str(tmp_path / "bin" / "{{ inventory_hostname }}"),
    }
    fleet = {"hosts": {"a": {}, "b": {}}, "vars": variables}
    inventory = write_inventory(tmp_path / "hosts.yml", {"fleet": fleet})
    play = {
        "hosts": "all",
        "gather_facts": False,
        "environment": {
            "PATH": "{{ path_of_a if path_of_a is defined and inventory_hostname == 'a' else lookup('env', 'PATH') }}",
            "HOME": "{{ home_of_hosts | default(lookup('env', 'HOME')) }}",
        },
        "tasks": [
            {
                "ansible.builtin.include_role": {"name": "memstretch.density.client_program"},
                "when": "inventory_hostname in users | default(['a', 'b'])",
            }
        ],
    }
    playbook.write_text(yaml.safe_dump([play]), encoding="utf-8")

    common = {
        **os.environ,
        **bytecode_environment,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
    }

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(ANSIBLE_PLAYBOOK), "-i", str(inventory), str(playbook), *arguments],
            env={**common, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    return run


def test_a_program_is_built_on_the_controller_and_kept_there(install, tmp_path):
    checked = install("--check")
    assert checked.returncode == 0, checked.stdout
    assert not (tmp_path / "cache").exists() and not (tmp_path / "bin").exists()

    built = install()
    assert built.returncode == 0, built.stdout
    (cached,) = (tmp_path / "cache" / "controller").iterdir()
    for host in ("a", "b"):
        (program,) = (tmp_path / "bin" / host).iterdir()
        assert program.name.startswith("membw-") and cached.name == program.name
        assert cached.read_bytes() == program.read_bytes()
        assert "membw" in subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout

    again = install()
    assert again.returncode == 0 and again.stdout.count("changed=0") == 2, again.stdout


@pytest.mark.long
def test_a_part_of_the_hosts_may_use_the_role(install, tmp_path):
    built = install("-e", '{"users": ["b"]}')
    assert built.returncode == 0, built.stdout
    assert [each.name for each in (tmp_path / "bin").iterdir()] == ["b"]


@pytest.mark.long
def test_what_a_host_builds_stays_on_that_host(install, tmp_path):
    """Host a is hostile: its compiler makes a program that leaves a trace wherever it runs."""
    compiler = tmp_path / "hostile" / "cc"
    compiler.parent.mkdir()
    compiler.write_text(HOSTILE_COMPILER, encoding="ascii")
    compiler.chmod(0o755)

    options = ("-e", "client_program_build_on=fleet", "-e", f"path_of_a={compiler.parent}:{os.environ['PATH']}")
    assert install("--check", *options).returncode == 0
    assert not (tmp_path / "bin").exists()
    built = install(*options)

    assert built.returncode == 0, built.stdout
    assert not (tmp_path / "cache").exists()
    (hostile,), (own,) = ((tmp_path / "bin" / host).iterdir() for host in ("a", "b"))
    assert "hostile" in hostile.read_text(encoding="ascii")
    assert own.read_bytes()[:4] == b"\x7fELF"

    again = install(*options)
    assert again.returncode == 0 and again.stdout.count("changed=0") == 2, again.stdout


def test_a_program_that_does_not_start_on_a_host_is_refused(install, tmp_path):
    compiler = tmp_path / "compiler" / "cc"
    compiler.parent.mkdir()
    compiler.write_text(COMPILER_OF_BROKEN_PROGRAMS, encoding="ascii")
    compiler.chmod(0o755)

    refused = install(PATH=f"{compiler.parent}:{os.environ['PATH']}")

    assert refused.returncode != 0
    assert "does not start on a" in refused.stdout and "does not start on b" in refused.stdout, refused.stdout
    assert "Install the static ones on the builder" in refused.stdout


@pytest.mark.long
def test_the_home_directory_is_that_of_the_host_also_for_a_program_that_it_builds(install, tmp_path):
    (tmp_path / "home").mkdir()
    options = ("-e", f"home_of_hosts={tmp_path}/home", "-e", "client_program_directory=~/programs", "--limit", "a")

    built = install("-e", "client_program_build_on=fleet", *options)

    assert built.returncode == 0, built.stdout
    (program,) = (tmp_path / "home" / "programs").iterdir()
    assert "membw" in subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout


@pytest.mark.long
def test_a_host_that_builds_its_own_program_does_not_keep_the_controller_from_building_that_of_another(
    install, tmp_path
):
    place = "{{ 'fleet' if inventory_hostname == 'a' else 'controller' }}"
    built = install("-e", json.dumps({"client_program_build_on": place}))

    assert built.returncode == 0, built.stdout
    (cached,) = (tmp_path / "cache" / "controller").iterdir()
    (own,), (copied,) = ((tmp_path / "bin" / host).iterdir() for host in ("a", "b"))
    assert cached.read_bytes() == copied.read_bytes() and own.name == copied.name
