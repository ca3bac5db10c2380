# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a search for the density."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import density_text, headline, html
from ansible_collections.memstretch.density.plugins.plugin_utils.report.charts import short
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check

_SECTIONS = (("curve", "Curve"), ("densities", "Densities"), ("probes", "Probes"))
# Pixels of the chart, without the rows of the profiles, and of each of these.
CHART_HEIGHT, CHART_HEIGHT_OF_PROFILE = 516, 34


def density_page(document: t.Mapping[str, t.Any]) -> str:
    """Return the page of a search for the density, from density.json."""
    found, slo, (first, *others) = document["density"], document["slo"], headline.all_of_density(document)
    data = {
        "kind": "density",
        "slo_text": f"SLO: average ≤ {slo['avg_us']:g} µs and p99 ≤ {slo['p99_us']:g} µs",
        "profiles": [
            {
                "name": each["name"],
                "curve": [_point(row, slo) for row in each["curve"]],
                "n90": each["density"],
                "interval": _interval(each),
                "short": density_text.size({"n90": each["density"], "n90_interval": _interval(each)}),
                "text": f"{density_text.density(each)}{', indicative' if each['indicative'] else ''}",
            }
            for each in found
        ],
    }
    return html.render(
        "density.html.j2",
        data,
        html.with_cost(_SECTIONS, document.get("cost"), "probes"),
        density=document,
        found=found,
        site_lines=site_check.lines(document.get("site_checks", [])),
        text=density_text,
        headline=first,
        others=others,
        chart_height=CHART_HEIGHT + CHART_HEIGHT_OF_PROFILE * len(found),
    )


def _interval(found: t.Mapping[str, t.Any]) -> list[int | None]:
    """Return the interval of N90 whichever way the undecided probes would have ended."""
    return [found["passes"]["n90_interval"][0], found["not_fails"]["n90_interval"][1]]


def _point(row: t.Mapping[str, t.Any], slo: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a point of a curve: a size of the fleet, and its worst host's figures and shares of the SLO."""
    judged = row["passed"] + row["undecided"] + row["failed"]
    average, p99 = row["worst_host_avg_us"], row["worst_host_p99_us"]
    return {
        "size": row["size"],
        "hosts": counted(row["size"], "host"),
        "avg_us": short(average),
        "p99_us": short(p99),
        "avg": None if average is None else short(average / slo["avg_us"]),
        "p99": None if p99 is None else short(p99 / slo["p99_us"]),
        "passed": 2 * row["passed"] > judged,
        "text": f"{density_text.outcomes(row)} probes passed, {row['hosts_within_slo']} of "
        f"{counted(row['size'], 'host')} within the SLO",
    }
