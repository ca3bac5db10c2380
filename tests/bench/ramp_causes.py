# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a ramp name what ended it? Truths are planted on real servers, again and again.

    python tests/bench/ramp_causes.py [--times N] [--only KIND] [--write]

- cpus: DRAM alone, and other work that takes more of the CPUs with each step.
- drive: swap on a drive that is throttled to 200 reads a second.
- zram: it ends by capacity, and so few requests leave the CPUs idle.
- dram: DRAM alone. It ends by capacity, and until then the fleet is as fast as its references.

Idle CPUs stay awake, and all ramps have the same rate: a server whose CPU sleeps answers later than one on a busy
machine. Prints how often each was named. Needs root, zram and the memory and blkio controllers of version 1. With
--write the figures go to docs/bench/short.md.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".ansible" / "collections"))

import charged_dram
import machine

from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_idle import kept_awake
from ansible_collections.memstretch.density.plugins.module_utils.ramp import session
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import checked
from ansible_collections.memstretch.density.plugins.plugin_utils.density.answer import answer
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp.record import Record, accepted

MIB = 2**20
PORT, SERVERS, REFERENCES = 26_500, 60, 6
# A Redis with 3,000 values of 1,000 bytes takes 7 MiB, so a dozen fit in DRAM.
BUDGET, READS_PER_SECOND, DRIVE = 96 * MIB, 200, 512 * MIB
LOAD = {
    "rate": 50,
    "value_size": 1000,
    "keys": 3000,
    "influence": 25,
    "read_mix": 100,
    "compressibility": 0.72,
    "arrivals": "jitter",
}
# Small steps only where an end is near: DRAM alone ends at about 15 servers, the throttled drive at 26, zram at 46.
SIZES = {"cpus": [*range(4, 15)], "drive": [*range(8, 40, 2)], "zram": [14, 20, 26, 32, 36, *range(40, SERVERS, 2)]}
# Steps before the first other work: later, it cannot be told from a disturbance.
QUIET_SIZES = 3
OBJECTIVE = {"kind": "relative", "factor": 2.0}
TRUTHS = {"dram": "capacity", "cpus": "cpus", "drive": "drive", "zram": "capacity"}
_BLKIO = pathlib.Path("/sys/fs/cgroup/blkio")
_END_S = 10.0


# Takes a share of a CPU in each millisecond. It runs before the servers and after their clients: the
# scheduler would hide an equal from processes that sleep most of the time.
HOG = """
import os, sys, time
share, cpu = float(sys.argv[1]), int(sys.argv[2])
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
while True:
    began = time.monotonic()
    while time.monotonic() < began + share / 1000:
        pass
    time.sleep((1 - share) / 1000)
"""
# It grows by little with each size: a jump would be a disturbance. The most that it takes lets the servers answer.
MORE, MOST = 0.05, 0.6


class Hogs:
    """Other work on each CPU, more of it after each size, once the ramp has a curve."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen] = []
        self._sizes: set[int] = set()

    def more(self, window: t.Mapping[str, t.Any]) -> None:
        if window["n"] not in self._sizes and len(self._sizes) >= QUIET_SIZES:
            self.end()
            share = min(MOST, MORE * (len(self._sizes) - QUIET_SIZES + 1))
            for cpu in os.sched_getaffinity(0):
                self._running.append(subprocess.Popen([sys.executable, "-c", HOG, str(share), str(cpu)]))
        self._sizes.add(window["n"])

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()
        self._running.clear()


@contextlib.contextmanager
def zram(size: int = 1024 * MIB):
    """Swap in a zram device that holds so many bytes."""
    number = pathlib.Path("/sys/class/zram-control/hot_add").read_text(encoding="ascii").strip()
    charged_dram.write(f"/sys/block/zram{number}/disksize", size)
    try:
        with swap(f"/dev/zram{number}"):
            yield f"/dev/zram{number}"
    finally:
        charged_dram.write(f"/sys/block/zram{number}/reset", 1)
        charged_dram.write("/sys/class/zram-control/hot_remove", number)


@contextlib.contextmanager
def swap(device: str, priority: int = 1000):
    """Use a device as swap."""
    subprocess.run(["mkswap", device], check=True, capture_output=True)
    subprocess.run(["swapon", "--priority", str(priority), device], check=True)
    try:
        yield
    finally:
        subprocess.run(["swapoff", device], check=True)


@contextlib.contextmanager
def throttled_drive(directory: str):
    """Swap on a drive that gives this process and its children a few reads a second."""
    file, group = (
        pathlib.Path(directory, "drive"),
        _BLKIO / f"memstretch-bench-{os.getpid()}",
    )
    with file.open("wb") as opened:
        os.posix_fallocate(opened.fileno(), 0, DRIVE)
    # Otherwise its reads come from the cache of the file, which is charged to the fleet.
    made = subprocess.run(
        ["losetup", "--direct-io=on", "--show", "-f", file], check=True, capture_output=True, text=True
    )
    device = made.stdout.strip()
    numbers = os.stat(device).st_rdev
    group.mkdir()
    try:
        with swap(device):
            limit = f"{os.major(numbers)}:{os.minor(numbers)} {READS_PER_SECOND}"
            charged_dram.write(str(group / "blkio.throttle.read_iops_device"), limit)
            charged_dram.write(str(group / "cgroup.procs"), os.getpid())
            try:
                yield device
            finally:
                # swapoff reads everything back.
                charged_dram.write(str(_BLKIO / "cgroup.procs"), os.getpid())
                charged_dram.write(
                    str(group / "blkio.throttle.read_iops_device"),
                    limit.rpartition(" ")[0] + " 0",
                )
    finally:
        subprocess.run(["losetup", "-d", device], check=True)
        file.unlink()
        group.rmdir()


def conduct(
    arm: str,
    number: int,
    client: str,
    tier: t.Sequence[str] = (),
    on_window: t.Callable[[t.Mapping[str, t.Any]], None] = lambda _window: None,
    **changes: t.Any,
) -> dict[str, t.Any]:
    """Conduct a ramp, and return its record."""
    ports = iter(range(PORT, PORT + SERVERS + REFERENCES))
    plan = {
        "servers": [{"name": f"redis{place}", "port": next(ports)} for place in range(1, SERVERS + 1)],
        "references": [{"name": f"reference{place}", "port": next(ports)} for place in range(1, REFERENCES + 1)],
        "budget_bytes": BUDGET,
        "load": LOAD,
        "growth": 0.1,
        "client": client,
        "tier": list(tier),
        "window_seconds": 3,
        "window_requests": 2000,
        "wait_seconds": 60,
        "objective": OBJECTIVE,
        "sizes": SIZES.get(arm, []),
        **changes,
    }
    job = session.launch(checked(plan))
    record, path, seen = Record(arm, number, plan), pathlib.Path(job["path"]), 0
    try:
        while record.document["end"] is None:
            os.utime(path / session.LEASE)
            time.sleep(0.2)
            whole = (path / "stream").read_bytes().split(b"\n")[:-1]
            for line in whole[seen:]:
                event, found = accepted(line.decode(), "bench")
                record.add(event, found)
                if event == "window":
                    on_window(found["window"])
            seen = len(whole)
    finally:
        # The conductor ends its servers, and itself once its directory is gone.
        with contextlib.suppress(ProcessLookupError):
            os.kill(job["pid"], signal.SIGTERM)
        deadline = time.monotonic() + _END_S
        while os.path.exists(f"/proc/{job['pid']}/cwd") and time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError):
                if b'"event":"end"' in (path / "stream").read_bytes():
                    shutil.rmtree(path, ignore_errors=True)
            time.sleep(0.05)
    return record.document


def once(number: int, client: str, directory: str, kinds: t.Container[str]) -> list[dict[str, t.Any]]:
    """Conduct a ramp of each kind; one in DRAM is always among them."""
    ramps = [conduct("dram", number, client)]
    limits = answer(definition(["dram"]), ramps)["plateau"]
    aim = {**OBJECTIVE, **({"plateau": limits} if limits else {})}
    if "cpus" in kinds:
        hogs = Hogs()
        try:
            ramps.append(conduct("cpus", number, client, on_window=hogs.more, objective=aim))
        finally:
            hogs.end()
    if "drive" in kinds:
        with throttled_drive(directory) as device:
            ramps.append(conduct("drive", number, client, [device], objective=aim))
    if "zram" in kinds:
        with zram() as device:
            ramps.append(conduct("zram", number, client, [device], objective=aim))
    return ramps


def definition(arms: t.Sequence[str]) -> dict[str, t.Any]:
    return {
        "arms": list(arms),
        "rounds": 1,
        "objective": OBJECTIVE,
        "scope": "fleet",
        "load": LOAD,
    }


def named(ramps: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, str]:
    """Return the named end of each arm; empty if there is no answer."""
    arms = [ramp["arm"] for ramp in ramps]
    found = answer(definition(arms), ramps)
    causes = {arm["name"]: arm.get("cause") or "nothing" for arm in found["arms"]}
    return {arm: causes.get(arm, "nothing") for arm in arms}


def ratio(windows: t.Iterable[t.Mapping[str, t.Any]]) -> list[float]:
    """Return fleet / references on average, of the clean windows."""
    ratios = []
    for window in windows:
        if not window["disturbed"]:
            sums = [[load["upper"] for load in window[name].values()] for name in ("hosts", "references")]
            averages = [sum(each["sum_ns"] for each in of) / sum(each["count"] for each in of) for of in sums]
            ratios.append(averages[0] / averages[1])
    return ratios


def table(rounds: t.Sequence[t.Sequence[t.Mapping[str, t.Any]]]) -> t.Iterator[str]:
    """Yield the lines of the page's table, and what follows from them."""
    counted = {ramp["arm"]: collections.Counter() for ramp in rounds[0]}
    for ramps in rounds:
        for arm, what in named(ramps).items():
            counted[arm][what] += 1
    yield "| planted | named | sizes at the end |"
    yield "| --- | --- | --- |"
    for place, arm in enumerate(counted):
        said = ", ".join(f"{what} {times}" for what, times in counted[arm].most_common())
        sizes = sorted(ramps[place]["end"]["n"] for ramps in rounds)
        yield f"| {arm}: {TRUTHS[arm]} | {said} | {', '.join(map(str, sizes))} |"
    logs = [math.log(each) for ramps in rounds for each in ratio(ramps[0]["windows"])]
    yield ""
    if len(logs) > 1:
        middle, error = (
            statistics.mean(logs),
            2 * statistics.stdev(logs) / math.sqrt(len(logs)),
        )
        low, high = math.exp(middle - error), math.exp(middle + error)
        yield (
            f"In DRAM the fleet takes {math.exp(middle):.3f} times as long as its references on average "
            f"({low:.3f} to {high:.3f}, {len(logs)} clean windows)."
        )


def measure(times: int, kinds: t.Container[str]) -> t.Iterator[list[list[dict[str, t.Any]]]]:
    """Yield all rounds so far after each of them."""
    before = pathlib.Path("/proc/sys/vm/page-cluster").read_text(encoding="ascii")
    charged_dram.write("/proc/sys/vm/page-cluster", 0)
    rounds = []
    try:
        # On a real file system: swap files and loop devices on tmpfs are memory.
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory, kept_awake():
            client = charged_dram.build(directory)
            os.chmod(directory, 0o755)
            for number in range(1, times + 1):
                rounds.append(once(number, client, directory, kinds))
                ends = {ramp["arm"]: [ramp["end"][name] for name in ("kind", "n", "message")] for ramp in rounds[-1]}
                print(
                    f"{number} of {times}: {json.dumps(ends)} {json.dumps(named(rounds[-1]))}",
                    flush=True,
                )
                yield rounds
    finally:
        charged_dram.write("/proc/sys/vm/page-cluster", before.strip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--only", choices=sorted(set(TRUTHS) - {"dram"}), help="one kind next to DRAM, not for --write")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.only and options.write:
        parser.error("--write: the page has all kinds; leave out --only")
    signal.signal(signal.SIGTERM, lambda *_arguments: sys.exit("ended by a signal"))
    load = os.getloadavg()[0]
    text = ""
    # A bench that is interrupted has written the rounds until then.
    for rounds in measure(options.times, {options.only} if options.only else TRUTHS):
        text = "\n".join(table(rounds))
        if options.write:
            machine.write_section(
                "ramp_causes",
                "What ended a ramp",
                f"`tests/bench/ramp_causes.py`, {datetime.date.today()}: real Redis servers of 7 MiB in "
                f"{BUDGET // MIB} MiB of charged DRAM, six references.\n\n{machine.describe(load)}{text}",
            )
    print(text)


if __name__ == "__main__":
    main()
