# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user reads last of a playbook that failed: one line for each reason, with what to do about it."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import listed
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import failure_message, message

MOST_REASONS = 3
MOST_HOSTS = 3
LONGEST = 700

# ansible-core puts the chain of its own causes in front of the reason.
_CAUSES = re.compile(
    r"(Task failed|Action failed|Module failed"
    r"|Finalization of task args for '[^']*' failed"
    r"|Error while resolving value for '[^']*'"
    r"|The (lookup|filter|test) plugin '[^']*' failed): "
)
_UNREACHABLE = (
    "Check that the host is on and that Ansible reaches it (ansible HOST -m ansible.builtin.ping, with the same -i), "
    "then run the same command again"
)
_NO_SPACE = "Make room on that file system, then run the same command again"


def reason(answer: t.Mapping[str, t.Any], unreachable: bool = False) -> str:
    """Return why a task failed, in one line.

    Args:
        answer: the result of the task. If it is that of a loop, its first failed item counts.
        unreachable: whether its host could not be reached.
    """
    failed = [each for each in answer.get("results") or [] if isinstance(each, dict) and each.get("failed")]
    told = failed[0] if failed else answer
    text = " ".join(failure_message(told, LONGEST).split())
    while found := _CAUSES.match(text):
        text = text[found.end() :]
    printed = [line for line in message(told.get("module_stderr") or "", LONGEST).splitlines() if line.strip()]
    if printed:  # the module, or the Python that should run it, has crashed
        text = f"{text}: {printed[-1 if printed[0].startswith('Traceback') else 0].strip()}"
    return _with(text, _UNREACHABLE) if unreachable else with_remedy(text)


def with_remedy(text: str) -> str:
    """Return a reason with what to do about it, if it comes from the system and does not say that."""
    if "No space left on device" in text and "make room" not in text.lower():
        return _with(text, _NO_SPACE)
    return text


def lines(reasons: t.Mapping[str, str]) -> list[str]:
    """Return a line for each reason, with the hosts that it is true for.

    Args:
        reasons: from reason(), by host.
    """
    hosts: dict[str, list[str]] = {}
    for host, text in reasons.items():
        hosts.setdefault(text.replace(host, "HOST"), []).append(host)
    found = [f"[ERROR]: {listed(each, MOST_HOSTS)}: {reasons[each[0]]}" for each in hosts.values()]
    left = len(found) - MOST_REASONS
    # The first line that somebody sees is the last one: what is left out goes before it.
    return [*([f"[ERROR]: {left} more reasons are above"] if left > 0 else []), *found[:MOST_REASONS]]


def _with(text: str, remedy: str) -> str:
    return f"{text.rstrip('. ')}. {remedy}"
