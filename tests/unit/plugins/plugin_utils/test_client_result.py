# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.client_result import answer_of


def test_each_host_gets_its_own_answer():
    answers = {"changed": False, "clients": {"a": {"job": 1}, "b": {"failed": True, "msg": "no such CPU"}}}
    assert answer_of(answers, "a") == {"job": 1}
    assert answer_of(answers, "b") == {"failed": True, "msg": "no such CPU"}
    assert answer_of(answers, "c")["failed"]


def test_a_module_that_failed_failed_for_each_host():
    assert answer_of({"failed": True, "msg": "no Python"}, "a") == {
        "failed": True,
        "msg": "the client of a was not started: no Python",
    }
