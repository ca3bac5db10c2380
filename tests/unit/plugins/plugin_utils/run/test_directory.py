# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
import resource

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run import directory as run_directory
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    RunDirectory,
    RunError,
    mark_finished,
)

PHASE = {"index": 1, "of": 1, "name": "fill", "kind": "fill", "seconds": 1}


@pytest.fixture
def directory(tmp_path):
    made = RunDirectory(str(tmp_path), "run-1")
    made.create()
    return made


def test_latest_points_to_the_newest_run(tmp_path, directory):
    assert os.readlink(tmp_path / "latest") == "run-1"
    RunDirectory(str(tmp_path), "run-2").create()
    assert os.readlink(tmp_path / "latest") == "run-2"
    assert run_directory.latest(str(tmp_path)) is None  # it has no run.json yet
    RunDirectory(str(tmp_path), "run-2").write_json("run.json", {"schema": 1})
    assert run_directory.latest(str(tmp_path)).run_id == "run-2"


def test_writing_the_same_again_changes_nothing(directory):
    assert directory.write_text("a", "text")
    assert not directory.write_text("a", "text")
    assert directory.write_text("a", "other")


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(directory):
    directory.write_text("summary.json", "old")
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, unlimited[1]))
    try:
        with pytest.raises(OSError):
            directory.write_text("summary.json", "new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert pathlib.Path(directory.file("summary.json")).read_text(encoding="utf-8") == "old"
    assert sorted(os.listdir(directory.path)) == ["phases", "summary.json"]


def test_the_earlier_document_of_a_phase_is_kept(directory):
    directory.write_phase({"schema": 1, "phase": PHASE, "valid": False})
    directory.write_phase({"schema": 1, "phase": PHASE, "valid": True})
    assert directory.read_phase(PHASE)["valid"] is True
    (kept,) = os.listdir(directory.file("superseded"))
    assert kept.endswith("01-fill.json")


def test_damaged_files_are_named(directory):
    with pytest.raises(RunError, match="run.json: No such file"):
        directory.read_json("run.json")
    directory.write_text("run.json", "{")
    with pytest.raises(RunError, match="damaged"):
        directory.read_json("run.json")
    directory.write_text("run.json", '{"schema": 99}')
    with pytest.raises(RunError, match="version"):
        directory.read_json("run.json")


def test_only_one_playbook_at_a_time(directory):
    assert directory.in_use_by() is None
    lock = directory.lock()
    assert directory.in_use_by() == os.getpid()
    with pytest.raises(RunError, match="another playbook"):
        directory.lock()
    lock.close()
    assert directory.in_use_by() is None
    directory.lock().close()


def test_checking_the_space_creates_nothing(tmp_path):
    run_directory.check_space(str(tmp_path / "a" / "b"), 1)
    assert not (tmp_path / "a").exists()
    with pytest.raises(RunError, match="make room"):
        run_directory.check_space(str(tmp_path), 10**12)
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match="not a directory"):
        run_directory.check_space(str(tmp_path / "file"), 1)


def finished(directory, filled=True):
    """Return the indices of the phases that a resumed run keeps."""
    phases = directory.read_json("run.json")["phases"]
    return [phase["index"] for phase in mark_finished(directory, phases, filled) if phase["finished"]]


def test_resuming_keeps_finished_phases_and_warms_up_unfinished_cells_again(record):
    # 13 phases: fill; then warm-up and two iterations for each of the cells 2-4, 5-7, 8-10, 11-13
    assert finished(record(skip=(7, 8, 9, 10, 11, 12, 13))[0]) == [1, 2, 3, 4, 6]
    assert finished(record()[0]) == list(range(1, 14))


def test_resuming_measures_phases_with_lost_hosts_again(record):
    directory, _printed = record(
        lambda phase, host, result: "Redis died" if phase["index"] == 4 and host == "c" else result
    )
    assert finished(directory) == [1, 3, *range(5, 14)]


def test_a_fleet_without_its_data_is_filled_again(record):
    assert finished(record(skip=(12, 13))[0], filled=False) == list(range(2, 11))
