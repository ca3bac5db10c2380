# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an experiment changed is restored by the program that changes the knobs next. The knobs are temporary files."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.temporary import TemporarySettings


@pytest.fixture
def knob(tmp_path):
    path = tmp_path / "knob"
    path.write_text("1\n", encoding="ascii")
    return path


def test_originals_are_put_back_until_the_end(knob, tmp_path):
    settings = TemporarySettings(str(tmp_path / "records"))
    assert settings.originals() == {} and not settings.end()
    settings.begin({str(knob): "1"})
    for value in ("2", "3"):
        knob.write_text(value, encoding="ascii")
        settings.put_back()
        assert knob.read_text(encoding="ascii") == "1\n" and settings.originals()
    knob.write_text("4", encoding="ascii")
    assert TemporarySettings(str(tmp_path / "records")).end()
    assert knob.read_text(encoding="ascii") == "1\n" and settings.originals() == {} and not settings.end()


def test_a_knob_that_is_gone_does_not_keep_the_others_from_being_restored(knob, tmp_path):
    settings = TemporarySettings(str(tmp_path / "records"))
    settings.begin({str(tmp_path / "gone"): "8", str(knob): "1"})
    knob.write_text("2", encoding="ascii")
    assert settings.end()
    assert knob.read_text(encoding="ascii") == "1\n" and not (tmp_path / "gone").exists()
