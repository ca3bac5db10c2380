# SPDX-License-Identifier: GPL-3.0-or-later
"""Every metric that is published is on a dashboard and on a page, and dashboards, alerts and pages know no others."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families
from synthetic_fleets import fleet_run
from synthetic_ramps import definition, dram, tier

from ansible_collections.memstretch.density.plugins.module_utils.headroom import watch_program
from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.density import exports as density_exports
from ansible_collections.memstretch.density.plugins.plugin_utils.density.answer import answer
from ansible_collections.memstretch.density.plugins.plugin_utils.density.priced import priced
from ansible_collections.memstretch.density.plugins.plugin_utils.report import exports
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import evaluate
from ansible_collections.memstretch.density.tests.unit.fixtures.charged import charged_run, taken
from ansible_collections.memstretch.density.tests.unit.fixtures.pages import ROOT

DOCS = ROOT / "docs"
DASHBOARDS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in DOCS.glob("*-dashboard.json")}
ALERTS = yaml.safe_load((DOCS / "headroom-alerts.yml").read_text(encoding="utf-8"))
NAME = re.compile(r"\bmemstretch_\w+")
# Which of the dashboards shows them, and which page names them.
PLACES = {
    "runs": ("grafana-dashboard", "metrics.md"),
    "densities": ("grafana-dashboard", "metrics.md"),
    "headroom": ("headroom-dashboard", "metrics.md"),
}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The labels of each metric, by the kind of result. Every figure that may be missing is there."""
    prices = cost.prices("prices", {}, True)
    place = tmp_path_factory.mktemp("metrics")
    run = fleet_run(place, hosts=3, profile="swap")
    publish(run, lambda line: None, prices=prices)
    texts = [(place / run.run_id / "metrics.prom").read_text(encoding="utf-8")]
    texts.append(exports.open_metrics(*evaluate(charged_run(place / "budget", taken(), taken()))))
    found = answer(
        definition(["dram", "zram"], on="kvm1"),
        [*dram((1, 2, 3)), *tier("zram", (1, 2, 3), 28.5, memory_some_share=0.1)],
    )
    of_density = density_exports.open_metrics({**found, "cost": priced(found, prices)}, 1000.5)
    return {
        "runs": labels(*texts),
        "densities": labels(of_density),
        "headroom": {name: set() for name in watch_program.METRICS},
    }


def labels(*texts):
    found = {}
    for text in texts:
        for family in families(text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions(dashboard):
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


def names(texts):
    return {name for text in texts for name in NAME.findall(text)}


@pytest.mark.parametrize("kind", PLACES)
def test_a_dashboard_shows_every_metric(published, kind):
    missing = published[kind].keys() - names(expressions(DASHBOARDS[PLACES[kind][0]]))
    assert not missing


@pytest.mark.parametrize("kind", PLACES)
def test_a_page_names_every_metric(published, kind):
    missing = published[kind].keys() - names([(DOCS / PLACES[kind][1]).read_text(encoding="utf-8")])
    assert not missing


def test_dashboards_alerts_and_pages_know_no_other_metric(published):
    known = {name for metrics in published.values() for name in metrics}
    used = names(text for each in DASHBOARDS.values() for text in expressions(each))
    used |= names(json.dumps(each["templating"]) for each in DASHBOARDS.values())
    used |= names(rule["expr"] for group in ALERTS["groups"] for rule in group["rules"])
    used |= names(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    assert used <= known


def test_the_dashboard_of_results_selects_by_labels_that_exist(published):
    known = {**published["runs"], **published["densities"]}
    for expression in expressions(DASHBOARDS["grafana-dashboard"]):
        selected = re.findall(r"(memstretch_\w+)\{([^}]*)\}", expression)
        assert len(selected) == len(NAME.findall(expression)) > 0, expression
        for name, selectors in selected:
            assert set(re.findall(r"(\w+)=", selectors)) <= known[name], expression


def test_no_gauge_has_the_label_of_a_summary(published):
    """Prometheus gives C(quantile) a meaning of its own."""
    assert not [name for metrics in published.values() for name, found in metrics.items() if "quantile" in found]


@pytest.mark.parametrize("name", sorted(DASHBOARDS))
def test_no_panel_of_a_dashboard_covers_another(name):
    panels = DASHBOARDS[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    covered = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & covered and at["x"] + at["w"] <= 24, panel["title"]
        covered |= cells
