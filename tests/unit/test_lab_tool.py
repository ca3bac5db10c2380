# SPDX-License-Identifier: GPL-3.0-or-later
"""What "make lab" demands of the comparison at its end."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import sys

import pytest

_SCRIPT = pathlib.Path(__file__).parents[2] / "tools" / "lab.py"
_SPEC = importlib.util.spec_from_file_location("lab_tool", _SCRIPT)
lab = importlib.util.module_from_spec(_SPEC)
sys.modules["lab_tool"] = lab
_SPEC.loader.exec_module(lab)

KNOWN = {"page_ins": 120.0, "available_mb": 9000.0}


def write(results, study, at=1000, **pressure):
    cell = {"influence": 0, "read_mix": 100}
    cells = [{**cell, "name": arm, "pressure": machines} for arm, machines in pressure.items()]
    path = results / study / "comparison.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    os.utime(path, (at, at))


def test_a_comparison_with_the_pressure_of_both_hypervisors_passes(tmp_path):
    write(tmp_path, "old", at=1, dram={})
    write(tmp_path, "new", dram={"lab1": KNOWN, "lab2": KNOWN}, swap={"lab1": KNOWN, "lab2": {**KNOWN, "page_ins": 0}})
    heading, *rows = [line.split() for line in lab.check_pressure(tmp_path, ["lab1", "lab2"]).splitlines()]
    assert heading[-2:] == ["available", "MB"]
    assert [row[-4:] for row in rows] == [
        ["dram", "lab1", "120", "9,000"],
        ["dram", "lab2", "120", "9,000"],
        ["swap", "lab1", "120", "9,000"],
        ["swap", "lab2", "0", "9,000"],
    ]


@pytest.mark.parametrize("of_second", [None, {}, {**KNOWN, "page_ins": None}, {**KNOWN, "available_mb": None}])
def test_an_unknown_hypervisor_fails(tmp_path, of_second):
    others = {} if of_second is None else {"lab2": of_second}
    write(tmp_path, "study", dram={"lab1": KNOWN, "lab2": KNOWN}, swap={"lab1": KNOWN, **others})
    with pytest.raises(lab.LabError, match="of lab2 under swap is unknown"):
        lab.check_pressure(tmp_path, ["lab1", "lab2"])


def test_no_comparison_fails(tmp_path):
    with pytest.raises(lab.LabError, match="no comparison"):
        lab.check_pressure(tmp_path, ["lab1"])
    write(tmp_path, "empty")
    with pytest.raises(lab.LabError, match="no cells"):
        lab.check_pressure(tmp_path, ["lab1"])
