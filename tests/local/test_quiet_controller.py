# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller sleeps while it loads its own machine: the wake-ups of its processes during a run are counted."""

from __future__ import annotations

import json
import pathlib
import signal
import time

import pytest
import redis

from .conftest import SMALL, Process, daemons_in, free_ports, processes, wait_for, write_inventory

HOSTS = ("a", "b")
# Wake-ups are counted during this many requests to one Redis, at the 1,000 per second of SMALL, and again, at most so
# often, while the task that waits still starts.
COUNTED, TIMES = 4000, 5
# Wake-ups per second of each process. The limit leaves room for the end of its start; a playbook whose task waits looks
# for results 100 times a second.
MOST = 10


def wakeups(pid: int) -> int:
    """Count how often the threads of a process have gone to sleep and woken up."""
    threads = [
        (thread / "status").read_text(encoding="utf-8") for thread in pathlib.Path(f"/proc/{pid}/task").iterdir()
    ]
    return sum(int(thread.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for thread in threads)


class Controller:
    """The processes of a playbook.

    Args:
        playbook: id of its first process.
        ports: of the Redis servers that it loads.
    """

    def __init__(self, playbook: int, ports: range) -> None:
        self._playbook, self._ports = playbook, {str(port) for port in ports}

    def waits(self) -> bool:
        """Decide whether the clients are there, which follow their schedule by themselves."""
        return len(self._clients(processes())) == len(self._ports)

    def wakeups(self) -> dict[int, int]:
        """Count how often each process has woken up so far, by its id."""
        return {pid: wakeups(pid) for pid in self._descendants(processes())}

    def _clients(self, now: dict[int, Process]) -> list[int]:
        return [
            pid
            for pid, each in now.items()
            if "/solotest-" in each.words[0] and "test" in each.words and self._ports & set(each.words)
        ]

    def _descendants(self, now: dict[int, Process]) -> list[int]:
        def descends(pid: int) -> bool:
            return pid == self._playbook or (pid in now and descends(now[pid].parent))

        return [pid for pid in now if descends(pid)]


def is_quiet(rates: dict[int, float]) -> bool:
    """Decide whether all processes of the controller were there all the time, and slept."""
    return bool(rates) and all(rate <= MOST for rate in rates.values())


@pytest.mark.long
def test_the_controller_sleeps_while_a_run_loads_its_machine(fleet, tmp_path):
    first = free_ports(len(HOSTS))
    ports = range(first, first + len(HOSTS))
    hosts = {name: {"redis_port": port, "latency_benchmark_port": port} for name, port in zip(HOSTS, ports)}
    common = {**SMALL, **daemons_in(tmp_path / "state")}
    inventory = write_inventory(tmp_path / "hosts.yml", {"fleet": {"hosts": hosts, "vars": common}})
    # The test interrupts the load, which must not end before.
    variables = {"profiles": "dram,dram", "study_rounds": 1, "latency_benchmark_duration": 1200}
    playbook = fleet.start("-e", json.dumps(variables), playbook="study", inventory=inventory)
    controller = Controller(playbook.pid, ports)
    wait_for("the load", controller.waits, playbook)

    with redis.Redis(port=ports[0]) as loaded:

        def wait_for_requests(number: int) -> None:
            enough = requests() + number
            wait_for(f"{number} requests", lambda: requests() > enough, playbook)

        def requests() -> int:
            return loaded.info("stats")["total_commands_processed"]

        wait_for_requests(COUNTED)  # before the start of the schedule, processes come and go
        rates = []
        while len(rates) < TIMES and not (rates and is_quiet(rates[-1])):
            before, began = controller.wakeups(), time.monotonic()
            wait_for_requests(COUNTED)
            after, seconds = controller.wakeups(), time.monotonic() - began
            same = before.keys() == after.keys()
            rates.append({each: (after[each] - before[each]) / seconds for each in before} if same else {})

    playbook.send_signal(signal.SIGINT)
    output, _none = playbook.communicate()
    assert playbook.returncode != 0 and "The hosts are restored" in output, output

    assert is_quiet(rates[-1]), rates
