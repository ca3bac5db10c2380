# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML files for Ansible in which no text is a template.

Ansible trusts the texts of inventories and extra variables as templates, and a template can run any program. What goes
into such a file may come from a cloud's list of hosts, from a guest, or from a directory that others write to.
"""

from __future__ import annotations

import typing as t

import yaml

# What begins a template; the last one changes what does.
TEMPLATES = ("{{", "{%", "{#", "#jinja2:")


def text(value: t.Any) -> str:
    """Return a value as YAML. What Ansible would take for a template is marked as C(!unsafe)."""
    return yaml.dump(_marked(value), Dumper=_Dumper, width=1000, default_flow_style=False)


def read(source: str) -> t.Any:
    """Return the value in a text that text() has written."""
    return yaml.load(source, Loader=_Loader)


class _Unsafe(str):
    """A text that Ansible must not take for a template."""


class _Dumper(yaml.SafeDumper):
    """Writes the marks, and repeats what occurs twice."""

    def ignore_aliases(self, data: t.Any) -> bool:
        return True


class _Loader(yaml.SafeLoader):
    """Reads marked texts as texts."""


_Dumper.add_representer(_Unsafe, lambda dumper, value: dumper.represent_scalar("!unsafe", str(value), style='"'))
_Loader.add_constructor("!unsafe", yaml.SafeLoader.construct_scalar)


def _marked(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {str(key): _marked(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_marked(each) for each in value]
    if isinstance(value, str):
        # A first line that begins with #jinja2: changes what marks a template.
        return _Unsafe(value) if "{" in value or "#jinja2:" in value else str.__str__(value)
    # Without the tags that Ansible gives to values.
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return float(value) if isinstance(value, float) else value
