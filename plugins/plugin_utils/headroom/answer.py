# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer for each host: how many more of its units fit, and whether today's number is still safe."""

from __future__ import annotations

import dataclasses
import math
import random
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.headroom.look import DAMON, ENDED, RECLAIM
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.density.isotonic import fitted
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import model, options
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted, listed
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import described_by, utc

SAFE, NEAR, OVER, UNKNOWN = "safe", "near", "over", "unknown"
# Share of the last minute in which some task waited for memory, in percent (PSI). headroom_watch alerts at the same.
NEAR_PRESSURE, OVER_PRESSURE = 1.0, 10.0
# The age that the sentence names, if it was measured.
_NAMED_AGE = 300
# Fewer bytes than this in zram or zswap do not tell how well they compress.
_LEAST_STORED = 64 * 2**20
_NOUNS = {"vm": "VM", "systemd unit": "unit", "control group": "group", "process": "process"}

_Document = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What the user sets for the forecast; None is what the host shows, or else what is assumed.

    Attributes:
        like: the name of the unit whose copies are added; empty for the median one.
        compression: of zram or zswap.
        page_in_us: how long a page-in takes.
        waiting: the largest share of the time in percent that a unit may wait for page-ins.
        reserve: the share of the DRAM in percent that is left free.
    """

    like: str
    compression: float | None
    page_in_us: float | None
    waiting: float
    reserve: float


def document(looks: t.Mapping[str, _Document], wishes: Wishes, names: _Document) -> dict[str, t.Any]:
    """Return the content of headroom.json.

    Args:
        looks: by host, the answer of headroom_info.
        names: the id of the result, and when it was made.
    """
    present = {name: {**look, "units": _present(look)} for name, look in looks.items()}
    hosts = {name: _of_host(name, look, wishes) for name, look in present.items()}
    for name, found in hosts.items():
        others = {each: present[each] for each in looks if each != name and present[each]["units"]}
        found["n_plus_1"] = _n_plus_1(present[name], others, wishes)
        found["ended"] = [unit["name"] for unit in looks[name]["units"] if unit["reason"] == ENDED]
        found["started"] = looks[name]["started"]
    return {**described_by("headroom"), **names, "wishes": dataclasses.asdict(wishes), "hosts": hosts}


def _present(look: _Document) -> list[_Document]:
    """Return the units that were there until the end of the look: others have stopped, or are on another host now."""
    return [unit for unit in look["units"] if unit["reason"] != ENDED]


def _of_host(name: str, look: _Document, wishes: Wishes) -> dict[str, t.Any]:
    site, labels = _site(look, wishes)
    members = model.members(look["units"])
    found: dict[str, t.Any] = {
        "taken_at": look["taken_at"],
        "method": look["method"],
        "dram_bytes": look["host"]["dram_bytes"],
        "own_bytes": None if site is None else round(site.own),
        "given_bytes": round(sum(each.given for each in members)),
        "used_bytes": sum(unit["stretchable_bytes"] + unit["pinned_bytes"] for unit in look["units"]),
        "pinned_bytes": sum(unit["pinned_bytes"] for unit in look["units"]),
        "cold": _cold(look),
        "assumed": labels,
        "page_in_us": None if site is None else site.page_in_us,
        "compression": None if site is None else site.compression or None,
        "now": None,
        "more": None,
        "measured": look["host"]["rates"],
        "psi": look["host"]["psi"],
        "tiers": look["host"]["tiers"],
        "drives": look["host"]["drives"],
        "numa_nodes": look["host"]["numa_nodes"],
        "cost": look["cost"],
        "error_percent": _error(look),
        "watch": look["watch"],
        "active_half_hour": _active_half_hour(look),
        "units": look["units"],
    }
    reason = _unknown(look, site, wishes)
    if reason is None and site is not None:
        found["now"] = _forecast_text(model.forecast(members, site))
        found["more"] = _more(look, members, site, wishes)
    found["verdict"], found["reason"] = (UNKNOWN, reason) if reason else _verdict(found, look, wishes)
    found["sentence"] = _sentence(name, found, look)
    return found


def _unknown(look: _Document, site: model.Site | None, wishes: Wishes) -> str | None:
    """Return why nothing can be said about a host; None if something can."""
    if not look["units"]:
        return "no VM runs there, and headroom_units names nothing that does"
    if look["reason"]:
        return str(look["reason"])
    if site is None:
        return "the kernel does not say how much memory is in use"
    unmeasured = [unit["name"] for unit in look["units"] if not unit["ages"] and unit["stretchable_bytes"]]
    if unmeasured:
        return f"the active memory of {listed(unmeasured, 3)} is not known"
    if wishes.like and wishes.like not in {unit["name"] for unit in look["units"]}:
        return f"headroom_like: there is no {wishes.like!r} on this host"
    return None


def _site(look: _Document, wishes: Wishes) -> tuple[model.Site | None, list[str]]:
    """Return the DRAM that the units of a host share, and the assumptions behind it."""
    host = look["host"]
    labels: list[str] = []
    if host["in_use_bytes"] is None or host["dram_bytes"] is None:
        return None, labels
    held = sum(host[each]["used_bytes"] or 0 for each in ("zram", "zswap"))
    resident = sum(unit["stretchable_bytes"] + unit["pinned_bytes"] - unit["swapped_bytes"] for unit in look["units"])
    kinds = [tier["kind"] for tier in sorted(host["tiers"], key=lambda tier: -tier["priority"])]
    kind = "zswap" if kinds and host["zswap"]["enabled"] and "zram" not in kinds else (kinds or [""])[0]
    room: float | None = float(sum(tier["size_bytes"] for tier in host["tiers"]))
    if not kind:
        kind, room = options.ASSUMED_TIER, None
        labels.append(f"there is no tier yet: {kind} is assumed")
    compression = 0.0
    if kind in ("zram", "zswap"):
        stored, used = host[kind]["stored_bytes"] or 0, host[kind]["used_bytes"] or 0
        if wishes.compression is not None:
            compression = wishes.compression
        elif stored >= _LEAST_STORED and used:
            compression = stored / used
        else:
            compression = options.ASSUMED_COMPRESSION
            labels.append(f"a compression of {compression:g}:1 is assumed")
    measured = host["rates"]["drive_page_in_us"] if kind in ("drive", "file") else None
    page_in_us = wishes.page_in_us or measured
    if page_in_us is None:
        page_in_us = options.ASSUMED_PAGE_IN_US[kind]
        labels.append(f"{page_in_us:g} us for a page-in are assumed")
    return (
        model.Site(
            dram=host["dram_bytes"] * (1 - wishes.reserve / 100),
            own=max(0.0, host["in_use_bytes"] - resident - held),
            compression=compression,
            room=room,
            page_in_us=page_in_us,
            waiting=wishes.waiting / 100,
        ),
        labels,
    )


def _like(members: t.Sequence[model.Member], wishes: Wishes) -> model.Member:
    """Return the unit whose copies are added: the one that was named, or that with the median use of memory."""
    named = [each for each in members if each.name == wishes.like]
    ranked = sorted(members, key=lambda each: each.stretchable + each.pinned)
    return named[0] if named else ranked[(len(ranked) - 1) // 2]


def _more(look: _Document, members: t.Sequence[model.Member], site: model.Site, wishes: Wishes) -> dict[str, t.Any]:
    """Return how many more units fit, with what that would cause."""
    like = _like(members, wishes)
    count = model.most_more(members, site, like)
    source = random.Random(0)
    found = []
    for _number in range(model.RESAMPLED):
        drawn = model.members(look["units"], source)
        # More page-ins than forecast are as a smaller limit.
        limited = dataclasses.replace(site, waiting=site.waiting / model.misjudged(source))
        copied = next(each for each in drawn if each.name == like.name)
        found.append(model.most_more(drawn, limited, copied, max(1, count)))
    low, high = model.intervals(found)
    added = [*members, dataclasses.replace(like, count=count)] if count > 0 else members
    given = sum(each.count * each.given for each in added)
    left = site.dram - site.own
    return {
        "like": like.name,
        "count": max(0, count),
        "low": max(0, round(low)),
        "high": max(0, round(high)),
        "forecast": _forecast_text(model.forecast(added, site)),
        "one_more": _forecast_text(model.forecast([*members, like], site)),
        "ram_allocation_ratio": math.floor(100 * given / look["host"]["dram_bytes"]) / 100,
        "memoryOvercommitPercentage": math.floor(100 * given / left) if left >= 1 else 0,
        "fits_now": count >= 0,
    }


def _forecast_text(found: model.Forecast) -> dict[str, t.Any]:
    return {
        "age_seconds": None if found.age is None else round(found.age, 2),
        "beyond": found.beyond,
        "thrashes": found.thrashes,
        "page_ins_per_second": round(found.total, 1),
        "worst_unit_per_second": round(max(found.page_ins, default=0.0), 1),
        "evicted_bytes": round(found.evicted),
    }


def _error(look: _Document) -> float | None:
    """Return the largest error of a unit's active memory at 95 %, in percent of its memory; None if none was measured.

    It is that of DAMON's sample, as it was found. MGLRU counts all pages, and a trial finds an upper bound.
    """
    if look["method"] != DAMON:
        return None
    widths = [
        max(age["high_bytes"] - age["active_bytes"], age["active_bytes"] - age["low_bytes"]) / unit["stretchable_bytes"]
        for unit in look["units"]
        for age in unit["ages"]
        if unit["stretchable_bytes"]
    ]
    return round(100 * max(widths), 1) if widths else None


def _cold(look: _Document) -> dict[str, t.Any] | None:
    """Return the share of the used memory that was not accessed within an age, with its interval at 95 %.

    Each age has a sample of its own, so a small one may say that less was accessed within a longer age. The shares are
    therefore those closest to the measured ones that never fall.
    """
    ages = sorted({age["seconds"] for unit in look["units"] for age in unit["ages"]})
    seen = {seconds: figures for seconds in ages if (figures := _active(look["units"], seconds)) is not None}
    if not seen:
        return None
    seconds = max((each for each in seen if each <= _NAMED_AGE), default=min(seen))
    measured, below, above = seen[seconds]
    rising = dict(zip(seen, fitted([active for active, _below, _above in seen.values()], [1.0] * len(seen))))
    share = 1 - rising[seconds]
    return {
        "seconds": seconds,
        "share": round(share, 4),
        "low": round(max(0.0, min(share, 1 - measured - above)), 4),
        "high": round(min(1.0, max(share, 1 - measured + below)), 4),
    }


def _active(units: t.Sequence[_Document], seconds: int) -> tuple[float, float, float] | None:
    """Return the active share of the used memory within an age, and how far its interval reaches below and above it.

    None if the units that were watched for this age use no memory.
    """
    known = [(unit, age) for unit in units for age in unit["ages"] if age["seconds"] == seconds]
    pinned = sum(unit["pinned_bytes"] for unit, _age in known)
    used = sum(unit["stretchable_bytes"] for unit, _age in known) + pinned
    if not used:
        return None
    active = sum(age["active_bytes"] for _unit, age in known) + pinned
    below = math.hypot(*(age["active_bytes"] - age["low_bytes"] for _unit, age in known))
    above = math.hypot(*(age["high_bytes"] - age["active_bytes"] for _unit, age in known))
    return active / used, below / used, above / used


def _active_half_hour(look: _Document) -> dict[str, t.Any] | None:
    """Return bounds of what the units accessed within the last half hour; None if no watch has run so long.

    At least, it is what the look saw within its longest age up to that, the lower end of the interval. That is None
    where the look gives an upper bound of it, or nothing. At most, it is all but what was beyond DRAM all the time.
    """
    units, window = look["units"], (look["watch"] or {}).get("half_hour")
    if not units or window is None:
        return None
    pinned = sum(unit["pinned_bytes"] for unit in units)
    stayed = 0
    if window["moved_bytes"] is not None:
        stayed = max(0, sum(unit["swapped_bytes"] for unit in units) - window["moved_bytes"])
    most = sum(unit["stretchable_bytes"] for unit in units) + pinned - stayed
    within: list[int | None] = [
        max((age["low_bytes"] for age in unit["ages"] if age["seconds"] <= window["seconds"]), default=None)
        for unit in units
        if unit["stretchable_bytes"]
    ]
    known = [size for size in within if size is not None]
    least = None
    if look["method"] != RECLAIM and look["cost"]["seconds"] <= window["seconds"] and len(known) == len(within):
        least = min(most, sum(known) + pinned)
    return {"low_bytes": least, "high_bytes": most}


def _worst_hour(look: _Document) -> str | None:
    """Return why the worst hour that the watch has seen was not safe; None if it was, or if there is none."""
    worst = (look["watch"] or {}).get("worst_hour")
    share = 100 * (worst["memory_some_share"] or 0) if worst else 0
    if worst is None or share < NEAR_PRESSURE:
        return None
    return f"some task waited for memory in {share:.2g} % of the hour from {utc(worst['began_at'])} on"


def _verdict(found: _Document, look: _Document, wishes: Wishes) -> tuple[str, str]:
    """Return the verdict on today's number of units, and its reason."""
    waits = ((look["host"]["psi"] or {}).get("memory") or {}).get("some_avg60")
    now, more = found["now"], found["more"]
    waiting = now["worst_unit_per_second"] * found["page_in_us"] / 1e4
    if waits is not None and waits >= OVER_PRESSURE:
        return OVER, f"some task waited for memory in {waits:g} % of the last minute"
    if found["method"] == RECLAIM and not more["count"]:
        # It gives an upper bound of active memory, which proves that something fits, never that it does not.
        return NEAR, "the trial did not show that one more fits"
    if now["thrashes"]:
        return OVER, "not even what the units use all the time fits into the DRAM"
    if not more["fits_now"]:
        if waiting > wishes.waiting:
            return OVER, f"a unit is forecast to wait for page-ins {waiting:.2g} % of the time"
        return OVER, "what does not fit into the DRAM does not fit into the tiers either"
    if waits is not None and waits >= NEAR_PRESSURE:
        return NEAR, f"some task waited for memory in {waits:g} % of the last minute"
    if more["count"] == 0:
        return NEAR, "not one more fits"
    if more["low"] == 0:
        return NEAR, "the measurement is not exact enough to say that one more fits"
    worst = _worst_hour(look)
    if worst:
        return NEAR, worst
    return SAFE, f"{counted(more['count'], 'more unit')} would fit"


def _sentence(name: str, found: _Document, look: _Document) -> str:
    """Return the answer for a host in one sentence."""
    units = look["units"]
    kinds = {unit["kind"] for unit in units}
    noun = _NOUNS[kinds.pop()] if len(kinds) == 1 else "unit"
    number = f"{len(units):,} processes" if noun == "process" and len(units) != 1 else counted(len(units), noun)
    parts = [f"{name} runs {number} in {size_text(look['host']['dram_bytes'] or 0)}"]
    cold = found["cold"]
    if cold:
        least = "at least " if found["method"] == RECLAIM else ""
        between = f" ({cold['low']:.0%} to {cold['high']:.0%})" if cold["low"] < cold["high"] and not least else ""
        share = f"{least}{cold['share']:.0%}{between}"
        whose = "its" if len(units) == 1 else "their"
        parts.append(f"{share} of {whose} memory was not touched for {_duration(cold['seconds'])}")
    more = found["more"]
    if more is None:
        return f"{'; '.join(parts)}; the headroom is unknown: {found['reason']}"
    tier = f"with a compression of {found['compression']:.3g}:1" if found["compression"] else "with its swap"
    page_ins = more["forecast"]["page_ins_per_second"]
    rate = f"about {page_ins:,.0f} page-ins/s"
    about = "at least" if found["method"] == RECLAIM else "about"
    if more["fits_now"]:
        between = f" ({more['low']} to {more['high']})" if more["low"] != more["high"] else ""
        parts.append(f"{tier} {about} {more['count']:,}{between} more like {more['like']} fit, at {rate}")
    parts.append({SAFE: "near its limit: no", NEAR: "near its limit: yes", OVER: "over its limit"}[found["verdict"]])
    if found["verdict"] != SAFE:
        parts[-1] += f", because {found['reason']}"
    return "; ".join(parts)


def _duration(seconds: int) -> str:
    return counted(seconds // 60, "minute") if seconds % 60 == 0 else counted(seconds, "second")


def _n_plus_1(look: _Document, others: t.Mapping[str, _Document], wishes: Wishes) -> dict[str, t.Any] | None:
    """Decide whether the units of the largest other host would fit here as well; None if there is no other."""
    if not others:
        return None
    largest = max(
        others,
        key=lambda name: sum(unit["stretchable_bytes"] + unit["pinned_bytes"] for unit in others[name]["units"]),
    )
    site, _labels = _site(look, wishes)
    any_unit = dataclasses.replace(wishes, like="")
    reasons = [_unknown(each, site, any_unit) for each in (look, others[largest]) if each["units"]]
    reason = next(filter(None, reasons), None)
    if reason or site is None:
        return {"failed": largest, "fits": None, "reason": reason, "forecast": None}
    members = [member for each in (look, others[largest]) for member in model.members(each["units"])]
    return {
        "failed": largest,
        "fits": model.fits(members, site),
        "reason": None,
        "forecast": _forecast_text(model.forecast(members, site)),
    }
