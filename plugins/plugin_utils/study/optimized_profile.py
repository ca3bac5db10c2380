# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of an optimization: a table, a sentence, and a profile file if something beats the profile."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import index
from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import grid
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study import attempts
from ansible_collections.memstretch.density.plugins.plugin_utils.study.candidates import (
    Candidate,
    changed_profile,
    profile_name,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.optimization import FIGURES

NAMES = {"avg_us": "average", "p99_us": "p99"}
_Document = t.Mapping[str, t.Any]


def publish(
    directory: RunDirectory, file_name: str, document: dict[str, t.Any], say: t.Callable[[str], None]
) -> str | None:
    """Write the profile, the document and its text, and show the text.

    Returns:
        The path of the profile; None if nothing beats the profile.
    """
    path = None
    if document["result"]["proposed"]:
        name = profile_name(document["definition"]["profile"], "optimized")
        path = directory.file(f"{name}.yml")
        directory.write_text(f"{name}.yml", optimized(document, name))
    ledger = attempts.summary(document.get("attempts", []))
    directory.write_json(file_name, {**document, "attempts_summary": ledger, "profile": path})
    checks = document.get("site_checks", [])
    notes = [f"  note: {label}" for label in site_check.labels(checks)]
    lines = [*table(document), "", sentence(document, path), *notes, *attempts.lines(ledger), *site_check.lines(checks)]
    directory.write_text("optimize.txt", "\n".join(lines).strip() + "\n")
    found = index.FASTER if path else index.NOTHING_FASTER
    index.enter(directory, "optimize.txt", document["created_at"], sentence(document, path), [("", found)])
    for line in lines:
        say(line)
    return path


def optimized(document: _Document, name: str) -> str:
    """Return the file of the profile with what is proposed, each value with its measured effect as its reason."""
    definition, result = document["definition"], document["result"]
    tests = {test["candidate"]: test for test in result["confirmation"]}
    tried = {each.name: each for each in (Candidate(**each) for each in definition["candidates"])}
    changes = [(tried[each], _reason(tests[each], definition)) for each in result["proposed"]]
    description = (
        f"{definition['profile']} as search {document['id']} changed it: {_effect(_whole(result), definition)}."
    )
    return changed_profile(definition["profile"], definition["data"], name, description, changes)


def _whole(result: _Document) -> _Document:
    """Return the test of all that is proposed."""
    if len(result["proposed"]) > 1:
        return result["together"]
    return next(test for test in result["confirmation"] if test["candidate"] == result["proposed"][0])


def _effect(test: _Document, definition: _Document) -> str:
    low, high = test["interval"]
    return (
        f"{NAMES[definition['figure']]} {test['ratio']:.3f} times that of {definition['profile']} ({low:.3f} to "
        f"{high:.3f}, {test['rounds']} rounds)"
    )


def _reason(test: _Document, definition: _Document) -> str:
    return f"Measured alone: {_effect(test, definition)}."


def table(document: _Document) -> list[str]:
    """Return the lines of the table of the confirmation, and of what was set aside."""
    result, definition = document["result"], document["definition"]
    figure = definition["figure"]
    guard = FIGURES[1 - FIGURES.index(figure)]
    rows = [{**test, "name": test["candidate"]} for test in result["confirmation"]]
    if result["together"]:
        rows.append({**result["together"], "name": ", ".join(result["together"]["candidates"])})
    columns = [
        ("candidate", lambda row: row["name"]),
        ("rounds", lambda row: str(row["rounds"])),
        (f"{NAMES[figure]} x", lambda row: _ratio(row, "")),
        (f"{NAMES[guard]} x", lambda row: _ratio(row, "guard_")),
        ("", lambda row: "confirmed" if row["confirmed"] else row["why_not"]),
    ]
    lines = (
        ["", f"Confirmed against {definition['profile']}, with 95 % intervals:", *grid(columns, rows)] if rows else []
    )
    return lines + [f"  - {', '.join(each['candidates'])}: set aside, {each['reason']}" for each in result["set_aside"]]


def _ratio(row: _Document, key: str) -> str:
    if row[f"{key}ratio"] is None:
        return "-"
    interval = row[f"{key}interval"]
    return f"{row[f'{key}ratio']:.3f}" + (f" ({interval[0]:.3f} to {interval[1]:.3f})" if interval else "")


def sentence(document: _Document, path: str | None) -> str:
    """Return the result in a sentence."""
    result, definition = document["result"], document["definition"]
    profile, figure = definition["profile"], NAMES[definition["figure"]]
    seen = result["smallest_effect"]
    if path:
        return (
            f"{', '.join(result['proposed'])} beats {profile}: {_effect(_whole(result), definition)}. Use it with "
            f"-e profile={path}"
        )
    if seen is None:
        return (
            f"Nothing is proposed: no candidate was measured in enough rounds to be confirmed. A larger "
            f"study_minutes ({definition['minutes']:g} now) or fewer candidates (study_settings) leave more time"
        )
    return (
        f"No candidate is measurably better than {profile}. One that divides the {figure} by {seen:.2f} or more would "
        f"have been found with a probability of 80 %"
    )
