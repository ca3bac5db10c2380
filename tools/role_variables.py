# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the table of variables in the README of each role, from its argument specification.

python tools/role_variables.py [--check]

The table stands between "<!-- variables -->" and "<!-- end of variables -->". With --check nothing is written; the
exit status is 1 if a table is not that of the specification.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
import typing as t

import yaml

ROLES = pathlib.Path(__file__).resolve().parents[1] / "roles"
BEGIN, END = "<!-- variables -->\n", "<!-- end of variables -->\n"
# Ansible's markup: code, values, options, return values, modules, plugins, links.
CODE = re.compile(r"\b[CVOER]\(((?:\\.|[^\\)])*)\)")
NAMED = re.compile(r"\b[MP]\(([\w.]+)(?:#\w+)?\)")
LINK = re.compile(r"\bL\(([^,]+), *([^)]+)\)")


def _code(found: re.Match[str]) -> str:
    """Return the text that Ansible's markup shows as code. A backslash takes the next character as it is."""
    return "`" + re.sub(r"\\(.)", r"\1", found[1]) + "`"


def plain(text: str) -> str:
    """Return a description of a specification as Markdown for a table's cell."""
    text = LINK.sub(r"[\1](\2)", NAMED.sub(r"`\1`", CODE.sub(_code, text)))
    return " ".join(text.split())


def default(option: dict[str, t.Any]) -> str:
    """Return the default of an option as its user writes it, or that it is required."""
    if option.get("required"):
        return "**required**"
    if "default" not in option:
        return ""
    value = option["default"]
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix('...' + chr(10)).strip()}`"


def kind(option: dict[str, t.Any]) -> str:
    """Return the type of an option, with that of its elements."""
    elements = f" of {option['elements']}" if "elements" in option else ""
    return f"{option.get('type', 'str')}{elements}"


def meaning(option: dict[str, t.Any]) -> str:
    """Return the description of an option, with its choices."""
    description = option["description"]
    sentences = [description] if isinstance(description, str) else description
    text = " ".join(map(plain, sentences))
    if "choices" in option and not all(f"`{choice}`" in text for choice in option["choices"]):
        text += f" One of {', '.join(f'`{choice}`' for choice in option['choices'])}."
    return text


def table(role: pathlib.Path) -> str:
    """Return the table of the variables of a role, those of its main entry point first."""
    entries = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    options: dict[str, dict[str, t.Any]] = {}
    for entry in sorted(entries, key=lambda name: name != "main"):
        for name, option in (entries[entry].get("options") or {}).items():
            options.setdefault(name, option)
    lines = ["| variable | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, option in options.items():
        cells = (f"`{name}`", kind(option), default(option), meaning(option))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def written(page: str, variables: str) -> str:
    """Return a README with its table replaced. Raises ValueError if the place of the table is not marked."""
    before, found, rest = page.partition(BEGIN)
    dummy, closed, after = rest.partition(END)
    if not (found and closed):
        raise ValueError(f"no place between {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}{variables}{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a table would change")
    options = parser.parse_args()
    stale = []
    for role in sorted(path.parent.parent for path in ROLES.glob("*/meta/argument_specs.yml")):
        readme = role / "README.md"
        old = readme.read_text(encoding="utf-8")
        new = written(old, table(role))
        if new != old:
            stale.append(role.name)
            if not options.check:
                readme.write_text(new, encoding="utf-8")
    if stale:
        print(f"{'Not up to date' if options.check else 'Written'}: {', '.join(stale)}")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
