# SPDX-License-Identifier: GPL-3.0-or-later
"""A host is not trusted: what does not fit fails it."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import accepted
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError
from ansible_collections.memstretch.density.tests.unit.fixtures.looks import window


@pytest.mark.parametrize("watch", [None, {"since": 1.0, "half_hour": None, "worst_hour": window(page_ins=None)}])
def test_a_look_is_accepted_as_it_is(look, watch):
    seen = {**look(), "watch": watch}
    assert accepted.look(seen) == seen
    assert accepted.result({"headroom": seen, "add_host": {"host_name": "x"}}) == {"changed": False, "headroom": seen}


def test_a_failure_keeps_its_message():
    assert accepted.result({"failed": True, "msg": "no"}) == {"changed": False, "failed": True, "msg": "no"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("units", 0, "resident_bytes"), -1),
        (("units", 0, "resident_bytes"), "1"),
        (("units", 0, "name"), "a\x1b[2J"),
        (("units", 0, "kind"), "spy"),
        (("units", 0, "ages", 0, "seconds"), 0),
        (("units", 0, "ages", 0, "seconds"), 100),
        (("units", 0, "ages", 0, "active_bytes"), 2**50),
        (("host", "dram_bytes"), 1.5),
        (("host", "psi", "memory"), {"x y": 1}),
        (("host", "rates", "page_ins"), float("nan")),
        (("method",), "guess"),
        (("taken_at",), None),
        (("started",), ["a\x1b[2J"]),
        (("cost", "pages"), 0),
        (("watch",), {"since": 1.0, "half_hour": None}),
        (("watch",), {"since": 1.0, "half_hour": None, "worst_hour": window(moved_bytes=-1)}),
        (("watch",), {"since": 1.0, "half_hour": None, "worst_hour": window(page_ins=float("inf"))}),
    ],
)
def test_what_does_not_fit_is_refused(look, path, value):
    seen = place = look()
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(MeasurementError):
        accepted.look(seen)


def test_what_is_missing_is_refused(look):
    seen = look()
    del seen["host"]["tiers"]
    with pytest.raises(MeasurementError, match=r"headroom\.host\.tiers is missing"):
        accepted.look(seen)
