# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finished rounds are kept for the same measurement only, and never read from a file of somebody else."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import finished_rounds
from ansible_collections.memstretch.density.plugins.module_utils.experiment.finished_rounds import FinishedRounds

KEY = {"options": {"seconds": 5}, "boot": "one"}
KEPT = {"repetitions": [[1, 2], [3, 4]]}


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "finished.json")


def test_the_same_measurement_goes_on(path):
    assert FinishedRounds(path, KEY).kept == {}
    FinishedRounds(path, KEY).save(KEPT)

    assert FinishedRounds(path, KEY).kept == KEPT
    assert finished_rounds.is_kept(path) and os.stat(path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("other", [{**KEY, "boot": "two"}, {**KEY, "options": {"seconds": 6}}])
def test_another_measurement_starts_over_and_replaces_it(path, other):
    FinishedRounds(path, KEY).save(KEPT)

    assert FinishedRounds(path, other).kept == {}
    FinishedRounds(path, other).save({"repetitions": []})
    assert FinishedRounds(path, KEY).kept == {}


def test_what_is_forgotten_is_gone(path):
    finished_rounds.forget(path)
    FinishedRounds(path, KEY).save(KEPT)
    finished_rounds.forget(path)

    assert not finished_rounds.is_kept(path) and not os.path.exists(path)


def test_a_link_or_a_file_of_somebody_else_is_not_read(path, tmp_path, monkeypatch):
    FinishedRounds(str(tmp_path / "elsewhere"), KEY).save(KEPT)
    os.symlink(tmp_path / "elsewhere", path)
    assert not finished_rounds.is_kept(path)
    finished_rounds.forget(path)
    assert os.path.islink(path)

    os.unlink(path)
    os.mkfifo(path)
    assert FinishedRounds(path, KEY).kept == {}

    os.unlink(path)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"key": KEY, "kept": KEPT}, file)
    assert FinishedRounds(path, KEY).kept == KEPT
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert FinishedRounds(path, KEY).kept == {} and not finished_rounds.is_kept(path)


@pytest.mark.parametrize(
    "content", [b"", b'{"key": {"options"', b"\xff\xfe", b"[]", b"null", b'{"key": 1}', b'{"key": 1, "kept": 2}', b"{}"]
)
def test_a_damaged_file_is_none_and_is_replaced_or_removed(path, content):
    def damage():
        with open(path, "wb") as file:
            file.write(content)

    damage()
    assert FinishedRounds(path, KEY).kept == {} and not finished_rounds.is_kept(path)
    FinishedRounds(path, KEY).save(KEPT)
    assert FinishedRounds(path, KEY).kept == KEPT
    damage()
    finished_rounds.forget(path)
    assert not os.path.exists(path)
