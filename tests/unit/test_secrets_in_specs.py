# SPDX-License-Identifier: GPL-3.0-or-later
"""Every option that looks like a secret has no_log, in the argument specs of roles, modules and actions."""

from __future__ import annotations

import ast
import importlib
import pathlib
import re
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUGINS = "ansible_collections.memstretch.density.plugins"

SECRET = re.compile(r"pass(w|$|_)|passphrase|pwd|secret|token|credential|(^|_)auth($|_)|private|(^|_)key($|_)", re.I)
# What looks like a secret and is none: a public key, the path of a key, and how many keys there are.
PUBLIC = re.compile(r"^vm_fleet_host_key$|_file$|(^|_)key_count$")

SPECS = {path.parts[-3]: path for path in ROOT.glob("roles/*/meta/argument_specs.yml")}
CODE = sorted(
    f"{kind}.{path.stem}"
    for kind in ("modules", "action")
    for path in (ROOT / "plugins" / kind).glob("*.py")
    if path.stem != "__init__"
)


def secrets(options: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, bool]]:
    """Yield the name of each option that looks like a secret, and whether it has no_log."""
    for name, option in options.items():
        if SECRET.search(name) and not PUBLIC.search(name):
            yield name, bool(option.get("no_log"))
        yield from secrets(option.get("options") or {})


def written_options(source: str) -> dict[str, bool]:
    """Return the options in the code, in specs of any function, that look like secrets, and whether each has no_log."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        for key, value in zip(node.keys, node.values) if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant) and isinstance(value, ast.Dict):
                words = {word.value for word in value.keys if isinstance(word, ast.Constant)}
                if "type" in words and SECRET.search(str(key.value)) and not PUBLIC.search(str(key.value)):
                    found[str(key.value)] = "no_log" in words
    return found


def test_an_option_in_the_code_without_no_log_is_found():
    source = 'M({"password": {"type": "str"}, "a_token": {"type": "str", "no_log": True}})'
    assert written_options(source) == {"password": False, "a_token": True}


@pytest.mark.parametrize("role", sorted(SPECS))
def test_secrets_of_a_role(role):
    entries = yaml.safe_load(SPECS[role].read_text(encoding="utf-8"))["argument_specs"]
    found = {name: hidden for entry in entries.values() for name, hidden in secrets(entry.get("options") or {})}
    assert all(found.values()), found
    # A role that passes a password on has one to check here.
    if role in ("redis", "latency_benchmark", "throughput_benchmark"):
        assert f"{role}_password" in found


@pytest.mark.parametrize("name", CODE)
def test_secrets_of_a_module_or_action(name):
    code = importlib.import_module(f"{PLUGINS}.{name}")
    action = getattr(code, "ActionModule", None)
    specs = [getattr(code, "ARGUMENTS", None), getattr(action, "ARGUMENTS", None)]
    source = (ROOT / "plugins" / (name.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    written = written_options(source)
    assert all(written.values()), written
    for spec in filter(None, specs):
        found = dict(secrets(spec))
        assert all(found.values()), found
