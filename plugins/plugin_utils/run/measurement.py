# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller accepts from a host that it measures.

The controller does not trust these hosts. Ansible obeys certain keys of a result, such as add_host, and the callback
writes files for others. So only the keys in the tables below are returned, each checked for its type, range and size.
A result that does not fit fails its host.
"""

from __future__ import annotations

import json
import math
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest import histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import (
    AnyOf,
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
    message,
    outcome,
    refuse,
    unusable,
)

# The most that is read from a host. A result has about 10 KB.
MAX_BYTES = 8 * 2**20

_MAX_EPOCH = 4_102_444_800  # the year 2100, as in the options of the client
# The latency of a request, in microseconds; the client counts nanoseconds in 63 bits.
_MAX_US = (2**63 - 1) / 1000
# The largest depth and number of values in a document whose keys are not listed here.
_MAX_DEPTH = 20
_MAX_VALUES = 100_000
_MAX_TEXT = 64 * 1024


_EPOCH = Optional(Real(0, _MAX_EPOCH))
_COUNT = Optional(Whole())
_NAME = Optional(Text())


class _Figures(Kind):
    """The summary of one latency, with its encoded histogram."""

    _FIELDS = Fields(
        {
            "count": Whole(1),
            **dict.fromkeys(("avg_us", "min_us", *histogram.PERCENTILES, "max_us"), Real(0, _MAX_US)),
            "sum_ns": Whole(0, 2**127),
            "min_ns": Whole(),
            "max_ns": Whole(),
            "histogram": Text(histogram.LONGEST_TEXT),
        }
    )
    # A test that was ended before its first reply measured nothing.
    _EMPTY = Fields({"count": OneOf((0,)), "histogram": Text(histogram.LONGEST_TEXT)})

    def check(self, name: str, value: t.Any) -> t.Any:
        empty = isinstance(value, dict) and value.get("count") == 0 and not isinstance(value["count"], bool)
        figures = (self._EMPTY if empty else self._FIELDS).check(name, value)
        try:
            counts = histogram.decode(figures["histogram"])
        except histogram.HistogramError as error:
            raise MeasurementError(f"{name}.histogram: {error}") from None
        if sum(counts.values()) != figures["count"]:
            raise MeasurementError(f"{name}.histogram counts {sum(counts.values()):,} samples; must be {name}.count")
        if empty:
            nothing = ("avg_us", "min_us", *histogram.PERCENTILES, "max_us", "min_ns", "max_ns")
            return {**figures, **dict.fromkeys(nothing), "sum_ns": 0}
        wrong = histogram.wrong_figure(figures, counts)
        if wrong:
            refuse(f"{name}.{wrong}", figures[wrong], "that of its histogram")
        return figures


_SETTINGS = Fields(
    {"influence": Real(-1e9, 1e9), "rate": Real(1e-6, 1e12), "read_mix": Real(-1, 100), "stagger": Real(0, 1)},
    {
        "host": Text(1024),
        "port": Whole(0, 65_535),
        "socket": Text(4096),
        "tls": Flag(),
        "value_size": Whole(),
        "key_count": Whole(),
        "requests": Whole(),
        "duration_s": Real(),
        "pattern": Text(),
        "connections": Whole(),
        "pipeline": Whole(),
        "arrivals": Text(),
        "pacing": Text(),
        "spin_us": Whole(),
        "start_at": Real(0, _MAX_EPOCH),
        "seed": Whole(0, 2**64 - 1),
        "compressibility": Real(0, 1),
        "cpu": Whole(),
        "timeout_s": Real(),
    },
)

_SERVER = Optional(
    Fields(
        {},
        {
            "redis_version": _NAME,
            "process_id": _COUNT,
            "dbsize": _COUNT,
            "used_memory": _COUNT,
            "used_memory_rss": _COUNT,
            "maxmemory": _COUNT,
            "evicted_keys": _COUNT,
            "cpu_s": Optional(Real()),
        },
    )
)

_HEALTH = Fields(
    {},
    {
        **dict.fromkeys(
            (
                "major_faults",
                "minor_faults",
                "voluntary_switches",
                "involuntary_switches",
                "steal_ticks",
                "max_rss_kb",
                "cpu_first",
                "cpu_last",
            ),
            # Differences of counters; the client prints 0 for a counter that fell.
            Optional(Whole(0, 2**64 - 1)),
        ),
        **dict.fromkeys(
            ("user_s", "system_s", "cpu_share", "cpu_wait_s", "spin_us_at_end"), Optional(Real(-1e9, 1e18))
        ),
        **dict.fromkeys(("clock_source", "cpus_allowed", "realtime_refused"), Optional(Text(1024))),
        **dict.fromkeys(("memory_locked", "realtime"), Optional(Flag())),
    },
)

_SERIES = Fields(
    {
        "interval_s": Real(1e-9, 1e12),
        "points": Listed(Row((Whole(), Real(), Real(), Real())), 1000),
    }
)

PRESSURE = Fields(
    {
        "counters": Table(Real(), 200),
        "gauges": Table(Row((Real(), Real()))),
        "doubtful": Listed(Text(), 200),
    }
)

_PLACEMENT = Fields(
    {},
    {
        "requested": Optional(AnyOf((Text(), Whole()))),
        "client_cpus": Optional(Text(1024)),
        "client_last_cpu": _COUNT,
        "server_pid": _COUNT,
        "server_cpus": Optional(Text(4096)),
        "server_last_cpu": _COUNT,
        "shares_cpu": Optional(OneOf(("always", "possibly", "never"))),
        "unknown": Optional(Message()),
    },
)

_FILL = Fields(
    {"keys": Whole(), "seconds": Real()},
    {
        "keys_per_second": Real(),
        "dbsize": _COUNT,
        "started_at": _EPOCH,
        "finished_at": _EPOCH,
        "flush_seconds": Optional(Real()),
    },
)

# A closed loop has no target.
_RATE = Fields({"target": Optional(Real(1e-6, 1e12)), "achieved": Optional(Real())})

_LATENCIES = ("service", "response", "intended", "lateness")
# The client needs time stamps of the kernel for these.
_STAMPED = ("wakeup", "server", "punctual")

_KERNEL = Fields(
    {}, {"cmdline": Optional(Text(2000)), "timer_resolution_ns": Optional(Whole(1, 10**9)), "swap_bytes": _COUNT}
)

# What the module solotest documents as RV(solotest).
_MEASUREMENT = Fields(
    {
        "schema": OneOf((1,)),
        "mode": OneOf(("test", "fill", "ping")),
        "settings": _SETTINGS,
        "machine": Text(),
        "pressure": PRESSURE,
    },
    {
        "phase": _NAME,
        "kernel": Optional(_KERNEL),
        "memory": Optional(Fields({"available_bytes": Whole(), "swap_free_bytes": Whole()})),
        "wall_offset": Optional(Real(-_MAX_EPOCH, _MAX_EPOCH)),
        "client": Optional(
            Fields(
                {},
                {**dict.fromkeys(("name", "version", "hiredis", "tls", "compiler"), _NAME), "static": Optional(Flag())},
            )
        ),
        "server": Optional(Fields({"before": _SERVER, "after": _SERVER})),
        "started_at": _EPOCH,
        "finished_at": _EPOCH,
        "ready_at": _EPOCH,
        "seconds": Optional(Real()),
        "cut_off": Optional(Flag()),
        "requests": Optional(
            Fields(
                {"sent": Whole(), "ok": Whole(), "gets": Whole(), "sets": Whole()},
                {"planned": _COUNT, "errors": Table(Whole()), "lost": _COUNT, "not_sent": _COUNT, "other_size": _COUNT},
            )
        ),
        "rate": Optional(_RATE),
        "latency": Optional(Fields(dict.fromkeys(_LATENCIES, _Figures()), dict.fromkeys(_STAMPED, _Figures()))),
        "hot_set": Optional(Table(Whole(0, 2**127), 20)),
        "series": Optional(_SERIES),
        "fill": Optional(_FILL),
        "health": Optional(_HEALTH),
        "placement": Optional(_PLACEMENT),
        "error": Optional(Fields({"kind": Text(), "message": Message()})),
    },
)
# What a test or a fill that succeeded must also have, because the figures of the fleet are made of it.
_COMPLETE = {
    "test": Fields(
        {
            "started_at": Real(0, _MAX_EPOCH),
            "finished_at": Real(0, _MAX_EPOCH),
            "ready_at": _EPOCH,
            "seconds": Real(),
            "rate": _RATE,
            "latency": Fields(dict.fromkeys(_LATENCIES, Fields({"count": Whole(1)}))),
        }
    ),
    "fill": Fields(
        {
            "started_at": Real(0, _MAX_EPOCH),
            "finished_at": Real(0, _MAX_EPOCH),
            "seconds": Real(),
            "fill": _FILL,
        }
    ),
    "ping": Fields({"server": Fields({"before": Fields({})})}),
}

# The state of an endpoint before a run, as the role latency_benchmark passes it on.
_ENDPOINT = Fields(
    {
        "endpoint": Text(5000),
        "keys": Whole(),
        "clock_offset": Real(-_MAX_EPOCH, _MAX_EPOCH),
        "clock_correction": Real(-_MAX_EPOCH, _MAX_EPOCH),
    },
    {
        "redis_version": _NAME,
        "machine": _NAME,
        "kernel": _KERNEL,
        "memory": Optional(Fields({"free_bytes": Whole(), "used_bytes": Whole()})),
        "clock_uncertainty": Real(0, _MAX_EPOCH),
        "clock_read_at": Real(0, _MAX_EPOCH),
        "wall_offset": Real(-_MAX_EPOCH, _MAX_EPOCH),
        "observer": Optional(Fields({"name": Text(), "endpoint": Text(5000), "rate": Real()})),
    },
)


def parse(text: str) -> t.Any:
    """Return the JSON document in text.

    Raises:
        MeasurementError: it is too large, damaged, nested too deeply, or has numbers that JSON does not have.
    """
    if len(text) > MAX_BYTES:
        raise MeasurementError(f"the result is larger than {MAX_BYTES // 2**20} MiB")
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise MeasurementError("the result is nested too deeply") from None
    except ValueError as error:
        raise MeasurementError(f"the result is damaged: {error}; it begins with {text[:100]!r}") from None


def _no_number(word: str) -> t.NoReturn:
    raise ValueError(f"{word} is not a number")


def result(answer: t.Any) -> dict[str, t.Any]:
    """Return the accepted part of what the module solotest returned on a host.

    Returns:
        C(changed), C(failed), C(skipped), C(msg), C(solotest) and the output of a module that failed, as far as
        they are there. A result that does not fit is returned as a failure of its host, whose C(msg) names the key.
    """
    try:
        return _result(answer)
    except MeasurementError as error:
        return unusable(error)


def _result(answer: t.Any) -> dict[str, t.Any]:
    accepted = outcome(answer)
    failed = "failed" in accepted
    if not failed and "msg" in answer:
        accepted["msg"] = message(answer["msg"])
    if answer.get("solotest") is not None:
        try:
            accepted["solotest"] = measurement(answer["solotest"], failed)
        except MeasurementError as error:
            if not failed:
                raise
            # The reason of the failure matters more than what had been measured before it.
            accepted["msg"] += f" (what it had measured cannot be used: {error})"
    return accepted


def measurement(value: t.Any, failed: bool = False) -> dict[str, t.Any]:
    """Return the accepted part of what a client measured, or of what it had measured when it failed.

    Raises:
        MeasurementError: a key is missing or does not fit.
    """
    accepted = {**dict.fromkeys(_MEASUREMENT.known), **_MEASUREMENT.check("solotest", value)}
    if not failed:
        if accepted.get("error"):
            raise MeasurementError("solotest.error is set, although the client did not fail")
        _COMPLETE[accepted["mode"]].check("solotest", accepted)
    return accepted


def is_complete(measured: t.Mapping[str, t.Any]) -> bool:
    """Decide whether a client that failed has measured to the end, and failed only because requests did.

    Its result counts: the requests without a reply are in the upper bound, and the host cannot pass.
    """
    if measured["mode"] != "test" or (measured["error"] or {}).get("kind") != "reply":
        return False
    try:
        _COMPLETE["test"].check("solotest", dict(measured))
    except MeasurementError:
        return False
    return True


def endpoints(fleet: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the accepted state of the endpoints of a fleet, by host.

    Raises:
        MeasurementError: one does not fit; the text names the host and the key.
    """
    return {host: _ENDPOINT.check(host, each) for host, each in fleet.items()}


def check_document(name: str, document: t.Any) -> None:
    """Check a document from hosts whose keys are not listed here: its depth, its size, and that its numbers are finite.

    Raises:
        MeasurementError: it does not fit; the text begins with name and the key.
    """
    _count_values(name, document, 0, 0)


def check_documents(name: str, documents: t.Mapping[str, t.Any]) -> None:
    """Check the document of each host as check_document() does, however many hosts there are.

    Raises:
        MeasurementError: one does not fit; the text begins with name, the host and the key.
    """
    for host, document in documents.items():
        check_document(f"{name}.{host}", document)


def _count_values(name: str, value: t.Any, depth: int, seen: int) -> int:
    """Return the number of values seen, this one and those in it included."""
    seen += 1
    if depth > _MAX_DEPTH or seen > _MAX_VALUES:
        raise MeasurementError(
            f"{name[:200]}: nested too deeply or too large; at most {_MAX_DEPTH} levels and {_MAX_VALUES:,} values "
            f"are allowed"
        )
    if isinstance(value, dict):
        for key, each in value.items():
            if len(str(key)) > _MAX_TEXT:
                raise MeasurementError(f"{name[:200]} has a key that is longer than {_MAX_TEXT:,} characters")
            seen = _count_values(f"{name}.{key}", each, depth + 1, seen)
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            seen = _count_values(f"{name}[{number}]", each, depth + 1, seen)
    elif isinstance(value, str) and len(value) > _MAX_TEXT:
        raise MeasurementError(f"{name[:200]}: a text of {len(value):,} characters; at most {_MAX_TEXT:,} are allowed")
    elif isinstance(value, float) and not math.isfinite(value):
        raise MeasurementError(f"{name[:200]} = {value}; must be a finite number")
    return seen
