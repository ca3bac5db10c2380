# SPDX-License-Identifier: GPL-3.0-or-later
"""How far do the charged DRAM and the host's own free memory agree?

    python tests/bench/charged_dram.py [REPEATS]

Fills real Redis servers in a control group with zram beside it, again and again, and compares the change of the charged
DRAM with that of the host's memory in use. Prints one line for each repetition, as a table of Markdown. Needs root.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".ansible" / "collections"))

from ansible_collections.memstretch.density.plugins.module_utils.host.charged import ChargedDram  # noqa: E402

MIB = 2**20
LIMIT = 120 * MIB
PORT, SERVERS, KEYS = 26400, 2, 80_000


def write(path: str, value: object) -> None:
    pathlib.Path(path).write_text(str(value), encoding="ascii")


def build(directory: str) -> str:
    client = f"{directory}/solotest"
    sources = [ROOT / "files" / "solotest.c", *sorted((ROOT / "files" / "solotest").glob("*.c"))]
    subprocess.run(["cc", "-std=c11", "-O2", "-o", client, *sources, "-lhiredis", "-lm"], check=True)
    return client


def start(group: str, port: int) -> subprocess.Popen:
    script = f"echo 0 > {group}/cgroup.procs && exec redis-server --port {port} --save '' --dir /tmp"
    return subprocess.Popen(["sh", "-c", script], stdout=subprocess.DEVNULL)


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


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    number = pathlib.Path("/sys/class/zram-control/hot_add").read_text(encoding="ascii").strip()
    name = f"test-charged-{os.getpid()}"
    group = f"/sys/fs/cgroup/memory/{name}"
    os.mkdir(group)
    write(f"{group}/memory.limit_in_bytes", LIMIT)
    write(f"/sys/block/zram{number}/disksize", 1024 * MIB)
    subprocess.run(["mkswap", f"/dev/zram{number}"], check=True, capture_output=True)
    subprocess.run(["swapon", "--priority", "1000", f"/dev/zram{number}"], check=True)
    charged = ChargedDram({"mechanism": "cgroup", "group": name})
    differences = []
    try:
        with tempfile.TemporaryDirectory() as directory:
            client = build(directory)
            print("| charged, change MiB | host, change MiB | difference, % of charged |\n| --- | --- | --- |")
            for _repeat in range(repeats):
                change, host, total = measure(client, group, charged)
                differences.append(100 * (host - change) / total)
                print(f"| {change / MIB:.1f} | {host / MIB:.1f} | {differences[-1]:+.1f} |", flush=True)
    finally:
        subprocess.run(["swapoff", f"/dev/zram{number}"], check=True)
        write(f"/sys/block/zram{number}/reset", 1)
        write("/sys/class/zram-control/hot_remove", number)
        os.rmdir(group)
    within = sum(abs(each) <= 5 for each in differences)
    print(f"\nmedian {statistics.median(differences):+.1f} %, within 5 %: {within} of {len(differences)}")


if __name__ == "__main__":
    main()
