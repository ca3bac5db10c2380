# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What passes of the answer of a module that ran on a host, which is not trusted."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import (
    message,
    outcome,
    plain,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.measurement import check_document

_MOST_WARNINGS = 100


def accepted_answer(answer: t.Any, keys: t.Collection[str]) -> dict[str, t.Any]:
    """Return the accepted part of a module's answer.

    Ansible obeys keys such as add_host and ansible_facts in the answer of any module. Here they are dropped, whatever
    the module documents: a key that begins with ansible is Ansible's own.

    Args:
        keys: those that the module documents.

    Raises:
        MeasurementError: a value is too large, or no mapping was returned.
    """
    accepted = outcome(answer)
    if answer.get("unreachable") is True:
        accepted["unreachable"] = True
    if "failed" not in accepted and ("msg" in answer or accepted.get("unreachable")):
        accepted["msg"] = message(answer.get("msg", "the host cannot be reached"))
    warnings = answer.get("warnings")
    if isinstance(warnings, list) and warnings:
        accepted["warnings"] = [message(_text(each)) for each in warnings[:_MOST_WARNINGS]]
    for name in (*keys, "diff"):
        if name in answer and name not in accepted and not name.startswith(("ansible", "_ansible")):
            check_document(name, answer[name])
            accepted[name] = plain(answer[name])
    return accepted


def _text(warning: t.Any) -> t.Any:
    """Return the text of a warning, which ansible-core keeps as an object with a chain of events."""
    event = getattr(warning, "event", None)
    return warning if event is None else event.msg
