# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of several machines: that of each, and what they carry together."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.density import publish, rounds, sentence
from ansible_collections.memstretch.density.plugins.plugin_utils.density.answer import CURVES
from ansible_collections.memstretch.density.plugins.plugin_utils.density.isotonic import Crossing
from ansible_collections.memstretch.density.plugins.plugin_utils.density.objective import RELATIVE
from ansible_collections.memstretch.density.plugins.plugin_utils.report import index
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory

_Document = t.Mapping[str, t.Any]
_Prices = t.Optional[t.Mapping[str, t.Any]]
_TYPICAL = CURVES[0]


class OfMachine(t.NamedTuple):
    """The answer of a machine: its directory, and its density.json."""

    directory: RunDirectory
    document: dict[str, t.Any]


def publish_all(
    directory: RunDirectory,
    document: dict[str, t.Any],
    found: t.Mapping[str, OfMachine],
    say: t.Callable[[str], None],
    paid: _Prices = None,
) -> None:
    """Write the answers of several machines, and show them and their sum.

    Args:
        directory: of the density; each machine has its own below it.
        document: of the density.
        found: by machine.
        paid: from cost.prices().
    """
    lines = []
    for each in found.values():
        publish.write(each.directory, each.document, paid)
        lines += publish.lines(each.document)
    documents = {name: each.document for name, each in found.items()}
    document["machines"] = {
        name: {arm["name"]: arm["density"] for arm in each["arms"]} for name, each in documents.items()
    }
    document["together"] = sums(documents)
    total = sentence_of(document["together"], len(documents))
    directory.write_json("density.json", document)
    directory.write_text("density.txt", "\n".join([*lines, total]) + "\n")
    index.enter(directory, index.FILE, document["created_at"], total, publish.badges(document["together"]))
    # The page of the machines has this answer on top.
    index.write(directory.path)
    say("")
    for line in [*lines, "", total]:
        say(line)
    say(f"Density: {directory.file(index.FILE)}")


def sums(documents: t.Mapping[str, _Document]) -> list[dict[str, t.Any]]:
    """Return what the machines carry together under each profile; nothing if one of them has no density.

    All machines conduct a round at the same time, so what they carry in it is added, and the rounds of these sums say
    how sure that is, as the rounds of one machine do.

    Args:
        documents: density.json by machine.
    """
    of_machines = [document["arms"] for document in documents.values()]
    if any(arm["density"] is None for arms in of_machines for arm in arms):
        return []
    is_relative = all(each["definition"]["objective"]["kind"] == RELATIVE for each in documents.values())
    found: list[dict[str, t.Any]] = []
    first: dict[int, _Round] | None = None
    for arms in zip(*of_machines):
        rounds_of = _rounds(arms)
        first = rounds_of if first is None else first
        total = _sum(arms, rounds_of, is_relative)
        both = [number for number in rounds_of if number in first]
        if found and both and not (found[0]["at_most"] or total["at_most"]):
            base = [first[number][_TYPICAL] for number in both]
            total["ratio"] = rounds.ratio_document(
                *(rounds.ratio([rounds_of[number][curve] for number in both], base, is_relative) for curve in CURVES)
            )
        found.append(total)
    return found


def sentence_of(together: t.Sequence[_Document], machines: int) -> str:
    """Return what machines carry together, and as a multiple of the first profile.

    Args:
        together: from sums().
        machines: how many.
    """
    if not together:
        return f"No density of {machines} machines together: not each of them has one."
    return f"Together, the {machines} machines carry: {'; '.join(map(_in_words, together))}."


# The crossings of the curves of a round, by name.
_Round = t.Mapping[str, Crossing]


def _rounds(arms: t.Sequence[_Document]) -> dict[int, _Round]:
    """Return the sums of the rounds in which each machine has a ramp with a clean window."""
    of_machines = [{each["round"]: each["crossings"] for each in arm["rounds"] if each["crossings"]} for arm in arms]
    numbers = sorted(set(of_machines[0]).intersection(*of_machines[1:]))
    return {
        number: {
            curve: rounds.summed([Crossing.of_document(each[number][curve]) for each in of_machines])
            for curve in CURVES
        }
        for number in numbers
    }


def _sum(arms: t.Sequence[_Document], of: t.Mapping[int, _Round], is_relative: bool) -> dict[str, t.Any]:
    """Return the sum of the densities of an arm. Its interval holds the sum, since single rounds say less than it."""
    density = sum(arm["density"] for arm in arms)
    common = {
        "name": arms[0]["name"],
        "density": density,
        "at_least": any(arm["at_least"] for arm in arms),
        "at_most": any(arm["at_most"] for arm in arms),
        "ratio": None,
    }
    if not of:
        return {**common, "passes": None, "interval": None, "span": None}
    passes, not_fails = (rounds.together([each[curve] for each in of.values()], is_relative) for curve in CURVES)
    found = rounds.ends(density, passes, not_fails)._asdict()
    for each in found.values():
        if each and each[1] is not None:
            each[1] = max(density, each[1])
    return {**common, "passes": passes.as_document(), **found}


def _in_words(total: _Document) -> str:
    if total["at_least"] and total["at_most"]:
        return f"{sentence.name(total)} about {total['density']}"
    sure = f" ({sentence.sure(total)})" if total["passes"] else ""
    times = sentence.ratio(total)
    return f"{sentence.name(total)} {sentence.count(total)}{sure}{f': {times}' if times else ''}"
