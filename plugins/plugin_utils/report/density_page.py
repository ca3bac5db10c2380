# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a search for the density."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import density_text, html
from ansible_collections.memstretch.density.plugins.plugin_utils.report.charts import short
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check

_SECTIONS = (("densities", "Densities"), ("curve", "Curve"), ("probes", "Probes"))


def density_page(document: t.Mapping[str, t.Any]) -> str:
    """Return the page of a search for the density, from density.json."""
    found = document["density"]
    data = {
        "kind": "density",
        "slo": document["slo"],
        "profiles": [
            {
                "name": each["name"],
                "curve": [_point(row) for row in each["curve"]],
                "interval": [each["passes"]["n90_interval"][0], each["not_fails"]["n90_interval"][1]],
            }
            for each in found
        ],
    }
    return html.render(
        "density.html.j2",
        data,
        html.with_cost(_SECTIONS, document.get("cost"), "curve"),
        density=document,
        found=found,
        site_lines=site_check.lines(document.get("site_checks", [])),
        text=density_text,
    )


def _point(row: t.Mapping[str, t.Any]) -> list[t.Any]:
    """Return a point of a curve: a size of the fleet and what its probes measured."""
    judged = row["passed"] + row["undecided"] + row["failed"]
    return [
        row["size"],
        short(row["worst_host_p99_us"]),
        row["hosts_within_slo"],
        2 * row["passed"] > judged,
        f"{density_text.outcomes(row)} probes passed",
    ]
