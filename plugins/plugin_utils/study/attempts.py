# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger of a study: every attempt at each of its runs, also those that do not count.

An attempt that cannot be judged is repeated as a new run, and what is dropped may well have been what was bad: overload
makes measurements invalid more often than idleness does. So the ledger shows what was discarded, and what would follow
if all of it had failed.
"""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import clock, grid
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import attempt_number, first_attempt

# States of an attempt. A finished one is judged and counts: it passed, failed or is undecided. An invalid one cannot be
# judged. A failed one ended with an error and an interrupted one early, before they had a verdict.
FINISHED, INVALID, FAILED, INTERRUPTED = "finished", "invalid", "failed", "interrupted"

_Entry = t.Mapping[str, t.Any]


class Ledger:
    """The attempts in the document of a study; entries are added, never removed.

    Args:
        document: of the study; its list C(attempts) is created if it has none.
    """

    def __init__(self, document: dict[str, t.Any]) -> None:
        self._entries: list[dict[str, t.Any]] = document.setdefault("attempts", [])

    def entry(self, run_id: str) -> dict[str, t.Any] | None:
        """Return the entry of an attempt, if there is one."""
        return next((each for each in self._entries if each["run_id"] == run_id), None)

    def of(self, run_id: str) -> list[dict[str, t.Any]]:
        """Return all attempts at the run of which run_id is one."""
        return [each for each in self._entries if first_attempt(each["run_id"]) == first_attempt(run_id)]

    def enter(self, about: _Entry, outcome: _Entry) -> None:
        """Enter an attempt. If it was entered before it was continued, this adds to that entry.

        Args:
            about: what it is an attempt at, such as C(arm) and C(round).
            outcome: C(run_id), C(state), C(verdict), C(note) (the reason of the verdict), and C(seconds).
        """
        old = self.entry(outcome["run_id"])
        spent = [each.get("seconds") for each in (old or {}, outcome)]
        known = [seconds for seconds in spent if seconds is not None]
        entry = {
            "run_id": outcome["run_id"],
            **about,
            "attempt": attempt_number(outcome["run_id"]),
            "state": outcome["state"],
            "verdict": outcome["verdict"],
            "reason": outcome["note"],
            "seconds": round(sum(known), 1) if known else None,
        }
        if old is None:
            self._entries.append(entry)
        else:
            old.update(entry)


def summary(attempts: t.Sequence[_Entry], keys: t.Sequence[str] = ("arm",)) -> dict[str, t.Any]:
    """Count what was discarded, and how many attempts passed: of those judged, and if all discarded ones had failed.

    Args:
        attempts: of a ledger.
        keys: of an attempt; those with the same values are counted together.

    Returns:
        C(groups), a list of the keys' values with C(attempts), C(judged), C(discarded), C(passed), and C(passed_share)
        as [if all discarded attempts had failed, of the judged ones]; C(discarded), the attempts that do not count.
    """
    names = list(dict.fromkeys(tuple(each[key] for key in keys) for each in attempts))
    return {
        "groups": [
            _group(dict(zip(keys, name)), [each for each in attempts if tuple(each[key] for key in keys) == name])
            for name in names
        ],
        "discarded": [dict(each) for each in attempts if each["state"] != FINISHED],
    }


def _group(name: dict[str, t.Any], attempts: t.Sequence[_Entry]) -> dict[str, t.Any]:
    judged = [each for each in attempts if each["state"] == FINISHED]
    passed = sum(each["verdict"] == "pass" for each in judged)
    return {
        **name,
        "attempts": len(attempts),
        "judged": len(judged),
        "discarded": len(attempts) - len(judged),
        "passed": passed,
        "passed_share": [round(passed / len(attempts), 4), round(passed / len(judged), 4)] if judged else None,
    }


def lines(summed: t.Mapping[str, t.Any]) -> list[str]:
    """Return the lines for the terminal of what summary() returned."""
    groups, discarded = summed["groups"], summed["discarded"]
    if not groups:
        return []
    total = sum(group["attempts"] for group in groups)
    if not discarded:
        return ["", f"Attempts: {total}, none discarded"]
    keys = [key for key in groups[0] if key not in _group({}, [])]
    columns = [
        *((key, lambda group, key=key: str(group[key])) for key in keys),
        ("attempts", lambda group: str(group["attempts"])),
        ("discarded", lambda group: str(group["discarded"])),
        ("passed", lambda group: f"{group['passed']} of {group['judged']}"),
        ("passed if the discarded had failed", lambda group: f"{group['passed']} of {group['attempts']}"),
    ]
    return [
        "",
        f"Attempts: {total}, {len(discarded)} discarded:",
        *grid(columns, groups),
        *(
            f"  - {each['run_id']} {each['state']}"
            + (f" after {clock(each['seconds'])}" if each["seconds"] is not None else "")
            + f": {each['reason']}"
            for each in discarded
        ),
    ]
