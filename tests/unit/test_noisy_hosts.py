# SPDX-License-Identifier: GPL-3.0-or-later
"""Every playbook and every role is played on a host whose sudo asks for a password and whose login prints.

The hosts are in tests/local (a program stands in for ssh), tests/fleet (real sshd) and tests/systemd (a booted Debian).
"""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCAL, FLEET, BOOTED = "local/test_noisy_host.py", "fleet/test_density.py", "systemd/test_demo.py"
# Each with the file of its tests.
PLAYED = {
    "benchmark": LOCAL,
    "demo": BOOTED,  # by sudo on that host itself, which is the only way that it allows
    "density": FLEET,
    "fleet": LOCAL,
    "headroom": LOCAL,
    "memory_bandwidth": LOCAL,
    "plan": LOCAL,
    "restore": LOCAL,
    "selftest": LOCAL,
    "site": LOCAL,
    "study": LOCAL,
    "teardown": LOCAL,
    "throughput": LOCAL,
    "tune": LOCAL,
    "verify": LOCAL,
    "writeback": LOCAL,
}
NOT_PLAYED = {
    "report": "it reads files of the controller and asks no host",
}
ROLES = {path.name for path in (ROOT / "roles").iterdir()}


def text_of(name: str) -> str:
    return (ROOT / "tests" / name).read_text(encoding="utf-8")


def used_by(*paths: pathlib.Path) -> set[str]:
    """Return the roles that files of Ansible use, and those that these use."""
    found: set[str] = set()
    waiting, seen = list(paths), set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        text = path.read_text(encoding="utf-8")
        waiting += [
            path.parent / each for each in re.findall(r"(?:import|include)_(?:playbook|tasks): (\S+\.yml)", text)
        ]
        new = (set(re.findall(r"\bmemstretch\.density\.(\w+)", text)) & ROLES) - found
        found |= new
        waiting += [task for role in new for task in (ROOT / "roles" / role / "tasks").glob("*.yml")]
        waiting = [each for each in waiting if each.is_file()]
    return found


def test_every_playbook_is_played() -> None:
    names = {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
    assert names == PLAYED.keys() | NOT_PLAYED.keys(), "play it on a noisy host, and name it here"


@pytest.mark.parametrize(("name", "tests"), PLAYED.items())
def test_the_tests_play_it(name: str, tests: str) -> None:
    text = text_of(tests) + (text_of("systemd/demo.py") if tests == BOOTED else "")
    assert re.search(rf'"{name}"|make {name}\b', text), f"tests/{tests} does not play {name}"


def test_the_report_asks_no_host() -> None:
    text = (ROOT / "playbooks" / "report.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"^  hosts: (.*)$", text, re.MULTILINE)) == {"localhost"}


def test_every_role_is_played() -> None:
    by_playbooks = used_by(*(ROOT / "playbooks" / f"{name}.yml" for name in PLAYED))
    alone = set(re.findall(r'\brole\("(\w+)"', text_of(LOCAL) + text_of("systemd/test_roles.py")))
    assert ROLES - by_playbooks - alone == set()
    assert {"swap_space", "kernel_cmdline", "packages", "redis", "host_tuning"} <= alone


@pytest.mark.parametrize("place", ["local/noisy_host.py", "fleet/ssh_machines.py", "systemd/machine.py"])
def test_the_hosts_are_noisy(place: str) -> None:
    text = text_of(place)
    assert {name for name in ("BASHRC", "PASSWORD", "SUDO_DEFAULTS") if name in text.partition("\nclass ")[2]} >= {
        "BASHRC",
        "PASSWORD",
    }
    assert "SUDO_DEFAULTS" in text
