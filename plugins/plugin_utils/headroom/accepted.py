# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller accepts from a host of the answer of headroom_info. Hosts are not trusted."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.headroom.damon import MOST_REGIONS
from ansible_collections.memstretch.density.plugins.module_utils.headroom.look import METHODS, MOST_AGES
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import (
    LONGEST_NAME,
    MOST_BYTES,
    MOST_UNITS,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import (
    Fields,
    Flag,
    Listed,
    Message,
    OneOf,
    Optional,
    Real,
    Table,
    Text,
    Whole,
    outcome,
    refuse,
)

_BYTES = Whole(0, MOST_BYTES)
_MAYBE_BYTES = Optional(_BYTES)
_EACH_SECOND = Optional(Real(0, 1e12))
_SHARE = Optional(Real(0, 1e4))
_AGE = Fields(
    {
        "seconds": Whole(1, 3600),
        "watched_s": Real(0.1, 1e5),
        "active_bytes": _BYTES,
        "low_bytes": _BYTES,
        "high_bytes": _BYTES,
    },
)
_UNIT = Fields(
    {
        "name": Text(LONGEST_NAME),
        "kind": OneOf(("vm", "systemd unit", "control group", "process")),
        "given_bytes": _MAYBE_BYTES,
        "balloon_bytes": _MAYBE_BYTES,
        **dict.fromkeys(("resident_bytes", "swapped_bytes", "pinned_bytes", "stretchable_bytes"), _BYTES),
        "ages": Listed(_AGE, MOST_AGES),
        "reason": Optional(Message()),
    }
)
_COMPRESSED = {"stored_bytes": _MAYBE_BYTES, "used_bytes": _MAYBE_BYTES}
_PRESSURE = Optional(Table(Real(0, 100), 6))
_HOST = Fields(
    {
        **dict.fromkeys(("dram_bytes", "available_bytes", "in_use_bytes"), _MAYBE_BYTES),
        **dict.fromkeys(("hugepages_bytes", "ksm_saved_bytes"), _MAYBE_BYTES),
        "tiers": Listed(
            Fields(
                {
                    "kind": OneOf(("zram", "drive", "file")),
                    "name": Text(4096),
                    "size_bytes": _BYTES,
                    "used_bytes": _BYTES,
                    "priority": Whole(-(2**31), 2**31),
                }
            ),
            64,
        ),
        "drives": Listed(Fields({"name": Text(), "worn_percent": Optional(Whole(0, 255))}), 64),
        "zram": Fields(_COMPRESSED),
        "zswap": Fields({"enabled": Flag(), **_COMPRESSED}),
        "psi": Fields({"memory": _PRESSURE, "io": _PRESSURE}),
        "numa_nodes": Listed(
            Fields({"id": Whole(0, 2**20), "dram_bytes": _MAYBE_BYTES, "free_bytes": _MAYBE_BYTES}), 4096
        ),
        "rates": Fields(
            {
                "seconds": Real(0, 1e6),
                **dict.fromkeys(("page_ins", "page_outs", "major_faults", "refaults"), _EACH_SECOND),
                **dict.fromkeys(
                    ("memory_some_share", "memory_full_share", "io_some_share", "kswapd_cpu_share"), _SHARE
                ),
                "drive_page_in_us": Optional(Real(0.001, 1e9)),
            }
        ),
    }
)
_TIME = Real(0, 4_102_444_800)
_WINDOW = Optional(
    Fields(
        {
            "began_at": _TIME,
            "seconds": Real(0.1, 1e5),
            "memory_some_share": _SHARE,
            **dict.fromkeys(("page_ins", "refaults"), _EACH_SECOND),
            "moved_bytes": _MAYBE_BYTES,
        }
    )
)
DOCUMENT = Fields(
    {
        "taken_at": _TIME,
        "method": Optional(OneOf(METHODS)),
        "reason": Optional(Message()),
        "host": _HOST,
        "units": Listed(_UNIT, MOST_UNITS),
        "started": Listed(Text(LONGEST_NAME), MOST_UNITS),
        "watch": Optional(Fields({"since": _TIME, "half_hour": _WINDOW, "worst_hour": _WINDOW})),
        "cost": Fields(
            {
                **dict.fromkeys(("cpu_s", "kernel_cpu_s", "seconds"), Real(0, 1e9)),
                "pages": Optional(Whole(1, MOST_REGIONS)),
                "wanted_cpu_percent": Optional(Real(0, 1e9)),
            }
        ),
    }
)


def result(answer: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the accepted part of what the module C(headroom_info) returned on a host.

    Raises:
        MeasurementError: a key is missing or does not fit.
    """
    accepted = {**outcome(answer), "changed": False}
    return accepted if accepted.get("failed") else {**accepted, "headroom": look(answer.get("headroom"))}


def look(document: t.Any) -> dict[str, t.Any]:
    """Return the accepted part of a look.

    Raises:
        MeasurementError: a key is missing or does not fit.
    """
    found = DOCUMENT.check("headroom", document)
    for unit in found["units"]:
        for name in ("seconds", "watched_s"):
            seconds = [age[name] for age in unit["ages"]]
            if seconds != sorted(set(seconds)):
                refuse(f"headroom.units.{unit['name']}.ages", seconds, "increasing")
        for age in unit["ages"]:
            if not age["low_bytes"] <= age["active_bytes"] <= age["high_bytes"]:
                refuse(f"headroom.units.{unit['name']}.ages", age, "within its interval")
    return t.cast("dict[str, t.Any]", found)
