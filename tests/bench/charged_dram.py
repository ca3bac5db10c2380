# SPDX-License-Identifier: GPL-3.0-or-later
"""How far do the charged DRAM and the host's own free memory agree?

    python tests/bench/charged_dram.py [--repeats N] [--write]

Fills real Redis servers in a control group and with zram, again and again, and compares the change of the charged
DRAM with that of the host's memory in use. Prints one line for each repetition, as a table of Markdown. Needs root.
With --write the figures go to docs/bench/short.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".ansible" / "collections"))

import machine

from ansible_collections.memstretch.density.plugins.module_utils.host.charged import ChargedDram

ROOT = pathlib.Path(__file__).resolve().parents[2]

MIB = 2**20
LIMIT = 120 * MIB
PORT, SERVERS, KEYS = 26400, 2, 80_000


def write(path: str, value: object) -> None:
    pathlib.Path(path).write_text(str(value), encoding="ascii")


def build(directory: str, hiredis: str = "-lhiredis") -> str:
    """Build the client and return its path.

    Args:
        hiredis: the argument of the compiler for this library.
    """
    client = f"{directory}/solotest"
    sources = [ROOT / "files" / "solotest.c", *sorted((ROOT / "files" / "solotest").glob("*.c"))]
    subprocess.run(["cc", "-std=c11", "-O2", "-o", client, *sources, hiredis, "-lm"], check=True)
    return client


def start_in(group: str, words: list[str], stdout: int = subprocess.DEVNULL) -> subprocess.Popen:
    """Start a program in a control group."""
    script = 'echo 0 > "$0"/cgroup.procs && exec "$@"'
    return subprocess.Popen(["sh", "-c", script, group, *words], stdout=stdout)


def start(group: str, port: int) -> subprocess.Popen:
    return start_in(group, ["redis-server", "--port", str(port), "--save", "", "--dir", "/tmp"])


def measure(client: str, group: str, charged: ChargedDram) -> tuple[int, int, int]:
    """Return by how much charged DRAM and host changed in one fill, and what the charged DRAM was then."""
    servers = [start(group, PORT + number) for number in range(SERVERS)]
    time.sleep(1)
    before, host_before = charged.read()["charged_bytes"], charged.host_in_use()
    for number in range(SERVERS):
        arguments = ["--compressibility=0.75", "fill", str(PORT + number), "1000", str(KEYS), "0", "1", "100"]
        subprocess.run([client, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    after, host_after = charged.read()["charged_bytes"], charged.host_in_use()
    for server in servers:
        server.kill()
        server.wait()
    time.sleep(1)
    assert None not in (before, host_before, after, host_after)
    return after - before, host_after - host_before, after


def repeat(repeats: int) -> list[tuple[int, int, int]]:
    """Measure C(repeats) times, in a control group and with a zram device that exist for this only."""
    number = pathlib.Path("/sys/class/zram-control/hot_add").read_text(encoding="ascii").strip()
    name = f"test-charged-{os.getpid()}"
    group = f"/sys/fs/cgroup/memory/{name}"
    os.mkdir(group)
    write(f"{group}/memory.limit_in_bytes", LIMIT)
    write(f"/sys/block/zram{number}/disksize", 1024 * MIB)
    subprocess.run(["mkswap", f"/dev/zram{number}"], check=True, capture_output=True)
    subprocess.run(["swapon", "--priority", "1000", f"/dev/zram{number}"], check=True)
    charged = ChargedDram({"mechanism": "cgroup", "group": name})
    measured = []
    try:
        with tempfile.TemporaryDirectory() as directory:
            client = build(directory)
            for done in range(repeats):
                measured.append(measure(client, group, charged))
                print(f"repeat {done + 1} of {repeats}", flush=True)
    finally:
        subprocess.run(["swapoff", f"/dev/zram{number}"], check=True)
        write(f"/sys/block/zram{number}/reset", 1)
        write("/sys/class/zram-control/hot_remove", number)
        os.rmdir(group)
    return measured


def table(measured: list[tuple[int, int, int]]):
    """Yield the lines of the page's table, and what follows from them."""
    yield "| charged DRAM, change in MiB | host, change in MiB | difference, % of the charged DRAM |"
    yield "| --- | --- | --- |"
    differences = [100 * (host - change) / total for change, host, total in measured]
    for (change, host, _total), difference in zip(measured, differences):
        yield f"| {change / MIB:.1f} | {host / MIB:.1f} | {difference:+.1f} |"
    within = sum(abs(each) <= 5 for each in differences)
    yield ""
    yield f"The median is {statistics.median(differences):+.1f} %; {within} of {len(differences)} are within 5 %."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    text = "\n".join(table(repeat(options.repeats)))
    print(text)
    if options.write:
        machine.write_section(
            "charged_dram",
            "Charged DRAM and the host's own memory in use",
            "`tests/bench/charged_dram.py`, "
            f"{datetime.date.today()}: {SERVERS} Redis with {KEYS:,} values of 1,000 bytes each (compressibility 0.75) "
            f"in a control group of {LIMIT / MIB:.0f} MiB with zram.\n\n{machine.describe(load)}{text}",
        )


if __name__ == "__main__":
    main()
