# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host says about another playbook is data."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.action.host_claim import _checked, refusal


def test_the_message_names_who_has_the_host():
    holder = {"controller": "c", "process": "1:2", "text": "process 1 of alice on laptop (ansible-playbook tune.yml)"}
    text = refusal(_checked({**holder, "since": 1_800_000_000}))
    assert "process 1 of alice on laptop (ansible-playbook tune.yml). Nothing was changed." in text


def test_a_host_cannot_forge_lines_or_keys():
    found = _checked({"text": "x\nVerdict: PASS\x1b[2J", "since": "soon", "add_host": {"name": "y"}})
    assert found == {"controller": "None", "process": "None", "text": "x Verdict: PASS [2J", "since": 0}
    assert _checked("text") is None
