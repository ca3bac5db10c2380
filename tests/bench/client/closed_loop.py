# SPDX-License-Identifier: GPL-3.0-or-later
"""Closed loops in pairs: GETs per second, and per second of CPU, of one client relative to another.

Both clients run all the time and are stopped all the time, but for slices of 50 ms that alternate: A B, B A, A B, ...
A machine that changes its speed changes it for both slices of a pair. Nothing of a client's start is measured. The
Redis counts the requests, and the kernel the CPU time, so all clients are measured in the same way.

How fast a process is also depends on where its memory happens to be, and stays so until it ends: pairs of the same
two processes tell nothing about that. So both clients are restarted for each of BLOCKS blocks of pairs, and the
interval is that of the blocks' medians.

The other work of any latency client shows in a third client: the raw loop with a random key, two looks at the
clock and a histogram.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import time

from common import KEYS, OTHER_CPU, PROGRAM, REDIS_CPU, VALUE_SIZE, Connection, Redis, pinned, places, solotest

SLICE_SECONDS = 0.05
FOREVER_SECONDS = 86400
FOREVER_REQUESTS = 10**9
BLOCKS = 20
BAR = 0.99


def raw_loop(program, *timed):
    return lambda port: [program, port, FOREVER_REQUESTS, VALUE_SIZE, KEYS, *timed]


def of_solotest(program):
    return lambda port: [
        *(program, "--pacing", "none", "--duration", FOREVER_SECONDS, "test", port, VALUE_SIZE, KEYS, 0, 1)
    ]


def redis_benchmark(port):
    return ["redis-benchmark", "-p", port, "-t", "get", "-c", 1, "-n", FOREVER_REQUESTS, "-r", KEYS, "-d", VALUE_SIZE]


def memtier(port):
    keys = ["--key-prefix", "", "--key-minimum", 1, "--key-maximum", KEYS - 1]
    return [
        *("memtier_benchmark", "-p", port, "-t", 1, "-c", 1, "--test-time", FOREVER_SECONDS, "--ratio", "0:1"),
        *keys,
        "--hide-histogram",
    ]


class Client:
    """A client in a closed loop that is stopped, but for its slices."""

    def __init__(self, command, cpu):
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
        )
        time.sleep(0.3)
        self.stop()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        _pid, status = os.waitpid(self.process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            raise RuntimeError(f"{self.process.args} has ended")

    def go(self):
        self.process.send_signal(signal.SIGCONT)

    def cpu_ns(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks)

    def close(self):
        self.process.kill()
        self.process.wait()


def commands_of(connection):
    """Count how many commands the Redis has processed before this one."""
    return int(re.search(r"total_commands_processed:(\d+)", connection.send("INFO", "stats")).group(1))


def measure_slice(client, connection):
    """Return the requests per second of one slice, and per second of the client's CPU."""
    before, cpu = commands_of(connection), client.cpu_ns()
    begin = time.perf_counter_ns()
    client.go()
    time.sleep(SLICE_SECONDS)
    client.stop()
    took = time.perf_counter_ns() - begin
    requests = commands_of(connection) - before - 1
    if requests == 0:
        raise RuntimeError("a slice without a request: this machine is too busy for a bench")
    return requests / took * 1e9, requests / (client.cpu_ns() - cpu) * 1e9


def measure_pairs(port, cpu, commands, count):
    """Return [(slice of the first client, slice of the second)], with the order swapped from pair to pair."""
    pairs = []
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(contextlib.closing(Connection(port)))
        clients = [stack.enter_context(contextlib.closing(Client(command(port), cpu))) for command in commands]
        for number in range(count):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            slices = {which: measure_slice(clients[which], connection) for which in order}
            pairs.append((slices[0], slices[1]))
    return pairs


def measure_blocks(port, cpu, commands, count):
    """Return BLOCKS lists of pairs, `count` pairs or more in all, each of clients that were started for it."""
    return [measure_pairs(port, cpu, commands, -(-count // BLOCKS)) for _block in range(BLOCKS)]


def fill_for_all(server):
    """Write our keys, and those that redis-benchmark asks for."""
    solotest("fill", server.port, VALUE_SIZE, KEYS)
    pinned(
        [
            *("redis-benchmark", "-p", server.port, "-t", "set", "-c", 1, "-P", 50, "-n", 20 * KEYS, "-r", KEYS),
            *("-d", VALUE_SIZE, "-q"),
        ],
        OTHER_CPU,
    )


def comparisons(options, raw_program):
    """Return [(names and commands of two clients, number of pairs, bar)]."""
    ours = ("solotest", of_solotest(PROGRAM))
    raw, least = ("the raw loop", raw_loop(raw_program)), ("the least latency client", raw_loop(raw_program, "timed"))
    few = options.pairs // 4
    found = [
        ((ours, raw), options.pairs, BAR),
        ((least, raw), options.pairs, None),
        ((ours, least), options.pairs, None),
        ((ours, ("redis-benchmark", redis_benchmark)), few, 1.3),
    ]
    if shutil.which("memtier_benchmark"):
        found.append(((ours, ("memtier_benchmark", memtier)), few, None))
    if options.baseline:
        found.append(((ours, ("the other build", of_solotest(options.baseline))), options.pairs, None))
    return found


def bench_closed_loop(table, options, raw_program):
    """Compare solotest with the raw loop, other clients, and another build of itself."""
    for place, cpu in places(table, "closed loop"):
        with Redis(cpu=REDIS_CPU) as server:
            fill_for_all(server)
            for clients, count, limit in comparisons(options, raw_program):
                names, commands = zip(*clients)
                blocks = measure_blocks(server.port, cpu, commands, count)
                barred = limit == BAR or (limit is not None and place == "same CPU")
                report(table, place, names, blocks, limit if barred else None)


def report(table, place, names, blocks, limit):
    """Add the absolute figures, and the two ratios."""
    for which, client in enumerate(names):
        slices = [pair[which] for pairs in blocks for pair in pairs]
        rate, efficiency = (statistics.median(each[k] for each in slices) for k in (0, 1))
        table.add(f"closed loop, {place}, {client}", f"{rate:,.0f}/s, {1e6 / efficiency:.2f} us CPU", "", None)
    for k, what in enumerate(("GETs", "GETs per CPU second")):
        ratios = [[ours[k] / theirs[k] for ours, theirs in pairs] for pairs in blocks]
        medians = [statistics.median(block) for block in ratios]
        name = f"{what} of {names[0]} relative to {names[1]}, {place}"
        table.note(f"{name}, by block", [[round(ratio, 3) for ratio in block] for block in ratios])
        table.add_ratio(name, medians, limit if k == 0 or limit == BAR else None, f"blocks of {len(ratios[0])} pairs")
