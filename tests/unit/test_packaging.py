# SPDX-License-Identifier: GPL-3.0-or-later
"""The metadata for Galaxy, ansible-builder and module_defaults agree with the code."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from ansible_collections.memstretch.density.plugins.plugin_utils.program import BUILDS

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "plugins" / "modules").glob("*.py"))


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def document(path: str):
    return yaml.safe_load(text(path))


@pytest.mark.parametrize(("group", "fragment"), [("results", "results_dir"), ("records", "recorded_change")])
def test_an_action_group_has_all_modules_with_its_option(group, fragment):
    users = [path.stem for path in MODULES if f"- memstretch.density.{fragment}\n" in path.read_text(encoding="utf-8")]
    assert document("meta/runtime.yml")["action_groups"][group] == users != []


def test_an_execution_environment_gets_what_builds_the_programs():
    lines = (ROOT / "meta" / "ee-bindep.txt").read_text(encoding="utf-8").splitlines()
    listed = {
        family: {line.split()[0] for line in lines if f"platform:{kind}" in line}
        for family, kind in (("Debian", "dpkg"), ("RedHat", "rpm"))
    }
    needed = {family: {name for build in BUILDS.values() for name in build.packages[family]} for family in listed}
    assert listed == needed


def test_the_answer_of_each_module_for_hosts_is_filtered():
    routed = document("meta/runtime.yml")["plugin_routing"]["modules"]
    own = {path.stem for path in (ROOT / "plugins" / "action").glob("*.py")}
    assert sorted(routed) == [path.stem for path in MODULES if path.stem not in own]
    controller = {path.stem for path in (ROOT / "plugins" / "plugin_utils" / "controller").glob("[a-z]*.py")}
    for module, each in routed.items():
        assert each["action_plugin"] == f"memstretch.density.{'report' if module in controller else 'solotest'}"


def test_galaxy_finds_the_collection_by_the_words_that_people_search_for():
    tags = document("galaxy.yml")["tags"]
    assert {"swap", "zram", "zswap", "overcommit", "numa", "cxl", "libvirt", "kvm", "tuning"} <= set(tags)
    assert len(tags) <= 20, "Galaxy takes no more"
    assert all(tag.isalnum() and tag == tag.lower() for tag in tags), "nor others than these"


def test_the_changelog_of_each_release_fits_a_page():
    """A page of paper has 60 lines of 100 characters."""
    _title, *parts = re.split(r"^v(\d+\.\d+\.\d+)\n=+\n", text("CHANGELOG.rst"), flags=re.MULTILINE)
    lines = {
        release: sum(max(1, -(-len(line) // 100)) for line in notes.splitlines())
        for release, notes in zip(parts[::2], parts[1::2])
    }
    assert lines and {release: count for release, count in lines.items() if count > 60} == {}


def test_the_changelog_is_what_its_tool_writes_for_the_version_of_the_collection(tmp_path):
    newest = max(document("changelogs/changelog.yaml")["releases"], key=lambda each: [*map(int, each.split("."))])
    assert newest == document("galaxy.yml")["version"]
    shutil.copytree(ROOT / "changelogs", tmp_path / "changelogs", ignore=shutil.ignore_patterns(".plugin-cache.yaml"))
    shutil.copy(ROOT / "galaxy.yml", tmp_path)
    tool = pathlib.Path(sys.executable).parent / "antsibull-changelog"
    subprocess.run([tool, "generate"], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "CHANGELOG.rst").read_text(encoding="utf-8") == text("CHANGELOG.rst")
