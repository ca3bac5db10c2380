# SPDX-License-Identifier: GPL-3.0-or-later
"""The last line of a playbook that failed."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils import failures

PROFILE = "the option profile (host_tuning_profile) is 'zrm', but there is no such profile. Allowed: dram."


@pytest.mark.parametrize(
    "message, last",
    [
        (
            "Task failed: Finalization of task args for 'ansible.builtin.set_fact' failed: Error while resolving value "
            f"for 'host_tuning_profile_data': The lookup plugin 'memstretch.density.host_profile' failed: {PROFILE}",
            PROFILE,
        ),
        (f"Task failed: Action failed: {PROFILE}", PROFILE),
        ("two\n  lines", "two lines"),
        ("forged\x1b[2J\r\nVerdict: PASS", "forged?[2J? Verdict: PASS"),
        (
            "Task failed: Module failed: [Errno 28] No space left on device: '/var/lib/memstretch/a'.",
            "[Errno 28] No space left on device: '/var/lib/memstretch/a'. Make room on that file system, then run the "
            "same command again",
        ),
        ("/x: no room; make room. No space left on device", "/x: no room; make room. No space left on device"),
    ],
)
def test_the_reason_is_one_line_without_the_chain_of_ansible(message, last):
    assert failures.reason({"msg": message}) == last


@pytest.mark.parametrize(
    "printed, last",
    [
        ("pyenv: python3.13: command not found\n\nNote: see", "pyenv: python3.13: command not found"),
        ("Traceback (most recent call last):\n  File\nOSError: [Errno 5] I/O error\n", "OSError: [Errno 5] I/O error"),
    ],
)
def test_of_a_module_that_crashed_its_last_words_count(printed, last):
    answer = {"msg": "Task failed: Action failed: No start of json char found", "module_stderr": printed}
    assert failures.reason(answer) == f"No start of json char found: {last}"


def test_of_a_loop_the_first_item_that_failed_counts():
    items = [{"msg": "fine"}, {"failed": True, "msg": "a port is taken"}, {"failed": True, "msg": "another"}]
    assert failures.reason({"msg": "One or more items failed", "results": items}) == "a port is taken"


def test_a_host_that_is_down_says_what_to_do():
    line = failures.reason({"msg": "Failed to connect to the host via ssh: Connection refused."}, unreachable=True)
    assert line.startswith("Failed to connect to the host via ssh: Connection refused. Check that the host is on")


def test_hosts_with_one_reason_share_a_line():
    reasons = {f"h{number}": f"h{number}: port 6379 is taken" for number in range(5)} | {"x": "it is down"}
    assert failures.lines(reasons) == [
        "[ERROR]: h0, h1, h2 and 2 more: h0: port 6379 is taken",
        "[ERROR]: x: it is down",
    ]


def test_a_reason_is_the_last_line_whatever_their_number():
    found = failures.lines({f"h{number}": f"reason {number}" for number in range(5)})
    assert found == [
        "[ERROR]: 2 more reasons are above",
        *(f"[ERROR]: h{number}: reason {number}" for number in range(3)),
    ]
