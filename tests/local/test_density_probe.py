# SPDX-License-Identifier: GPL-3.0-or-later
"""What a probe of a density search touches: the interpreter of each host counts its starts."""

from __future__ import annotations

import collections
import json
import pathlib
import subprocess
import sys
import typing as t

import pytest

from .conftest import REDIS_OF_THE_PLAY, SMALL, LocalFleet, free_ports, write_inventory

HOSTS = ("a", "b", "c")
# What a probe starts for each host: modules that start Redis, ping it, fill it, load it, and collect both.
MODULES = 6
# On one host of the machine besides: a module that records it, the interpreter alone, twice, for its version, and
# modules that read its memory before and after the run.
MODULES_OF_THE_MACHINE = 1 + 2 + 2


class CountedHosts:
    """A static fleet on this machine whose hosts count the starts of their interpreters.

    Args:
        interpreters: of the hosts, by their names; a host is counted by the name of its interpreter.
    """

    def __init__(self, fleet: LocalFleet, directory: pathlib.Path, interpreters: t.Mapping[str, str]) -> None:
        self.fleet, self.directory = fleet, directory
        self.ports = range(first := free_ports(len(HOSTS)), first + len(HOSTS))
        self._starts = directory / "starts"
        self._starts.touch()
        counting = directory / "counting"
        counting.write_text(
            f'#!/bin/sh\necho "${{0##*-}}" >>{self._starts}\nexec {sys.executable} "$@"\n', encoding="utf-8"
        )
        counting.chmod(0o755)
        hosts = {}
        for interpreter in set(interpreters.values()):
            (directory / f"python-{interpreter}").symlink_to(counting)
        for name, port in zip(HOSTS, self.ports):
            hosts[name] = {
                "redis_port": port,
                "latency_benchmark_port": port,
                "ansible_python_interpreter": str(directory / f"python-{interpreters[name]}"),
            }
        common = {
            **SMALL,
            "redis_supervisor": "daemon",
            "redis_directory": str(directory / "state"),
            **REDIS_OF_THE_PLAY,
        }
        self.inventory = write_inventory(directory / "counted.yml", {"fleet": {"hosts": hosts, "vars": common}})

    def starts(self) -> collections.Counter[str]:
        """Count how often each interpreter was started so far."""
        return collections.Counter(self._starts.read_text(encoding="utf-8").split())

    def search(self, **variables: t.Any) -> subprocess.Popen:
        """Start a density search."""
        return self.fleet.start("-e", json.dumps(variables), playbook="density", inventory=self.inventory)


@pytest.fixture
def counted(fleet: LocalFleet, tmp_path: pathlib.Path) -> t.Callable[[t.Mapping[str, str]], CountedHosts]:
    return lambda interpreters: CountedHosts(fleet, tmp_path, interpreters)


def starts_of_steps(counted: CountedHosts, **variables: t.Any) -> dict[str, collections.Counter[str]]:
    """Run a density search and return how often each interpreter was started in each of its steps."""
    process = counted.search(**variables)
    before, of_step, step, output = collections.Counter(), {}, "", []
    for line in process.stdout:
        output.append(line)
        if line.startswith("== "):
            now = counted.starts()
            of_step[step], before, step = now - before, now, line.split("|")[0][3:].strip()
    assert process.wait() == 0, "".join(output)
    return of_step


def test_a_probe_touches_only_the_hosts_that_it_loads(counted, fleet, tmp_path):
    hosts = counted({name: name for name in HOSTS})
    of_step = starts_of_steps(hosts, profiles="dram", density_start=1, density_max=2, density_probes=2)
    assert set(of_step["Preparing 2 hosts for all probes"]) == set(HOSTS), "the Redis of each may still run"
    first, second = (of_step[f"dram: probe {n} of at most 2, a fleet of {n}"] for n in (1, 2))
    assert set(first) == {"a"} and 0 < first["a"] <= MODULES + MODULES_OF_THE_MACHINE, first
    assert set(second) == {"a", "b"} and 0 < second["b"] <= MODULES, second
    assert second["a"] < first["a"], "its Redis is kept"

    (document,) = (json.loads(path.read_text(encoding="utf-8")) for path in fleet.results.glob("*/density.json"))
    assert [(run["size"], run["outcome"]) for run in document["runs"]] == [(1, "pass"), (2, "pass")]
    assert document["restored"] and not (tmp_path / "state").exists()
