# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The windows of a ramp: the figures of the fleet and of its references, and which windows are clean.

docs/schemas/density.json describes the record of a ramp.
"""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import DEFAULTS
from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram

_Document = t.Mapping[str, t.Any]

# The kernel counts stolen time in hundredths of a second, so one tick alone says nothing.
_TICKS = 2
# The charged DRAM may exceed the budget by this share at most (docs/measurement.md).
OVER_BUDGET = 1.02
# If more than this share of a ramp's windows is disturbed, the machine is not quiet.
NOT_QUIET = 1 / 3

BOUNDS = ("upper", "lower", "punctual")


class Figures(t.NamedTuple):
    """Average and p99 in microseconds, and the number of requests that they come from."""

    avg_us: float
    p99_us: float
    requests: int


class Window(t.NamedTuple):
    """One look at a fleet.

    Attributes:
        size: hosts.
        document: the window in the record of the ramp.
        fleet, references: figures by bound; references is empty if there are none.
        disturbed: why the window weighs nothing; empty if it is clean.
        idle: how fast idle DRAM was in its ramp; None if nobody knows.
    """

    size: int
    document: _Document
    fleet: t.Mapping[str, Figures]
    references: t.Mapping[str, Figures]
    disturbed: str
    idle: Figures | None = None

    def everybody(self) -> dict[str, Figures]:
        """Return the figures of fleet and references together, by bound."""
        return figures([*self.document["hosts"].values(), *self.document["references"].values()])

    def sum(self, name: str) -> float | None:
        """Return the sum of a sample over the machines; None if one of them does not know it."""
        values = [each.get(name) for each in self.document["machines"].values()]
        return None if not values or None in values else sum(values)

    def most(self, name: str) -> float | None:
        """Return the largest of a sample over the machines; None if one of them does not know it."""
        values = [each.get(name) for each in self.document["machines"].values()]
        return None if not values or None in values else max(values)

    def rate(self, name: str) -> float | None:
        """Return that sum for one second."""
        total = self.sum(name)
        return None if total is None else total / self.document["seconds"]


def windows(ramp: _Document, without: t.Container[str] = ()) -> list[Window]:
    """Return the windows of a ramp in their order, steps and holds, disturbed and clean ones.

    Args:
        without: hosts that do not count in the figures of the fleet.
    """
    return [
        Window(
            size=each["n"],
            document=each,
            fleet=figures(load for name, load in each["hosts"].items() if name not in without),
            references=figures(each["references"].values()),
            disturbed=disturbed(each, ramp.get("budget_bytes"), ramp.get("stolen_limit", DEFAULTS["stolen_limit"])),
        )
        for each in ramp["windows"]
    ]


def disturbed(window: _Document, budget: int | None, stolen_limit: float) -> str:
    """Return why a window cannot be used; empty if it can be.

    Args:
        window: of the record of a ramp.
        budget: DRAM of the fleet in bytes.
        stolen_limit: the share of one CPU that neighbours may take.
    """
    if window.get("disturbed"):
        return window["disturbed"]
    for name, sample in window["machines"].items():
        share, ticks = sample.get("stolen_cpu"), sample.get("stolen_ticks")
        if share is not None and share > stolen_limit and (ticks is None or ticks >= _TICKS):
            return f"{share:.2%} of a CPU of {name} was stolen".replace("%", " %", 1)
    over = over_budget(window, budget)
    if over:
        return f"the charged DRAM was {over:.0%} above the budget".replace("%", " %", 1)
    return ""


def over_budget(window: _Document, budget: int | None) -> float:
    """Return by what share of the budget a window was above it by more than is allowed; 0 if it was not.

    Machines that share a budget do not exist, so it is known for a single machine only.
    """
    charged = [sample.get("charged_bytes") for sample in window["machines"].values()]
    if not budget or len(charged) != 1 or not charged[0] or charged[0] <= OVER_BUDGET * budget:
        return 0.0
    return charged[0] / budget - 1


def figures(loads: t.Iterable[_Document]) -> dict[str, Figures]:
    """Return the figures of several hosts together, by bound; those that have no requests are left out."""
    of_all, found = list(loads), {}
    for bound in BOUNDS:
        merged = Histogram.from_figures(*(load[bound] for load in of_all if load.get(bound)))
        if merged.count:
            p99 = merged.lower_percentile(99) if bound == "lower" else merged.percentiles([99])[0]
            found[bound] = Figures(merged.sum_ns / merged.count / 1000, (p99 or 0) / 1000, merged.count)
    return found


def is_quiet(looked: t.Sequence[Window]) -> bool:
    """Decide whether few enough windows of a ramp are disturbed."""
    return sum(bool(each.disturbed) for each in looked) <= NOT_QUIET * len(looked)
