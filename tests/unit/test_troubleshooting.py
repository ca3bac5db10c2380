# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/troubleshooting.md explains every reason for a verdict, and quotes it as the code prints it."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")

# Where the reasons are made: the section of the page that explains them, the file below plugins, its functions.
MAKERS = [
    ("Undecided", "plugin_utils/run/bounds.py", {"doubt", "_doubt_of_observer", "_doubt_of_client"}),
    ("Undecided", "plugin_utils/run/observer.py", {"excerpt", "why_not"}),
    ("Invalid", "plugin_utils/run/verdict.py", {"_judge", "invalid_because"}),
    (
        "Invalid",
        "plugin_utils/run/fleet_phase.py",
        {"_invalid_because", "_other_settings", "_other_values", "_cut_short"},
    ),
    ("Invalid", "plugin_utils/run/clocks.py", {"_set", "_moved", "_outside", "changes"}),
    ("Invalid", "plugin_utils/run/charged_dram.py", {"reasons"}),
    ("Invalid", "plugin_utils/run/accepted.py", {"unusable"}),
    ("Invalid", "plugin_utils/recorder/run.py", {"collect"}),
    ("Invalid", "module_utils/solotest/client.py", {"explain"}),
    ("Invalid", "module_utils/solotest/schedule.py", {"_unfinished", "_silent"}),
    ("Fail", "plugin_utils/run/verdict.py", {"add", "_sentences"}),
    ("Fail", "plugin_utils/run/charged_dram.py", {"failures"}),
    ("Fail", "module_utils/host/budget_fit.py", {"fit"}),
    ("The site is too noisy", "plugin_utils/run/site_check.py", {"judge", "_lines"}),
]
# Parts of a reason, and the frame of one.
NO_REASONS = (
    "{}; give it a CPU of its own",
    "avg <= {} us, p99 <= {} us",
    " s before the launch",
    "its schedule was removed",
    "it was ended by a signal",
    "the start was never set",
    " s after the collection",
    "it cannot be brought within its budget",
    " are undecided (",
    "Site check of {}: avg ",
)
WORDS = 4  # what has fewer is a part of a text


def texts(tree: ast.AST) -> list[str]:
    """Return the strings below a node, with {} for each value that is put into one, without its docstring."""
    nodes = list(ast.walk(tree))
    left_out = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    left_out |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    found = []
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            found.append("".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            found.append(node.value)
    return found


def reasons(source: str, functions: set[str]) -> list[str]:
    """Return the reasons that functions of a source print."""
    nodes = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef) and node.name in functions
    ]
    assert {node.name for node in nodes} == functions, "a function has another name now"
    return [
        text
        for node in nodes
        for text in texts(node)
        if len(re.findall(r"[A-Za-z]+", text)) >= WORDS and not any(part in text for part in NO_REASONS)
    ]


def quoted(section: str) -> list[str]:
    """Return the quotes in the first column of a section's tables."""
    text = re.search(rf"^## {section}.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert text, f"no section {section}"
    return re.findall(r"^\| `([^`]+)` \|", text[0], re.MULTILINE)


PRINTED = [
    pytest.param(section, reason, id=f"{section}: {reason[:60]}")
    for section, path, functions in MAKERS
    for reason in reasons((ROOT / "plugins" / path).read_text(encoding="utf-8"), functions)
]
SECTIONS = sorted({section for section, *_others in MAKERS})


@pytest.mark.parametrize(("section", "reason"), PRINTED)
def test_each_reason_is_explained(section, reason):
    assert any(quote in reason for quote in quoted(section)), f"{section} has no row for: {reason}"


@pytest.mark.parametrize("section", SECTIONS)
def test_each_row_quotes_a_reason(section):
    printed = [param.values[1] for param in PRINTED if param.values[0] == section]
    quotes = quoted(section)
    assert len(quotes) == len(set(quotes)) >= 2
    assert not [quote for quote in quotes if not any(quote in reason for reason in printed)]


def test_a_new_reason_is_noticed():
    source = 'def why():\n    """Return why it is so."""\n    return f"{1} hosts were not where they should be"\n'
    assert reasons(source, {"why"}) == ["{} hosts were not where they should be"]
