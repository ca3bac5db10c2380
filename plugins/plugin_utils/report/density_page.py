# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a search for the density."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import html
from ansible_collections.memstretch.density.plugins.plugin_utils.report.charts import short

_SECTIONS = (("curve", "Curve"), ("confidence", "Confidence"), ("probes", "Probes"))


def density_page(
    document: t.Mapping[str, t.Any],
    reason: t.Callable[[t.Mapping[str, t.Any]], str],
    contradictions: t.Callable[[t.Mapping[str, t.Any]], list[str]],
) -> str:
    """Return the page of a search for the density.

    Args:
        document: density.json.
        reason: returns why a density is not larger.
        contradictions: returns where a density is not monotonic.
    """
    found = document["density"]
    data = {
        "kind": "density",
        "slo": document["slo"],
        "profiles": [{"name": each["name"], "curve": [_point(row) for row in each["curve"]]} for each in found],
    }
    return html.render(
        "density.html.j2",
        data,
        html.with_cost(_SECTIONS, document.get("cost"), "confidence"),
        density=document,
        found=found,
        reason=reason,
        contradictions=contradictions,
    )


def _point(row: t.Mapping[str, t.Any]) -> list[t.Any]:
    """Return a point of a curve: a size of the fleet and what its probes measured."""
    return [
        row["size"],
        short(row["worst_host_p99_us"]),
        row["hosts_within_slo"],
        row["passed"] > row["failed"],
        f"{row['passed']} of {row['passed'] + row['failed']} probes passed",
    ]
