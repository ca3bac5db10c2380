# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to reproduce a run: its command, inventory and versions, without secrets."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import sys
import typing as t

import yaml
from ansible.errors import AnsibleError
from ansible.parsing.splitter import parse_kv
from ansible.release import __version__ as ansible_version

from ansible_collections.memstretch.density.plugins.plugin_utils import collection

HIDDEN = "********"

_SECRET = re.compile(
    r"passw|passphrase|secret|token|credential|vault|private|(api|ssh|access|encryption)_?key(?!s?_count)",
    re.IGNORECASE,
)
# The part "user:password@" of an address.
_USERINFO = re.compile(r"(?<=//)[^/@\s]+@")
_EXTRA_VARS = ("-e", "--extra-vars")


def record(task_vars: t.Mapping[str, t.Any], arguments: t.Sequence[str] | None = None) -> dict[str, t.Any]:
    """Return C(command), C(inventory) and C(versions) as run.json holds them.

    Args:
        task_vars: the variables of the task that begins the run.
        arguments: a command line; by default that of this process.
    """
    groups = {
        name: list(hosts)
        for name, hosts in sorted(task_vars.get("groups", {}).items())
        if name not in ("all", "ungrouped") and hosts
    }
    hostvars = task_vars.get("hostvars", {})
    addresses = {}
    for host in sorted({host for hosts in groups.values() for host in hosts}):
        address = hostvars[host].get("ansible_host") if host in hostvars else None
        if address and str(address) != host:
            addresses[host] = str(address)
    return {
        "command": command(sys.argv if arguments is None else arguments),
        "inventory": {
            "sources": [str(source) for source in task_vars.get("ansible_inventory_sources") or []],
            "groups": groups,
            "addresses": addresses,
        },
        "versions": {
            "memstretch.density": collection.version(),
            "ansible-core": ansible_version,
            "python": platform.python_version(),
        },
    }


def command(arguments: t.Sequence[str]) -> str:
    """Return a command line as it would be typed, with HIDDEN for the values of variables that look secret."""
    words = [os.path.basename(arguments[0])] if arguments else []
    is_variable = False
    for word in arguments[1:]:
        name, equals, value = word.partition("=")
        if is_variable:
            words.append(_public(word))
        elif name == "--extra-vars" and equals:
            words.append(f"{name}={_public(value)}")
        elif word.startswith("-e") and len(word) > 2:
            words.append(f"-e{_public(word[2:])}")
        else:
            words.append(_USERINFO.sub(f"{HIDDEN}@", word))
        is_variable = not is_variable and word in _EXTRA_VARS
    return shlex.join(words)


def _public(text: str) -> str:
    """Return the argument of -e without secrets. An argument that cannot be parsed is hidden completely."""
    if text.startswith("@"):
        return text
    if text.lstrip().startswith(("{", "[")):
        try:
            data = yaml.safe_load(text)
        except yaml.YAMLError:
            return HIDDEN
        return json.dumps(_without_secrets(data)) if isinstance(data, dict) else HIDDEN
    try:
        pairs = parse_kv(text)
    except (AnsibleError, ValueError):
        return HIDDEN
    if "_raw_params" in pairs or not pairs:
        return HIDDEN
    return " ".join(
        f"{name}={shlex.quote(value) if ' ' in value else value}" for name, value in _without_secrets(pairs).items()
    )


def _without_secrets(value: t.Any, name: str = "") -> t.Any:
    if _SECRET.search(name):
        return HIDDEN
    if isinstance(value, dict):
        return {key: _without_secrets(each, str(key)) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_secrets(each) for each in value]
    return _USERINFO.sub(f"{HIDDEN}@", value) if isinstance(value, str) else value
