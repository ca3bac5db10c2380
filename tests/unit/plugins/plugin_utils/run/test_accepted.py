# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of values that a host may return."""

from __future__ import annotations

import math

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import (
    AnyOf,
    Fields,
    Flag,
    Listed,
    MeasurementError,
    Message,
    OneOf,
    Optional,
    Real,
    Row,
    Table,
    Text,
    Whole,
    failure_message,
    message,
    outcome,
    unusable,
)


@pytest.mark.parametrize(
    "kind, good, bad",
    [
        (Whole(1, 5), [1, 5], [0, 6, True, 1.0, "1", None, 10**400]),
        (Real(0, 5), [0, 0.5, 5], [-0.1, 5.1, True, "1", math.nan, math.inf]),
        (Text(3), ["", "abc", "\xe4"], ["abcd", "a\nb", "\x1b[m", 5, None]),
        (Flag(), [True, False], [0, 1, "true", None]),
        (OneOf(("a", 1)), ["a", 1], ["b", True, 2, ["a"], None]),
        (Optional(Whole()), [None, 0], [-1, ""]),
        (AnyOf((Flag(), Text(3))), [True, "abc"], [5, "abcd"]),
        (Listed(Whole(), 2, 1), [[1], [1, 2]], [[], [1, 2, 3], (1,), [-1], {}]),
        (Row((Whole(), Text())), [[1, "a"]], [[1], ["a", 1], [1, "a", 2], None]),
        (Table(Whole(), 1), [{}, {"sda": 1}], [{"a": 1, "b": 2}, {"": 1}, {"a b": 1}, {"a" * 65: 1}, {1: 1}, []]),
        (Fields({"a": Whole()}, {"b": Flag()}), [{"a": 1}, {"a": 1, "b": True}], [{}, {"b": True}, {"a": -1}, None]),
    ],
)
def test_a_kind_accepts_what_fits_and_nothing_else(kind, good, bad):
    for value in good:
        assert kind.check("key", value) == value
    for value in bad:
        with pytest.raises(MeasurementError, match="key"):
            kind.check("key", value)


def test_unknown_keys_are_dropped():
    assert Fields({"a": Whole()}, {"b": Flag()}).check("", {"a": 1, "add_host": {"name": "x"}}) == {"a": 1}


def test_the_message_names_the_key_by_its_path():
    nested = Fields({"rows": Listed(Fields({"count": Whole()}), 9)})
    with pytest.raises(MeasurementError, match=r"^x\.rows\[1\]\.count = -1; must be a whole number from 0 to "):
        nested.check("x", {"rows": [{"count": 1}, {"count": -1}]})
    with pytest.raises(MeasurementError, match=r"^x\.rows is missing$"):
        nested.check("x", {})


def test_a_message_is_cut_off_and_made_printable():
    assert message("a\x1b[31mb\nc\0") == "a?[31mb\n    c?"
    assert len(message("x" * 10**6)) == 4000 and message("abc", 2) == "ab"
    assert message(["add_host"]) == "it failed with a message that is not text"
    assert Message().check("msg", "a\rb") == "a?b"


def test_a_failure_has_a_message_in_any_case():
    assert failure_message({"msg": "no\x07 memory"}) == "no? memory"
    assert failure_message({"msg": "no memory"}, 2) == "no"
    assert failure_message({}) == "failed without a message"


def test_the_outcome_of_a_module_has_nothing_else_of_its_answer():
    assert outcome({"changed": True, "add_host": {}}) == {"changed": True}
    assert outcome({"changed": "yes", "skipped": True}) == {"changed": False, "skipped": True}
    assert outcome({"failed": 1, "module_stderr": "no\x07 python", "rc": 1}) == {
        "changed": False,
        "failed": True,
        "msg": "failed without a message",
        "module_stderr": "no? python",
    }
    with pytest.raises(MeasurementError, match=r"^the result = \['a'\]; must be a mapping$"):
        outcome(["a"])


def test_a_result_that_does_not_fit_is_a_failure_of_its_host():
    assert unusable(MeasurementError("count = -1")) == {
        "failed": True,
        "msg": "the host's result cannot be used: count = -1",
    }
