# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure what a probe of a density search takes beyond its load, with an inventory of 32 static hosts on this machine.

The hosts have an interpreter that counts its starts, so the modules that a probe starts are known too. They do not
depend on how busy the machine is.

python tests/bench/density_probe.py [--write]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import typing as t

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "bench" / "fleet.md"
BEGIN, END = "<!-- density_probe.py -->\n", "<!-- end of density_probe.py -->\n"

HOSTS = 32
FIRST_PORT = 21000
# The searches, and the most seconds that a probe of each may take beyond its load.
SEARCHES: dict[str, dict[str, t.Any]] = {
    "8 of 32": {"profiles": "dram", "density_start": 8, "density_max": 8, "density_probes": 3},
    "32 of 32": {"profiles": "dram", "density_start": 32, "density_max": 32, "density_probes": 2},
    "two profiles in turn": {"profiles": "dram,swap", "density_start": 8, "density_max": 8, "density_probes": 2},
}
BARS = {8: 15, 32: 30}
LOAD = {
    "latency_benchmark_key_count": 1000,
    "latency_benchmark_rate": 100,
    "latency_benchmark_duration": 5,
    "latency_benchmark_influences": [0],
    "latency_benchmark_read_mixes": [100],
    "latency_benchmark_warmups": 0,
    # The machine may be too busy for a verdict; each probe is to pass.
    "latency_benchmark_min_overlap": 0,
    "latency_benchmark_slo_avg_us": 1e8,
    "latency_benchmark_slo_p99_us": 1e8,
}
PROBE_LINE = re.compile(r"^== (\S+): probe (\d+) of .* a fleet of (\d+) ")


class Mark(t.NamedTuple):
    """When a probe begins, of how many hosts, and what was used until then; the last one is when the search ends."""

    size: int
    at: float
    cpu: float
    starts: int


class Probe(t.NamedTuple):
    """What came of a probe: its size, its length, the part of it that was load, the seconds of CPU time that its
    playbook and modules used, and the module starts."""

    size: int
    seconds: float
    load: float
    cpu: float
    starts: int


def cpu_of_children(pid: int) -> float:
    """Return the seconds of CPU time that the children of a process used, with their own children that have ended."""
    ticks = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[1]) == pid:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def write_inventory(directory: pathlib.Path) -> pathlib.Path:
    """Write an inventory whose hosts count the starts of their interpreter."""
    counting = directory / "counting-python"
    counting.write_text(f'#!/bin/sh\necho >>{directory}/starts\nexec {sys.executable} "$@"\n', encoding="utf-8")
    counting.chmod(0o755)
    hosts = {}
    for number in range(HOSTS):
        port = FIRST_PORT + number
        hosts[f"redis{number + 1:02}"] = {"redis_port": port, "latency_benchmark_port": port}
    variables = {
        **LOAD,
        "ansible_connection": "local",
        "ansible_python_interpreter": str(counting),
        "redis_supervisor": "daemon",
        "redis_directory": str(directory / "state"),
        "redis_daemon_user": "root",  # others cannot enter the directory
    }
    path = directory / "hosts.yml"
    path.write_text(yaml.safe_dump({"all": {"children": {"fleet": {"hosts": hosts, "vars": variables}}}}))
    return path


def search(directory: pathlib.Path, variables: t.Mapping[str, t.Any]) -> list[Probe]:
    """Run a density search and return its probes."""
    counted, results = directory / "starts", directory / "results"
    command = [
        pathlib.Path(sys.executable).with_name("ansible-playbook"),
        "-i",
        write_inventory(directory),
        ROOT / "playbooks" / "density.yml",
        "-e",
        json.dumps({**variables, "results_dir": str(results)}),
    ]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    probes: list[Probe] = []
    begin: Mark | None = None
    output = []
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in t.cast("t.IO[str]", process.stdout):
            output.append(line)
            begins, ends = PROBE_LINE.match(line), line.startswith("== Restoring")
            if not (begins or (ends and begin)):
                continue
            seen = counted.stat().st_size if counted.exists() else 0  # a line each
            now = Mark(int(begins[3]) if begins else 0, time.monotonic(), cpu_of_children(process.pid), seen)
            if begin:
                run = max(results.glob("*-n[0-9]*"), key=lambda path: path.stat().st_mtime)
                probes.append(between(begin, now, run))
                print(f"  {describe(probes[-1])}", flush=True)
            begin = now if begins else None
    if process.returncode:
        sys.exit("".join(output))
    return probes


def between(begin: Mark, end: Mark, run: pathlib.Path) -> Probe:
    """Return the probe between two marks, which measured this run."""
    phases = [json.loads(path.read_text(encoding="utf-8")) for path in (run / "phases").iterdir()]
    load = sum(phase["finished_at"] - phase["started_at"] for phase in phases)
    return Probe(begin.size, end.at - begin.at, load, end.cpu - begin.cpu, end.starts - begin.starts)


def describe(probe: Probe) -> str:
    return (
        f"{probe.size} hosts: {probe.seconds - probe.load:.1f} s beyond {probe.load:.1f} s of load; "
        f"{probe.cpu:.1f} s of CPU time; {probe.starts} module starts"
    )


def row(name: str, number: int, probe: Probe) -> str:
    beyond = probe.seconds - probe.load
    limit = next(seconds for size, seconds in BARS.items() if probe.size <= size)
    cells = [
        f"{name}, probe {number}",
        str(probe.size),
        f"{beyond:.1f}",
        f"{probe.cpu:.1f}",
        str(probe.starts),
        f"<= {limit} s: {'met' if beyond <= limit else 'missed'}",
    ]
    return f"| {' | '.join(cells)} |"


def write(rows: t.Sequence[str], busy: str) -> None:
    """Replace the table of an earlier bench on the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _begin, rest = text.partition(BEGIN)
    after = rest.partition(END)[2] if rest else ""
    table = "\n".join(
        [
            "## A probe of a density search",
            "",
            f"`tests/bench/density_probe.py`, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} CPUs, load average {busy}.",
            f"{HOSTS} static hosts, all on this machine. A probe fills its hosts and loads them for 5 s.",
            "",
            "| search | hosts | seconds beyond the load | seconds of CPU time | module starts | bar |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
        ]
    )
    PAGE.write_text(f"{before.rstrip()}\n\n{BEGIN}{table}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into docs/bench/fleet.md")
    parser.add_argument("--only", choices=SEARCHES, help="run one of the searches")
    parser.add_argument("--probes", type=int, help="the most probes under each profile")
    options = parser.parse_args()
    busy = f"{os.getloadavg()[0]:.1f}"
    rows = []
    for name in [options.only] if options.only else SEARCHES:
        print(name, flush=True)
        variables = SEARCHES[name] | ({"density_probes": options.probes} if options.probes else {})
        with tempfile.TemporaryDirectory() as directory:
            probes = search(pathlib.Path(directory), variables)
        rows += [row(name, number, probe) for number, probe in enumerate(probes, 1)]
        print("\n".join(rows[-len(probes) :]), flush=True)
    if options.write:
        write(rows, f"{busy} before and {os.getloadavg()[0]:.1f} after it")


if __name__ == "__main__":
    main()
