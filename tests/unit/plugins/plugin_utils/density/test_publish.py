# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib

from synthetic_ramps import dram, tier

from ansible_collections.memstretch.density.plugins.plugin_utils.density import sentence
from ansible_collections.memstretch.density.plugins.plugin_utils.density.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory

from .judging import judged

ROUNDS = (1, 2, 3)
NOISY = {
    "hosts": {"kvm1": {"reasons": ["7 % of its CPU time was stolen"], "doubts": []}},
    "unmeasured": {},
    "rounds": 3,
}


def test_one_answer_is_on_the_terminal_the_page_and_in_the_index(tmp_path):
    directory = RunDirectory(str(tmp_path), "density-1")
    pathlib.Path(directory.path).mkdir()
    found = judged([*dram((1, 2, 3)), *tier("zram", (1, 2, 3), 28.5)])
    document = {**found, "id": "density-1", "created_at": 1.8e9, "site_checks": [NOISY]}
    said: list[str] = []
    publish(directory, document, said.append)
    answer = sentence.sentence(found)
    assert (
        said[1:3] == [answer, f"  {sentence.details(found)}"] and said[-1] == f"Density: {directory.path}/density.html"
    )
    assert "  note: the site was too noisy: kvm1: 7 % of its CPU time was stolen" in said
    for path in ("density-1/density.html", "index.html"):
        page = (tmp_path / path).read_text(encoding="utf-8")
        assert answer in page
    assert json.loads((tmp_path / "density-1" / "density.json").read_text(encoding="utf-8"))["labels"]
    badges = json.loads((tmp_path / "density-1" / "headline.json").read_text(encoding="utf-8"))["verdicts"]
    assert badges == [["dram", str(found["arms"][0]["density"])], ["zram", str(found["arms"][1]["density"])]]
    assert {path.suffix for path in (tmp_path / "density-1").glob("density.*")} == {
        ".json",
        ".txt",
        ".html",
        ".csv",
        ".prom",
    }


def test_a_density_that_ran_out_of_hosts_is_a_lower_bound_in_the_index(tmp_path):
    directory = RunDirectory(str(tmp_path), "density-1")
    pathlib.Path(directory.path).mkdir()
    found = judged([*dram(ROUNDS), *tier("zram", ROUNDS, 40, fleet=lambda size: 1.3 + size / 100, page_ins=9000)])
    publish(directory, {**found, "id": "density-1", "created_at": 1.8e9, "site_checks": []}, lambda line: None)
    assert found["arms"][1]["at_least"]
    badge = f'<span class="tag plain">≥ {found["arms"][1]["density"]}</span> zram'
    assert badge in (tmp_path / "index.html").read_text(encoding="utf-8")
