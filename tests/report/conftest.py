# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of synthetic fleets, and a real browser that opens them."""

from __future__ import annotations

import json
import pathlib
import random

import pytest
from synthetic_fleets import fleet_run
from synthetic_ramps import definition, dram, tier
from synthetic_throughput import study

from ansible_collections.memstretch.density.plugins.plugin_utils.density import answer as density_answer
from ansible_collections.memstretch.density.plugins.plugin_utils.density import page as density_page
from ansible_collections.memstretch.density.plugins.plugin_utils.density.together import OfMachine, publish_all
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import answer as headroom_answer
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import publish as publish_headroom
from ansible_collections.memstretch.density.plugins.plugin_utils.report import experiments, html
from ansible_collections.memstretch.density.plugins.plugin_utils.report.comparison_page import comparison_page
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import ArmRuns, compare
from ansible_collections.memstretch.density.tests.unit.fixtures.looks import look_at

from .browser import Browser


@pytest.fixture(scope="session")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(params=["desktop", "phone", "dark"])
def look(request, browser):
    """A screen: a desktop, a phone of 400 pixels, or a desktop in the dark."""
    browser.emulate(**{"desktop": {}, "phone": {"width": 400, "height": 844}, "dark": {"dark": True}}[request.param])
    return request.param


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    """The run of twelve hosts, one of which is sick."""
    run = fleet_run(tmp_path_factory.mktemp("fleet"), hosts=12, profile="swap", sick={7})
    publish(run, lambda line: None)
    return pathlib.Path(run.path)


@pytest.fixture(scope="session")
def comparison(tmp_path_factory):
    """The comparison of three profiles on the same hosts, with three runs of each."""
    place = tmp_path_factory.mktemp("comparison")
    arms = [
        [fleet_run(place, hosts=4, profile=profile, name=f"{profile}-{number}") for number in (1, 2, 3)]
        for profile in ("dram", "swap", "zram")
    ]
    document, details = compare([ArmRuns(None, runs) for runs in arms])
    page = place / "comparison.html"
    page.write_text(comparison_page(json.loads(json.dumps(document)), details), encoding="utf-8")
    return page


@pytest.fixture(scope="session")
def throughput(tmp_path_factory):
    """The throughput of one large Redis under two profiles."""
    arms = study(random.Random(1))
    section = experiments.EXPERIMENTS["throughput_benchmark"]({"expected": list(arms), "hosts": arms})
    page = tmp_path_factory.mktemp("throughput") / "report.html"
    page.write_text(html.experiments_page("big", [section]), encoding="utf-8")
    return page


@pytest.fixture(scope="session")
def ramps(tmp_path_factory):
    """The page of a density from ramps of three profiles, its answer, and the ramps.

    Those of the drive run out of hosts, and something else makes some of their windows slow.
    """
    records = [
        *dram((1, 2, 3)),
        *tier("zram", (1, 2, 3), 28.5, page_ins=4000, stolen={26: 0.05}),
        *tier(
            "swap",
            (1, 2, 3),
            40,
            fleet=lambda size: 1.3 + size / 100,
            references=lambda size: 2.8 if size % 5 == 0 else 1 + size / 60,
            page_ins=9000,
            drive_reads=9000,
        ),
    ]
    answer = density_answer.answer(definition(["dram", "zram", "swap"]), records)
    page = tmp_path_factory.mktemp("ramps") / "density.html"
    page.write_text(density_page.page(json.loads(json.dumps(answer))), encoding="utf-8")
    return page, answer, records


@pytest.fixture(scope="session")
def headroom(tmp_path_factory):
    """The page of a look at two hosts, one of which is over its limit."""
    tiers = [{"name": "/dev/zram0", "kind": "zram", "size_bytes": 64 * 2**30, "used_bytes": 0, "priority": 100}]
    wishes = headroom_answer.Wishes(like="", compression=None, page_in_us=None, waiting=1, reserve=5)
    looks = {"kv1": look_at(tiers=tiers), "kv2": look_at(40)}
    directory = RunDirectory(str(tmp_path_factory.mktemp("headroom")), "headroom-1")
    publish_headroom.write(directory, headroom_answer.document(looks, wishes, {"id": "headroom-1", "made_at": 1}), [])
    return pathlib.Path(directory.file("report.html"))


@pytest.fixture(scope="session")
def together(tmp_path_factory):
    """The page of a density of two machines."""
    place = RunDirectory(str(tmp_path_factory.mktemp("together")), "density-1")
    place.make()
    found = {}
    for name, middle in (("hypervisor-with-a-long-name-1", 20.5), ("kvm2", 28.5)):
        machine = RunDirectory(place.path, name)
        machine.make()
        ramps_of = [*dram((1, 2, 3)), *tier("zram", (1, 2, 3), middle)]
        judged = density_answer.answer(definition(["dram", "zram"], on=name), ramps_of)
        found[name] = OfMachine(machine, {**judged, "id": name, "created_at": 1.0})
    publish_all(place, {"id": "density-1", "created_at": 1.0}, found, lambda line: None)
    return pathlib.Path(place.file("index.html"))


@pytest.fixture(scope="session")
def pages(fleet, comparison, throughput, ramps, headroom, together):
    """A page of each kind, by the kind."""
    return {
        "run": fleet / "report.html",
        "index": fleet.parent / "index.html",
        "comparison": comparison,
        "density": ramps[0],
        "experiments": throughput,
        "headroom": headroom,
        "machines": together,
    }
