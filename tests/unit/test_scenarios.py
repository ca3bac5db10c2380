# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenarios of Molecule: what each verifies exists, because Molecule passes a verify step without tests."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = {path.parent.name: path.parent for path in sorted(ROOT.glob("extensions/molecule/*/molecule.yml"))}


def settings(name: str) -> dict[str, t.Any]:
    return yaml.safe_load((SCENARIOS[name] / "molecule.yml").read_text(encoding="utf-8"))


def steps(name: str, kind: str) -> list[str]:
    """Return the arguments of the steps of a kind, "" for a step without one."""
    words = [step.split() for step in settings(name)["scenario"]["test_sequence"]]
    return [argument for word, *arguments in words if word == kind for argument in arguments or [""]]


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_verify_step_has_something_to_verify(name: str) -> None:
    verifier = settings(name)["verifier"]
    for argument in steps(name, "verify"):
        if verifier["name"] == "testinfra":
            directory = SCENARIOS[name] / (argument or verifier.get("directory", "tests"))
            assert list(directory.rglob("test_*.py")), f"{directory} holds no tests"
        else:
            assert (SCENARIOS[name] / (argument or "verify.yml")).is_file()
    assert steps(name, "verify")


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_directory_of_tests_is_verified(name: str) -> None:
    verifier = settings(name)["verifier"]
    named = {argument or verifier.get("directory", "tests") for argument in steps(name, "verify")}
    tests = (SCENARIOS[name] / "tests").rglob("test_*.py")
    assert {str(file.parent.relative_to(SCENARIOS[name])) for file in tests} <= named


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_playbook_of_a_step_exists(name: str) -> None:
    for argument in steps(name, "side_effect"):
        assert (SCENARIOS[name] / argument).is_file(), argument


@pytest.mark.parametrize("name", SCENARIOS)
def test_tests_ask_none_of_our_own_code(name: str) -> None:
    for file in (SCENARIOS[name] / "tests").rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        assert "ansible_collections" not in source and "host.ansible(" not in source, file


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_lane_plays_it(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    scenarios = re.search(r"^ROOT_SCENARIOS := (.*)$", makefile, re.MULTILINE)
    assert scenarios
    lanes = re.findall(r"scenario-(\w+)|\$\(MOLECULE\) (\w+)$", makefile, re.MULTILINE)
    assert name in {*scenarios[1].split(), *(word for pair in lanes for word in pair)}
