# SPDX-License-Identifier: GPL-3.0-or-later
"""An experiment that is measured in parts is continued where it was interrupted."""

from __future__ import annotations

import os

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.report import experiment_parts, experiments
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError

NAME = "throughput_benchmark"
DEFINITION = {"settings": {"data": "128M"}}


def begin(path, run_id=None, definition=None, resume=True):
    return experiment_parts.begin(NAME, str(path), run_id, definition or DEFINITION, resume)


def test_a_new_experiment_has_no_parts(tmp_path):
    directory, parts = begin(tmp_path)
    assert directory.run_id.startswith(f"{NAME}-") and parts == {} and not directory.exists()


def test_parts_are_found_again_with_and_without_the_name(tmp_path):
    directory, _parts = begin(tmp_path, "big")
    experiment_parts.add(directory, NAME, DEFINITION, {"dram, round 1": {"round": 1}})
    experiment_parts.add(directory, NAME, DEFINITION, {"zram, round 1": {"round": 1}})

    for run_id in ("big", None):
        found, parts = begin(tmp_path, run_id)
        assert found.run_id == "big" and list(parts) == ["dram, round 1", "zram, round 1"]


def test_the_newest_unfinished_one_with_the_same_definition_is_continued(tmp_path):
    for number, (name, definition) in enumerate(
        (("old", DEFINITION), ("new", DEFINITION), ("other", {"settings": {}}))
    ):
        directory, _parts = begin(tmp_path, name, definition)
        experiment_parts.add(directory, NAME, definition, {"dram, round 1": {}})
        os.utime(directory.file(experiments.parts_file(NAME)), (number, number))

    assert begin(tmp_path)[0].run_id == "new"
    assert begin(tmp_path, resume=False)[0].run_id not in ("old", "new", "other")


def test_other_settings_are_refused(tmp_path):
    directory, _parts = begin(tmp_path, "big")
    experiment_parts.add(directory, NAME, DEFINITION, {"dram, round 1": {}})
    other = {"settings": {"data": "1G"}}

    with pytest.raises(RunError, match=r'^run_id: .*with other settings \(settings.data: "128M" -> "1G"\)'):
        begin(tmp_path, "big", other)
    with pytest.raises(RunError, match="begun with other settings"):
        experiment_parts.add(directory, NAME, other, {"zram, round 1": {}})
    with pytest.raises(RunError, match="that must not be resumed"):
        begin(tmp_path, "big", resume=False)


def test_an_experiment_that_is_finished_is_not_continued(tmp_path):
    directory, _parts = begin(tmp_path, "big")
    experiment_parts.add(directory, NAME, DEFINITION, {"dram, round 1": {}})
    experiments.keep(directory, NAME, {"hosts": {}})
    experiment_parts.end(directory, NAME)
    experiment_parts.end(directory, NAME)

    assert begin(tmp_path)[0].run_id != "big"
    with pytest.raises(RunError, match="holds a result of throughput_benchmark already"):
        begin(tmp_path, "big")
