# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the plan with a measurement, on tiers whose latency is known: eight Redis servers under a DRAM budget.

The known tiers are drives of slow_tier/slow_tier.c, in which every read of a page takes a time that this program
chooses. zram and a swap file on this machine's disk are measured as well. The plan gets the latency of each tier from
the host's own page-ins (-e measure_tier=true), and the time of a request in DRAM from a run under dram.

python tests/bench/plan_tiers.py [--write]    # needs root, a C compiler and libfuse3-dev; a quarter of an hour
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import typing as t

import machine

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "bench" / "plan_tiers.md"
INVENTORY = ROOT / "inventories" / "stretched" / "hosts.yml"
BY_ID = pathlib.Path("/dev/disk/by-id")
SERVERS = 8
MEBIBYTES = 1100  # of a slow drive; the role swap_space asks for 1 GiB
EVERY = 50  # of the reads of a slow drive takes TAIL times as long as the others
TAIL = 4
# How far a forecast may be from the measurement.
BAR = 0.15

_Figures = t.Mapping[str, t.Any]


class Tier(t.NamedTuple):
    """A tier: its name, the profile that uses it, and how long most reads of its drive take, if that is known."""

    name: str
    profile: str
    read_us: int | None = None


TIERS = (
    Tier("zram", "zram"),
    Tier("drive, 100 us", "swap", 100),
    Tier("drive, 200 us", "swap", 200),
    Tier("drive, 400 us", "swap", 400),
    Tier("file", "swap"),
)


def build(directory: pathlib.Path) -> pathlib.Path:
    """Compile the drive."""
    program = directory / "slow_tier"
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=True)
    source = ROOT / "tests" / "bench" / "slow_tier" / "slow_tier.c"
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", source, *flags.stdout.split(), "-o", program]
    subprocess.run(command, check=True)
    return program


@contextlib.contextmanager
def slow_drive(program: pathlib.Path, directory: pathlib.Path, read_us: int) -> t.Iterator[str]:
    """Make a drive whose reads take so long, and yield its path below /dev/disk/by-id."""
    mount = directory / "mount"
    mount.mkdir(exist_ok=True)
    link = BY_ID / f"test-slow-tier-{os.getpid()}"
    with contextlib.ExitStack() as undo:
        arguments = [program, mount, MEBIBYTES, read_us, TAIL * read_us, EVERY]
        daemon = subprocess.Popen([str(each) for each in arguments])
        undo.callback(daemon.wait)
        undo.callback(subprocess.run, ["umount", mount], check=True)
        deadline = time.monotonic() + 30
        while not (mount / "tier").exists():
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the slow drive does not start")
            time.sleep(0.1)
        command = ["losetup", "--find", "--show", "--direct-io=on", mount / "tier"]
        device = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        undo.callback(subprocess.run, ["losetup", "--detach", device], check=True)
        missing = [path for path in (BY_ID, BY_ID.parent) if not path.exists()]
        BY_ID.mkdir(parents=True, exist_ok=True)
        for path in reversed(missing):
            undo.callback(path.rmdir)
        link.symlink_to(device)
        undo.callback(link.unlink)
        yield str(link)


class Playbooks:
    """Runs the playbooks of this collection on the inventory of `make stretched`.

    Args:
        results: the directory of the results.
    """

    def __init__(self, results: pathlib.Path) -> None:
        self.results = results

    def run(self, name: str, variables: _Figures) -> None:
        """Run a playbook to its end; RuntimeError with its output if it fails."""
        command = [
            *(pathlib.Path(sys.executable).with_name("ansible-playbook"), "-i", INVENTORY),
            *(ROOT / "playbooks" / f"{name}.yml", "-e"),
            json.dumps({**variables, "results_dir": str(self.results)}),
        ]
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name}.yml fails:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")

    def measure(self, run_id: str, variables: _Figures, planned: bool = True) -> tuple[_Figures, _Figures]:
        """Measure a run, and make its plan while its swap is active; return summary.json and plan.json."""
        try:
            self.run("site", {**variables, "run_id": run_id})
            plan = {}
            if planned:
                more = {"measure_tier": True, "fleet_sizes": SERVERS, "density_plan_baseline_run": "dram"}
                self.run("plan", {**variables, **more})
                plan = json.loads((self.results / "plan" / "plan.json").read_text(encoding="utf-8"))
        finally:
            self.run("teardown", variables)
            self.run("restore", variables)
        return json.loads((self.results / run_id / "summary.json").read_text(encoding="utf-8")), plan


def variables_of(tier: Tier, drive: str | None) -> dict[str, t.Any]:
    """Return the variables of a run on a tier."""
    if drive is None:
        return {"profile": tier.profile}
    return {"profile": tier.profile, "host_tuning_swap": {"kind": "devices"}, "swap_space_devices": [drive]}


def rows_of(tier: Tier, summary: _Figures, plan: _Figures) -> list[list[str]]:
    """Return the rows of a tier: each figure of each cell, as it was measured and as the plan expected it."""
    (fleet,) = plan["fleets"]
    forecasts = {(cell["influence"], cell["read_mix"]): cell for cell in fleet["cells"]}
    rows = []
    for cell in summary["cells"]:
        forecast, found = forecasts[cell["influence"], cell["read_mix"]], cell["response"]
        (pressure,) = cell["pressure"].values()
        requests_per_second = SERVERS * plan["load"]["rate"] * cell["achieved_rate_ratio"]
        page_ins = pressure["page_ins"] / requests_per_second
        figures = {
            "page-ins for each request": (page_ins, forecast["page_ins_per_request"]),
            "average in us": (found["avg_us"], forecast["avg_us"]),
            "p99 in us": (found["p99_us"], forecast["p99_us"]),
        }
        for what, (measured, expected) in figures.items():
            off = expected / measured - 1
            met = "yes" if abs(off) <= BAR else "NO"
            rows.append(
                [tier.name, f"{cell['influence']:g}", what, f"{measured:.3g}", f"{expected:.3g}", f"{off:+.1%}", met]
            )
    return rows


def tier_row(tier: Tier, plan: _Figures) -> list[str]:
    """Collect what is known of a tier, and what the plan measured of it on the host."""
    (figures,) = plan["tiers"].values()
    average = None if tier.read_us is None else tier.read_us * (EVERY - 1 + TAIL) / EVERY
    known = "" if average is None else f"{average:g}, {TAIL * tier.read_us:g}"
    return [tier.name, tier.profile, known, f"{figures['avg_us']:.1f}, {figures['p99_us']:.1f}"]


def table(heading: t.Sequence[str], rows: t.Iterable[t.Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def bench(playbooks: Playbooks, directory: pathlib.Path, tiers: t.Sequence[Tier]) -> tuple[list, list]:
    """Measure all tiers, and return the rows of both tables."""
    program = build(directory)
    playbooks.measure("dram", {"profile": "dram"}, planned=False)
    of_tiers, forecasts = [], []
    for number, tier in enumerate(tiers):
        with contextlib.ExitStack() as made:
            drive = made.enter_context(slow_drive(program, directory, tier.read_us)) if tier.read_us else None
            summary, plan = playbooks.measure(f"tier{number}", variables_of(tier, drive))
        of_tiers.append(tier_row(tier, plan))
        forecasts += rows_of(tier, summary, plan)
        print("\n".join(" ".join(f"{cell:>26}" for cell in row) for row in forecasts[-6:]), flush=True)
    return of_tiers, forecasts


def write(of_tiers: list, forecasts: list, load: float) -> None:
    """Write the page."""
    PAGE.write_text(
        "# The plan on tiers of known latency\n\n"
        "Written by `tests/bench/plan_tiers.py --write`. What the words mean: [plan.md](../plan.md).\n\n"
        + machine.describe(load)
        + f"{SERVERS} Redis servers of `inventories/stretched` under their DRAM budget. A drive of known latency is a "
        "loop device on a file system in user space\n(`slow_tier/slow_tier.c`). The plan got the latency of the tier "
        "from page-ins that it measured on the host without load, and\nthe time of a request in DRAM from a run under "
        "`dram`.\n\n"
        + table(
            ("tier", "profile", "a read takes by design: average, p99 us", "page-in on the host: average, p99 us"),
            of_tiers,
        )
        + f"\n\nMeasured latencies are those of `response`. The bar is {BAR:.0%}.\n\n"
        + table(("tier", "influence", "figure", "measured", "plan", "the plan is off by", "met"), forecasts)
        + "\n",
        encoding="utf-8",
    )
    print(f"written: {PAGE.relative_to(ROOT)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--only", default="", metavar="TEXT", help="tiers whose name contains this")
    parser.add_argument("--keep", metavar="DIRECTORY", help="keep the results there")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="memstretch-tiers-") as directory:
        results = pathlib.Path(options.keep or f"{directory}/results").resolve()
        chosen = [tier for tier in TIERS if options.only in tier.name]
        of_tiers, forecasts = bench(Playbooks(results), pathlib.Path(directory), chosen)
    missed = sum(row[-1] == "NO" for row in forecasts)
    print(
        f"{len(forecasts) - missed} of {len(forecasts)} figures within {BAR:.0%}; load average at the start {load:.2f}"
    )
    if options.write:
        write(of_tiers, forecasts, load)


if __name__ == "__main__":
    main()
