# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documentation of several modules has in common is written once, in plugins/doc_fragments."""

from __future__ import annotations

import importlib
import json
import pathlib
import re

import pytest
from ansible.module_utils.common.yaml import yaml_load, yaml_load_all

PLUGINS = "ansible_collections.memstretch.density.plugins"
ROOT = pathlib.Path(__file__).resolve().parents[2]
# What users may call: the modules for hosts, those of the controller, and other plugins. All others are private.
PUBLIC_ON_HOSTS = {
    "dram_budget",
    "headroom_info",
    "headroom_watch",
    "host_memory_info",
    "host_settings",
    "kernel_cmdline",
    "kvm_info",
    "memory_bandwidth",
    "page_in_latency",
    "redis_instances",
    "site_noise",
    "solotest",
    "swap_space",
    "vm_fleet",
    "writeback_benchmark",
}
PUBLIC_ON_THE_CONTROLLER = {"density", "density_plan", "headroom", "report", "selftest", "site_check", "study"}
PUBLIC_PLUGINS = {"fleet_latency", "terse", "host_profile"}
PUBLIC = PUBLIC_ON_HOSTS | PUBLIC_ON_THE_CONTROLLER
IS_PUBLIC = "Public. Its options and results stay compatible within a major version."
IS_PRIVATE = (
    "Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it."
)
NAMES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("[!_]*.py"))


def written_in(kind):
    """Return the options or attributes of all modules and doc fragments, each with the places where it is written."""
    texts = {name: importlib.import_module(f"{PLUGINS}.modules.{name}").DOCUMENTATION for name in NAMES}
    for path in (ROOT / "plugins" / "doc_fragments").glob("[!_]*.py"):
        fragment = importlib.import_module(f"{PLUGINS}.doc_fragments.{path.stem}")
        texts[f"doc_fragments/{path.stem}"] = fragment.ModuleDocFragment.DOCUMENTATION
    places = {}
    for place, text in texts.items():
        for name, entry in (yaml_load(text).get(kind) or {}).items():
            places.setdefault(f"{name}: {json.dumps(entry, sort_keys=True)}", []).append(place)
    return places


@pytest.mark.parametrize("kind", ["options", "attributes"])
def test_nothing_is_written_twice(kind):
    assert {entry: places for entry, places in written_in(kind).items() if len(places) > 1} == {}


def test_each_fragment_is_used_by_several_modules():
    users = {path.stem: 0 for path in (ROOT / "plugins" / "doc_fragments").glob("[!_]*.py")}
    for name in NAMES:
        text = yaml_load(importlib.import_module(f"{PLUGINS}.modules.{name}").DOCUMENTATION)
        for fragment in text.get("extends_documentation_fragment", []):
            if fragment.startswith("memstretch.density."):
                users[fragment.rpartition(".")[2]] += 1
    assert {fragment: count for fragment, count in users.items() if count < 2} == {}


def documented():
    """Return the documentation of all modules and plugins by name."""
    found = {name: importlib.import_module(f"{PLUGINS}.modules.{name}").DOCUMENTATION for name in NAMES}
    for kind in ("callback", "lookup"):
        for path in (ROOT / "plugins" / kind).glob("[!_]*.py"):
            found[path.stem] = importlib.import_module(f"{PLUGINS}.{kind}.{path.stem}").DOCUMENTATION
    texts = {name: yaml_load(text) for name, text in found.items()}
    for path in (ROOT / "plugins" / "filter").glob("*.yml"):
        texts[path.stem] = yaml_load(path.read_text(encoding="utf-8"))["DOCUMENTATION"]
    return texts


def test_each_module_and_plugin_says_first_whether_it_is_public():
    said = {name: text["description"][0] for name, text in documented().items()}
    expected = {name: IS_PUBLIC if name in PUBLIC | PUBLIC_PLUGINS else IS_PRIVATE for name in said}
    assert said == expected and set(said) >= PUBLIC | PUBLIC_PLUGINS


def test_the_documentation_site_lists_public_modules_first_and_private_ones_last():
    page = (ROOT / "docs" / "docsite" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^collection/(\w+)_module$", page, re.MULTILINE)
    assert listed == sorted(PUBLIC) + sorted(set(NAMES) - PUBLIC)


def test_the_readme_lists_what_is_public():
    (section,) = re.findall(
        r"^## What is public\n(.*?)^## ", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert set(re.findall(r"`(\w+)`", section)) == PUBLIC | PUBLIC_PLUGINS


def calls(document):
    """Yield the name and the options of each call of a module of ours in a document."""
    if isinstance(document, list):
        for each in document:
            yield from calls(each)
    elif isinstance(document, dict):
        for key, value in document.items():
            if str(key).startswith("memstretch.density."):
                yield key.rpartition(".")[2], value if isinstance(value, dict) else {}
            yield from calls(value)


@pytest.mark.parametrize("place", ["extensions", "playbooks", "roles"])
def test_every_module_that_is_called_exists_and_has_the_options(place):
    """A module that was renamed or merged may still be called where no unit test runs, as on throwaway machines."""
    allowed = {}
    for name in NAMES:
        texts = [importlib.import_module(f"{PLUGINS}.modules.{name}").DOCUMENTATION]
        for fragment in yaml_load(texts[0]).get("extends_documentation_fragment", []):
            if fragment.startswith("memstretch.density."):
                module = importlib.import_module(f"{PLUGINS}.doc_fragments.{fragment.rpartition('.')[2]}")
                texts.append(module.ModuleDocFragment.DOCUMENTATION)
        allowed[name] = {option for text in texts for option in yaml_load(text).get("options") or {}}
    found = [
        (str(path.relative_to(ROOT)), name, options)
        for path in sorted((ROOT / place).glob("**/*.yml"))
        for document in yaml_load_all(path.read_text(encoding="utf-8"))
        for name, options in calls(document)
    ]
    wrong = [
        (path, name, sorted(set(options) - allowed.get(name, set())))
        for path, name, options in found
        if name not in allowed or set(options) - allowed[name]
    ]
    assert found and wrong == []
