# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to reproduce a run: its command, inventory and versions, without secrets."""

from __future__ import annotations

import functools
import glob
import json
import os
import platform
import re
import shlex
import sys
import typing as t

import yaml
from ansible.errors import AnsibleError
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.splitter import parse_kv
from ansible.release import __version__ as ansible_version

from ansible_collections.memstretch.density.plugins.plugin_utils import collection, inert_yaml, known_variables

HIDDEN = "********"
# In the environment: the variable files that playbooks of this collection have made for this one, joined as in PATH.
VARIABLE_FILES = "MEMSTRETCH_VARIABLE_FILES"

# Options of ansible-playbook without a value.
_FLAGS = frozenset(
    (
        "--ask-become-pass",
        "--ask-pass",
        "--ask-vault-pass",
        "--ask-vault-password",
        "--become",
        "--check",
        "--diff",
        "--flush-cache",
        "--force-handlers",
        "--help",
        "--list-hosts",
        "--list-tags",
        "--list-tasks",
        "--step",
        "--syntax-check",
        "--verbose",
        "--version",
    )
)
_FLAG_LETTERS = frozenset("bCDhJkKv")
# Options whose value may be shown.
_SHOWN = frozenset(
    (
        "--become-method",
        "--become-user",
        "--connection",
        "--forks",
        "--inventory",
        "--inventory-file",
        "--limit",
        "--module-path",
        "--skip-tags",
        "--start-at-task",
        "--tags",
        "--timeout",
        "--user",
    )
)
_SHOWN_LETTERS = frozenset("cfilMtTu")
# Options whose value is hidden. Any word that is in none of these lists is hidden as a whole.
_HIDDEN = frozenset(
    (
        "--become-pass-file",
        "--become-password-file",
        "--conn-pass-file",
        "--connection-password-file",
        "--key-file",
        "--private-key",
        "--scp-extra-args",
        "--sftp-extra-args",
        "--ssh-common-args",
        "--ssh-extra-args",
        "--vault-id",
        "--vault-pass-file",
        "--vault-password-file",
    )
)
# A playbook, as a path or as the name of one in a collection.
_PLAYBOOK = re.compile(r"[\w./~+-]*\.ya?ml|\w+\.\w+\.\w+")
# A variable of ours whose name looks like this is hidden, too, even if its argument spec forgot no_log.
_SECRET = re.compile(r"passw|passphrase|secret|token|credential|vault|private", re.IGNORECASE)
# The parts "user:password@" and "?token=..." of an address.
_USERINFO = re.compile(r"(?<=//)[^/\s]+@")
_QUERY = re.compile(r"(//[^?\s]*\?)\S+")
# Groups that are in no inventory: Ansible's own, and that of playbooks/parts/record.yml.
_NOT_OF_THE_INVENTORY = ("all", "ungrouped", "memstretch_machines", "memstretch_recorded")


def record(task_vars: t.Mapping[str, t.Any], arguments: t.Sequence[str] | None = None) -> dict[str, t.Any]:
    """Return C(command), C(inventory) and C(versions) as run.json holds them.

    Args:
        task_vars: the variables of the task that begins the run.
        arguments: a command line; by default that of this process.
    """
    groups = {
        name: list(hosts)
        for name, hosts in sorted(task_vars.get("groups", {}).items())
        if name not in _NOT_OF_THE_INVENTORY and hosts
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
            "sources": [_without_userinfo(str(source)) for source in task_vars.get("ansible_inventory_sources") or []],
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
    """Return a command line as it would be typed. Only what is known to be harmless is shown, HIDDEN replaces the rest.

    Options are shown with the values of those in _SHOWN, and extra variables with their values if they are documented
    variables of this collection that hold no secret.
    """
    words = [os.path.basename(arguments[0])] if arguments else []
    rest = list(arguments[1:])
    while rest:
        word = rest.pop(0)
        if word == "--":
            words += [word, *(each if _PLAYBOOK.fullmatch(each) else HIDDEN for each in rest)]
            break
        if word.startswith("--"):
            words += _long_option(word, rest)
        elif word.startswith("-") and len(word) > 1:
            words += _short_options(word, rest)
        else:
            words.append(word if _PLAYBOOK.fullmatch(word) else HIDDEN)
    return shlex.join(words)


def _long_option(word: str, rest: list[str]) -> list[str]:
    """Return an option as it is shown, and take its value from the words that follow."""
    name, equals, value = word.partition("=")
    if name in _FLAGS and not equals:
        return [name]
    if name == "--extra-vars":
        show: t.Callable[[str], str] = _public
    elif name in _SHOWN:
        show = _without_userinfo
    elif name in _HIDDEN:
        show = _nothing
    else:
        # Also an abbreviation, which Ansible accepts. Whether it has a value is not known.
        if not equals and rest and not _PLAYBOOK.fullmatch(rest[0]):
            rest.pop(0)
        return [HIDDEN]
    if equals:
        return [f"{name}={show(value)}"]
    return [name, show(rest.pop(0))] if rest else [name]


def _short_options(word: str, rest: list[str]) -> list[str]:
    """Return a word as it is shown, such as -bvi, and take the value of its last option from the words that follow."""
    for place, letter in enumerate(word[1:], 1):
        if letter in _FLAG_LETTERS:
            continue
        if letter == "e":
            show: t.Callable[[str], str] = _public
        elif letter in _SHOWN_LETTERS:
            show = _without_userinfo
        else:
            return [HIDDEN]
        options, value = word[: place + 1], word[place + 1 :]
        if value:
            return [options + show(value)]
        return [options, show(rest.pop(0))] if rest else [options]
    return [word]


def _nothing(value: str) -> str:
    return HIDDEN


def _public(text: str) -> str:
    """Return the argument of -e without secrets. An argument that cannot be parsed is hidden completely."""
    if text.startswith("@"):
        if text[1:] not in os.environ.get(VARIABLE_FILES, "").split(os.pathsep):
            return text
        # It is gone when its playbook has ended.
        with open(text[1:], encoding="utf-8") as stream:
            return json.dumps(_shown(inert_yaml.read(stream.read()), _variables()))
    if text.lstrip().startswith(("{", "[")):
        try:
            data = yaml.safe_load(text)
        except yaml.YAMLError:
            return HIDDEN
        return json.dumps(_shown(data, _variables())) if isinstance(data, dict) else HIDDEN
    try:
        pairs = parse_kv(text)
    except (AnsibleError, ValueError):
        return HIDDEN
    if "_raw_params" in pairs or not pairs:
        return HIDDEN
    return " ".join(
        f"{name}={shlex.quote(value) if ' ' in value else value}" for name, value in _shown(pairs, _variables()).items()
    )


@functools.lru_cache(maxsize=1)
def _variables() -> dict[str, t.Mapping[str, t.Any]]:
    """Return the documented variables of this collection with their argument specs, by name."""
    found: dict[str, t.Mapping[str, t.Any]] = {name: {"type": "raw"} for name in known_variables.USER_VARIABLES}
    for path in sorted(glob.glob(os.path.join(collection.ROOT, "roles", "*", "meta", "argument_specs.yml"))):
        with open(path, encoding="utf-8") as stream:
            for entry in yaml_load(stream)["argument_specs"].values():  # in C: these are 75 KB
                found.update(entry.get("options") or {})
    return found


def _shown(values: t.Mapping[str, t.Any], specs: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return values with HIDDEN for those without a spec, those that must not be logged, and free-form mappings."""
    return {
        # The names of unknown variables are shown: they show which variables are missing.
        str(name): HIDDEN
        if name not in specs or specs[name].get("no_log") or _SECRET.search(name)
        else _shown_value(value, specs[name].get("options"))
        for name, value in values.items()
    }


def _shown_value(value: t.Any, options: t.Mapping[str, t.Mapping[str, t.Any]] | None) -> t.Any:
    if isinstance(value, dict):
        return _shown(value, options) if options else HIDDEN
    if isinstance(value, list):
        return [_shown_value(each, options) for each in value]
    if isinstance(value, str):
        # A mapping or a list as text is not checked key by key.
        return HIDDEN if value.lstrip().startswith(("{", "[")) else _without_userinfo(value)
    return value


def _without_userinfo(text: str) -> str:
    """Return text without the user, password and query of addresses."""
    return _QUERY.sub(rf"\1{HIDDEN}", _USERINFO.sub(f"{HIDDEN}@", text))
