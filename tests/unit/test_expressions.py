# SPDX-License-Identifier: GPL-3.0-or-later
"""No expression of Jinja is a program: those belong into Python, which has tests."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST = 120
# What Ansible evaluates without braces.
CONDITIONS = {"changed_when", "failed_when", "that", "until", "when"}
BRACES = re.compile(r"\{\{(.*?)\}\}(?!\})|\{%(.*?)%\}", re.DOTALL)


def expressions(text: str, key: str | None = None) -> t.Iterator[str]:
    """Yield the expressions of a text, each on one line."""
    bare = [text] if key in CONDITIONS and "{{" not in text else []
    for each in bare or [found[1] or found[2] or "" for found in BRACES.finditer(text)]:
        yield " ".join(each.strip("-+ \n").split())


def texts(node: yaml.Node, key: str | None = None) -> t.Iterator[tuple[str | None, str]]:
    """Yield each text of a YAML document with the key that it belongs to."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            yield from texts(value, name.value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from texts(value, key)
    else:
        yield key, node.value


def too_long(path: pathlib.Path) -> list[str]:
    """Return the expressions of a file that are too long."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".j2":
        found = list(expressions(text))
    else:
        documents = [document for document in yaml.compose_all(text, Loader=yaml.CSafeLoader) if document]
        found = [each for document in documents for key, value in texts(document) for each in expressions(value, key)]
    return [each for each in found if len(each) > LONGEST]


@pytest.mark.parametrize("directory", ["inventories", "extensions", "playbooks", "roles"])
def test_no_expression_is_longer_than_one_thought(directory):
    paths = [path for path in (ROOT / directory).rglob("*") if path.suffix in (".yml", ".yaml", ".j2")]
    found = {str(path.relative_to(ROOT)): too_long(path) for path in sorted(paths)}

    assert paths and not {path: each for path, each in found.items() if each}


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        (f'a: "{{{{ {"x" * 121} }}}}"', [121]),
        (f'a: "{{{{ {"x" * 120} }}}} and {{{{ {"y" * 120} }}}}"', []),
        (f"a: >-\n  {{{{ {'x' * 60}\n     + {'y' * 60} }}}}", [123]),
        (f"when: {'x' * 121}", [121]),
        (f"that:\n  - {'x' * 121}\n  - y", [121]),
        (f"msg: {'x' * 200}", []),
        (f'a: !unsafe "{{% if {"x" * 121} %}}"', [124]),
    ],
)
def test_long_expressions_are_found_in_all_places(tmp_path, text, lengths):
    path = tmp_path / "tasks.yml"
    path.write_text(f"---\n{text}\n", encoding="utf-8")

    assert [len(each) for each in too_long(path)] == lengths
