# SPDX-License-Identifier: GPL-3.0-or-later
"""Active memory of processes whose hot set is known, by the kernel's own DAMON, and what a look leaves behind."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

import hot_set
import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom import lru_gen, reclaim, units
from ansible_collections.memstretch.density.plugins.module_utils.headroom.look import Look
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.records import (
    INDEX_BYTES,
    SLOT_BYTES,
)

from . import machine
from .conftest import LocalFleet, RedisServer, wait_for, write_inventory
from .machine import KDAMONDS

pytestmark = pytest.mark.usefixtures("needs_root")
LOAD = pathlib.Path(__file__).parent / "memory_load.py"
MIB = 64
PAGES = MIB * 256
# How much of its memory a pattern touches within an age, as a share.
TRUTH = {
    ("hot", 0): lambda age: 0,
    ("hot", 0.05): lambda age: 0.05,
    ("hot", 0.5): lambda age: 0.5,
    ("hot", 1): lambda age: 1,
    ("sequential", 1000): lambda age: min(1, 1000 * age / PAGES),
    ("random", 3000): lambda age: 1 - math.exp(-3000 * age / PAGES),
}


def within(group, command):
    """The command that runs another one in a control group."""
    return ["sh", "-c", f'echo 0 > {group}/cgroup.procs && exec "$@"', "sh", *command]


@contextlib.contextmanager
def loads(*patterns, groups=None):
    """Run a process with each pattern, and yield them once they are ready.

    Args:
        groups: the directory of the control group of each.
    """
    with contextlib.ExitStack() as running:
        processes = []
        for number, (pattern, value) in enumerate(patterns):
            command = [sys.executable, str(LOAD), str(MIB), pattern, str(value)]
            if groups:
                command = within(groups[number], command)
            process = running.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            running.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        yield processes


def units_of(processes, names):
    return [units.Unit(str(name), "process", (process.pid,)) for name, process in zip(names, processes)]


@pytest.mark.usefixtures("needs_damon")
def test_the_hot_sets_of_several_processes_are_seen_at_once():
    """Each within 5 % of its memory, at three ages, and nothing of it is left on."""
    before = machine.snapshot()
    with loads(*TRUTH) as processes:
        found = Look(HostFiles(), units_of(processes, TRUTH), [3, 6, 12], 3000, cpu_percent=100).take()

    assert found["method"] == "damon" and found["reason"] is None
    wrong = {}
    for (name, truth), unit in zip(TRUTH.items(), found["units"]):
        assert unit["name"] == str(name) and unit["stretchable_bytes"] > MIB * 2**20
        for age in unit["ages"]:
            # The interpreter's own memory, a few MiB, is touched too, or not.
            share, error = age["active_bytes"] / (MIB * 2**20), 0.05 * unit["stretchable_bytes"] / (MIB * 2**20)
            own = unit["stretchable_bytes"] / (MIB * 2**20) - 1
            expected = truth(age["watched_s"])
            if not expected - error <= share <= expected + error + own:
                wrong[name, age["seconds"]] = share, expected
        assert len(unit["ages"]) == 3
    assert wrong == {}
    assert machine.snapshot() == before


KEYS, RATE = 40_000, 500


def redis_truth(influence, age, empty):
    """Return the bytes of a Redis that the requests use within an age: pages of values, the index, its own.

    Four values of 1,000 bytes share a page, next to each other in the order of the keys. The hash of a key decides
    where its entry in the index is, so every page of the index is used soon.
    """
    pages = [0.0] * (KEYS // 4)
    for key, weight in enumerate(hot_set.weights(KEYS, influence)):
        pages[key // 4] += weight / (hot_set.PULLS * KEYS)
    requests = RATE * age
    index = KEYS * INDEX_BYTES + SLOT_BYTES * 2 ** math.ceil(math.log2(KEYS))
    return 4096 * sum(1 - math.exp(-requests * share) for share in pages) + index + empty


@pytest.mark.usefixtures("needs_damon")
@pytest.mark.long
@pytest.mark.parametrize("influence", [0, 25])
def test_active_memory_of_redis_is_what_the_choice_of_keys_says(client, tmp_path, influence):
    """Within 5 % of its memory, at three ages."""
    server = RedisServer(tmp_path / "redis")
    load = None
    try:
        size = [str(server.port), "1000", str(KEYS)]
        subprocess.run([client, "fill", *size, "--seed", "1"], check=True, capture_output=True)
        options = [str(influence), str(RATE), "100", "--duration", "600", "--pacing", "sleep", "--json"]
        load = subprocess.Popen([client, "test", *size, *options], stdout=subprocess.DEVNULL)
        wait_for("requests", lambda: "'keyspace_hits': 0" not in server.command("INFO", "stats"), load)
        empty = int(re.search(r"'used_memory_startup': (\d+)", server.command("INFO", "memory"))[1])
        unit = units.Unit("redis", "process", (server.process.pid,))
        (found,) = Look(HostFiles(), [unit], [3, 10, 20], 4000, cpu_percent=100).take()["units"]
    finally:
        if load:
            load.kill()
            load.wait()
        server.kill()

    assert len(found["ages"]) == 3
    wrong = {
        age["seconds"]: (age["active_bytes"] / 2**20, redis_truth(influence, age["watched_s"], empty) / 2**20)
        for age in found["ages"]
        if abs(age["active_bytes"] - redis_truth(influence, age["watched_s"], empty))
        > 0.05 * found["stretchable_bytes"]
    }
    assert wrong == {}


def _width(age):
    return age["high_bytes"] - age["low_bytes"]


def _share(cost):
    return (cost["cpu_s"] + cost["kernel_cpu_s"]) / cost["seconds"]


@pytest.mark.usefixtures("needs_damon")
@pytest.mark.long
def test_a_look_takes_no_more_of_a_cpu_than_it_may():
    """Fewer pages are watched, and the intervals say so."""
    with loads(*[("hot", 0.5)] * 8) as processes:
        found = {
            percent: Look(HostFiles(), units_of(processes, "abcdefgh"), [1, 3], 2000, percent).take()
            for percent in (5, 100)
        }
    widths = {percent: _width(look["units"][0]["ages"][0]) for percent, look in found.items()}
    shares = {percent: _share(look["cost"]) for percent, look in found.items()}
    assert shares[5] < 0.1 < shares[100], "what a page costs is measured with some, and others differ"
    assert widths[5] > 1.5 * widths[100]


@pytest.mark.usefixtures("needs_damon")
def test_a_process_that_ends_meanwhile_is_named():
    with loads(("hot", 1), ("hot", 1)) as processes:
        look = Look(HostFiles(), units_of(processes, "ab"), [1, 3], 200)
        processes[0].kill()
        processes[0].wait()
        found = look.take()

    ended, other = found["units"]
    assert (ended["ages"], ended["reason"]) == ([], "it has ended during the look")
    assert other["ages"][-1]["active_bytes"] > 0.9 * MIB * 2**20 and other["reason"] is None


@pytest.mark.usefixtures("needs_damon")
def test_monitoring_of_somebody_else_is_not_touched():
    (KDAMONDS / "nr_kdamonds").write_text("1", encoding="ascii")
    try:
        with loads(("hot", 1)) as processes:
            found = Look(HostFiles(), units_of(processes, "a"), [1], 200).take()
        assert (KDAMONDS / "nr_kdamonds").read_text(encoding="ascii") == "1\n"
    finally:
        (KDAMONDS / "nr_kdamonds").write_text("0", encoding="ascii")

    assert found["method"] is None and "DAMON is in use" in found["reason"]
    assert found["units"][0]["ages"] == [] and found["units"][0]["resident_bytes"] > MIB * 2**20


def is_on(state):
    """Return whether a kdamond runs; its file cannot be read while it starts."""
    try:
        return state.read_text(encoding="ascii") == "on\n"
    except OSError as error:
        assert error.errno in (errno.ENOENT, errno.EBUSY), error
        return False


@pytest.mark.usefixtures("needs_damon")
def test_monitoring_that_somebody_ends_meanwhile_leaves_nothing():
    state = KDAMONDS / "0" / "state"

    def end():
        wait_for("DAMON", lambda: is_on(state), running)
        state.write_text("off", encoding="ascii")

    with loads(("hot", 1)) as processes:
        (running,) = processes
        somebody = threading.Thread(target=end)
        somebody.start()
        found = Look(HostFiles(), units_of(processes, "a"), [3], 200).take(methods=["damon"])
        somebody.join()

    assert found["method"] is None and "somebody turned it off meanwhile" in found["reason"]
    assert (KDAMONDS / "nr_kdamonds").read_text(encoding="ascii") == "0\n"


def start_look(pid, ages, **options):
    """Start a process that looks at a process."""
    code = (
        "from ansible_collections.memstretch.density.plugins.module_utils.headroom import look, units\n"
        "from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles\n"
        f"look.Look(HostFiles(), [units.Unit('a', 'process', ({pid},))], {ages}, 200).take(**{options})\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", code], env=environment)


@pytest.mark.usefixtures("needs_damon")
def test_damon_is_off_after_a_look_that_was_killed():
    process = start_look(os.getpid(), [1, 60])
    wait_for("DAMON", lambda: is_on(KDAMONDS / "1" / "state"), process)
    process.send_signal(signal.SIGKILL)
    process.wait()

    wait_for("its end", lambda: (KDAMONDS / "nr_kdamonds").read_text(encoding="ascii") == "0\n")


MGLRU = pathlib.Path(lru_gen.SWITCH)


@pytest.fixture
def mglru_off():
    """The switch of MGLRU, which is off."""
    if not MGLRU.exists():
        pytest.skip("this kernel has no MGLRU")
    before = MGLRU.read_text(encoding="ascii")
    MGLRU.write_text("0", encoding="ascii")
    yield MGLRU
    MGLRU.write_text(before, encoding="ascii")


@pytest.mark.usefixtures("needs_groups")
def test_mglru_is_switched_on_only_on_request_and_off_again(mglru_off):
    off = mglru_off.read_text(encoding="ascii")
    with grouped_loads(("hot", 1)) as (processes, _paths):
        look = Look(HostFiles(), units_of(processes, "a"), [2])
        refused = look.take(methods=["mglru"])
        assert mglru_off.read_text(encoding="ascii") == off
        found = look.take(probe=True, methods=["mglru"])

    assert refused["method"] is None and refused["reason"].startswith("MGLRU is off (")
    assert refused["units"][0]["ages"] == []
    assert found["method"] == "mglru" and found["units"][0]["ages"][0]["active_bytes"] > 0.95 * MIB * 2**20
    assert mglru_off.read_text(encoding="ascii") == off


@pytest.mark.usefixtures("needs_groups")
def test_mglru_is_off_again_after_a_look_that_was_killed(mglru_off):
    off = mglru_off.read_text(encoding="ascii")
    with grouped_loads(("hot", 1)) as ((process,), _paths):
        look = start_look(process.pid, [60], probe=True, methods=["mglru"])
        wait_for("MGLRU", lambda: mglru_off.read_text(encoding="ascii") != off, look)
        look.send_signal(signal.SIGKILL)
        look.wait()
        wait_for("its end", lambda: mglru_off.read_text(encoding="ascii") == off)


ZRAM_BYTES = 256 * 2**20
VERSION_2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
GROUPS = pathlib.Path("/sys/fs/cgroup" if VERSION_2 else "/sys/fs/cgroup/memory")
LIMIT, USED = ("memory.max", "memory.current") if VERSION_2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")


@pytest.fixture
def needs_groups():
    """Skip a test of control groups where they have no memory controller."""
    has_controller = (
        "memory" in (GROUPS / "cgroup.subtree_control").read_text(encoding="ascii").split()
        if VERSION_2
        else (GROUPS / LIMIT).exists()
    )
    if not has_controller:
        pytest.skip("the control groups of this machine have no memory controller")


@pytest.fixture
def zram(needs_groups):
    """A swap area of this test."""
    if not pathlib.Path("/sys/class/zram-control").is_dir():
        pytest.skip("this machine has no zram")
    number = pathlib.Path("/sys/class/zram-control/hot_add").read_text(encoding="ascii").strip()
    pathlib.Path(f"/sys/block/zram{number}/disksize").write_text(str(ZRAM_BYTES), encoding="ascii")
    subprocess.run(["mkswap", f"/dev/zram{number}"], check=True, capture_output=True)
    subprocess.run(["swapon", "--priority", "1000", f"/dev/zram{number}"], check=True)
    yield
    subprocess.run(["swapoff", f"/dev/zram{number}"], check=True)
    pathlib.Path(f"/sys/block/zram{number}/reset").write_text("1", encoding="ascii")
    pathlib.Path("/sys/class/zram-control/hot_remove").write_text(number, encoding="ascii")


@contextlib.contextmanager
def own_groups(count):
    """Make control groups whose memory may go to swap, yield them, and remove those that are still there."""
    paths = [GROUPS / f"test-headroom-{os.getpid()}-{number}" for number in range(count)]
    try:
        for path in paths:
            path.mkdir()
            if not VERSION_2:
                (path / "memory.swappiness").write_text("100", encoding="ascii")
        yield paths
    finally:
        for path in paths:
            if path.exists():
                path.rmdir()


@contextlib.contextmanager
def grouped_loads(*patterns):
    """Run a process with each pattern in a control group of its own, and yield processes and groups."""
    with own_groups(len(patterns)) as paths, loads(*patterns, groups=paths) as processes:
        yield processes, paths


def in_dram(path):
    return int((path / USED).read_text(encoding="ascii"))


@pytest.mark.long
def test_a_trial_bounds_active_memory_and_gives_back_what_it_took(zram):
    """Not below what is active, and close to it as far as a trial goes, which is 80 % of the memory."""
    patterns = (("hot", 0.5), ("hot", 0.05), ("hot", 1))
    before = machine.snapshot()
    with grouped_loads(*patterns) as (processes, paths):
        limits = [(path / LIMIT).read_text(encoding="ascii") for path in paths]
        used = [in_dram(path) for path in paths]
        close = False
        for _attempt in range(3):  # when other tests wait for memory, a trial takes less, or breaks off
            found = Look(HostFiles(), units_of(processes, patterns), [3, 6]).take(probe=True, methods=["reclaim"])
            wait_for("what was taken", lambda: all(in_dram(path) > 0.97 * size for path, size in zip(paths, used)))
            assert [(path / LIMIT).read_text(encoding="ascii") for path in paths] == limits
            if found["method"] is None:
                assert "waited for memory" in found["reason"]
                continue
            bounds = [[age["active_bytes"] / (MIB * 2**20) for age in unit["ages"]] for unit in found["units"]]
            for (_pattern, hot), shares in zip(patterns, bounds):
                assert len(shares) == 2 and min(shares) >= 0.97 * hot and max(shares) < 1.25
            close = bounds[0][-1] < 0.7 and bounds[1][-1] < 0.45
            if close:
                break
        assert close, bounds
    assert machine.snapshot() == before


def test_a_trial_that_is_killed_gives_back_what_it_took(zram):
    with grouped_loads(("hot", 0)) as ((process,), (path,)):
        limit, used = (path / LIMIT).read_text(encoding="ascii"), in_dram(path)
        trial = start_look(process.pid, [60], probe=True, methods=["reclaim"])
        wait_for("an eviction", lambda: in_dram(path) < 0.95 * used, trial)
        trial.send_signal(signal.SIGKILL)
        trial.wait()

        wait_for("what was taken", lambda: in_dram(path) > 0.97 * used)
        assert (path / LIMIT).read_text(encoding="ascii") == limit


FAR = """
import mmap, sys, time
with mmap.mmap(-1, 3 * 2**30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(len(memory) - 32 * 2**20, len(memory), mmap.PAGESIZE):
        memory[page] = 1
    print("ready", flush=True)
    time.sleep(600)
"""


def test_what_is_far_into_a_large_area_is_brought_back(zram):
    """As the memory of a large VM, which is one area; and although another area has gone meanwhile."""
    with own_groups(1) as (group,):
        command = within(group, [sys.executable, "-c", FAR])
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout.readline() == "ready\n"
                limit, used = (group / LIMIT).read_text(encoding="ascii"), in_dram(group)
                (group / LIMIT).write_text(str(used - 24 * 2**20), encoding="ascii")
                wait_for("an eviction", lambda: in_dram(group) < used - 20 * 2**20)
                (group / LIMIT).write_text(limit, encoding="ascii")
                areas = reclaim._areas(HostFiles(), process.pid)
                assert [size for _start, size in areas if size > 2**31] == [3 * 2**30]
                assert reclaim._bring_back(process.pid, [(2**20, 4096), *areas]) == errno.ENOMEM
                wait_for("what was evicted", lambda: in_dram(group) > used - 8 * 2**20)  # not files
            finally:
                process.kill()


@pytest.mark.long
def test_a_unit_that_stops_during_a_trial_does_not_keep_what_the_others_lost(zram):
    with grouped_loads(("hot", 0), ("hot", 0.5)) as ((stopping, running), (gone, path)):
        used = in_dram(path)

        def stop():
            stopping.kill()
            stopping.wait()
            gone.rmdir()

        soon = threading.Timer(1, stop)
        soon.start()
        found = Look(HostFiles(), units_of((stopping, running), "ab"), [3, 6]).take(probe=True, methods=["reclaim"])
        soon.join()
        wait_for("what was taken", lambda: in_dram(path) > 0.97 * used)

    # It is broken off when other tests wait for memory.
    assert found["method"] == "reclaim" or "waited for memory" in found["reason"]
    assert found["units"][0]["reason"] == "it has ended during the look" and not found["units"][0]["ages"]


def test_a_trial_is_made_only_on_request_and_only_with_groups_of_their_own(zram):
    with loads(("hot", 0)) as processes:
        look = Look(HostFiles(), units_of(processes, "a"), [1])
        asked, refused = (look.take(probe=probe, methods=["reclaim"]) for probe in (False, True))

    assert asked["reason"] == "a trial that evicts a little needs headroom_probe: true"
    assert refused["reason"].startswith("a ") and "control group" in refused["reason"]
    for found in (asked, refused):
        assert found["method"] is None and found["units"][0]["ages"] == []
        assert found["units"][0]["swapped_bytes"] == 0


def test_no_trial_without_swap():
    if pathlib.Path("/proc/swaps").read_text(encoding="ascii").count("\n") > 1:
        pytest.skip("this machine has swap")
    with loads(("hot", 0)) as processes:
        found = Look(HostFiles(), units_of(processes, "a"), [1]).take(probe=True, methods=["reclaim"])
    assert found["method"] is None and found["reason"] == "a trial needs free swap to evict to"


@pytest.fixture
def hypervisor(tmp_path):
    """This machine as a hypervisor, whose units are the processes of this test."""
    fleet = LocalFleet(tmp_path, {})
    fleet.inventory = lambda: write_inventory(
        tmp_path / "hosts.yml", {"hypervisors": {"hosts": {"kv1": {}}}}, headroom_units=["process:hot-memory"]
    )
    yield fleet
    for process in fleet.playbooks:
        if process.poll() is None:
            process.kill()
            process.wait()


@contextlib.contextmanager
def named_loads(directory, *patterns):
    """Run loads under a name that no other process has."""
    program = directory / "hot-memory"
    program.symlink_to(os.path.realpath(sys.executable))
    with contextlib.ExitStack() as running:
        for pattern, value in patterns:
            command = [program, LOAD, str(MIB), pattern, str(value)]
            process = running.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            running.callback(process.kill)
            assert process.stdout.readline() == "ready\n"
        yield


@pytest.mark.usefixtures("needs_damon")
def test_the_playbook_answers_and_changes_nothing(hypervisor, tmp_path):
    before = machine.snapshot()
    with named_loads(tmp_path, ("hot", 0.5), ("hot", 0.05)):
        # A slow machine would pay for few pages only, whose figures have large errors.
        variables = {"headroom_ages": [1, 2, 4], "headroom_cpu_percent": 100, "run_id": "look"}
        outcome = hypervisor.run_playbook("-e", json.dumps(variables), playbook="headroom")

    assert outcome.status == 0, outcome.output
    document = json.loads((hypervisor.results / "look" / "headroom.json").read_text(encoding="utf-8"))
    host = document["hosts"]["kv1"]
    # Other tests may squeeze their memory at the same time, so that the host is near its limit.
    assert host["verdict"] != "unknown" and len(host["units"]) == 2 and host["method"] == "damon"
    assert "kv1 runs 2 processes in" in outcome.output and host["sentence"] in outcome.output
    shares = sorted(unit["ages"][-1]["active_bytes"] / (MIB * 2**20) for unit in host["units"])
    assert shares == [pytest.approx(0.05, abs=0.15), pytest.approx(0.5, abs=0.15)]
    assert host["more"]["count"] > min(10, meminfo(HostFiles())["MemTotal"] / (4 * MIB * 2**20))
    assert (hypervisor.results / "look" / "report.html").exists()
    assert machine.snapshot() == before


def test_check_mode_measures_and_writes_nothing(hypervisor, tmp_path):
    with named_loads(tmp_path, ("hot", 1)):
        outcome = hypervisor.run_playbook("--check", playbook="headroom")

    assert outcome.status == 0, outcome.output
    assert "the headroom is unknown: active memory is not measured in check mode" in outcome.output
    assert not hypervisor.results.exists()


def test_bad_input_is_refused_before_anything_is_measured(hypervisor):
    for variable, message in (
        ("headroom_waiting=0", "headroom_waiting: '0' is out of range"),
        ("headroom_pages=10", "pages: 10 is out of range; it must be a whole number from 50 to 20,000 (pages)"),
    ):
        outcome = hypervisor.run_playbook("-e", variable, playbook="headroom")
        assert outcome.status != 0 and message in " ".join(outcome.output.split())
        assert "Look for ten seconds" not in outcome.output
    cases = [
        ({"cpu_percent": 0}, "cpu_percent: 0.0 is out of range; it must be a number from 0.1 to 100 (percent)"),
        ({"units": "redis"}, "units: 'redis' is not allowed; it must be a systemd unit such as"),
    ]
    tasks = [{"memstretch.density.headroom_info": options} for options, _message in cases]
    messages = hypervisor.messages(tasks, hosts="hypervisors")
    assert [message in told for (_options, message), told in zip(cases, messages)] == [True, True], messages
