# SPDX-License-Identifier: GPL-3.0-or-later
"""A DRAM budget is kept by what the fleet really takes: real Redis servers in a control group, with zram as swap."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import time

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import recorder
from ansible_collections.memstretch.density.plugins.modules import dram_budget, fleet_swappiness
from ansible_collections.memstretch.density.tests.unit.fixtures import module_runner

from .conftest import RedisServer, wait_for

MIB = 2**20
BUDGET = 120 * MIB
MEMORY = pathlib.Path("/sys/fs/cgroup/memory")
# Two Redis servers with 80,000 values of 1,000 bytes each take about 200 MiB.
VALUE, KEYS = 1000, 80_000


class RedisInGroup(RedisServer):
    """A redis-server that is in a control group before it allocates memory."""

    group = MEMORY

    def start(self):
        self.COMMAND = ("sh", "-c", f"echo 0 > {self.group}/cgroup.procs && exec redis-server -")
        return super().start()


def text(path, value):
    pathlib.Path(path).write_text(str(value), encoding="ascii")


@pytest.fixture
def zram(needs_root):
    """Swap in a zram device that is removed afterwards."""
    if not MEMORY.is_dir() or not pathlib.Path("/sys/class/zram-control").is_dir():
        pytest.skip("this needs zram and the memory controller of cgroup v1")
    number = pathlib.Path("/sys/class/zram-control/hot_add").read_text(encoding="ascii").strip()
    device, place = f"/dev/zram{number}", f"/sys/block/zram{number}"
    page_cluster = pathlib.Path("/proc/sys/vm/page-cluster").read_text(encoding="ascii")
    try:
        text("/proc/sys/vm/page-cluster", 0)
        text(f"{place}/disksize", 1024 * MIB)
        subprocess.run(["mkswap", device], check=True, capture_output=True)
        subprocess.run(["swapon", "--priority", "1000", device], check=True)
        yield place
    finally:
        subprocess.run(["swapoff", device], check=False)  # a device that is still in use cannot be reset below
        text("/proc/sys/vm/page-cluster", page_cluster)
        text(f"{place}/reset", 1)
        text("/sys/class/zram-control/hot_remove", number)


@pytest.fixture
def run_module(tmp_path):
    """Return a function that runs a module of the collection here and returns its result."""

    def run(module, **options):
        result = module_runner.run_module(module, tmp_path, record_directory=str(tmp_path / "records"), **options)
        assert not result.get("failed"), result
        return result

    return run


@pytest.fixture
def servers(zram, run_module, tmp_path):
    """Two Redis servers in a control group with a DRAM budget."""
    group = f"test-charged-{os.getpid()}"
    assert run_module(dram_budget, size=str(BUDGET), group=group)["changed"]
    RedisInGroup.group = MEMORY / group
    running = []
    try:
        running += [RedisInGroup(tmp_path / f"redis-{number}") for number in range(2)]
        yield running
    finally:
        for server in running:
            server.kill()
        run_module(dram_budget, state="restored")
    assert not RedisInGroup.group.exists()


@contextlib.contextmanager
def on_all(servers, client, *options, mode):
    """Run the client next to each server, at the same time; all have ended afterwards."""
    positional = (VALUE, KEYS, 0, 2000, 100)
    commands = [[client, *options, mode, server.port, *positional] for server in servers]
    processes = [subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL) for words in commands]
    yield
    assert [process.wait() for process in processes] == [0] * len(servers)


def recorded(tmp_path):
    """Record this machine in the background, as in a phase of four seconds, and return the figures."""
    session = tmp_path / f"session-{time.monotonic_ns()}"
    (session / "0").mkdir(parents=True)
    (session / "0" / "schedule").touch()
    phases = [{"name": "one", "at": 0, "seconds": 4}]
    recorder.ensure(str(session), phases, 60, record_directory=str(tmp_path / "records"))
    (session / "0" / "schedule.start").write_text(f"{time.time() + 0.3}\n", encoding="ascii")
    deadline, nothing = time.monotonic() + 60, {"phases": {"one": {}}}
    while not (found := (recorder.read(str(session), ["one"]) or nothing)["phases"]["one"].get("charged_dram")):
        assert time.monotonic() < deadline, "nothing was recorded"
        time.sleep(0.1)
    (session / "0" / "schedule").unlink()
    return found


def hits(group):
    """Count how often a process met the limit of a control group, and had to reclaim memory by itself."""
    return int((group / "memory.failcnt").read_text(encoding="ascii"))


@pytest.mark.parametrize("compressibility", [0.75, pytest.param(0, marks=pytest.mark.long)])
def test_zram_is_charged_to_the_budget(servers, client, run_module, tmp_path, compressibility):
    """Values that compress are squeezed into the budget; values that do not never seem to fit."""
    group = RedisInGroup.group
    options = {"size": str(BUDGET), "group": group.name}
    released = run_module(dram_budget, state="released")["charged_dram"]
    assert (released["fits"], released["group_processes"]) == (None, 2)
    with on_all(servers, client, f"--compressibility={compressibility}", mode="fill"):
        pass

    unfitted = recorded(tmp_path)
    assert unfitted["parts"]["group_bytes"] <= BUDGET, "the limit of the group alone is kept"
    assert unfitted["charged_bytes"]["maximum"] > 1.15 * BUDGET, "and yet the fleet takes more"

    run_module(dram_budget, state="fitted")
    before = hits(group)
    with on_all(servers, client, f"--compressibility={compressibility}", "--requests=6000", "--seed=1", mode="test"):
        pass
    unwatched = hits(group) - before

    with on_all(servers, client, f"--compressibility={compressibility}", "--requests=6000", "--seed=2", mode="test"):
        measured = recorded(tmp_path)
    assert measured["samples"] >= 3 and measured["client_bytes"] > 0
    assert measured["parts"].keys() == {
        "group_bytes",
        "zram_bytes",
        "zram_table_bytes",
        "zswap_bytes",
        "page_cache_bytes",
    }
    assert measured["host_check"] is not None
    page_ins = measured["page_ins"]["per_second"]
    assert len(page_ins) == measured["samples"] - 1 and max(page_ins) > 0, "a fleet in compressed memory reads it"
    print(json.dumps(measured, indent=1))
    limit = int((group / "memory.limit_in_bytes").read_text(encoding="ascii"))
    if compressibility:
        assert measured["fits"] is True and measured["compression_ratio"] > 2
        assert measured["charged_bytes"]["maximum"] <= 1.02 * BUDGET
        assert measured["charged_bytes"]["mean"] >= 0.95 * BUDGET
        assert measured["reclaim_cpu_s"] > 0
        assert limit < BUDGET and measured["limit_bytes"] == [limit, limit], "although it is lowered to reclaim"
        assert unwatched > 100 and measured["limit_hits"] < unwatched / 2, "the fleet need not reclaim by itself"
    else:
        assert measured["fits"] is False and "compress" in measured["fit"]["why"]
        assert measured["charged_bytes"]["maximum"] > 1.3 * BUDGET and limit == BUDGET
    again = run_module(dram_budget, **options)
    assert not again["changed"] and again["differences"] == [], "the lowered limit is this budget"
    assert run_module(dram_budget, state="released")["changed"] is (limit < BUDGET)
    assert int((group / "memory.limit_in_bytes").read_text(encoding="ascii")) == BUDGET


def test_the_group_of_a_budget_has_the_swappiness_of_each_profile_in_turn(needs_root, run_module):
    """A group keeps the value of its creation, so the first arm of a study would decide for all."""
    if not MEMORY.is_dir():
        pytest.skip("this needs the memory controller of cgroup v1")
    place = pathlib.Path("/proc/sys/vm/swappiness")
    options, original = {"size": str(BUDGET), "group": f"test-swappiness-{os.getpid()}"}, place.read_text("ascii")
    group = MEMORY / options["group"]
    try:
        for value in (133, 17):
            text(place, value)
            assert run_module(dram_budget, **options)["changed"]
            assert (group / "memory.swappiness").read_text("ascii").strip() == str(value)
            assert not run_module(dram_budget, **options)["changed"]
    finally:
        text(place, original)
        run_module(dram_budget, state="restored")
    assert not group.exists()


def test_groups_of_the_fleet_without_a_budget_have_the_swappiness_of_each_profile_in_turn(
    needs_root, run_module, tmp_path
):
    """Of two real servers in groups of their own, one was made as by the role redis; the other's is left alone."""
    if not MEMORY.is_dir():
        pytest.skip("this needs the memory controller of cgroup v1")
    place = pathlib.Path("/proc/sys/vm/swappiness")
    original = place.read_text("ascii")
    (tmp_path / "ours" / "redis" / "data").mkdir(parents=True)
    (tmp_path / "ours" / ".made-by-memstretch-redis").touch()
    (tmp_path / "theirs").mkdir()
    groups, servers = [MEMORY / f"test-{name}-{os.getpid()}" for name in ("ours", "theirs")], []
    try:
        for group, directory in zip(groups, (tmp_path / "ours" / "redis" / "data", tmp_path / "theirs")):
            group.mkdir()
            text(group / "memory.swappiness", 41)
            command = f"echo 0 > {group}/cgroup.procs && exec redis-server --port 0 --unixsocket {directory}/socket"
            servers.append(subprocess.Popen(["sh", "-c", command], cwd=directory, stdout=subprocess.DEVNULL))
        wait_for("the servers answer", lambda: len(list(tmp_path.glob("**/socket"))) == 2)
        for value in (133, 17):
            text(place, value)
            knob = groups[0] / "memory.swappiness"
            before = knob.read_text("ascii").strip()
            result = run_module(fleet_swappiness)
            assert result["changed"] and f"{knob} is {before} and not {value}" in result["differences"]
            assert [(group / "memory.swappiness").read_text("ascii").strip() for group in groups] == [str(value), "41"]
            again = run_module(fleet_swappiness)
            assert not again["changed"] and again["differences"] == []
        text(place, original)
        assert run_module(fleet_swappiness, state="restored")["changed"]
        assert [(group / "memory.swappiness").read_text("ascii").strip() for group in groups] == ["41", "41"]
        assert not run_module(fleet_swappiness, state="restored")["changed"]
    finally:
        text(place, original)
        for server in servers:
            server.kill()
            server.wait()
        for group in filter(pathlib.Path.exists, groups):
            group.rmdir()
