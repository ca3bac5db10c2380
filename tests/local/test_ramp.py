# SPDX-License-Identifier: GPL-3.0-or-later
"""Ramps on this machine: real servers join within a small DRAM budget, and nothing is left of them."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.ramp import groups, session
from ansible_collections.memstretch.density.plugins.module_utils.ramp.machine import Machine
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import checked
from ansible_collections.memstretch.density.plugins.module_utils.ramp.servers import ServerError

from . import test_charged_dram
from .conftest import free_ports, wait_for

MEMORY, zram = test_charged_dram.MEMORY, test_charged_dram.zram
MIB = 2**20
BUDGET = 32 * MIB
# A Redis with 3,000 values of 1,000 bytes takes 7 MiB, so four fit.
LOAD = {
    "rate": 50,
    "value_size": 1000,
    "keys": 3000,
    "influence": 25,
    "read_mix": 100,
    "compressibility": 0.75,
    "arrivals": "jitter",
}
QUICK = {"window_seconds": 1, "window_requests": 1, "settle_seconds": 3, "looks": 1, "wait_seconds": 0}


class Ramp:
    """A ramp on this machine.

    Args:
        servers: how many may join; as many as the last of its sizes by default.

    Attributes:
        path: its directory.
        pid: the conductor.
        ports: of servers and references.
    """

    def __init__(self, client, servers=None, references=2, more=(), **plan):
        servers = servers or max(plan.get("sizes") or [12])
        first = free_ports(servers + references)
        self.ports = range(first, first + servers + references)
        names = [f"redis{number}" for number in range(1, servers + 1)]
        names += [f"reference{number}" for number in range(1, references + 1)]
        everybody = [{"name": name, "port": port} for name, port in zip(names, self.ports)]
        given = {"budget_bytes": BUDGET, "load": LOAD, "client": str(client), "sizes": list(range(2, servers + 1))}
        split = {"servers": everybody[:servers], "references": [*everybody[servers:], *more]}
        job = session.launch(checked({**given, **split, **QUICK, **plan}))
        self.path, self.pid = pathlib.Path(job["path"]), job["pid"]

    def renew(self):
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.path / "lease")

    def lines(self, event):
        with contextlib.suppress(FileNotFoundError):
            text = (self.path / "stream").read_text(encoding="utf-8")
            found = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
            return [line for line in found if line["event"] == event]
        return []

    def windows(self):
        self.renew()
        return [line["window"] for line in self.lines("window")]

    def end(self):
        """Wait for the end, as the controller does, and return the last line."""
        return wait_for("the end of the ramp", lambda: self.windows() is not None and self.lines("end"))[0]["end"]

    def is_running(self):
        return pathlib.Path(f"/proc/{self.pid}").exists() and "zombie" not in state(self.pid)

    def left(self):
        """What is there of the ramp: files, control groups, and servers that answer."""
        found = [str(self.path)] if self.path.exists() else []
        found += [name for name in (groups.FLEET, groups.REFERENCES) if groups.RampGroup(name).exists()]
        return found + [port for port in self.ports if answers(port)]

    def close(self):
        if self.is_running():
            os.kill(self.pid, signal.SIGTERM)
            wait_for("the end", lambda: self.lines("end") or not self.is_running())
        shutil.rmtree(self.path, ignore_errors=True)
        wait_for("the conductor's end", lambda: not self.is_running())


def state(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return "zombie"


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def ramp(client, needs_root):
    """A function that starts a ramp."""
    if not MEMORY.is_dir():
        pytest.skip("this needs the memory controller of cgroup v1")
    started = []

    def start(**plan):
        started.append(Ramp(client, **plan))
        return started[-1]

    yield start
    for each in started:
        each.close()


def requests(window, group):
    return {name: load["upper"]["count"] for name, load in window[group].items()}


def test_in_dram_a_ramp_ends_where_the_kernel_kills_the_next_server(ramp):
    found = ramp()
    end = found.end()
    assert (end["kind"], end["host"]) == ("does_not_fit", f"redis{end['n']}")
    assert "Memory cgroup out of memory: Killed process" in end["message"] and "redis-server" in end["message"]
    windows = found.windows()
    assert [window["n"] for window in windows] == list(range(2, end["n"])) and 3 <= end["n"] - 1 <= 5
    for window in windows:
        machine = window["machines"][""]
        assert machine["charged_bytes"] <= BUDGET and machine["page_ins"] == 0 and machine["swap_bytes"] is None
        assert len(window["hosts"]) == window["n"] and set(requests(window, "references")) == {
            "reference1",
            "reference2",
        }
        counts = {**requests(window, "hosts"), **requests(window, "references")}
        assert min(counts.values()) > 0 and all(len(load["seconds"]) == 1 for load in window["hosts"].values())
    shutil.rmtree(found.path, ignore_errors=True)  # the conductor does the same as soon as it sees that
    wait_for("the conductor's end", lambda: not found.is_running())
    assert found.left() == []


@pytest.mark.long
def test_what_fits_does_not_depend_on_how_many_join_at_once(ramp):
    one_by_one = ramp()
    fits = one_by_one.end()["n"] - 1
    one_by_one.close()
    at_once = ramp(sizes=[1, 12])
    end = at_once.end()
    assert (end["kind"], end["n"], end["host"]) == ("does_not_fit", fits + 1, f"redis{fits + 1}")
    assert [window["n"] for window in at_once.windows()] == [1, fits]
    assert list(at_once.windows()[-1]["hosts"]) == [f"redis{number}" for number in range(1, fits + 1)]
    assert "with" in at_once.lines("note")[0]["text"] and "alone" in at_once.lines("note")[-1]["text"]


def newcomers():
    """The servers that are loaded, but are still killed before all others."""
    found = []
    for pid in processes(groups.FLEET):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text(encoding="ascii").strip() == "1000":
                found.append(int(pid))
    return found


@pytest.mark.long
def test_a_newcomer_that_is_killed_before_its_step_has_settled_is_tried_once_more(ramp):
    found = ramp(sizes=[2, 3], budget_bytes=1024 * MIB)
    wait_for("the first window", found.windows)
    is_loaded = f"{found.ports[2]}.1.client"
    (victim,) = wait_for("the third", lambda: found.renew() or ((found.path / is_loaded).exists() and newcomers()))
    os.kill(victim, signal.SIGKILL)
    assert found.end()["kind"] == "hosts"
    (note,) = found.lines("note")
    assert note["text"].startswith("redis3 was killed while it joined alone, and is tried once more")
    assert [window["n"] for window in found.windows()] == [2, 3]


def test_a_server_that_is_killed_after_its_step_has_settled_ends_the_ramp(ramp):
    found = ramp(sizes=[2], budget_bytes=1024 * MIB, hold_seconds=60)
    wait_for("a window", found.windows)
    assert not newcomers()
    os.kill(int(processes(groups.FLEET)[0]), signal.SIGKILL)
    end = found.end()
    assert (end["kind"], end["n"]) == ("killed", 2) and not found.lines("note")


def swapped(pid):
    """Bytes of a process in swap."""
    return sum(int(line.split()[1]) * 1024 for line in state(pid).splitlines() if line.startswith("VmSwap:"))


def processes(name):
    """The processes of a group, none before it exists and after it is gone."""
    with contextlib.suppress(OSError):
        return (MEMORY / name / "cgroup.procs").read_text(encoding="ascii").split()
    return []


@pytest.mark.long
def test_a_tier_carries_more_servers_within_the_budget_and_references_stay_in_dram(ramp, zram):
    found = ramp(tier=[f"/dev/{pathlib.Path(zram).name}"], sizes=[2, 4, 6, 8])
    wait_for("a window of 8", lambda: [window for window in found.windows() if window["n"] == 8])
    windows, (started,) = found.windows(), found.lines("started")
    in_force = int(pathlib.Path("/proc/sys/vm/swappiness").read_text(encoding="ascii"))
    assert started["groups"]["fleet"]["swappiness"] == in_force > 0
    assert started["groups"]["references"]["swappiness"] == 0
    assert found.end()["kind"] == "hosts"
    last = windows[-1]["machines"][""]
    assert last["swap_used_bytes"] > 8 * MIB and last["tier_bytes"] > 2 * MIB and not last["other_swap_grew"]
    assert all(window["machines"][""]["charged_bytes"] <= 1.02 * BUDGET for window in windows if window["settled"])
    assert windows[-1]["settled"]


@pytest.mark.long
def test_references_are_not_swapped_out(ramp, zram):
    found = ramp(tier=[f"/dev/{pathlib.Path(zram).name}"], sizes=[8])
    wait_for("servers in swap", lambda: found.renew() or sum(map(swapped, processes(groups.FLEET))) > 4 * MIB)
    assert [swapped(pid) for pid in processes(groups.REFERENCES)] == [0, 0]


@pytest.fixture
def swap_file(needs_root, tmp_path):
    """A function that makes a swap file and returns its path."""
    made = []

    def make(name, size, priority):
        path = tmp_path / name
        path.touch(mode=0o600)
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        subprocess.run(["mkswap", path], check=True, capture_output=True)
        subprocess.run(["swapon", "--priority", str(priority), path], check=True)
        made.append(path)
        return str(path)

    yield make
    for path in made:
        subprocess.run(["swapoff", path], check=True)


@pytest.mark.long
def test_a_swap_file_carries_more_servers_and_its_reads_are_those_of_a_drive(ramp, swap_file):
    found = ramp(tier=[swap_file("tier", 256 * MIB, 100)], sizes=[2, 6, 8])
    assert found.end()["kind"] == "hosts"
    last = found.windows()[-1]["machines"][""]
    assert last["swap_used_bytes"] > 8 * MIB and last["charged_bytes"] <= 1.02 * BUDGET
    assert last["page_ins"] > 0 and last["drive_reads"] > 0 and last["drive_read_seconds"] >= 0
    assert found.lines("end")[0]["written_bytes"] > 8 * MIB


@pytest.mark.long
def test_a_ramp_writes_no_more_to_a_drive_than_it_may(ramp, swap_file):
    found = ramp(tier=[swap_file("tier", 256 * MIB, 100)], written_bytes=4 * MIB)
    end = found.end()
    assert end["kind"] == "hosts" and "written to swap on a drive, and a ramp may write 4,194,304" in end["message"]
    assert end["n"] == found.windows()[-1]["n"] < 12


@pytest.mark.long
def test_a_ramp_ends_once_its_tier_is_full_and_the_machines_own_swap_is_used(ramp, swap_file):
    swap_file("own", 128 * MIB, 1)
    found = ramp(tier=[swap_file("tier", 12 * MIB, 100)])
    end = found.end()
    found_words = re.fullmatch(r"pages went to a swap area of the machine's own; (\d+) % of the .*", end["message"])
    assert end["kind"] == "does_not_fit" and found_words and int(found_words[1]) >= 95, end["message"]
    windows = found.windows()
    assert [window["machines"][""]["other_swap_grew"] for window in windows] == [False] * (len(windows) - 1) + [True]


@pytest.mark.long
def test_a_server_that_is_killed_because_the_tier_is_full_ends_the_ramp_with_that_reason(ramp, swap_file):
    found = ramp(tier=[swap_file("tier", 12 * MIB, 100)])
    end = found.end()
    assert end["kind"] in ("does_not_fit", "killed") and "the tier of 12,5" in end["message"]
    assert len(found.lines("note")) <= 3, "a ramp does not go on where the kernel kills server after server"
    assert "Memory cgroup out of memory: Killed process" in end["message"]


@pytest.mark.long
def test_a_ramp_in_dram_leaves_the_machines_own_swap_alone(ramp, swap_file):
    swap_file("own", 128 * MIB, 1)
    found, seen = ramp(), []

    def is_over():
        seen.append(sum(map(swapped, processes(groups.FLEET))))  # other processes may be swapped out meanwhile
        return found.renew() or found.lines("end")

    (end,) = wait_for("the end of the ramp", is_over)
    assert end["end"]["kind"] == "does_not_fit" and len(found.windows()) >= 2
    assert max(seen) == 0


@pytest.mark.long
def test_a_ramp_holds_its_last_size(ramp):
    found = ramp(sizes=[2], hold_seconds=2)
    assert found.end()["kind"] == "hosts"
    kinds = [window["kind"] for window in found.windows()]
    assert kinds[:2] == ["step", "hold"] and set(kinds[1:]) == {"hold"}


@pytest.mark.long
def test_a_conductor_that_is_late_in_a_window_still_shows_life(ramp, monkeypatch):
    """On full CPUs reading the machine once takes longer than a second, so it never waits for the next one."""
    read = Machine.moment

    def read_slowly(self):
        time.sleep(1.2)
        return read(self)

    monkeypatch.setattr(Machine, "moment", read_slowly)
    found = ramp(sizes=[2], servers=2, window_seconds=12, lease_seconds=3.0)
    assert found.end()["kind"] == "hosts"
    assert [window["n"] for window in found.windows()] == [2]


@pytest.mark.long
def test_all_servers_of_a_held_fleet_are_touched_at_once_and_come_back_from_the_tier(ramp, zram):
    found = ramp(tier=[f"/dev/{pathlib.Path(zram).name}"], sizes=[8], hold_seconds=4, touch_seconds=8)
    assert found.end()["kind"] == "hosts"
    (line,) = found.lines("touch")
    touch, held = line["touch"], [window for window in found.windows() if window["kind"] == "hold"]
    assert touch["n"] == 8 and 0 < touch["touched_seconds"] < 8
    assert [second["references"]["upper"]["count"] for second in touch["seconds"]] == pytest.approx([100] * 8, abs=10)
    fleet = [second["fleet"]["upper"] for second in touch["seconds"]]
    assert sum(second["count"] for second in fleet) == pytest.approx(8 * 8 * 50, rel=0.05)
    before = max(load["upper"]["max_ns"] for load in held[-1]["hosts"].values())
    assert max(second["max_ns"] for second in fleet[:3]) > before, "pages came back from the tier"


@pytest.mark.long
def test_a_ramp_goes_on_beyond_its_sizes(ramp):
    found = ramp(sizes=[2], servers=4, budget_bytes=1024 * MIB)
    assert found.end()["kind"] == "hosts"
    assert [window["n"] for window in found.windows()] == [2, 3, 4]


def test_a_stranger_is_refused_by_the_servers_of_a_ramp(ramp):
    found = ramp(sizes=[2], budget_bytes=1024 * MIB, hold_seconds=60)
    wait_for("the first window", found.windows)
    for port in (found.ports[0], found.ports[-1]):
        with socket.create_connection(("127.0.0.1", port), 5) as stranger:
            stranger.sendall(b"CONFIG GET requirepass\r\n")
            assert stranger.recv(100).startswith(b"-NOAUTH")


@pytest.mark.long
def test_the_first_step_of_a_ramp_without_sizes_is_half_of_what_fits(ramp):
    found = ramp(sizes=[])
    assert found.end()["kind"] == "does_not_fit"
    sizes = [window["n"] for window in found.windows()]
    assert sizes[0] == 2 and sizes == sorted(sizes)


@pytest.mark.parametrize("how", [pytest.param("stop", marks=pytest.mark.long), "signal", "lease"])
def test_whatever_ends_a_ramp_nothing_is_left(ramp, how):
    found = ramp(sizes=[2, 12], budget_bytes=1024 * MIB, lease_seconds=2 if how == "lease" else 60)
    wait_for("the first window", lambda: found.windows() if how != "lease" else all(map(answers, found.ports[:2])))
    if how == "stop":
        (found.path / "stop").write_text("enough", encoding="ascii")
    elif how == "signal":
        os.kill(found.pid, signal.SIGTERM)
    if how != "lease":
        end = found.end()
        assert end["kind"] == "interrupted" and end["message"] == {"stop": "enough", "signal": "ended by a signal"}[how]
        assert [each for each in found.left() if each != str(found.path)] == []
        shutil.rmtree(found.path, ignore_errors=True)
    wait_for("the conductor's end", lambda: not found.is_running())
    assert found.left() == []


def test_a_killed_conductor_takes_its_servers_with_it_and_the_next_one_removes_the_rest(ramp):
    found = ramp(sizes=[2, 12], budget_bytes=1024 * MIB)
    wait_for("the first window", found.windows)
    os.kill(found.pid, signal.SIGKILL)
    wait_for("the servers' end", lambda: not any(map(answers, found.ports)))
    wait_for("the processes' end", lambda: not any(map(processes, (groups.FLEET, groups.REFERENCES))))
    second = ramp(sizes=[1])
    assert not found.path.exists()
    assert second.end()["kind"] == "does_not_fit" or second.windows()


def taken_port(fleet):
    """A plan of a ramp whose reference has the port of another Redis, and what must be said about it."""
    fleet.add("other")
    port = fleet.servers["other"].port
    message = (
        f"port {port} (of reference; references have the ports after the highest latency_benchmark_port)"
        " is taken by another program; stop it, or set another port"
    )
    return {"servers": 1, "sizes": [1], "references": 0, "more": [{"name": "reference", "port": port}]}, message


def assert_late_port_is_refused(ramp, fleet, monkeypatch, **more):
    """Assert that a ramp ends as it should if somebody takes a port after its launch."""
    plan, message = taken_port(fleet)
    monkeypatch.setattr(session, "refuse_taken_ports", lambda plan: None)
    end = ramp(**plan, **more).end()
    assert end["kind"] == "error" and message in end["message"]


def test_a_port_that_is_taken_is_refused_at_the_launch(ramp, fleet):
    plan, message = taken_port(fleet)
    with pytest.raises(ServerError, match=f"^{re.escape(message)}$"):
        ramp(**plan)


def test_a_port_that_is_taken_after_the_launch_is_an_error_that_says_what_to_do(ramp, fleet, monkeypatch):
    assert_late_port_is_refused(ramp, fleet, monkeypatch)
