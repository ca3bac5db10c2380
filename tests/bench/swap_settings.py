# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the kernel settings of the profiles swap and swap_2018 on one fleet that is filled once, in pairs of phases.

python tests/bench/swap_settings.py [--pairs N] [--servers N] [--seconds N] [--write]

Runs site.yml once, with profile swap and tests/bench/fleet_of_48, and changes the settings in which the two profiles
differ before each measured phase. The Redis servers, their pages in swap, and the swap file stay as they are, so a pair
of phases differs in these settings only. Needs root; restores the machine. With --write the figures go to
docs/bench/short.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time
import typing as t

import machine
import yaml
from one_redis import ROOT

from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import (
    PAIRS_FOR_AN_INTERVAL,
    paired_ratio,
)

PROFILES = ROOT / "roles" / "host_tuning" / "profiles"
ARMS = ("swap_2018", "swap")
INFLUENCE = 25
FIGURES = {
    "average us, every delay": lambda phase: phase["merged"]["intended"]["avg_us"],
    "p99 us, every delay": lambda phase: phase["merged"]["intended"]["p99_us"],
    "average us, server alone": lambda phase: phase["merged"]["server"]["avg_us"],
    "p99 us, server alone": lambda phase: phase["merged"]["server"]["p99_us"],
    "page-ins/s": lambda phase: rate(phase, "pswpin"),
    "page-outs/s": lambda phase: rate(phase, "pswpout"),
    "reads of the drive/s": lambda phase: rate(phase, "reads"),
    "us a read of the drive": lambda phase: 1000 * rate(phase, "read_ms") / (rate(phase, "reads") or math.inf),
}

Settings = dict[pathlib.Path, str]


def settings_of(arm: str) -> Settings:
    """Return the sysctl settings of a profile; those that only the other one has are as on this machine so far."""
    sysctls = {each: yaml.safe_load((PROFILES / f"{each}.yml").read_text(encoding="utf-8"))["sysctl"] for each in ARMS}
    found = {}
    for name in sorted({name for sysctl in sysctls.values() for name in sysctl}):
        path = pathlib.Path("/proc/sys", *name.split("."))
        own = sysctls[arm].get(name)
        found[path] = str(own["value"]) if own else path.read_text(encoding="ascii").strip()
    return found


def rate(phase: dict[str, t.Any], counter: str) -> float:
    """Return a counter of the machine as a rate in 1/s; one of a drive is the sum over the drives."""
    (pressure,) = phase["pressure"].values()
    counters = pressure["counters"]
    found = [
        value for name, value in counters.items() if name == counter or re.fullmatch(rf"disk\..*\.{counter}", name)
    ]
    return sum(found) / counters["clock_s"]


def order_of(pairs: int) -> list[str]:
    """Return the arms of all phases: each pair in the opposite order of the one before, so that drift cancels."""
    return [arm for number in range(pairs) for arm in (ARMS if number % 2 == 0 else reversed(ARMS))]


def start_run(options: argparse.Namespace, run_id: str) -> subprocess.Popen[bytes]:
    """Start the run whose phases are compared."""
    variables = {
        "profile": "swap",
        "run_id": run_id,
        "latency_benchmark_influences": [INFLUENCE],
        "latency_benchmark_compressibility": 0.75,
        "latency_benchmark_duration": options.seconds,
        "latency_benchmark_iterations": 2 * options.pairs,
        "latency_benchmark_read_mixes": [100],
        "latency_benchmark_slo_avg_us": 1000,
        "latency_benchmark_slo_p99_us": 10000,
        "latency_benchmark_stop_when_failed": False,
        "latency_benchmark_warmups": 2,
    }
    return subprocess.Popen(playbook("site", options.servers, "-e", json.dumps(variables)), cwd=ROOT)


def playbook(name: str, servers: int, *arguments: str) -> list[str]:
    """Return the command of a playbook on this machine."""
    program = pathlib.Path(sys.executable).with_name("ansible-playbook")
    limit = f"localhost:hypervisors:fleet[0:{servers - 1}]"
    return [str(program), "-i", "tests/bench/fleet_of_48", f"playbooks/{name}.yml", "--limit", limit, *arguments]


def measure(options: argparse.Namespace, arms: dict[str, Settings]) -> list[dict[str, t.Any]]:
    """Return the measured phases in order, each with its C(arm)."""
    run_id = f"swap-settings-{datetime.datetime.now():%Y%m%dT%H%M%S}"
    directory = ROOT / "results" / run_id / "phases"
    phases = []
    process = start_run(options, run_id)
    try:
        # The phase before the first measured one is the last warm-up.
        wait_for(directory, f"-i{INFLUENCE}-r100-warmup2.json", process)
        for number, arm in enumerate(order_of(options.pairs), 1):
            for setting, value in arms[arm].items():
                setting.write_text(value, encoding="ascii")
            changed_at = time.time()
            path = wait_for(directory, f"-i{INFLUENCE}-r100-{number}.json", process)
            phase = json.loads(path.read_text(encoding="utf-8"))
            if phase["started_at"] < changed_at:
                raise RuntimeError(f"phase {number} began before its settings were made")
            phases.append({**phase, "arm": arm})
            print(
                f"phase {number} of {2 * options.pairs}: {arm}, p99 {phase['merged']['intended']['p99_us']:,.0f} us",
                flush=True,
            )
        process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        for name in ("teardown", "restore"):
            subprocess.run(playbook(name, options.servers), cwd=ROOT, check=True)
    return phases


def wait_for(directory: pathlib.Path, name: str, process: subprocess.Popen[bytes]) -> pathlib.Path:
    """Return the file of a phase once it is there; it is written whole. Raises RuntimeError if the run has ended."""
    while True:
        ended = process.poll() is not None
        for path in directory.glob(f"*{name}"):
            return path
        if ended:
            raise RuntimeError(f"the run ended with {process.returncode} before {name} was there")
        time.sleep(0.1)


def table(phases: t.Sequence[dict[str, t.Any]]) -> t.Iterator[str]:
    """Yield the lines of the page's table."""
    yield f"| figure | {ARMS[0]} | {ARMS[1]} | {ARMS[1]} / {ARMS[0]} |"
    yield "| --- | --- | --- | --- |"
    for name, figure in FIGURES.items():
        both = [[figure(phase) for phase in phases if phase["arm"] == arm] for arm in ARMS]
        if min(map(min, both)) <= 0:  # a fleet that fits into DRAM does not swap
            yield f"| {name} | - | - | - |"
            continue
        ratio = paired_ratio(both[1], both[0])
        low, high = ratio.interval
        means = " | ".join(f"{statistics.geometric_mean(each):,.0f}" for each in both)
        yield f"| {name} | {means} | {ratio.value:.3f} ({low:.3f} to {high:.3f}) |"


def section(options: argparse.Namespace, arms: dict[str, Settings], load: float, lines: t.Sequence[str]) -> str:
    """Return the section of the figures."""
    different = "\n".join(
        f"| `{'.'.join(path.parts[3:])}` | {arms['swap_2018'][path]} | {value} |"
        for path, value in arms["swap"].items()
    )
    return (
        f"`tests/bench/swap_settings.py`, {datetime.date.today()}: {options.servers} Redis servers of "
        f"tests/bench/fleet_of_48 in 680 MiB of DRAM and a swap file, values 3:1, influence {INFLUENCE}, "
        f"{options.pairs} "
        f"pairs of phases of {options.seconds} s. The fleet is filled once. The settings are changed between the "
        "phases, in pairs of alternating order. Figures are geometric means over the phases, of all requests of the "
        f"fleet; the ratio is that of the pairs, with its 95 % interval.\n\n{machine.describe(load)}"
        f"| setting | `swap_2018` | `swap` |\n| --- | --- | --- |\n{different}\n\n"
        "Only `vm.page-cluster` acts on this fleet: a control group keeps the swappiness that it was created with, and "
        "the host itself, whose watermarks the others are, had memory left.\n\n" + "\n".join(lines)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=14)
    parser.add_argument("--servers", type=int, default=48)
    parser.add_argument("--seconds", type=int, default=45)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.pairs < PAIRS_FOR_AN_INTERVAL:
        parser.error(f"--pairs {options.pairs}: an interval needs {PAIRS_FOR_AN_INTERVAL} or more")
    load, arms = os.getloadavg()[0], {arm: settings_of(arm) for arm in ARMS}
    lines = list(table(measure(options, arms)))
    print("\n".join(lines))
    if options.write:
        machine.write_section(
            "swap_settings",
            "The kernel settings of `swap` and of `swap_2018`, in pairs",
            section(options, arms, load, lines),
        )


if __name__ == "__main__":
    main()
