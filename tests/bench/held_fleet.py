# SPDX-License-Identifier: GPL-3.0-or-later
"""Redis servers in a control group with a load on them, and the tiers that it is squeezed into."""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
import re
import subprocess
import sys
import time
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".ansible" / "collections"))

import charged_dram
import ramp_causes

from ansible_collections.memstretch.density.plugins.module_utils.headroom.host import unit_memory
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.ramp.servers import Login, answers
from ansible_collections.memstretch.density.plugins.module_utils.redis.connection import Connection, fields

MIB = 2**20
PORT, KEYS = 26_700, 10_000
# How long a server may take to start.
STARTED_S = 120
MEMORY_LOAD = pathlib.Path(__file__).resolve().parents[1] / "local" / "memory_load.py"
# The memory of a process whose pages are touched at random: as much as the values of a server.
PLANTED_MIB = 10
# The share of the requests that go to the hot set.
TO_HOT = 0.9
# A page-in is one page, and anonymous memory is reclaimed like files.
SETTINGS = {"page-cluster": "0", "swappiness": "100"}
# With two tiers, the first one holds so much.
FIRST_TIER = 32 * MIB
TIERS = ("zram", "file", "both")


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
        words = [sys.executable, str(MEMORY_LOAD), str(PLANTED_MIB), "random", str(self._load.rate)]
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

    def resident(self) -> int:
        return sum(unit_memory(HostFiles(), unit)["resident"] for unit in self.units())

    def served(self) -> int:
        """Return how many requests the servers have had. A process without requests has its own pace, and none."""
        if self._load.planted:
            return 0
        return sum(redis_commands(PORT + number) for number in range(len(self._servers)))

    def units(self) -> list[Unit]:
        return [Unit(f"redis-{number}", "process", (each.pid,)) for number, each in enumerate(self._servers)]


class Pace:
    """The requests per second that a fleet gets."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._began, self._before = fleet, time.monotonic(), fleet.served()

    def read(self) -> float:
        return (self._fleet.served() - self._before) / (time.monotonic() - self._began)


def wait_until_up(port: int) -> None:
    """Wait until a Redis answers."""
    deadline = time.monotonic() + STARTED_S
    while not answers(Login(("127.0.0.1", port), ""), STARTED_S):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the Redis at port {port} did not answer within {STARTED_S} s")
        time.sleep(0.1)


def redis_commands(port: int) -> int:
    """Return how many commands a Redis has had."""
    with Connection(("127.0.0.1", port), 60) as connection:
        return int(fields(connection.require("INFO", "stats"))["total_commands_processed"])


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


def planted_active(load: Load, age: float) -> float:
    """Return the active memory of a process that touches its pages at random, without its interpreter."""
    pages = PLANTED_MIB * MIB / os.sysconf("SC_PAGE_SIZE")
    return PLANTED_MIB * MIB * -math.expm1(-load.rate * age / pages)
