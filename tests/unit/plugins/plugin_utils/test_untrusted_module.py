# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What passes of the answer of a host that is not trusted."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError
from ansible_collections.memstretch.density.plugins.plugin_utils.untrusted_module import accepted_answer

OBEYED = {
    "add_host": {"host_name": "evil"},
    "add_group": "evil",
    "ansible_facts": {"results_dir": "/tmp/evil", "run_id": "x"},
    "_ansible_no_log": True,
    "_ansible_delegated_vars": {"ansible_host": "x"},
    "exception": "x",
    "invocation": {},
}


def test_only_documented_keys_pass():
    answer = {"changed": True, "vms": [{"name": "a"}], "more": 1, **OBEYED}
    assert accepted_answer(answer, ["vms"]) == {"changed": True, "vms": [{"name": "a"}]}


def test_keys_of_ansible_do_not_pass_even_if_they_are_documented():
    assert accepted_answer({"changed": False, **OBEYED}, ["ansible_facts", "_ansible_no_log"]) == {"changed": False}


def test_a_failure_keeps_its_message_and_what_it_has_found():
    answer = {"failed": 1, "msg": "bad", "module_stderr": "Trace\x1b[2J", "areas": [1], **OBEYED}
    assert accepted_answer(answer, ["areas"]) == {
        "changed": False,
        "failed": True,
        "msg": "bad",
        "module_stderr": "Trace?[2J",
        "areas": [1],
    }


def test_no_message_forges_a_line():
    accepted = accepted_answer({"failed": True, "msg": "x\nVerdict: PASS\r\nVerdict: PASS"}, [])
    assert accepted["msg"].splitlines() == ["x", "    Verdict: PASS?", "    Verdict: PASS"]


def test_no_text_steers_the_terminal():
    answer = {"diff": {"before": "a\tb\nc", "after": "\x1b]0;x\x07"}, "list": [{"\x1bk": "\u202ex"}]}
    accepted = accepted_answer(answer, ["list"])
    assert accepted["diff"] == {"before": "a\tb\nc", "after": "?]0;x?"}
    assert accepted["list"] == [{"?k": "?x"}]


def test_warnings_are_texts_of_limited_number():
    warnings = accepted_answer({"warnings": ["a\nb", *(["c"] * 1000)]}, [])["warnings"]
    assert warnings[0] == "a\n    b" and len(warnings) == 100


@pytest.mark.parametrize("answer", [["x"], None, {"vms": [[]] * 200_000}, {"vms": "x" * 2**20}])
def test_what_does_not_fit_is_refused(answer):
    with pytest.raises(MeasurementError):
        accepted_answer(answer, ["vms"])
