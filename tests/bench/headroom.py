# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the forecast of a fleet that is only watched hold once the fleet is squeezed?

    python tests/bench/headroom.py LOAD... [--tier TIER] [--servers N] [--emulated] [--write]
    python tests/bench/headroom.py --cost|--latency [--emulated] [--write]

Fills real Redis servers in a control group, loads them, and reads their active memory as headroom_info does, while
nothing is squeezed. Then it gives the same fleet less and less DRAM, holds each size for five reuse ages, and compares
the page-ins with the forecast. Equal servers in a DRAM of one half are what twice as many are in the whole, so each
size also says how far the forecast number of servers is from the one that was held. A load takes five minutes.
The load "planted" is a fleet of processes that touch their pages at random, whose active memory is known: it tells the
error of the look from that of the model.
With --cost it looks at processes of which half of the memory is active, with and without a limit of the CPU time, and
shows that time next to the error. With --latency it loads a Redis in pairs of runs, with and without a look. Needs
root, zram, the memory controller of either version, and a DAMON that nobody has set up. With --write the figures go to
docs/bench/headroom.md, next to those of other loads.
With --emulated all of that, but --latency, happens in a Debian 13 that is emulated (emulated.py), whatever kernel this
machine has. It is slower, which changes neither ages nor page-ins as long as the servers get the same requests: each
size says whether they did.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".ansible" / "collections"))

import charged_dram
import emulated
import machine
import one_redis
from held_fleet import (
    KEYS,
    LOADS,
    MEMORY_LOAD,
    TIERS,
    TO_HOT,
    Fleet,
    Load,
    Pace,
    planted_active,
    settings,
    tiers,
    wait_until_ready,
)

from ansible_collections.memstretch.density.plugins.module_utils.headroom.look import AGES as AGES_BY_DEFAULT
from ansible_collections.memstretch.density.plugins.module_utils.headroom.look import DAMON, Look
from ansible_collections.memstretch.density.plugins.module_utils.headroom.look import PAGES as PAGES_BY_DEFAULT
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, vmstat
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import model
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import paired_ratio

MIB = 2**20
SERVERS, AGES, PAGES = 18, (2, 4, 8, 16, 32), 20_000
# Each size is the one in which pages are evicted at this age; from the one that is squeezed least.
REUSE_AGES = (16, 10, 6, 4)
# In units of the reuse age: a size is held so long, and its page-ins count from then on.
HELD, COUNTED_FROM, LEAST_HELD_S = 5, 2, 25
# What a forecast may be off by, relative to what was held: its page-ins, and its number of servers.
PAGE_IN_BAR, SERVERS_BAR = 0.15, 0.10
_COLUMNS = (
    "DRAM of a server, MiB (resident in the end)",
    "reuse age, s",
    "requests/s, of those in the look",
    "page-ins/s, forecast (95 %)",
    "held",
    "forecast / held",
    "servers, forecast / held",
)
PAIRS, PAIR_RATE, LATENCIES = 12, 2000, {"avg_us": "the average is", "p99_us": "the p99"}
_COST_COLUMNS = (
    "units",
    "ages, s",
    "may take, % of one CPU",
    "error, % of a unit",
    "furthest from the truth, %",
    "CPU of the module, s",
    "of DAMON, s",
    "% of one CPU",
)
COST_UNITS, COST_MIB = (10, 50), 32
# Ages, and what a look may take of one CPU: a short look, the same without a limit, and that of headroom.yml.
COST_LOOKS = (((1, 3, 10), 5), ((1, 3, 10), 100), (AGES_BY_DEFAULT, 5))

Units = list[dict[str, t.Any]]


class Held(t.NamedTuple):
    """A fleet that was held.

    Attributes:
        age: the reuse age that was forecast.
        dram: the bytes that its servers had together.
        resident: what was resident of them in the end.
        counted: page-ins per second.
        served: the requests per second that the servers got, as a share of those during the look.
    """

    age: float
    dram: float
    resident: float
    counted: float
    served: float


class Size(t.NamedTuple):
    """What was forecast for a fleet that was held.

    Attributes:
        page_ins: per second; with C(low) and C(high), the interval at 95 %.
        servers: how many were forecast at the page-ins that were counted, as a multiple of those that were held.
    """

    page_ins: float
    low: float
    high: float
    servers: float


class Forecasts:
    """The forecasts that follow from a look."""

    def __init__(self, units: Units) -> None:
        self._units, self._members = units, model.members(units)
        self._owned = float(sum(unit["stretchable_bytes"] + unit["pinned_bytes"] for unit in units))

    def at(self, dram: float) -> model.Forecast:
        """Return the forecast for a DRAM that the units alone use; what is evicted takes nothing of it."""
        return _forecast(self._members, dram)

    def dram_at(self, good: t.Callable[[model.Forecast], bool]) -> float:
        """Return the least DRAM whose forecast is good; more DRAM must not be worse."""
        low, high = 0.0, self._owned
        for _step in range(30):
            middle = (low + high) / 2
            low, high = (low, middle) if good(self.at(middle)) else (middle, high)
        return high

    def least_dram(self, page_ins: float) -> float:
        """Return the least DRAM in which there are at most so many page-ins a second."""
        return self.dram_at(lambda found: not found.thrashes and found.total <= page_ins)

    def sizes(self, held: t.Sequence[Held]) -> list[Size]:
        """Return what was forecast for fleets that were held."""
        source = random.Random(0)
        drawn = [(model.members(self._units, source), model.misjudged(source)) for _draw in range(model.RESAMPLED)]
        sizes = []
        for each in held:
            low, high = model.intervals([_forecast(members, each.dram).total * factor for members, factor in drawn])
            sizes.append(Size(self.at(each.dram).total, low, high, each.dram / self.least_dram(each.counted)))
        return sizes


def _forecast(members: t.Sequence[model.Member], dram: float) -> model.Forecast:
    site = model.Site(dram=dram, own=0.0, compression=0.0, room=None, page_in_us=1.0, waiting=1.0)
    return model.forecast(members, site)


def page_ins(seconds: float) -> float:
    """Return the page-ins of this machine per second."""
    files = HostFiles()
    before, began = vmstat(files)["pswpin"], time.monotonic()
    time.sleep(seconds)
    return (vmstat(files)["pswpin"] - before) / (time.monotonic() - began)


def hold(fleet: Fleet, forecasts: Forecasts, pace: float, age: float) -> Held:
    """Hold the fleet at the size in which the forecast has a reuse age.

    Args:
        pace: the requests per second during the look.
    """
    dram = forecasts.dram_at(lambda found: not found.thrashes and (found.age is None or found.age >= age))
    fleet.group.limit(round(dram) + fleet.own)
    seconds = max(LEAST_HELD_S, HELD * age)
    time.sleep(seconds * COUNTED_FROM / HELD)
    held_pace = Pace(fleet)
    counted = page_ins(seconds * (1 - COUNTED_FROM / HELD))
    served = held_pace.read() / pace if pace else 1.0
    fleet.check()
    return Held(age, dram, fleet.resident(), counted, served)


def measure(load: Load, options: argparse.Namespace) -> dict[str, t.Any]:
    """Return what was seen of a load: the look at the fleet, and each size that was held, without their forecasts."""
    busy = os.getloadavg()[0]
    with contextlib.ExitStack() as used:
        directory = used.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp"))
        used.enter_context(settings())
        used.enter_context(tiers(options.tier, directory))
        client = options.client or charged_dram.build(directory)
        fleet = used.enter_context(Fleet(load, options.servers, client))
        time.sleep(5)
        pace = Pace(fleet)
        look = Look(HostFiles(), fleet.units(), AGES, PAGES, cpu_percent=100).take(methods=(DAMON,))
        asked = pace.read()
        if look["reason"]:
            raise RuntimeError(look["reason"])
        fleet.check()
        forecasts = Forecasts(look["units"])
        return {
            "load": load,
            "tier": options.tier,
            "day": str(datetime.date.today()),
            "machine": f"{machine.cpu_model()}, kernel {platform.release()}, load average {busy:.2f} at the start",
            "cost": look["cost"],
            "units": look["units"],
            "held": [hold(fleet, forecasts, asked, age) for age in REUSE_AGES],
        }


def title(load: Load, tier: str) -> str:
    """Return the heading of a load in the page."""
    if load.planted:
        return f"### Processes that touch {load.rate} of their pages a second at random, {tier}"
    busy = "" if load.busy == 1 else f", {load.busy:.0%} of the servers busy and the others idle"
    hot = f", {TO_HOT:.0%} of them to {load.hot:.0%} of the keys" if load.hot else ""
    return f"### Influence {load.influence}, {load.rate} requests/s{hot}, {tier}{busy}"


def lines(seen: dict[str, t.Any]) -> t.Iterator[str]:
    """Yield the lines of a load in the page.

    Args:
        seen: as C(measure) returns it.
    """
    load, units, held = Load(*seen["load"]), seen["units"], [Held(*each) for each in seen["held"]]
    sizes = Forecasts(units).sizes(held)
    cost = seen["cost"]
    share = (cost["cpu_s"] + cost["kernel_cpu_s"]) / cost["seconds"]
    yield title(load, seen["tier"])
    yield ""
    yield (
        f"{seen['day']}, {len(units)} {'processes' if load.planted else 'servers'}, {seen['machine']}. "
        f"The look took {share:.1%} of one CPU for {cost['seconds']:.0f} s: {cost['cpu_s']:.2f} s of its process, "
        f"{cost['kernel_cpu_s']:.2f} s of DAMON. It watched at most {cost['pages']:,} pages of each for each age."
    )
    yield ""
    parts = []
    for number in range(len(AGES)):
        ages = [unit["ages"][number] for unit in units]
        size, age = (statistics.fmean(each[name] for each in ages) for name in ("active_bytes", "watched_s"))
        known = f" (planted: {planted_active(load, age) / MIB:.2f})" if load.planted else ""
        parts.append(f"{size / MIB:.2f}{known} MiB in {age:.1f} s")
    owned = statistics.fmean(unit["stretchable_bytes"] for unit in units)
    yield f"Active memory of each, of {owned / MIB:.2f} MiB: {', '.join(parts)}"
    yield ""
    yield f"| {' | '.join(_COLUMNS)} |"
    yield "| --- " * len(_COLUMNS) + "|"
    for size, each in zip(sizes, held):
        ratio = size.page_ins / each.counted if each.counted else float("inf")
        forecasts = f"{size.page_ins:,.0f} ({size.low:,.0f} to {size.high:,.0f})"
        dram = f"{each.dram / len(units) / MIB:.2f} ({each.resident / len(units) / MIB:.2f})"
        cells = (dram, f"{each.age:g}", f"{each.served:.3f}", forecasts, f"{each.counted:,.0f}")
        yield f"| {' | '.join(cells)} | {ratio:.2f} | {size.servers:.3f} |"
    page_in = sum(
        abs(size.page_ins / each.counted - 1) <= PAGE_IN_BAR for size, each in zip(sizes, held) if each.counted
    )
    servers = sum(abs(size.servers - 1) <= SERVERS_BAR for size in sizes)
    inside = sum(size.low <= each.counted <= size.high for size, each in zip(sizes, held))
    yield ""
    yield (
        f"Page-ins within {PAGE_IN_BAR:.0%} at {page_in} of {len(sizes)} sizes, servers within {SERVERS_BAR:.0%} at "
        f"{servers}; {inside} of the intervals hold what was counted."
    )


def cost() -> t.Iterator[str]:
    """Yield the lines about the cost of a look, and its error."""
    yield "### Cost and error"
    yield ""
    yield (
        f"{datetime.date.today()}, load average {os.getloadavg()[0]:.2f} at the start: processes with {COST_MIB} MiB "
        f"each, of which half is active. At most {PAGES_BY_DEFAULT} pages of each are watched for each age. The error "
        "is the widest half of an interval at 95 %."
    )
    yield ""
    yield f"| {' | '.join(_COST_COLUMNS)} |"
    yield "| --- " * len(_COST_COLUMNS) + "|"
    for count in COST_UNITS:
        with contextlib.ExitStack() as running:
            processes = []
            for _number in range(count):
                command = [sys.executable, str(MEMORY_LOAD), str(COST_MIB), "hot", "0.5"]
                processes.append(running.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE)))
                running.callback(processes[-1].kill)
            wait_until_ready(processes)
            units = [Unit(f"load-{number}", "process", (each.pid,)) for number, each in enumerate(processes)]
            for ages, percent in COST_LOOKS:
                look = Look(HostFiles(), units, ages, cpu_percent=percent).take(methods=(DAMON,))
                if look["reason"]:
                    raise RuntimeError(look["reason"])
                yield cost_row(count, ages, percent, look)


def latency() -> t.Iterator[str]:
    """Yield what a look at a loaded Redis changes for its clients."""
    yield "### Cost and latency"
    yield ""
    found: dict[tuple[str, bool], list[float]] = {(name, looks): [] for name in LATENCIES for looks in (False, True)}
    with one_redis.filled_redis() as redis:
        redis_unit = Unit("redis", "process", (redis.process.pid,))
        for number in range(PAIRS):
            for looks in (number % 2 == 0, number % 2 == 1):
                client = one_redis.launch(redis.port, PAIR_RATE, "--pacing=sleep")
                if looks:
                    look = Look(HostFiles(), [redis_unit], (1, 2), PAGES, cpu_percent=100).take(methods=(DAMON,))
                    if look["reason"]:
                        raise RuntimeError(look["reason"])
                measured = one_redis.result(client)["latency"]["intended"]
                for name in LATENCIES:
                    found[name, looks].append(measured[name])
    parts = []
    for name, words in LATENCIES.items():
        ratio = paired_ratio(found[name, True], found[name, False])
        if ratio is None or ratio.interval is None:
            raise RuntimeError("too few pairs")
        low, high = ratio.interval
        parts.append(f"{words} {ratio.value:.3f} times ({low:.3f} to {high:.3f})")
    yield (
        f"With a look at all pages of a Redis under {PAIR_RATE:,} requests/s, {PAIRS} pairs of runs of "
        f"{one_redis.SECONDS} s: {', '.join(parts)} what it was without, at 95 %."
    )


def cost_row(count: int, ages: t.Sequence[int], percent: float, look: dict[str, t.Any]) -> str:
    """Return the line of a look in the table of costs."""
    seen = [(unit["stretchable_bytes"], age) for unit in look["units"] for age in unit["ages"]]
    error = max((age["high_bytes"] - age["low_bytes"]) / 2 / size for size, age in seen)
    active = COST_MIB * MIB / 2
    # What else a load has, its interpreter, is active or not.
    off = max(
        max(active - age["active_bytes"], age["active_bytes"] - active - size + 2 * active) / size for size, age in seen
    )
    spent = look["cost"]
    cells = (
        str(count),
        ", ".join(map(str, ages)),
        f"{percent:g}",
        f"{100 * error:.1f}",
        f"{100 * max(0, off):.1f}",
        f"{spent['cpu_s']:.2f}",
        f"{spent['kernel_cpu_s']:.2f}",
        f"{100 * (spent['cpu_s'] + spent['kernel_cpu_s']) / spent['seconds']:.1f} of {spent['seconds']:.0f} s",
    )
    return f"| {' | '.join(cells)} |"


def merged(old: str, new: str) -> str:
    """Return the loads of a section with one of them replaced or added."""
    parts = re.split(r"(?m)^(?=### )", old)
    heading = new.splitlines()[0]
    loads = [each for each in parts if each.startswith("### ") and each.splitlines()[0] != heading]
    return "\n\n".join(each.strip() for each in sorted([*loads, new]))


def sections(options: argparse.Namespace, arguments: t.Sequence[str]) -> t.Iterator[str]:
    """Yield the sections of the page as they are measured, here or in an emulated machine."""
    if options.latency:
        yield "\n".join(latency())
    elif options.cost:
        yield "\n".join(emulated.run(__file__, arguments) if options.emulated else cost())
    elif options.emulated:
        for line in emulated.run(__file__, arguments if options.seen else [*arguments, "--seen"]):
            yield line if options.seen else "\n".join(lines(json.loads(line)))
    else:
        for name in options.loads:
            seen = measure(LOADS[name], options)
            yield json.dumps(seen) if options.seen else "\n".join(lines(seen))


def together(loads: str) -> str:
    """Return what the verdicts of all loads say together; an empty string without loads."""
    found = re.findall(
        r"^Page-ins within \d+% at (\d+) of (\d+) sizes, servers within \d+% at (\d+); (\d+) of the intervals",
        loads,
        re.MULTILINE,
    )
    if not found:
        return ""
    page_in, sizes, servers, inside = (sum(map(int, column)) for column in zip(*found))
    return (
        f"**In {len(found)} fleets at {sizes} sizes, the page-ins were forecast within {PAGE_IN_BAR:.0%} at {page_in} "
        f"sizes, and the number of servers within {SERVERS_BAR:.0%} at {servers}; {inside} of the {sizes} intervals "
        "hold what was counted.**"
    )


def write(section: str) -> None:
    """Write the section of a load in the page."""
    page = machine.HEADROOM.read_text(encoding="utf-8")
    old = page.partition("<!-- headroom -->")[2].partition("<!-- end of headroom -->")[0]
    loads = merged(old, section)
    machine.write_section(
        "headroom",
        "The forecast of headroom, and fleets that were held",
        f"`tests/bench/headroom.py`: Redis servers of {KEYS:,} values of 1,000 bytes are watched in "
        f"DRAM, then squeezed and held for {HELD} reuse ages; their page-ins count after {COUNTED_FROM} of "
        f"these. One run for each load and tier.\n\n{together(loads)}\n\n{loads}",
        machine.HEADROOM,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("loads", nargs="*", metavar="LOAD", help=", ".join(LOADS))
    parser.add_argument("--servers", type=int, default=SERVERS, help="(default: %(default)s)")
    parser.add_argument("--tier", choices=TIERS, default="zram")
    parser.add_argument("--cost", action="store_true", help="what a look costs, and its error")
    parser.add_argument("--latency", action="store_true", help="what a look changes for clients")
    parser.add_argument("--client", help="the program of the client; by default it is built")
    parser.add_argument("--emulated", action="store_true", help="in an emulated Debian 13")
    parser.add_argument("--seen", action="store_true", help="print what was seen as JSON, without forecasts")
    parser.add_argument("--write", action="store_true", help="write the figures to the page")
    options = parser.parse_args()
    if options.emulated and options.latency:
        parser.error("--latency --emulated: latencies of an emulated machine say nothing; leave --emulated out")
    unknown = [each for each in options.loads if each not in LOADS]
    if unknown or not (options.loads or options.cost or options.latency):
        parser.error(f"{unknown[0] if unknown else 'LOAD'}: name loads ({', '.join(LOADS)}), --cost or --latency")
    for section in sections(options, sys.argv[1:]):
        print(section, flush=True)
        if options.write:
            write(section)


if __name__ == "__main__":
    main()
