# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directories of experiments, and that terminal and page show the same."""

from __future__ import annotations

import os

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.report import experiments
from ansible_collections.memstretch.density.plugins.plugin_utils.report import html as report_html
from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError


def figures(value):
    return {"median": value, "min": value * 0.9, "max": value * 1.1}


@pytest.fixture
def bandwidth():
    """The result of one host of two nodes."""
    pairs = [
        {
            "cpu_node": cpu,
            "memory_node": 0,
            "local": cpu == 0,
            "single": figures(8e9),
            "highest": figures(9e9),
            "latency_ns": figures(80),
            "ratio": {"single": 1.0, "highest": None, "latency": 1.5},
        }
        for cpu in (0, 1)
    ]
    return {
        "pairs": pairs,
        "readers": [{"cpu_node": 0, "memory_node": 0, "readers": 1, "bytes_per_second": figures(8e9)}],
        "theory": {"share": None, "reason": "the firmware does not </script> report it"},
        "link": {"bytes_per_second": 9.6e9, "highest": 8.3e9, "share": 0.8646, "reason": ""},
        "notes": [],
        "origin": {"date": "2026-01-02", "seconds": 61.0, "cpu_model": "A CPU", "kernel": "6.12.1", "stolen": None},
        "warnings": ["no swap drive is near node 1"],
        "doubts": ["a reader had its CPU for 0.50 of the time only"],
    }


def test_a_result_is_kept_in_its_own_directory_or_in_that_of_a_run(tmp_path, bandwidth):
    own = experiments.directory_for("memory_bandwidth", str(tmp_path), None)
    assert own.run_id.startswith("memory_bandwidth-")
    experiments.keep(own, "memory_bandwidth", {"hosts": {"kvm01": bandwidth}})

    with pytest.raises(RunError, match="run_id: .* holds a result of memory_bandwidth already"):
        experiments.directory_for("memory_bandwidth", str(tmp_path), own.run_id)
    os.mkdir(tmp_path / "other")
    with pytest.raises(RunError, match="run_id: .* holds no run"):
        experiments.directory_for("memory_bandwidth", str(tmp_path), "other")
    (tmp_path / "other" / "run.json").write_text("{}")
    assert experiments.directory_for("memory_bandwidth", str(tmp_path), "other").run_id == "other"


def test_a_damaged_result_is_named(tmp_path, bandwidth):
    directory = experiments.directory_for("memory_bandwidth", str(tmp_path), "run")
    experiments.keep(directory, "memory_bandwidth", {"hosts": {"kvm01": bandwidth}})
    (tmp_path / "run" / "memory_bandwidth.json").write_text('{"schema": 1')

    with pytest.raises(RunError, match="memory_bandwidth.json is damaged"):
        experiments.sections(directory)


def test_terminal_and_page_show_every_cell_sentence_and_doubt(tmp_path, bandwidth):
    directory = experiments.directory_for("memory_bandwidth", str(tmp_path), "run")
    experiments.keep(directory, "memory_bandwidth", {"hosts": {"kvm01": bandwidth, "kvm02": bandwidth}})
    sections = experiments.sections(directory)
    text, page = "\n".join(report_text.section(sections[0])), report_html.experiments_page("run", sections)

    for table in sections[0].tables:
        for row in table.rows:
            assert all(cell in text and cell in page for cell in row)
    assert "8.00, range 7.20 to 8.80" in text
    assert "kvm02: no swap drive is near node 1" in text and "kvm02: no swap drive is near node 1" in page
    assert "DOUBTFUL: kvm01: a reader had its CPU" in text and "Doubtful: kvm01: a reader had its CPU" in page
    assert 'id="chart-memory_bandwidth-1"' in page
    assert "</script> report it" not in page


def test_the_bandwidth_has_its_answer_on_top_and_the_source_next_to_it(bandwidth):
    section = experiments.EXPERIMENTS["memory_bandwidth"]({"hosts": {"kvm01": bandwidth}})

    assert section.answer == (
        "CPUs read the memory of their own node at up to 9.0 GB/s; from the farthest node one reader gets 100% of that "
        "of a local one, at 1.50 times the latency."
    )
    assert "the best reading across nodes, 8.3 GB/s, is 86% of the link's 9.6 GB/s." in section.sentences
    assert section.tables[0].rows[0][:4] == (
        "local, 1 reader",
        "8.14",
        "95 % of the channel",
        "8.00, range 7.20 to 8.80",
    )
