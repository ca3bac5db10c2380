# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of synthetic fleets, and a real browser to look at them."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.comparison import Arm, compare
from ansible_collections.memstretch.density.plugins.plugin_utils.report_html import comparison_page
from ansible_collections.memstretch.density.plugins.plugin_utils.run_recorder import publish

from .browser import Browser
from .fleets import fleet_run


@pytest.fixture(scope="session")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    """Twelve hosts of which one is sick."""
    run = fleet_run(tmp_path_factory.mktemp("fleet"), hosts=12, profile="swap", sick={7})
    publish(run, lambda line: None)
    return pathlib.Path(run.path)


@pytest.fixture(scope="session")
def comparison(tmp_path_factory):
    """Three profiles on the same hosts."""
    place = tmp_path_factory.mktemp("comparison")
    runs = [fleet_run(place, hosts=4, profile=profile) for profile in ("dram", "swap", "zram")]
    document, details = compare([Arm(None, [run]) for run in runs])
    page = place / "comparison.html"
    page.write_text(comparison_page(json.loads(json.dumps(document)), details), encoding="utf-8")
    return page
