# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is accepted from a host that followed a schedule: the results of its client, and what its recorder saw."""

from __future__ import annotations

import base64
import json
import typing as t
import zlib

from ansible_collections.memstretch.density.plugins.plugin_utils.run import charged_dram, fleet_sum, measurement
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import (
    AbsolutePath,
    Fields,
    Flag,
    Listed,
    MeasurementError,
    Message,
    Optional,
    Real,
    Row,
    Table,
    Text,
    Whole,
    message,
    outcome,
    refuse,
)

MOST_PHASES = 10_000

_JOB = Fields({"path": AbsolutePath(), "pid": Optional(Whole(2, 2**31 - 1))})
_ERROR = Fields({"kind": Text(), "message": Message()})
_SHARE = Optional(Real(-1, 1e6))
_OVER_TIME = Fields(
    {
        "age_s": Real(),
        "rows": Listed(Row((Real(), Optional(Real()), _SHARE, _SHARE, _SHARE, _SHARE, Optional(Real()))), 130),
    }
)
_SEEN = Fields({}, {"pressure": measurement.PRESSURE, "over_time": _OVER_TIME, "charged_dram": charged_dram.DOCUMENT})
_MACHINE = Optional(
    Fields(
        {"machine": Text(), "own": Flag(), "phases": Table(_SEEN, MOST_PHASES)},
        {"errors": Listed(Message(), 5)},
    )
)

_Answer = t.Mapping[str, t.Any]


def job(value: t.Any) -> dict[str, t.Any]:
    """Return the directory of a job and the pid of its client.

    Raises:
        MeasurementError: it is not a path and a process.
    """
    accepted: dict[str, t.Any] = _JOB.check("job", value)
    return accepted


def text_of(text: t.Any) -> str:
    """Return the output of a host without control characters."""
    return message(text, 400).strip()


def plain(answer: _Answer) -> dict[str, t.Any]:
    """Return the part of an answer that says whether the module failed, and why."""
    return {**outcome(answer), "changed": False}


def launched(answer: _Answer, now: float) -> dict[str, t.Any]:
    """Return the accepted part of the answer to a launch, with that of the fill before it as collected() returns it."""
    accepted = collected(answer, now) if "phases" in answer else plain(answer)
    if accepted.get("failed"):
        return {**accepted, "error": _ERROR.check("error", answer["error"])} if answer.get("error") else accepted
    return {**accepted, "job": job(answer["job"])} if "job" in answer else accepted


def collected(answer: _Answer, now: float) -> dict[str, t.Any]:
    """Return the accepted part of what a client and a recorder have seen.

    Args:
        answer: of the module.
        now: the time at which it came, by the clock of the controller. Hosts say how long ago something was.

    Returns:
        C(collected), the document packed by pack(). C(failed) and C(msg) with the first failure of the host.

    Raises:
        MeasurementError: it does not fit.
    """
    accepted = plain(answer)
    phases = answer.get("phases")
    if accepted.get("failed") and phases is None:
        return accepted
    if not isinstance(phases, list) or len(phases) > MOST_PHASES:
        refuse("phases", phases, f"a list of at most {MOST_PHASES:,} phases")
    results = [_phase(each) for each in phases]
    machine = _MACHINE.check("machine", answer.get("machine"))
    for seen in (machine or {}).get("phases", {}).values():
        _date(seen, now)
    failures = [each for each in results if each.get("failed")]
    document = {"phases": results, "machine": machine}
    if failures and not accepted.get("failed"):
        accepted.update(failed=True, msg=f"{failures[0]['phase']}: {failures[0]['msg']}")
    return {**accepted, "collected": pack(document)}


def _phase(value: t.Any) -> dict[str, t.Any]:
    """Return the accepted result of one phase."""
    if not isinstance(value, dict):
        refuse("phases", value, "a list of mappings")
    name = Text().check("phase", value.get("phase"))
    found = {**measurement.result(value), "phase": name, "ended": value.get("ended") is True}
    if found.get("failed") and measurement.is_complete(found.get("solotest") or {"mode": None}):
        # The verdict counts the requests that failed; the host takes part in the next phases.
        found = {"phase": name, "solotest": found["solotest"], "warning": found["msg"], "ended": False}
    latency = (found.get("solotest") or {}).get("latency")
    if latency:
        found["packed"] = fleet_sum.pack(latency)
    return found


def _date(seen: dict[str, t.Any], now: float) -> None:
    """Turn how long ago something began into when, by the controller's clock."""
    if "over_time" in seen:
        seen["over_time"]["started_at"] = round(now - seen["over_time"].pop("age_s"), 3)
    page_ins = (seen.get("charged_dram") or {}).get("page_ins")
    if page_ins:
        page_ins["started_at"] = round(now - page_ins.pop("age_s"), 3)


def pack(document: t.Any) -> str:
    """Return a document as one text.

    Ansible copies and looks at each value of a result several times, in one process for the whole fleet.
    """
    return base64.b64encode(zlib.compress(json.dumps(document).encode(), 1)).decode("ascii")


def unpack(text: str) -> t.Any:
    """Return the document of pack()."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


__all__ = ["MeasurementError", "collected", "job", "launched", "pack", "plain", "text_of", "unpack"]
