# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of a density: what its ramps say together, as the document density.json."""

from __future__ import annotations

import math
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import drives
from ansible_collections.memstretch.density.plugins.plugin_utils.density import cause, hosts, objective, rounds
from ansible_collections.memstretch.density.plugins.plugin_utils.density.curve import Curve, curve
from ansible_collections.memstretch.density.plugins.plugin_utils.density.objective import (
    FIGURES,
    Objective,
    Plateau,
    excess,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.density.touched import touched
from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import (
    Window,
    is_quiet,
    windows,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import described_by

DRAM = "dram"
EVERY, FLEET_ONLY = "every", "fleet"
# The kind of a ramp that holds one size, and how that ends.
HOLD = "hold"
HELD, MISSED, DIED, UNDECIDED = "held", "missed", "died", "undecided"
# The limits for which an answer is given next to the objective, and how far one of these densities may lie from the
# density before the curve counts as flat there.
SENSITIVITY = (0.9, 1.1)
FLAT = 1.2
# Hosts are judged, and the latency is described, over windows from this share of a size up to the size.
NEAR_FOR_HOSTS, NEAR = 2 / 3, 0.9
# The drive is described over windows from this share of the density to as much above it: the drive may be what ends it.
NEAR_DRIVE = 0.8
# Reads a second; with fewer, nothing is said about the drive.
LEAST_READS = 1
# The curves of a ramp that bound its density.
CURVES = ("passes", "not_fails")
# A host is sick if it misses the limit of the p99 in most of at least this many windows, while few others do.
_SICK_WINDOWS, _SICK_LEVEL, _FEW_OTHERS = 3, 0.01, 0.1

_Document = t.Mapping[str, t.Any]


class _Ramp(t.NamedTuple):
    """A ramp that was judged.

    Attributes:
        looked: its windows, next to idle DRAM as it was in this ramp.
        clean: those that count.
        passes: from the upper bounds.
        not_fails: from the lower bounds.
    """

    document: _Document
    looked: list[Window]
    clean: list[Window]
    passes: Curve | None
    not_fails: Curve | None


def answer(definition: _Document, ramps: t.Sequence[_Document]) -> dict[str, t.Any]:
    """Return what the ramps of a study say.

    Args:
        definition: arms, objective, scope and load; docs/schemas/density.json.
        ramps: their records, in any order. Ramps that ended by an error count with what was seen.
    """
    aim = Objective.of(definition["objective"])
    holds = [ramp for ramp in ramps if ramp.get("kind") == HOLD]
    ramps = [ramp for ramp in ramps if ramp.get("kind") != HOLD]
    plateau, no_plateau = None, ""
    try:
        plateau = objective.plateau([windows(ramp) for ramp in ramps if ramp["arm"] == DRAM])
    except objective.PlateauError as error:
        no_plateau = str(error)
    can_judge = plateau is not None or aim.kind == objective.ABSOLUTE
    ordered = sorted(ramps, key=lambda each: each["round"])
    judged = {
        name: [_judged(ramp, aim, plateau) for ramp in ordered if ramp["arm"] == name] for name in definition["arms"]
    }
    of_arms = {name: [each for each in holds if each["arm"] == name] for name in judged}
    arms = [_arm(name, each, of_arms[name], definition, aim, plateau) for name, each in judged.items() if can_judge]
    base = judged[definition["arms"][0]]
    for arm in arms[1:]:  # none without a plateau
        if not (arms[0].get("at_most") or arm.get("at_most")):  # nothing is a multiple of "fewer than"
            arm["ratio"] = _ratio(judged[arm["name"]], base, aim)
    return {
        **described_by("density"),
        "definition": dict(definition),
        "plateau": plateau and {**plateau.figures._asdict(), "fits": plateau.fits},
        "no_plateau": no_plateau,
        "arms": arms,
    }


def _judged(ramp: _Document, aim: Objective, plateau: Plateau | None, without: t.Container[str] = ()) -> _Ramp:
    """Judge a ramp, without some of its hosts."""
    looked = [each for each in objective.beside_idle(windows(ramp, without), plateau) if each.fleet]
    clean = [each for each in looked if not each.disturbed and each.document["kind"] == "step"]
    if plateau is None and aim.kind == objective.RELATIVE:
        return _Ramp(ramp, looked, clean, None, None)
    wall = cause.wall(ramp)
    passes, not_fails = (curve(objective.excesses(clean, aim, bound), wall) for bound in ("upper", "lower"))
    return _Ramp(ramp, looked, clean, passes, not_fails)


def _arm(
    name: str,
    ramps: t.Sequence[_Ramp],
    held: t.Iterable[_Document],
    definition: _Document,
    aim: Objective,
    plateau: Plateau | None,
) -> dict[str, t.Any]:
    """Return the entry of an arm; C(density) is None if it has no ramp with a clean window."""
    usable = [ramp for ramp in ramps if ramp.passes]
    common = {
        "name": name,
        "rounds": [_round(ramp, aim) for ramp in ramps],
        "tier": _tier(ramps),
        "quiet": all(is_quiet(ramp.looked) for ramp in ramps),
        "ratio": None,
    }
    if not usable:
        return {**common, "density": None}
    passes, not_fails = (
        rounds.together([getattr(ramp, which).crossing for ramp in usable], aim.kind == objective.RELATIVE)
        for which in CURVES
    )
    density = passes.density
    judged = _hosts(usable, density, aim)
    scope = definition.get("scope", EVERY)
    if scope == EVERY and judged["every"] < density:
        density = judged["every"]
    hold = [_hold(ramp, aim, plateau) for ramp in sorted(held, key=lambda each: each["round"])]
    density = _largest_held(hold, density)
    sick = judged["sick"]
    without = None
    if sick:
        healthy = [_judged(ramp.document, aim, plateau, set(sick)).passes for ramp in usable]
        without = rounds.together([each.crossing for each in healthy if each]).density
    between = rounds.ends(density, passes, not_fails)
    causes = [cause.cause(ramp.passes, ramp.clean) for ramp in usable if ramp.passes]
    low_high = [_moved(usable, aim, factor) for factor in SENSITIVITY]
    return {
        **common,
        "density": density,
        "fleet_density": passes.density,
        "passes": passes.as_document(),
        "not_fails": not_fails.as_document(),
        **between._asdict(),
        "at_least": passes.at_least and not_fails.at_least,
        "at_most": passes.at_most,
        "cause": max(causes, key=causes.count),
        "end": next((ramp.document["end"] for ramp in usable if cause.wall(ramp.document) < math.inf), None),
        "memory_alone": _memory_alone(usable),
        "sensitivity": [{"factor": factor, "density": size} for factor, size in zip(SENSITIVITY, low_high)],
        "flat": is_flat(low_high[0], passes.density, low_high[1]),
        "latency": _latency(usable, density, aim),
        "drive": _drive(usable, density),
        "hosts": {**judged, "density_without_sick": without},
        "hold": hold,
    }


def _tier(ramps: t.Sequence[_Ramp]) -> dict[str, t.Any]:
    """Return the swap areas of an arm, and their size together."""
    sizes = [each.sum("swap_bytes") for ramp in ramps for each in ramp.looked]
    areas: list[str] = next((ramp.document["tier"] for ramp in ramps if ramp.document.get("tier")), [])
    return {"areas": areas, "bytes": max((size for size in sizes if size is not None), default=0)}


def is_flat(tighter: int, density: int, wider: int) -> bool:
    """Decide whether a curve is so flat near the limit that the limit decides, from the densities of other limits."""
    return density > FLAT * max(1, tighter) or wider > FLAT * max(1, density)


def _round(ramp: _Ramp, aim: Objective) -> dict[str, t.Any]:
    """Return one ramp for the page: its points, its density, its end, and how fast idle DRAM was."""
    idle = next((each.idle for each in ramp.looked), None)
    return {
        "round": ramp.document["round"],
        "density": ramp.passes and math.floor(ramp.passes.crossing.size * (1 + 1e-9)),
        "decided_by": ramp.passes and _named(ramp.passes.decided_by),
        "crossings": {name: _crossing(getattr(ramp, name)) for name in CURVES} if ramp.passes else None,
        "wall": None if cause.wall(ramp.document) == math.inf else cause.wall(ramp.document),
        "end": ramp.document.get("end"),
        "idle": idle and {figure: round(getattr(idle, figure), 1) for figure in FIGURES},
        "points": [_point(each, aim) for each in ramp.looked],
    }


def _crossing(found: Curve | None) -> dict[str, float | None] | None:
    return found and found.crossing.as_document()


def _named(decided: t.Any) -> str | None:
    return " ".join(decided) if isinstance(decided, tuple) else decided


def _point(window: Window, aim: Objective) -> dict[str, t.Any]:
    """Return a window as a point of the chart."""
    document, page_ins = window.document, window.rate("page_ins")
    return {
        "size": window.size,
        "kind": document["kind"],
        "settled": document["settled"],
        "disturbed": window.disturbed,
        "fleet": {bound: each._asdict() for bound, each in window.fleet.items()},
        "references": {bound: each._asdict() for bound, each in window.references.items()},
        "page_ins_per_second": None if page_ins is None else round(page_ins, 1),
        "charged_bytes": window.sum("charged_bytes"),
        "memory_some_share": window.most("memory_some_share"),
        "excess": {" ".join(name): round(value, 4) for name, value in excess(window, aim, "upper").of.items()}
        if window.idle is not None or aim.kind == objective.ABSOLUTE
        else {},
    }


def _ratio(ramps: t.Sequence[_Ramp], base: t.Sequence[_Ramp], aim: Objective) -> dict[str, t.Any] | None:
    """Return the ratio to the first arm over the rounds that both have."""
    of_base = {ramp.document["round"]: ramp.passes.crossing for ramp in base if ramp.passes}
    paired = [ramp for ramp in ramps if ramp.passes and ramp.document["round"] in of_base]
    if not paired:
        return None
    least, most = (
        rounds.ratio(
            [getattr(ramp, which).crossing for ramp in paired],
            [of_base[ramp.document["round"]] for ramp in paired],
            aim.kind == objective.RELATIVE,
        )
        for which in CURVES
    )
    return rounds.ratio_document(least, most)


def _moved(ramps: t.Sequence[_Ramp], aim: Objective, factor: float) -> int:
    """Return the density if all limits were this many times what they are."""
    found = [
        curve(objective.excesses(ramp.clean, aim, "upper"), cause.wall(ramp.document), math.log(factor))
        for ramp in ramps
    ]
    return rounds.together([each.crossing for each in found if each]).density


def _memory_alone(ramps: t.Sequence[_Ramp]) -> int | None:
    """Return the density if the CPUs did not matter."""
    alone = [ramp.passes.fleet_alone for ramp in ramps if ramp.passes]
    known = [each for each in alone if each]
    return rounds.together(known).density if known else None


def _near(ramps: t.Sequence[_Ramp], size: int, share: float) -> list[Window]:
    """Return the clean windows from a share of a size up to it; without any, those of the closest smaller size, or of
    the smallest one.
    """
    clean = [each for ramp in ramps for each in ramp.clean]
    found = [each for each in clean if share * size <= each.size <= size]
    if not found:
        smaller = [each.size for each in clean if each.size <= size]
        closest = max(smaller) if smaller else min(each.size for each in clean)
        found = [each for each in clean if each.size == closest]
    return found


def _latency(ramps: t.Sequence[_Ramp], size: int, aim: Objective) -> dict[str, t.Any]:
    """Return what the hosts of a fleet of the density wait, medians over the windows there."""
    near = _near(ramps, size, NEAR)
    met = [max(excess(each, aim, "upper").of.values()) <= 0 for each in near]
    found: dict[str, t.Any] = {
        "windows": len(near),
        "met": sum(met),
        "requests": min(each.fleet["upper"].requests for each in near),
    }
    for name in ("avg_us", "p99_us"):
        values = [getattr(each.fleet.get("punctual", each.fleet["upper"]), name) for each in near]
        found[name] = round(statistics.median(values), 1)
        beside = [
            getattr(each.fleet.get("punctual", each.fleet["upper"]), name)
            / getattr(each.references.get("punctual", each.references["upper"]), name)
            for each in near
            if each.references
        ]
        found[f"{name[:-3]}_ratio"] = round(statistics.median(beside), 3) if beside else None
    return found


def _drive(ramps: t.Sequence[_Ramp], size: int) -> dict[str, float | None] | None:
    """Return how long a read of the drive takes and how much is written to it; None if it is hardly read near a size.

    Returns:
        C(read_us), microseconds of a read, and C(written_bytes_per_second), None if it was not recorded.
    """
    clean = (each for ramp in ramps for each in ramp.clean)
    near = [each for each in clean if NEAR_DRIVE * size <= each.size <= size / NEAR_DRIVE]
    reads = [each.sum("drive_reads") for each in near]
    known, seconds = sum(filter(None, reads)), sum(each.document["seconds"] for each in near)
    # Without a drive in the tier, swap of the machine's own was read.
    if not near or not drives(_tier(ramps)["areas"]) or None in reads or known < LEAST_READS * seconds:
        return None
    written = [each.sum("drive_written_bytes") for each in near]
    return {
        "read_us": round(1e6 * sum(each.sum("drive_read_seconds") or 0 for each in near) / known, 1),
        "written_bytes_per_second": None if None in written else round(sum(filter(None, written)) / seconds, 1),
    }


def _hosts(ramps: t.Sequence[_Ramp], density: int, aim: Objective) -> dict[str, t.Any]:
    """Judge each host in the windows up to the density, and in smaller fleets if one misses the objective there."""
    sick = _sick(ramps, density, aim)
    sizes = sorted({each.size for ramp in ramps for each in ramp.clean if each.size < density}, reverse=True)

    def judge(size: int) -> hosts.Judged:
        return hosts.judge(_of_hosts(_near(ramps, size, NEAR_FOR_HOSTS), aim, sick))

    at_density, every = judge(density), density
    if at_density.missed:
        every = next((size for size in sizes if not judge(size).missed), 0)
    return {
        **at_density._asdict(),
        "smallest_miss": round(at_density.smallest_miss, 4),
        "every": every,
        "sick": sick,
    }


def _of_hosts(near: t.Sequence[Window], aim: Objective, without: t.Container[str]) -> dict[str, list[hosts.HostWindow]]:
    """Return the windows of each host with the limits that held in them."""
    found: dict[str, list[hosts.HostWindow]] = {}
    for window in near:
        average, p99 = (_limit(window, aim, name) for name in ("avg_us", "p99_us"))
        for name, load in window.document["hosts"].items():
            if name not in without:
                found.setdefault(name, []).append(hosts.HostWindow(load, average, p99))
    return found


def _limit(window: Window, aim: Objective, figure: str) -> float:
    """Return the limit of a figure in a window, in microseconds."""
    if aim.kind == objective.ABSOLUTE:
        return aim.limit(figure)
    beside = window.references.get("upper")
    return aim.limit(figure) * getattr(beside or window.idle, figure)


def _sick(ramps: t.Sequence[_Ramp], density: int, aim: Objective) -> list[str]:
    """Return the hosts that miss the limit of the p99 in most windows up to the density, while few others do."""
    held: dict[str, int] = {}
    missed: dict[str, int] = {}
    for window in (each for ramp in ramps for each in ramp.clean if each.size <= max(density, ramp.clean[0].size)):
        limit = _limit(window, aim, "p99_us")
        slow = [
            name
            for name, load in window.document["hosts"].items()
            if hosts.binomial_tail(hosts.slow_requests(load["lower"], limit), load["upper"]["count"], hosts.ALLOWED)
            <= _SICK_LEVEL
        ]
        if len(slow) > max(1, _FEW_OTHERS * len(window.document["hosts"])):
            continue
        for name in window.document["hosts"]:
            held[name] = held.get(name, 0) + 1
            missed[name] = missed.get(name, 0) + (name in slow)
    return sorted(name for name, count in held.items() if count >= _SICK_WINDOWS and 2 * missed[name] > count)


def _hold(ramp: _Document, aim: Objective, plateau: Plateau | None) -> dict[str, t.Any]:
    """Return how a size that was held ended: held, missed or died; undecided without a clean window."""
    looked = [each for each in objective.beside_idle(windows(ramp), plateau) if each.fleet]
    size = max([each.size for each in looked] or [ramp["end"]["n"]])
    clean = [each for each in looked if each.document["kind"] == "hold" and not each.disturbed]
    values = [max(excess(each, aim, "upper").of.values()) for each in clean]
    if cause.wall(ramp) < math.inf:
        state = DIED
    elif ramp["end"]["kind"] == "missed":
        state = MISSED
    else:
        state = _held(values) if values else UNDECIDED
    return {"size": size, "windows": len(values), "state": state, "touched": touched(ramp, clean)}


def _largest_held(holds: t.Sequence[_Document], density: int) -> int:
    """Return the density after holds: what did not hold is too many, whatever the ramps say."""
    failed = [each["size"] for each in holds if each["state"] in (DIED, MISSED)]
    if not failed:
        return density
    return max((each["size"] for each in holds if each["state"] == HELD), default=max(0, min(failed) - 1))


def _held(values: t.Sequence[float]) -> str:
    """Return whether a held fleet met its limits: its mean excess is within them, or not clearly beyond."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return HELD if statistics.fmean(values) - 2 * error <= 0 else MISSED
