# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documentation of this collection's modules says, for actions that go by it."""

from __future__ import annotations

import os
import typing as t

from ansible.parsing.plugin_docs import read_docstring
from ansible.plugins.loader import fragment_loader
from ansible.utils.plugin_docs import get_docstring

from ansible_collections.memstretch.density.plugins.plugin_utils.collection import ROOT

# What an argument spec has of a documented option.
_OF_SPEC = ("type", "elements", "required", "default", "aliases")


def documented_options(module: str) -> dict[str, t.Any]:
    """Return the options of a module as an argument spec.

    Args:
        module: its name in this collection.
    """
    documentation = get_docstring(
        _path(module), fragment_loader, collection_name="memstretch.density", plugin_type="module"
    )
    return _spec(documentation[0].get("options"))


def documented_results(module: str) -> list[str]:
    """Return the keys of a module's answer.

    Args:
        module: its name in this collection.
    """
    documentation = read_docstring(_path(module), verbose=False, ignore_errors=False)
    return [str(key) for key in documentation["returndocs"] or {}]


def _path(module: str) -> str:
    return os.path.join(ROOT, "plugins", "modules", f"{module}.py")


def _spec(options: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    spec = {}
    for name, option in (options or {}).items():
        spec[str(name)] = {key: option[key] for key in _OF_SPEC if key in option}
        if "choices" in option:
            spec[str(name)]["choices"] = list(option["choices"])
        if "suboptions" in option:
            spec[str(name)]["options"] = _spec(option["suboptions"])
    return spec
