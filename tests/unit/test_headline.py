# SPDX-License-Identifier: GPL-3.0-or-later
"""The headline: its rows, and the page of what was kept of them."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import threading
import time

import pytest
from synthetic_ramps import definition, dram, tier

from ansible_collections.memstretch.density.plugins.plugin_utils.density.answer import answer
from ansible_collections.memstretch.density.plugins.plugin_utils.known_variables import known_variables

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import headline

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = headline.rows(headline.ROWS)
ROW = headline.Row("packed", "3:1", {"profiles": "dram,swap_2018,zram"})


def test_each_row_is_a_density_of_dram_and_others():
    assert len({row.name for row in ROWS}) == len(ROWS) >= 7
    for row in ROWS:
        assert row.variables["profiles"].startswith("dram,") and set(row.variables) <= known_variables(), row.name
        assert len(row.variables["latency_benchmark_influences"]) == 1, "a density has one cell"


def test_the_page_is_that_of_the_kept_results():
    assert headline.PAGE.read_text(encoding="utf-8") == headline.page(ROWS, headline.KEPT), "make headline-page"


@pytest.fixture
def kept(tmp_path):
    """A finished row, and where it was kept."""
    ramps = [*dram((1, 2, 3)), *tier("swap_2018", (1, 2, 3), 20.5), *tier("zram", (1, 2, 3), 26.5)]
    asked = definition(("dram", "swap_2018", "zram"))
    found = {**answer(asked, ramps), "finished": True, "measured_at": 1.8e9}
    place = tmp_path / "headline-packed"
    (place / "ramps").mkdir(parents=True)
    (place / "density.json").write_text(json.dumps(found), encoding="utf-8")
    for ramp in ramps:
        path = place / "ramps" / f"{ramp['arm']}-{ramp['round']}.json"
        path.write_text(json.dumps(ramp), encoding="utf-8")
    assert headline.is_finished(tmp_path, ROW)
    headline.keep(tmp_path, ROW, tmp_path / "kept")
    return tmp_path / "kept"


def test_a_row_has_its_answer_its_limits_in_microseconds_and_what_is_beyond_dram(kept):
    text = headline.page([ROW, *ROWS[:1]], kept)
    assert "- In 256 MiB of DRAM, zram carries 26" in text and "DRAM alone 10: 2." in text
    assert f"Not measured yet: {ROWS[0].name}." in text and "| 50 / 300 | dram |" in text
    beyond = [line.split(" | ") for line in text.splitlines() if line.startswith("| 2 | 20 | ")]
    (slow, zram) = ([each.strip(" |") for each in line[2:]] for line in beyond)
    assert slow[0] == "swap_2018" and 1.7 < float(slow[1]) < 2.2 and slow[3:] == ["-", "-"]
    assert zram[0] == "zram" and float(zram[1]) < float(slow[1]) and 50 < int(zram[3].split()[0]) <= 100


def test_a_fleet_beyond_a_wall_does_not_fit():
    (arm,) = answer(definition(("dram",)), dram((1, 2, 3)))["arms"]
    assert headline.latency(arm, 20) == "does not fit" and headline.latency(arm, 2) == "not seen"
    assert headline.latency(arm, 10) == pytest.approx((1, 1), rel=0.1)
    assert headline.closed((2.0, 3.0), (1.5, 3.0)) == ["50 %", "0 %"]


def test_a_row_that_is_not_there_is_refused_by_name(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["headline.py", "measure", "--only", "none"])
    with pytest.raises(SystemExit):
        headline.main()
    assert "--only: none is not a row; the rows are 3to1-influence25" in capsys.readouterr().err


def test_an_interrupted_row_says_so_after_its_program_has_ended():
    before = signal.getsignal(signal.SIGTERM)

    def interrupt():
        while signal.getsignal(signal.SIGTERM) is before:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert headline.run_to_its_end([sys.executable, "-c", "import time; time.sleep(60)"]) == headline.INTERRUPTED
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before
    assert headline.run_to_its_end([sys.executable, "-c", "raise SystemExit(3)"]) == 3
