# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenMetrics text with gauges, for the textfile collector of Prometheus' node_exporter.

See https://prometheus.io/docs/specs/om/open_metrics_spec/; the older text format, which the collector reads, accepts
these lines, too. Times are in seconds, as the specification requires. No sample has a time stamp: the collector refuses
a file in which one has. When something was measured is a gauge of its own.
"""

from __future__ import annotations

import typing as t

_PREFIX = "memstretch"

Labels = t.Mapping[str, str]
Samples = t.Iterable[t.Tuple[Labels, t.Optional[float]]]


def document(families: t.Iterable[str]) -> str:
    """Return the text of metric families."""
    return "".join(families) + "# EOF\n"


def family(name: str, text: str, samples: Samples, unit: str = "") -> str:
    """Return the lines of one metric family; samples without a value are omitted.

    Args:
        name: without the prefix; it ends with the unit, if there is one.
        text: what it means.
        samples: labels and value of each.
        unit: of the values.
    """
    full = f"{_PREFIX}_{name}"
    lines = [f"{full}{{{_labels(labels)}}} {value}" for labels, value in samples if value is not None]
    if not lines:
        return ""
    head = [f"# TYPE {full} gauge", *([f"# UNIT {full} {unit}"] if unit else []), f"# HELP {full} {text}"]
    return "\n".join([*head, *lines]) + "\n"


def _labels(labels: Labels) -> str:
    def escape(value: str) -> str:
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

    return ",".join(f'{name}="{escape(str(value))}"' for name, value in labels.items())


def cost_family(name: str, cost: t.Mapping[str, t.Any] | None, of_arm: t.Callable[[str], Labels]) -> str:
    """Return what a VM costs a month under each arm. Example prices are labelled as such.

    Args:
        name: as of family().
        cost: what cost.document() returned; None without prices.
        of_arm: returns the labels of an arm.
    """
    if not cost:
        return ""
    prices = cost["prices"]
    labels = {"currency": prices["currency"], "example_prices": str(prices["example"]).lower()}
    text = "What a VM costs a month, in the currency of the prices."
    return family(name, text, [({**of_arm(arm["name"]), **labels}, arm["per_vm_month"]) for arm in cost["arms"]])
