# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import is_trusted_as_template, trust_as_template

from ansible_collections.memstretch.density.plugins.plugin_utils import inert_yaml

TEMPLATES = ["{{ 7 * 7 }}", "a{% if x %}", "{# x #}", "#jinja2: variable_start_string:'['\n[7]", "\n{{"]


@pytest.mark.parametrize("text", TEMPLATES)
def test_no_text_is_a_template(tmp_path, text):
    path = tmp_path / "inventory.yml"
    path.write_text(inert_yaml.text({"hosts": {"a": {"x": text, "list": [text], "port": 22}}}), encoding="utf-8")
    loaded = DataLoader().load_from_file(str(path), trusted_as_template=True)["hosts"]["a"]
    assert loaded["x"] == loaded["list"][0] == text and loaded["port"] == 22
    assert not is_trusted_as_template(loaded["x"]) and not is_trusted_as_template(loaded["list"][0])


def test_an_ordinary_document_has_no_marks():
    document = {"all": {"hosts": {"a": {"x": "-o %h", "flag": True, "ratio": 0.5, "none": None}}}}
    assert yaml.safe_load(inert_yaml.text(document)) == document


def test_what_is_written_is_read_and_what_was_trusted_is_not_any_more():
    document = {"names": [*TEMPLATES, "kvm01"], "count": 3}
    trusted = {"names": [trust_as_template(each) for each in document["names"]], "count": 3}
    assert inert_yaml.read(inert_yaml.text(trusted)) == document
