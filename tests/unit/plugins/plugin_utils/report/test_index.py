# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.report import index
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory


def result(results, name, document, at="2026-01-01T00:00:00Z", page="report.html", verdicts=()):
    """Publish a result with an empty page."""
    directory = results / name
    directory.mkdir()
    (directory / document).write_text("{}", encoding="utf-8")
    (directory / page).write_text("", encoding="utf-8")
    index.enter(RunDirectory(str(results), name), page, at, f"the answer of {name}", verdicts)


def links(results):
    """Return the files that the index links to."""
    text = (results / index.FILE).read_text(encoding="utf-8")
    return [results / urllib.parse.unquote(each) for each in re.findall(r'<a href="([^#"]+)"', text)]


def test_all_results_are_listed_the_newest_first_with_links_that_work(tmp_path):
    result(tmp_path, "dram-1", "run.json", verdicts=[("dram", "pass")])
    result(tmp_path, "with space & #", "run.json", "2026-01-03T00:00:00Z", verdicts=[("swap", "fail")])
    densities = [("dram", "19"), ("zram", "60")]
    result(tmp_path, "density-1", "density.json", "2026-01-02T00:00:00Z", "density.html", densities)
    result(tmp_path, "both", "comparison.json", page="comparison.html", verdicts=[("a", "pass"), ("b", "invalid")])
    result(tmp_path, "wide", "memory_bandwidth.json", "2025-01-01T00:00:00Z")
    (tmp_path / "latest").symlink_to("dram-1")
    (tmp_path / "somebody's").mkdir()
    rows = index.rows(str(tmp_path))
    assert [(row.name, row.kind) for row in rows] == [
        ("with space & #", "run"),
        ("density-1", "density"),
        ("dram-1", "run"),
        ("both", "comparison"),
        ("wide", "experiment"),
    ]
    assert len(links(tmp_path)) == 5 and all(path.is_file() for path in links(tmp_path))
    text = (tmp_path / index.FILE).read_text(encoding="utf-8")
    assert "<h1>All results: 2 runs, 1 density, 1 comparison, 1 experiment</h1>" in text
    assert "the answer of density-1" in text and '<span class="tag invalid">INVALID</span> b' in text
    assert '<span class="tag plain">19</span> dram' in text and '<span class="tag plain">60</span> zram' in text


def test_the_runs_of_a_study_are_below_it(tmp_path):
    result(tmp_path, "s", "study.json", page="comparison.html")
    result(tmp_path, "s-dram-1", "run.json")
    result(tmp_path, "s-dram-1-attempt2", "run.json")
    result(tmp_path, "other", "run.json")
    result(tmp_path, "other-1", "run.json")  # a run has no runs of its own
    rows = {row.name: row for row in index.rows(str(tmp_path))}
    assert set(rows) == {"s", "other", "other-1"}
    assert {row.name for row in rows["s"].runs} == {"s-dram-1", "s-dram-1-attempt2"}
    assert len(links(tmp_path)) == 5 and all(path.is_file() for path in links(tmp_path))


def test_what_is_not_published_is_listed_too(tmp_path):
    for name, files in {"begun": ["run.json"], "torn": ["run.json"]}.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_text("{}", encoding="utf-8")
    (tmp_path / "torn" / "headline.json").write_text("{", encoding="utf-8")
    result(tmp_path, "new", "run.json")
    rows = {row.name: row for row in index.rows(str(tmp_path))}
    assert rows["begun"].page is None and rows["begun"].verdicts == [("", "not finished")]
    assert "headline.json is damaged" in rows["torn"].headline and rows["torn"].verdicts == [("", "damaged")]
    assert len(links(tmp_path)) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"page": 5}, {"at": 5}, {"headline": None}, {"verdicts": 5}, {"verdicts": [["a"]]}, {"verdicts": [["a", {}]]}],
)
def test_a_row_of_others_does_not_keep_the_rest_from_the_index(tmp_path, wrong):
    """Who may write to a shared results directory may write anything into it."""
    result(tmp_path, "theirs", "run.json")
    row = json.loads((tmp_path / "theirs" / "headline.json").read_text(encoding="utf-8"))
    (tmp_path / "theirs" / "headline.json").write_text(json.dumps({**row, **wrong}), encoding="utf-8")
    result(tmp_path, "ours", "run.json")
    rows = {row.name: row for row in index.rows(str(tmp_path))}
    assert "headline.json is damaged" in rows["theirs"].headline and rows["ours"].page == "report.html"


def test_a_row_of_others_that_is_too_long_is_not_read(tmp_path):
    result(tmp_path, "theirs", "run.json")
    row = tmp_path / "theirs" / "headline.json"
    os.truncate(row, 2**40)  # it takes no room, and more memory than there is
    result(tmp_path, "ours", "run.json")
    rows = {row.name: row for row in index.rows(str(tmp_path))}
    assert "headline.json is damaged" in rows["theirs"].headline and rows["ours"].page == "report.html"


def test_a_pipe_in_place_of_the_index_keeps_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / index.FILE)
    result(tmp_path, "ours", "run.json")
    assert (tmp_path / index.FILE).is_fifo()
    (tmp_path / index.FILE).unlink()


def test_a_published_run_enters_the_index_and_publishing_it_again_changes_nothing(record):
    directory = record()[0]
    assert publish(directory, lambda line: None)[1] is True
    results = pathlib.Path(directory.results_dir)
    (row,) = (each for each in index.rows(str(results)) if each.name == directory.run_id)
    assert row.headline.startswith("All 3 hosts meet the SLO") and row.verdicts[0][1] == "pass"
    assert " µs" in row.headline and "?" not in row.headline, "a file has no character that a terminal might not print"
    before = (results / index.FILE).stat().st_mtime_ns
    assert publish(directory, lambda line: None)[1] is False
    assert (results / index.FILE).stat().st_mtime_ns == before


def test_a_file_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / index.FILE).write_text("<h1>My page</h1>", encoding="utf-8")
    result(tmp_path, "dram-1", "run.json")
    assert (tmp_path / index.FILE).read_text(encoding="utf-8") == "<h1>My page</h1>"


ENTER = """
import json, sys
from ansible_collections.memstretch.density.plugins.plugin_utils.report import index
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
for name in json.loads(sys.argv[2]):
    index.enter(RunDirectory(sys.argv[1], name), "report.html", "2026-01-01T00:00:00Z", name)
"""


@pytest.mark.parametrize("writers", [4])
def test_results_that_are_published_at_the_same_time_are_all_listed(tmp_path, writers):
    names = [[f"run-{writer}-{number}" for number in range(8)] for writer in range(writers)]
    for name in sum(names, []):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}", encoding="utf-8")
        (tmp_path / name / "report.html").write_text("", encoding="utf-8")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ENTER, str(tmp_path), json.dumps(each)], env={"PYTHONPATH": ":".join(sys.path)}
        )
        for each in names
    ]
    assert [process.wait() for process in processes] == writers * [0]
    listed = {path.parent.name for path in links(tmp_path)}
    assert listed == set(sum(names, []))
