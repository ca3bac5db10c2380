# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documentation of several modules has in common is written once, in plugins/doc_fragments."""

from __future__ import annotations

import importlib
import json
import pathlib

import pytest
import yaml

PLUGINS = "ansible_collections.memstretch.density.plugins"
ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("[!_]*.py"))


def written_in(kind):
    """Return the options or attributes of all modules and doc fragments, each with the places where it is written."""
    texts = {name: importlib.import_module(f"{PLUGINS}.modules.{name}").DOCUMENTATION for name in NAMES}
    for path in (ROOT / "plugins" / "doc_fragments").glob("[!_]*.py"):
        fragment = importlib.import_module(f"{PLUGINS}.doc_fragments.{path.stem}")
        texts[f"doc_fragments/{path.stem}"] = fragment.ModuleDocFragment.DOCUMENTATION
    places = {}
    for place, text in texts.items():
        for name, entry in (yaml.safe_load(text).get(kind) or {}).items():
            places.setdefault(f"{name}: {json.dumps(entry, sort_keys=True)}", []).append(place)
    return places


@pytest.mark.parametrize("kind", ["options", "attributes"])
def test_nothing_is_written_twice(kind):
    assert {entry: places for entry, places in written_in(kind).items() if len(places) > 1} == {}


def test_each_fragment_is_used_by_several_modules():
    users = {path.stem: 0 for path in (ROOT / "plugins" / "doc_fragments").glob("[!_]*.py")}
    for name in NAMES:
        text = yaml.safe_load(importlib.import_module(f"{PLUGINS}.modules.{name}").DOCUMENTATION)
        for fragment in text.get("extends_documentation_fragment", []):
            if fragment.startswith("memstretch.density."):
                users[fragment.rpartition(".")[2]] += 1
    assert {fragment: count for fragment, count in users.items() if count < 2} == {}
