# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTML pages that need no other file: the frame that all kinds of pages share, and the page of experiments."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import typing as t

import jinja2
from markupsafe import Markup

from ansible_collections.memstretch.density.plugins.plugin_utils import collection
from ansible_collections.memstretch.density.plugins.plugin_utils.report import cost_text, headline
from ansible_collections.memstretch.density.plugins.plugin_utils.report.section import Section
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted

# Every page has this in its head.
GENERATOR = "memstretch.density"
_FILES = os.path.join(collection.ROOT, "files", "report")


def render(
    template: str,
    data: t.Mapping[str, t.Any],
    sections: t.Sequence[tuple[str, str]],
    charts: bool = True,
    **variables: t.Any,
) -> str:
    """Return a page.

    Args:
        template: a file below files/report.
        data: what the script of the page draws.
        sections: the anchor and the title of each section, for the navigation.
        charts: whether the page draws charts, so that it needs their library.
        variables: for the template.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FILES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = counted
    environment.filters["cost_sentences"] = cost_text.sentences
    return environment.get_template(template).render(
        generator=GENERATOR,
        version=collection.version(),
        sections=sections,
        css=Markup(_text("report.css")),
        script=Markup(_text("report.js")),
        echarts=Markup(_unpacked("echarts", "echarts.min.js.gz")) if charts else None,
        # A text may contain "</script>", so what could end the element is written as a JSON escape.
        data=Markup(
            json.dumps(data, separators=(",", ":"), ensure_ascii=False)
            .replace("<", "\\u003c")
            .replace("\u2028", "\\u2028")
        ),
        **variables,
    )


def with_cost(sections: t.Sequence[tuple[str, str]], cost: t.Any, before: str) -> list[tuple[str, str]]:
    """Return sections with one on the cost before another, if there is a cost."""
    return [
        each
        for section in sections
        for each in ([("cost", "Cost"), section] if cost and section[0] == before else [section])
    ]


def line_charts(shown: t.Sequence[Section]) -> list[dict[str, t.Any]]:
    """Return the charts of experiments as data for the script of the page."""
    return [dataclasses.asdict(chart) for each in shown for chart in each.charts]


class Verdict(t.NamedTuple):
    """A verdict at the top of a page.

    Attributes:
        word: the verdict.
        colour: the class of its element, as in index.COLOURS.
        why: in a sentence.
    """

    word: str
    colour: str
    why: str


def experiments_page(
    run_id: str, shown: t.Sequence[Section], first: str | None = None, verdict: Verdict | None = None
) -> str:
    """Return the page of experiments that do not belong to a run.

    Args:
        run_id: of the directory.
        shown: the experiments.
        first: the answer at the top; by default that of the first experiment that has one.
        verdict: below it.
    """
    return render(
        "experiments.html.j2",
        {"kind": "experiments", "lines": line_charts(shown)},
        [(each.name, each.title) for each in shown],
        run_id=run_id,
        headline=first or headline.experiments(shown),
        verdict=verdict,
        experiment_sections=shown,
    )


def _text(*names: str) -> str:
    with open(os.path.join(_FILES, *names), encoding="utf-8") as stream:
        return stream.read()


def _unpacked(*names: str) -> str:
    with gzip.open(os.path.join(_FILES, *names), "rt", encoding="utf-8") as stream:
        return stream.read()
