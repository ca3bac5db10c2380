# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer in words, the first thing on the page and the last on the terminal: a sentence, and details."""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.density import cause
from ansible_collections.memstretch.density.plugins.plugin_utils.density.curve import CAPACITY
from ansible_collections.memstretch.density.plugins.plugin_utils.density.objective import RELATIVE
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted, listed

_Document = t.Mapping[str, t.Any]

PROFILES = {"dram": "DRAM alone", "swap": "a swap drive", "zram_swap": "zram with a swap drive"}
_HELD = {
    "held": "met the objective",
    "missed": "missed the objective",
    "died": "died",
    "undecided": "was not decided, since no window was clean",
}
_CAUSES = {
    CAPACITY: "capacity ends it",
    cause.MEMORY: "the page-ins end it",
    cause.DRIVE: "the drive ends it",
    cause.CPUS: "the CPUs end it, not memory",
    cause.TIER_CPU: "the CPU time of reclaim and compression ends it",
    cause.NO_HOSTS: "there were no more servers to add",
}

_SECONDS_A_DAY = 86_400
# A machine that is so many times as fast in one ramp as in another is worth a word.
_MOODY = 1.3


def sentence(answer: _Document) -> str:
    """Return what the profile that carries most carries, next to the first one, in one breath."""
    if answer["no_plateau"] and not answer["arms"]:
        return f"No density: {answer['no_plateau']}."
    shown = _shown(answer)
    return _of_arm(answer, *shown) if shown else f"No density: {no_clean_window(answer['arms'])}."


def no_clean_window(arms: t.Iterable[_Document]) -> str:
    """Return what was wrong with the windows of arms that have no density, and what to do about it."""
    steps = [point for arm in arms for ramp in arm["rounds"] for point in ramp["points"] if point["kind"] == "step"]
    reasons = [point["disturbed"] for point in steps if point["disturbed"]]
    if not reasons:
        return "the ramps ended before they had a window"
    return (
        f"each of the {counted(len(steps), 'window')} was disturbed (the last: {reasons[-1]}); measure again when the "
        "machine is quiet"
    )


def details(answer: _Document) -> str:
    """Return what holds at that density: the objective, how long the servers wait, what ends it. Empty without one."""
    shown = _shown(answer)
    return _details(answer, shown[0]) if shown else ""


def others(answer: _Document) -> list[tuple[str, str]]:
    """Return the sentence and the details of each other profile, without the best one and the first one."""
    known = _known(answer)
    best = _best(known[1:])
    return [(_of_arm(answer, arm, known[0]), _details(answer, arm)) for arm in known[1:] if arm is not best]


def _known(answer: _Document) -> list[_Document]:
    return [arm for arm in answer["arms"] if arm["density"] is not None]


def _shown(answer: _Document) -> tuple[_Document, _Document | None] | None:
    """Return the arm that the answer is about, and the one that it is compared with; None without a density."""
    known = _known(answer)
    best = _best(known[1:])
    if best:
        return best, known[0]
    return (known[0], None) if known else None


def _best(arms: t.Sequence[_Document]) -> _Document | None:
    """Return the arm that carries the most hosts; None without arms."""
    return max(arms, key=lambda arm: (not arm["at_most"], arm["density"]), default=None)


def _of_arm(answer: _Document, arm: _Document, base: _Document | None) -> str:
    """Return the sentence of an arm, compared with the first one if that is given."""
    carries = f"{_where(answer)}, {name(arm)} carries {count(arm)} {_machines(answer, arm)}"
    if not base:
        return f"{carries} ({sure(arm)})."
    times = ratio(arm)
    return f"{carries}, {name(base)} {count(base)}{f': {times}' if times else ''}."


def _details(answer: _Document, arm: _Document) -> str:
    """Return the objective with what the servers wait, what ends the ramps of an arm, and what its drive does."""
    end = ending(arm)
    return f"{_objective(answer, arm)}. {end[0].upper()}{end[1:]}.{_drive(arm.get('drive'))}"


def _drive(found: _Document | None) -> str:
    """Return how fast the drive is and how much is written to it; empty without one."""
    if not found:
        return ""
    written = found["written_bytes_per_second"]
    writes = "" if written is None else f", and {written * _SECONDS_A_DAY / 1e9:,.0f} GB a day are written to it"
    return f" A read of its drive takes {found['read_us']:,.0f} us{writes}."


def name(arm: _Document) -> str:
    """Return an arm as a sentence names it."""
    return PROFILES.get(arm["name"], str(arm["name"]))


def sure(arm: _Document) -> str:
    """Return how sure a density is: its interval, the values of two rounds, or that it is one ramp."""
    if arm["interval"]:
        return f"95 %: {_span(arm['interval'], '{}')}"
    values = arm["passes"]["values"]
    return "one ramp" if len(values) == 1 else f"{listed([str(each) for each in values])} in {len(values)} rounds"


def ratio(arm: _Document) -> str:
    """Return how many times as many hosts an arm carries, with its interval; empty if that is unknown."""
    found = arm["ratio"]
    if not found:
        return ""
    least = "at least " if arm["at_least"] else ""
    text = f"{least}{found['ratio']:.1f} times"
    if found["interval"]:
        return f"{text} (95 %: {_span(found['interval'], '{:.1f}')})"
    rounds = "one ramp each" if len(found["values"]) == 1 else f"in {len(found['values'])} rounds"
    return f"{text} ({_span(found['span'], '{:.1f}')}, {rounds})"


def notes(answer: _Document) -> list[str]:
    """Return the sentences that the densities must not be read without."""
    whose: dict[str, list[str]] = {}
    for arm in answer["arms"]:
        for text in _notes(answer, arm):
            whose.setdefault(text, []).append(name(arm))
    found = [f"{listed(names)}: {text}" for text, names in whose.items()]
    return [*found, *_moods(answer), *answer.get("labels", [])]


def _moods(answer: _Document) -> t.Iterator[str]:
    """Say if the machine was much faster in some ramps than in others."""
    idle = [each["idle"]["avg_us"] for arm in answer["arms"] for each in arm["rounds"] if each["idle"]]
    if idle and max(idle) > _MOODY * min(idle):
        yield (
            f"the machine itself was {max(idle) / min(idle):.1f} times as slow in some ramps as in others (idle DRAM: "
            f"{min(idle):,.0f} to {max(idle):,.0f} us on average); each ramp is compared with idle DRAM at its time"
        )


def _notes(answer: _Document, arm: _Document) -> t.Iterator[str]:
    if not arm["quiet"]:
        yield "the machine was not quiet; more than a third of the windows of a ramp were disturbed"
    if arm["density"] is None:
        if arm["rounds"]:
            yield no_clean_window([arm])
        return
    if answer["definition"]["objective"]["kind"] != RELATIVE and arm["interval"]:
        yield (
            "the interval says how the rounds differed; at another hour the whole machine may be faster or slower, "
            "which moves a density by limits in microseconds and hardly one by references"
        )
    if arm["flat"]:
        low, high = (each["density"] for each in arm["sensitivity"])
        yield (
            "the curve is flat near the limit, so the limit decides and not the profile: with limits 10 % "
            f"tighter it carries {low}, with limits 10 % wider {high}"
        )
    if arm["cause"] in (cause.CPUS, cause.TIER_CPU) and arm["memory_alone"] and arm["memory_alone"] > arm["density"]:
        yield (
            f"as far as memory alone decides, it would carry {arm['memory_alone']}; where the CPUs decide, a density "
            "moves as the speed of the machine does"
        )
    of_hosts = arm["hosts"]
    if of_hosts["sick"]:
        without = of_hosts["density_without_sick"]
        yield (
            f"{listed(of_hosts['sick'], 3)} missed the objective in most windows while the others met it, so "
            f"something is wrong with {'it' if len(of_hosts['sick']) == 1 else 'them'}; without, the density is "
            f"{without}"
        )
    if answer["definition"].get("scope", "every") == "every":
        if not of_hosts["judged"]:
            yield "fleet only; the servers have too few requests each to be judged alone"
        elif of_hosts["every"] < arm["fleet_density"]:
            yield (
                f"the fleet as a whole meets the objective up to {arm['fleet_density']}, but "
                f"{listed(of_hosts['missed'], 3)} did not"
            )
    for hold in arm["hold"]:
        yield f"held for longer, a fleet of {hold['size']} {_HELD[hold['state']]}{_touched(hold['touched'])}"


def _touched(found: _Document | None) -> str:
    """Return what followed when all servers of a held fleet were touched at once; empty if they were not."""
    if not found:
        return ""
    worst, back, seconds = found["worst_p99_us"], found["back_seconds"], found["seconds"]
    if worst is None:
        return f". When all its servers were touched at once, none answered within {seconds} s"
    if back is not None:
        over = f"was back after {back} s"
    elif found["end_p99_us"] is None:
        over = f"there was no answer after {seconds} s"
    else:
        over = f"was still {found['end_p99_us']:,.0f} after {seconds} s"
    return (
        f". When all its servers were touched at once, its p99 went from {found['before_p99_us']:,.0f} to {worst:,.0f} "
        f"us at worst, and {over}"
    )


def _where(answer: _Document) -> str:
    budget = answer["definition"].get("budget_bytes")
    machine = answer["definition"].get("on")
    if not budget:
        return f"On {machine or 'this machine'}"
    return f"On {machine}, in {size_text(budget)} of DRAM" if machine else f"In {size_text(budget)} of DRAM"


def count(arm: _Document) -> str:
    """Return a density: a number, at least or fewer than one."""
    if arm["at_most"]:
        return f"fewer than {arm['density']}"
    return f"at least {arm['density']}" if arm["at_least"] else f"{arm['density']}"


def _machines(answer: _Document, arm: _Document) -> str:
    noun = answer["definition"].get("machine", "Redis server")
    return str(noun) if arm["density"] == 1 else f"{noun}s"


def _objective(answer: _Document, arm: _Document) -> str:
    """Return which objective is met, and by whom: each server, or the fleet where the servers were not judged alone."""
    aim = answer["definition"]["objective"]
    each = answer["definition"].get("scope", "every") == "every" and arm["hosts"]["judged"]
    if aim["kind"] != RELATIVE:
        limits = f"{aim['avg_us']:g} us on average and {aim['p99_us']:g} us at the p99"
        text = f"Each answers within {limits}" if each else f"The fleet answers within {limits}"
        return text + ("" if arm["at_most"] else f": {_p99(arm)}")
    slow = f"at most {_times(aim['factor'])} as slow as"
    text = f"Each is {slow} one in DRAM next to it" if each else f"The fleet is {slow} servers in DRAM next to it"
    if arm["at_most"]:
        return text
    average = arm["latency"]["avg_ratio"]
    return f"{text}: " + (f"{average:.1f} times on average, " if average is not None else "") + _p99(arm)


def _p99(arm: _Document) -> str:
    idle = [each["idle"]["p99_us"] for each in arm["rounds"] if each["idle"]]
    beside = f" ({statistics.median(idle):,.0f} in idle DRAM)" if idle else ""
    return f"a p99 of {arm['latency']['p99_us']:,.0f} us{beside}"


def _times(factor: float) -> str:
    return "twice" if factor == 2 else f"{factor:g} times"


def ending(arm: _Document) -> str:
    """Return what ends the ramps."""
    if arm["at_least"] and arm["cause"] != cause.NO_HOSTS:
        return "not every ramp found its end"
    return _CAUSES[arm["cause"]]


def _span(ends: t.Sequence[float | None], form: str) -> str:
    low, high = ends
    if not low:
        return f"at most {form.format(high)}" if high is not None else "no interval"
    if high is None:
        return f"{form.format(low)} or more"
    return form.format(low) if form.format(low) == form.format(high) else f"{form.format(low)} to {form.format(high)}"


def table(answer: _Document) -> list[dict[str, str]]:
    """Return a row for each arm: the profile, its density, how sure it is, the ratio, the latency and what ends it."""
    rows = []
    for arm in answer["arms"]:
        if arm["density"] is None:
            rows.append(dict.fromkeys(("density", "sure", "ratio", "latency", "cause"), "") | {"name": arm["name"]})
            continue
        found = arm["latency"]
        rows.append(
            {
                "name": arm["name"],
                "density": count(arm),
                "sure": sure(arm),
                "ratio": ratio(arm),
                "latency": f"{found['avg_us']:,.0f} / {found['p99_us']:,.0f} us, "
                f"{found['met']} of {counted(found['windows'], 'window')} within",
                "cause": _CAUSES[arm["cause"]],
            }
        )
    return rows
