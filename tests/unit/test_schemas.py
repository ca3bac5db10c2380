# SPDX-License-Identifier: GPL-3.0-or-later
"""Every JSON schema of docs/schemas is valid, and its documents name it. Their own tests compare them with it."""

from __future__ import annotations

import json

import jsonschema
import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import described_by
from ansible_collections.memstretch.density.tests.unit.fixtures.pages import ROOT

SCHEMAS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in ROOT.glob("docs/schemas/*.json")}


def test_what_other_programs_read_has_a_schema():
    assert {"comparison", "density", "headroom", "optimize", "plan", "study", "summary"} <= SCHEMAS.keys()


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_is_valid_and_demands_its_own_name(name):
    schema, named = SCHEMAS[name], described_by(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == named["$schema"] == schema["properties"]["$schema"]["const"]
    assert schema["properties"]["schema"]["const"] == named["schema"]
    assert {"$schema", "schema"} <= set(schema["required"])


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_page_links_to_the_schema(name):
    pages = [path.read_text(encoding="utf-8") for path in ROOT.glob("docs/*.md")]
    assert any(f"](schemas/{name}.json)" in page for page in pages)
