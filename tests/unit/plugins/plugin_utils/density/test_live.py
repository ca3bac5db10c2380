# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from synthetic_ramps import definition, dram, ramp, tier

from ansible_collections.memstretch.density.plugins.plugin_utils.density.answer import answer
from ansible_collections.memstretch.density.plugins.plugin_utils.density.live import (
    HEADER,
    end_line,
    known,
    line,
    marked,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.density.objective import Objective
from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import Figures, windows

RELATIVE = Objective("relative", 2.0, 2.0)


def columns(text):
    return [each for each in text.split("  ") if each.strip()]


def test_a_line_has_the_shares_of_the_objective():
    (window,) = windows(ramp("zram", 1, [20], lambda size: 1.8, page_ins=8000))
    found = [each.strip() for each in columns(line(window._replace(idle=Figures(60.0, 147.0, 10_000)), RELATIVE))]
    assert found[:1] == ["|"] and found[1:4] == ["20", "256", "2,000"]
    average, p99 = (int(each) for each in found[-1].removesuffix(" %").split(" / "))
    assert 86 <= average <= 94 and 80 <= p99 <= 100
    assert len(columns(HEADER)) == len(found) - 1, "a title for each column"


def test_a_line_before_the_plateau_is_known_has_the_figures_alone():
    (window,) = windows(ramp("dram", 1, [20], stolen={20: 0.05}))
    text = line(window, RELATIVE)
    assert "%" not in text.partition("(disturbed")[0]
    assert text.endswith("(disturbed: 5.00 % of a CPU of this_machine was stolen)")


def test_a_line_names_its_machine_if_there_are_several():
    assert marked("| 20 do not fit") == marked("20 do not fit") == "| 20 do not fit"
    assert marked("| 20 do not fit", "kvm1") == "| kvm1: 20 do not fit"


def test_how_a_ramp_ended():
    end = {"kind": "does_not_fit", "n": 20, "host": "redis020", "machine": "this_machine", "message": "killed twice"}
    assert end_line(end) == "| 20 do not fit: killed twice"


def test_what_is_known_is_one_line():
    nothing = known(answer(definition(("dram", "zram")), []))
    assert nothing.startswith("So far: the ramps in DRAM have 0 clean windows")
    one = known(answer(definition(("dram", "zram")), dram((1,))))
    assert one == "So far: DRAM alone 10"
    both = known(answer(definition(("dram", "zram")), [*dram((1, 2)), *tier("zram", (1,), 20.5)]))
    assert both.startswith("So far: DRAM alone 10, 10; zram 20, 1.9 times (") and both.endswith(", one ramp each)")
    assert "\n" not in nothing + one + both
