# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a density: its sentence, the chart with sliders for the objective, and tables."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.density import sentence
from ansible_collections.memstretch.density.plugins.plugin_utils.density.objective import ABSOLUTE, RELATIVE
from ansible_collections.memstretch.density.plugins.plugin_utils.report import html
from ansible_collections.memstretch.density.plugins.plugin_utils.report.charts import short
from ansible_collections.memstretch.density.plugins.plugin_utils.run import options as run

_SECTIONS = (("curve", "Curve"), ("densities", "Densities"), ("windows", "Windows"))
_KINDS = {
    RELATIVE: "times as slow as in DRAM",
    ABSOLUTE: "microseconds",
}
_FIGURES = ("avg_us", "p99_us")
_DEFAULT_FACTOR = 2.0
_LIMITS = {"avg_us": run.SLO_AVG_US, "p99_us": run.SLO_P99_US}

_Document = t.Mapping[str, t.Any]


def page(answer: _Document) -> str:
    """Return the page of an answer, from density.json; of the profiles that have a density so far."""
    known = [arm for arm in answer["arms"] if arm["density"] is not None]
    kinds = [kind for kind in _KINDS if answer["plateau"] or kind == ABSOLUTE]
    data = {
        "kind": "density",
        "sliders": {kind: _sliders(answer, kind) for kind in kinds},
        "arms": [{"name": arm["name"], "rounds": [_ramp(ramp) for ramp in arm["rounds"]]} for arm in known],
    }
    return html.render(
        "density.html.j2",
        data,
        html.with_cost(_SECTIONS, answer.get("cost"), "windows"),
        charts=True,
        answer=answer,
        sentence=sentence.sentence(answer),
        details=sentence.details(answer),
        others=sentence.others(answer),
        notes=sentence.notes(answer),
        rows=[(row, arm) for row, arm in zip(sentence.table(answer), answer["arms"]) if arm in known],
        kinds=[(kind, _KINDS[kind]) for kind in kinds],
        chosen=answer["definition"]["objective"]["kind"],
    )


def _ramp(ramp: _Document) -> dict[str, t.Any]:
    return {
        "round": ramp["round"],
        "wall": ramp["wall"],
        "end": (ramp["end"] or {}).get("message", ""),
        "points": [_point(each, ramp["idle"]) for each in ramp["points"]],
    }


def _point(point: _Document, idle: _Document | None) -> dict[str, t.Any]:
    """Return a point with average and p99: of the fleet as it counts in ratios, of its upper bound, of references, and
    of idle DRAM.
    """
    fleet, beside = point["fleet"], point["references"]
    return {
        "size": point["size"],
        "clean": not point["disturbed"] and point["kind"] == "step",
        "disturbed": point["disturbed"],
        "upper": [fleet["upper"][name] for name in _FIGURES],
        "fleet": [fleet.get("punctual", fleet["upper"])[name] for name in _FIGURES],
        "beside": beside and [beside.get("punctual", beside["upper"])[name] for name in _FIGURES] or None,
        "beside_upper": beside and [beside["upper"][name] for name in _FIGURES] or None,
        "idle": idle and [idle[name] for name in _FIGURES],
        "page_ins": short(point["page_ins_per_second"]),
    }


def _sliders(answer: _Document, kind: str) -> list[list[float]]:
    """Return the lowest limit, the highest and the objective's own, of the average and of the p99."""
    aim, idle = answer["definition"]["objective"], answer["plateau"]
    if kind == RELATIVE:
        own = aim["factor"] if aim["kind"] == RELATIVE else _DEFAULT_FACTOR
        return [[1.05, max(5.0, 2 * own), own]] * 2
    found = []
    for name in _FIGURES:
        own = aim[name] if aim["kind"] == ABSOLUTE else _DEFAULT_FACTOR * idle[name] if idle else _LIMITS[name]
        found.append([own / 5, own * 5, own])
    return found
