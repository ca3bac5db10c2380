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
import math
import os
import pathlib
import platform
import random
import re
import socket
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
# How long a server may take to start.
STARTED_S = 120
# The memory of a process whose pages are touched at random: as much as the values of a server.
PLANTED_MIB = 10
AGES, PAGES = (2, 4, 8, 16, 32), 20_000
# Each size is the one in which pages are evicted at this age; from the one that is squeezed least.
REUSE_AGES = (16, 10, 6, 4)
# The share of the requests that go to the hot set.
TO_HOT = 0.9
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
LOAD = pathlib.Path(__file__).resolve().parents[1] / "local" / "memory_load.py"
COST_UNITS, COST_MIB = (10, 50), 32
# Ages, and what a look may take of one CPU: the first look of headroom.yml, the same without a limit, and a longer one.
COST_LOOKS = (((1, 3, 10), 5), ((1, 3, 10), 100), ((1, 3, 10, 20), 5))
# A page-in is one page, and anonymous memory is reclaimed like files.
SETTINGS = {"page-cluster": "0", "swappiness": "100"}
# With two tiers, the first one holds so much.
FIRST_TIER = 32 * MIB
TIERS = ("zram", "file", "both")

Units = list[dict[str, t.Any]]


class Load(t.NamedTuple):
    """What the servers of a fleet are asked.

    Attributes:
        influence: how much more often the middle keys are asked for; at 0 all are alike.
        rate: requests per second of each server.
        hot: the keys that get TO_HOT of the requests, a share of all; 0 if there are no such keys.
        busy: the share of the servers that have a load.
        planted: whether the servers are processes that touch C(rate) pages a second at random instead.
    """

    influence: int = 25
    rate: int = 50
    hot: float = 0.0
    busy: float = 1.0
    planted: bool = False


LOADS = {
    "influence-25": Load(),
    "influence-0": Load(influence=0),
    "half-idle": Load(busy=0.5),
    "hot-set": Load(influence=0, hot=0.1),
    "slow": Load(rate=20),
    "influence-10": Load(influence=10),
    "planted": Load(planted=True),
}


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


@contextlib.contextmanager
def swap_file(directory: str, priority: int) -> t.Iterator[None]:
    """Swap in a file on the drive below a directory."""
    path = pathlib.Path(directory, "swap")
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 512 * MIB)
    path.chmod(0o600)
    with ramp_causes.swap(str(path), priority):
        yield


@contextlib.contextmanager
def tiers(kind: str, directory: str) -> t.Iterator[None]:
    """Give this machine the tiers of one of TIERS."""
    with contextlib.ExitStack() as used:
        if kind != "file":
            used.enter_context(ramp_causes.zram(1024 * MIB if kind == "zram" else FIRST_TIER))
        if kind != "zram":
            used.enter_context(swap_file(directory, 999))
        yield


@contextlib.contextmanager
def settings() -> t.Iterator[None]:
    """Change settings of the kernel, and change them back."""
    files = {pathlib.Path("/proc/sys/vm", name): value for name, value in SETTINGS.items()}
    before = {file: file.read_text("ascii") for file in files}
    try:
        for file, value in files.items():
            file.write_text(value, "ascii")
        yield
    finally:
        for file, value in before.items():
            file.write_text(value, "ascii")


class Group:
    """A control group with a limit of DRAM, of version 1 or 2."""

    def __init__(self) -> None:
        first = pathlib.Path("/sys/fs/cgroup/memory")
        self._version = 1 if first.is_dir() else 2
        self.path = (first if self._version == 1 else first.parent) / f"bench-headroom-{os.getpid()}"
        self._limit = self.path / ("memory.limit_in_bytes" if self._version == 1 else "memory.max")
        self._usage = self.path / ("memory.usage_in_bytes" if self._version == 1 else "memory.current")

    def make(self) -> None:
        self.path.mkdir()
        if self._version == 1:
            charged_dram.write(f"{self.path}/memory.swappiness", SETTINGS["swappiness"])

    def own(self) -> int:
        """Return what is charged besides the memory of its processes: the kernel's, and no page cache."""
        stat = dict(re.findall(r"^(\w+) (\d+)$", (self.path / "memory.stat").read_text("ascii"), re.M))
        names = ("total_rss", "total_cache") if self._version == 1 else ("anon", "file")
        return int(self._usage.read_text("ascii")) - sum(int(stat[name]) for name in names)

    def limit(self, value: int) -> None:
        """Set the limit in small steps, so that each is reclaimed before the next."""
        now = int(self._usage.read_text("ascii"))
        while now > value + MIB:
            now -= MIB
            charged_dram.write(str(self._limit), now)
        charged_dram.write(str(self._limit), value)


class Fleet:
    """Redis servers in a control group with a load on some of them, or processes with a known one."""

    def __init__(self, load: Load, count: int, client: str) -> None:
        self._load, self._count, self._client, self.group = load, count, client, Group()
        self._servers: list[subprocess.Popen] = []
        self._clients: list[subprocess.Popen] = []

    def __enter__(self) -> Fleet:
        self.group.make()
        try:
            if self._load.planted:
                self._plant()
            else:
                self._serve()
            # The kernel's part of the group, before anything of it is on its way to a tier.
            self.own = self.group.own()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _plant(self) -> None:
        words = [sys.executable, str(LOAD), str(PLANTED_MIB), "random", str(self._load.rate)]
        for _number in range(self._count):
            self._servers.append(charged_dram.start_in(str(self.group.path), words, stdout=subprocess.PIPE))
        wait_until_ready(self._servers)

    def _serve(self) -> None:
        ports = [PORT + number for number in range(self._count)]
        self._servers = [charged_dram.start(str(self.group.path), port) for port in ports]
        for number, port in enumerate(ports):
            wait_until_up(port)
            words = [str(port), "1000", str(KEYS), "--seed", str(number)]
            command = [self._client, "--compressibility=0.72", "fill", *words]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for port in ports[: round(len(ports) * self._load.busy)]:
            for keys, rate in requests(self._load):
                words = [str(port), "1000", str(keys), str(self._load.influence), f"{rate:g}", "100"]
                command = [self._client, "test", *words, "--duration", "1800", "--pacing", "sleep"]
                self._clients.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))

    def __exit__(self, *_error: t.Any) -> None:
        for process in (*self._clients, *self._servers):
            process.kill()
            process.wait()
        self.group.path.rmdir()

    def check(self) -> None:
        """Refuse figures of a fleet that has lost a server or its load."""
        ended = [each.args for each in (*self._clients, *self._servers) if each.poll() is not None]
        if ended:
            raise RuntimeError(f"ended meanwhile: {ended}")

    def look(self) -> dict[str, t.Any]:
        return Look(HostFiles(), self._units(), AGES, PAGES, cpu_percent=100).take(methods=(DAMON,))

    def resident(self) -> int:
        return sum(unit_memory(HostFiles(), unit)["resident"] for unit in self._units())

    def served(self) -> int:
        """Return how many requests the servers have had. A process without requests has its own pace, and none."""
        if self._load.planted:
            return 0
        return sum(redis_commands(PORT + number) for number in range(len(self._servers)))

    def _units(self) -> list[Unit]:
        return [Unit(f"redis-{number}", "process", (each.pid,)) for number, each in enumerate(self._servers)]


class Pace:
    """The requests per second that a fleet gets."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._began, self._before = fleet, time.monotonic(), fleet.served()

    def read(self) -> float:
        return (self._fleet.served() - self._before) / (time.monotonic() - self._began)


def wait_until_up(port: int) -> None:
    """Wait until a Redis accepts connections."""
    deadline = time.monotonic() + STARTED_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=STARTED_S).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def redis_commands(port: int) -> int:
    """Return how many commands a Redis has had."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection, connection.makefile("rwb") as stream:
        stream.write(b"INFO stats\r\n")
        stream.flush()
        text = stream.read(int(stream.readline()[1:]))
    return int(re.search(rb"^total_commands_processed:(\d+)", text, re.M)[1])  # type: ignore[index]


def wait_until_ready(processes: t.Iterable[subprocess.Popen]) -> None:
    """Wait until each of the loads with known active memory touches it."""
    for process in processes:
        if not process.stdout or process.stdout.readline() != b"ready\n":
            raise RuntimeError("a load did not start")


def requests(load: Load) -> list[tuple[int, float]]:
    """Return how many keys, from the first, get how many requests a second. A hot set gets some of its own."""
    if not load.hot:
        return [(KEYS, load.rate)]
    return [(round(KEYS * load.hot), load.rate * TO_HOT), (KEYS, load.rate * (1 - TO_HOT))]


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
        look = fleet.look()
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


def planted_active(load: Load, age: float) -> float:
    """Return the active memory of a process that touches its pages at random, without its interpreter."""
    pages = PLANTED_MIB * MIB / model.PAGE
    return PLANTED_MIB * MIB * -math.expm1(-load.rate * age / pages)


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
                command = [sys.executable, str(LOAD), str(COST_MIB), "hot", "0.5"]
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


def write(section: str) -> None:
    """Write the section of a load in the page."""
    page = machine.HEADROOM.read_text(encoding="utf-8")
    old = page.partition("<!-- headroom -->")[2].partition("<!-- end of headroom -->")[0]
    machine.write_section(
        "headroom",
        "The forecast of headroom, and fleets that were held",
        f"`tests/bench/headroom.py`: Redis servers of {KEYS:,} values of 1,000 bytes are watched in "
        f"DRAM, then squeezed and held for {HELD} reuse ages; their page-ins count after {COUNTED_FROM} of "
        "these. One run for each load.\n\n" + merged(old, section),
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
