# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of several machines: that of each, and what they carry together."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.density import publish, sentence
from ansible_collections.memstretch.density.plugins.plugin_utils.report import index
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory

_Document = t.Mapping[str, t.Any]
_Prices = t.Optional[t.Mapping[str, t.Any]]


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
    total = sentence_of(documents)
    document["machines"] = {
        name: {arm["name"]: arm["density"] for arm in each["arms"]} for name, each in documents.items()
    }
    directory.write_json("density.json", document)
    directory.write_text("density.txt", "\n".join([*lines, total]) + "\n")
    index.enter(directory, index.FILE, document["created_at"], total)
    say("")
    for line in [*lines, "", total]:
        say(line)
    say(f"Density: {directory.file(index.FILE)}")


def sentence_of(documents: t.Mapping[str, _Document]) -> str:
    """Return what the machines carry together under each profile, as a multiple of the first one.

    Args:
        documents: density.json by machine.
    """
    of_arms = [_total(each) for each in zip(*(_known(document) for document in documents.values()))]
    if not of_arms:
        return f"No density of {len(documents)} machines together: not each of them has one."
    first = of_arms[0]
    texts = []
    for place, each in enumerate(of_arms):
        times = f" ({each.density / first.density:.1f} times)" if place and each.is_number and first.is_number else ""
        texts.append(f"{each.name} {each.text}{times}")
    return f"Together, the {len(documents)} machines carry: {'; '.join(texts)}."


class _Total(t.NamedTuple):
    """The sum of an arm over machines: the profile in words, the number, and how to write it."""

    name: str
    density: int
    text: str
    is_number: bool


def _known(document: _Document) -> list[_Document]:
    """Return the arms of a machine; none if one of them has no density, since its sum would be too low."""
    arms = document["arms"]
    return arms if all(arm["density"] is not None for arm in arms) else []


def _total(arms: t.Sequence[_Document]) -> _Total:
    density = sum(arm["density"] for arm in arms)
    at_least, at_most = (any(arm[name] for arm in arms) for name in ("at_least", "at_most"))
    if at_least and at_most:
        text = f"about {density}"
    else:
        text = f"at least {density}" if at_least else f"fewer than {density}" if at_most else f"{density}"
    return _Total(sentence.name(arms[0]), density, text, bool(density) and not (at_least or at_most))
