# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the forecast of a fleet that is only watched hold once the fleet is squeezed?

    python tests/bench/headroom.py [--influence N] [--rate N] [--hot SHARE] [--busy SHARE] [--tier zram|file] [--write]
    python tests/bench/headroom.py --cost|--latency [--write]

Fills real Redis servers in a control group, loads them, and reads their active memory as headroom_info does, while
nothing is squeezed. Then it gives the same fleet less and less DRAM, holds each size for five reuse ages, and compares
the page-ins with the forecast. Equal servers in a DRAM of one half are what twice as many are in the whole, so each
size also says how far the forecast number of servers is from the one that was held. A load takes four minutes.
With --cost it looks at processes of which half of the memory is active, with and without a limit of the CPU time, and
shows that time next to the error. With --latency it loads a Redis in pairs of runs, with and without a look. Needs
root, zram and the memory controller of version 1. With --write the figures go to docs/bench/headroom.md, next to
those of other loads.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import pathlib
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
import machine
import one_redis
import ramp_causes

from ansible_collections.memstretch.density.plugins.module_utils.headroom.host import unit_memory
from ansible_collections.memstretch.density.plugins.module_utils.headroom.look import DAMON, Look
from ansible_collections.memstretch.density.plugins.module_utils.headroom.look import PAGES as PAGES_BY_DEFAULT
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, vmstat
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import model
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import paired_ratio

MIB = 2**20
PORT, SERVERS, KEYS = 26_700, 18, 10_000
AGES, PAGES = (1, 2, 4, 8, 16, 32), 20_000
# Each size is the one in which pages are evicted at this age; from the one that is squeezed least.
REUSE_AGES = (16, 8, 4)
# The share of the requests that go to the hot set.
TO_HOT = 0.9
# In units of the reuse age: a size is held so long, and its page-ins count from then on.
HELD, COUNTED_FROM, LEAST_HELD_S = 5, 2, 25
# What a forecast may be off by, relative to what was held: its page-ins, and its number of servers.
PAGE_IN_BAR, SERVERS_BAR = 0.15, 0.10
_COLUMNS = (
    "DRAM of a server, MiB (resident in the end)",
    "reuse age, s",
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
LOAD = pathlib.Path(__file__).resolve().parents[1] / "local" / "memory_load.py"
COST_UNITS, COST_MIB = (10, 50), 32
# Ages, and what a look may take of one CPU: the first look of headroom.yml, the same without a limit, and a longer one.
COST_LOOKS = (((1, 3, 10), 5), ((1, 3, 10), 100), ((1, 3, 10, 20), 5))
PAGE_CLUSTER = pathlib.Path("/proc/sys/vm/page-cluster")

Units = list[dict[str, t.Any]]


class Size(t.NamedTuple):
    """A fleet that was held.

    Attributes:
        age: the reuse age that was forecast.
        bytes_each: the DRAM of a server.
        resident: what was resident of a server in the end.
        forecast: page-ins per second; with C(low) and C(high), its interval at 95 %.
        held: the page-ins per second that were counted.
        servers: how many servers were forecast at these page-ins, as a multiple of those that were held.
    """

    age: float
    bytes_each: float
    resident: float
    forecast: float
    low: float
    high: float
    held: float
    servers: float


@contextlib.contextmanager
def swap_file(directory: str):
    """Swap in a file on the drive below a directory."""
    path = pathlib.Path(directory, "swap")
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 512 * MIB)
    path.chmod(0o600)
    with ramp_causes.swap(str(path)):
        yield


class Fleet:
    """Redis servers in a control group, with a load on some of them."""

    def __init__(self, directory: str, options: argparse.Namespace) -> None:
        self._client, self._options = charged_dram.build(directory), options
        self.group = f"/sys/fs/cgroup/memory/bench-headroom-{os.getpid()}"
        self._servers: list[subprocess.Popen] = []
        self._clients: list[subprocess.Popen] = []

    def __enter__(self) -> Fleet:
        os.mkdir(self.group)
        charged_dram.write(f"{self.group}/memory.swappiness", 100)
        try:
            self._servers = [charged_dram.start(self.group, PORT + number) for number in range(SERVERS)]
            time.sleep(2)
            for number in range(SERVERS):
                words = [str(PORT + number), "1000", str(KEYS), "--seed", str(number)]
                subprocess.run(
                    [self._client, "--compressibility=0.72", "fill", *words], check=True, capture_output=True
                )
            for number in range(round(SERVERS * self._options.busy)):
                for keys, rate in requests(self._options):
                    words = [str(PORT + number), "1000", str(keys), str(self._options.influence), f"{rate:g}", "100"]
                    command = [self._client, "test", *words, "--duration", "900", "--pacing", "sleep"]
                    self._clients.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: t.Any) -> None:
        for process in (*self._clients, *self._servers):
            process.kill()
            process.wait()
        os.rmdir(self.group)

    def check(self) -> None:
        """Refuse figures of a fleet that has lost a server or its load."""
        ended = [each.args for each in (*self._clients, *self._servers) if each.poll() is not None]
        if ended:
            raise RuntimeError(f"ended meanwhile: {ended}")

    def look(self) -> dict[str, t.Any]:
        return Look(HostFiles(), self._units(), AGES, PAGES, cpu_percent=100).take(methods=(DAMON,))

    def resident(self) -> int:
        return sum(unit_memory(HostFiles(), unit)["resident"] for unit in self._units())

    def _units(self) -> list[Unit]:
        return [Unit(f"redis-{number}", "process", (each.pid,)) for number, each in enumerate(self._servers)]

    def own(self) -> int:
        """Return what the group is charged besides the memory of its processes: the kernel's, and no page cache."""
        stat = dict(re.findall(r"^(\w+) (\d+)$", pathlib.Path(self.group, "memory.stat").read_text("ascii"), re.M))
        usage = int(pathlib.Path(self.group, "memory.usage_in_bytes").read_text("ascii"))
        return usage - int(stat["total_rss"]) - int(stat["total_cache"])

    def limit(self, value: int) -> None:
        """Set the DRAM of the fleet, in small steps, so that each is reclaimed before the next."""
        file = f"{self.group}/memory.limit_in_bytes"
        now = int(pathlib.Path(self.group, "memory.usage_in_bytes").read_text("ascii"))
        while now > value + MIB:
            now -= MIB
            charged_dram.write(file, now)
        charged_dram.write(file, value)


def requests(options: argparse.Namespace) -> list[tuple[int, float]]:
    """Return how many keys, from the first, get how many requests a second. A hot set gets some of its own."""
    if not options.hot:
        return [(KEYS, options.rate)]
    return [(round(KEYS * options.hot), options.rate * TO_HOT), (KEYS, options.rate * (1 - TO_HOT))]


def page_ins(seconds: float) -> float:
    """Return the page-ins of this machine per second."""
    files = HostFiles()
    before, began = vmstat(files)["pswpin"], time.monotonic()
    time.sleep(seconds)
    return (vmstat(files)["pswpin"] - before) / (time.monotonic() - began)


def forecast(units: Units, dram: float, source: random.Random | None = None) -> model.Forecast:
    """Return the forecast for a DRAM that the units alone use; what is evicted takes nothing of it."""
    site = model.Site(dram=dram, own=0.0, compression=0.0, room=None, page_in_us=1.0, waiting=1.0)
    return model.forecast(model.members(units, source), site)


def dram_at(units: Units, good: t.Callable[[model.Forecast], bool]) -> float:
    """Return the least DRAM whose forecast is good; more DRAM must not be worse."""
    low, high = 0.0, float(sum(unit["stretchable_bytes"] + unit["pinned_bytes"] for unit in units))
    for _step in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if good(forecast(units, middle)) else (middle, high)
    return high


def hold(fleet: Fleet, units: Units, own: int, age: float) -> Size:
    """Hold the fleet at the size in which the forecast has a reuse age."""
    dram = dram_at(units, lambda found: not found.thrashes and (found.age is None or found.age >= age))
    expected = forecast(units, dram).total
    source = random.Random(0)
    low, high = model.intervals(
        [forecast(units, dram, source).total * model.misjudged(source) for _draw in range(model.RESAMPLED)]
    )
    fleet.limit(round(dram) + own)
    seconds = max(LEAST_HELD_S, HELD * age)
    time.sleep(seconds * COUNTED_FROM / HELD)
    counted = page_ins(seconds * (1 - COUNTED_FROM / HELD))
    fleet.check()
    same = dram_at(units, lambda found: not found.thrashes and found.total <= counted)
    return Size(age, dram / len(units), fleet.resident() / len(units), expected, low, high, counted, dram / same)


def measure(options: argparse.Namespace) -> tuple[dict[str, t.Any], list[Size]]:
    """Return the look at the fleet, and the sizes that were held."""
    page_cluster = PAGE_CLUSTER.read_text("ascii")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        tier = ramp_causes.zram() if options.tier == "zram" else swap_file(directory)
        PAGE_CLUSTER.write_text("0", "ascii")
        try:
            with tier, Fleet(directory, options) as fleet:
                time.sleep(5)
                look = fleet.look()
                if look["reason"]:
                    raise RuntimeError(look["reason"])
                fleet.check()
                sizes = []
                for age in REUSE_AGES:
                    sizes.append(hold(fleet, look["units"], fleet.own(), age))
                    print(sizes[-1], flush=True)
        finally:
            PAGE_CLUSTER.write_text(page_cluster, "ascii")
    return look, sizes


def lines(options: argparse.Namespace, look: dict[str, t.Any], sizes: t.Sequence[Size], load: float) -> t.Iterator[str]:
    """Yield the lines of a load in the page."""
    busy = "" if options.busy == 1 else f", {options.busy:.0%} of the servers busy and the others idle"
    hot = f", {TO_HOT:.0%} of them to {options.hot:.0%} of the keys" if options.hot else ""
    cost = look["cost"]
    share = (cost["cpu_s"] + cost["kernel_cpu_s"]) / cost["seconds"]
    yield f"### Influence {options.influence}, {options.rate} requests/s{hot}, {options.tier}{busy}"
    yield ""
    yield (
        f"{datetime.date.today()}, load average {load:.2f} at the start. The look took {share:.1%} of one CPU for "
        f"{cost['seconds']:.0f} s: {cost['cpu_s']:.2f} s of its process, {cost['kernel_cpu_s']:.2f} s of DAMON."
    )
    yield ""
    parts = []
    for number in range(len(AGES)):
        seen = [unit["ages"][number] for unit in look["units"]]
        size, age = (statistics.fmean(each[name] for each in seen) for name in ("active_bytes", "watched_s"))
        parts.append(f"{size / MIB:.2f} MiB in {age:.1f} s")
    yield f"Active memory of a server: {', '.join(parts)}"
    yield ""
    yield f"| {' | '.join(_COLUMNS)} |"
    yield "| --- " * len(_COLUMNS) + "|"
    for size in sizes:
        ratio = size.forecast / size.held if size.held else float("inf")
        forecasts = f"{size.forecast:,.0f} ({size.low:,.0f} to {size.high:,.0f})"
        dram = f"{size.bytes_each / MIB:.2f} ({size.resident / MIB:.2f})"
        cells = (dram, f"{size.age:g}", forecasts, f"{size.held:,.0f}")
        yield f"| {' | '.join(cells)} | {ratio:.2f} | {size.servers:.3f} |"
    page_in = sum(abs(size.forecast / size.held - 1) <= PAGE_IN_BAR for size in sizes if size.held)
    servers = sum(abs(size.servers - 1) <= SERVERS_BAR for size in sizes)
    inside = sum(size.low <= size.held <= size.high for size in sizes)
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
                command = [sys.executable, str(LOAD), str(COST_MIB), "hot", "0.5"]
                processes.append(running.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE)))
                running.callback(processes[-1].kill)
            for process in processes:
                if not process.stdout or process.stdout.readline() != b"ready\n":
                    raise RuntimeError("a load did not start")
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


def merged(old: str, title: str, new: str) -> str:
    """Return the loads of a section with one of them replaced or added."""
    parts = re.split(r"(?m)^(?=### )", old)
    loads = [each for each in parts if each.startswith("### ") and each.splitlines()[0] != title]
    return "\n\n".join(each.strip() for each in sorted([*loads, new]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--influence", type=int, default=25)
    parser.add_argument("--rate", type=int, default=50)
    parser.add_argument(
        "--hot", type=float, default=0.0, help=f"the keys that get {TO_HOT:.0%}% of the requests, a share"
    )
    parser.add_argument("--busy", type=float, default=1.0, help="the share of the servers that have a load")
    parser.add_argument("--tier", choices=("zram", "file"), default="zram")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--latency", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    found = []
    for line in cost() if options.cost else latency() if options.latency else lines(options, *measure(options), load):
        print(line, flush=True)
        found.append(line)
    text = "\n".join(found)
    if options.write:
        page = machine.HEADROOM.read_text(encoding="utf-8")
        old = page.partition("<!-- headroom -->")[2].partition("<!-- end of headroom -->")[0]
        machine.write_section(
            "headroom",
            "The forecast of headroom, and fleets that were held",
            f"`tests/bench/headroom.py`: {SERVERS} Redis servers of {KEYS:,} values of 1,000 bytes are watched in "
            f"DRAM, then squeezed and held for {HELD} reuse ages; their page-ins count after {COUNTED_FROM} of "
            "these. One run for each load.\n\n" + merged(old, text.splitlines()[0], text),
            machine.HEADROOM,
        )


if __name__ == "__main__":
    main()
