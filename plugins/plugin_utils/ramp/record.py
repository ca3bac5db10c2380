# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is accepted of the stream of a ramp, which a measured host has written, and the record that is made of it."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import DEFAULTS
from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import (
    LONGEST_TEXT,
    HistogramError,
    decode,
    slot_of,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import (
    Fields,
    Flag,
    Kind,
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
    refuse,
)

SCHEMA = 1
# A window of 10,000 servers has 30,000 histograms.
LONGEST_LINE = 64 * 2**20
# No ramp comes near it: one of 1,000 servers and 60 windows writes a quarter of that.
LONGEST_STREAM = 2**30
_COSTS = ("conductor_cpu_seconds", "reclaim_cpu_seconds", "written_bytes")
_MOST_HOSTS, _MOST_SECONDS = 10_000, 3600
# A day's hold in windows of one second has as many, and two servers killed at each size leave fewer notes.
_MOST_LINES = 100_000
# How a ramp ends that says nothing, since something other than its fleet ended it.
_CUT_OFF = ("interrupted", "error")
_ENDS = ("killed", "does_not_fit", "missed", "hosts", *_CUT_OFF)
RAMP, HOLD = "ramp", "hold"


class _Samples(Kind):
    """Samples as an encoded histogram, with their exact sum and limits.

    Args:
        least: what the largest sample must be, in nanoseconds.
    """

    _FIGURES = Fields(
        {
            "count": Whole(),
            "sum_ns": Whole(),
            "min_ns": Optional(Whole()),
            "max_ns": Optional(Whole()),
            "histogram": Text(LONGEST_TEXT),
        }
    )

    def __init__(self, least: int = 1) -> None:
        self._least = least

    def check(self, name: str, value: t.Any) -> t.Any:
        figures = self._FIGURES.check(name, value)
        try:
            counts = decode(figures["histogram"])
        except HistogramError as error:
            raise MeasurementError(f"{name}.histogram: {error}") from None
        count, low, high = figures["count"], figures["min_ns"], figures["max_ns"]
        if sum(counts.values()) != count:
            raise MeasurementError(f"{name}.histogram counts {sum(counts.values()):,} samples; must be {name}.count")
        if not counts:
            return {**figures, "sum_ns": 0, "min_ns": None, "max_ns": None}
        for limit, slot in (("min_ns", min(counts)), ("max_ns", max(counts))):
            if figures[limit] is None or slot_of(figures[limit]) != slot:
                refuse(f"{name}.{limit}", figures[limit], "that of its histogram")
        if not count * low <= figures["sum_ns"] <= count * high or high < self._least:
            refuse(f"{name}.sum_ns", figures["sum_ns"], "that of its histogram")
        return figures


_HISTOGRAM = _Samples()
# On a busy machine a client may be late by all of its requests: then nothing says that the server took any time.
_LOWER = _Samples(least=0)
_LOAD = Fields(
    {
        "upper": _HISTOGRAM,
        "lower": _LOWER,
        "punctual": _HISTOGRAM,
        "lost": Whole(),
        "seconds": Listed(Row((Whole(), Whole(), Whole())), _MOST_SECONDS),
    }
)
_SHARE = Optional(Real(0, 1))
_SAMPLE = Fields(
    {
        "cpus": Whole(0, 100_000),
        "busy": _SHARE,
        "stolen": _SHARE,
        "stolen_worst": _SHARE,
        "stolen_cpu": _SHARE,
        "stolen_ticks": Whole(),
        "charged_bytes": Optional(Whole()),
        "tier_bytes": Optional(Whole()),
        "swap_used_bytes": Whole(),
        "swap_bytes": Optional(Whole()),
        "page_ins": Optional(Whole()),
        "page_outs": Optional(Whole()),
        "memory_some_share": Optional(Real(0, 1)),
        "tier_cpu_seconds": Optional(Real()),
        "drive_reads": Optional(Whole()),
        "drive_read_seconds": Optional(Real()),
        "drive_written_bytes": Whole(),
        "other_swap_grew": Flag(),
        "limit_hits": Optional(Whole()),
    }
)
_WINDOW = Fields(
    {
        "n": Whole(1, _MOST_HOSTS),
        "kind": OneOf(("step", "hold")),
        "look": Whole(1, 100_000),
        "started_at": Real(0, 2**40),
        "seconds": Real(0.001, _MOST_SECONDS),
        "settled": Flag(),
        "settle_seconds": Real(),
        "join_seconds": Real(),
        "disturbed": Optional(Message()),
        "hosts": Table(_LOAD, _MOST_HOSTS),
        "references": Table(_LOAD, _MOST_HOSTS),
        "machines": Row((_SAMPLE,)),
    }
)
_SECOND = Fields({"upper": _HISTOGRAM, "lower": _LOWER, "punctual": _HISTOGRAM})
_TOUCH = Fields(
    {
        "n": Whole(1, _MOST_HOSTS),
        "started_at": Real(0, 2**40),
        "touched_seconds": Optional(Real(0, _MOST_SECONDS)),
        "seconds": Listed(Fields({"fleet": _SECOND, "references": _SECOND}), _MOST_SECONDS),
    }
)
_END = Fields(
    {
        "kind": OneOf(_ENDS),
        "n": Whole(0, _MOST_HOSTS),
        "host": Optional(Text()),
        "machine": Optional(Text()),
        "message": Message(),
    }
)
_GROUP = Fields({"swappiness": Optional(Whole()), "swap_max_bytes": Optional(Whole())})
_LINES: dict[str, Kind] = {
    "started": Fields(
        {
            "at": Real(0, 2**40),
            "groups": Fields({"fleet": _GROUP, "references": _GROUP}),
            "tier_bytes": Whole(),
        }
    ),
    "note": Fields({"text": Message()}),
    "window": Fields({"window": _WINDOW}),
    "touch": Fields({"touch": _TOUCH}),
    "end": Fields(
        {
            "at": Real(0, 2**40),
            "end": _END,
            "realtime": Optional(Flag()),
            "conductor_cpu_seconds": Real(),
            "reclaim_cpu_seconds": Real(),
            "written_bytes": Whole(),
        }
    ),
}


def accepted(line: str, machine: str) -> tuple[str, dict[str, t.Any]]:
    """Return what a line of the stream says: the event, and its accepted part.

    Args:
        line: of the stream.
        machine: name of the host in the inventory.

    Raises:
        MeasurementError: it is not such a line.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise MeasurementError(f"the stream of the ramp on {machine} has a line that is not JSON") from None
    event = value.get("event") if isinstance(value, dict) else None
    if not isinstance(event, str) or event not in _LINES:
        refuse("event", event, f"one of {', '.join(_LINES)}")
    if event == "window" and isinstance(value.get("window"), dict):
        # The conductor has no name for its machine.
        machines = value["window"].get("machines")
        value["window"]["machines"] = list(machines.values()) if isinstance(machines, dict) else machines
    found = _LINES[event].check(event, value)
    if event == "window":
        found["window"]["machines"] = {machine: found["window"]["machines"][0]}
    if event == "end":
        found["end"]["machine"] = machine
    return event, found


def is_finished(document: t.Mapping[str, t.Any]) -> bool:
    """Decide whether a record is of a whole ramp, so that it counts. Another one is conducted again."""
    end = document["end"]
    return bool(end) and end["kind"] not in _CUT_OFF


class Record:
    """The record of a ramp, as it grows.

    Args:
        arm: name of the arm.
        number: of the round.
        plan: of the conductor.
    """

    def __init__(self, arm: str, number: int, plan: t.Mapping[str, t.Any]) -> None:
        self._lines = 0
        self.document: dict[str, t.Any] = {
            "schema": SCHEMA,
            "arm": arm,
            "round": number,
            "kind": HOLD if plan.get("hold_seconds") else RAMP,
            "started_at": None,
            "finished_at": None,
            "load": plan["load"],
            "budget_bytes": plan["budget_bytes"],
            "stolen_limit": plan.get("stolen_limit", DEFAULTS["stolen_limit"]),
            "step_factor": 1 + plan["growth"],
            "realtime": None,
            "groups": None,
            "hosts": [server["name"] for server in plan["servers"]],
            "tier": list(plan.get("tier", [])),
            "windows": [],
            "notes": [],
            "touch": None,
            "end": None,
        }

    def add(self, event: str, line: t.Mapping[str, t.Any]) -> None:
        """Take a line of the stream.

        Raises:
            MeasurementError: there are more than any ramp has.
        """
        self._lines += 1
        if self._lines > _MOST_LINES:
            raise MeasurementError(f"the stream of the ramp has more than {_MOST_LINES:,} lines")
        if event == "started":
            self.document.update(started_at=line["at"], groups=line["groups"])
        elif event == "note":
            self.document["notes"].append(line["text"])
        elif event == "window":
            self.document["windows"].append(line["window"])
        elif event == "touch":
            self.document["touch"] = line["touch"]
        else:
            costs = {name: line[name] for name in _COSTS}
            self.document.update(finished_at=line["at"], end=line["end"], realtime=line["realtime"], costs=costs)
