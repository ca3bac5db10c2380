# SPDX-License-Identifier: GPL-3.0-or-later
"""A test in windows: one line for each, complete, while it runs; and a stop or a lapsed lease is a normal end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest


def windows_of(text):
    """Return the lines of the windows, and the document after them."""
    *windows, last = (json.loads(line) for line in text.splitlines())
    assert [window["window"] for window in windows] == list(range(len(windows)))
    assert "window" not in last
    return windows, last


def histogram(windows, name):
    """Return the buckets of all windows together."""
    total = {}
    for window in windows:
        buckets = window["latency"][name]["buckets"]
        for index, count in zip(buckets[::2], buckets[1::2]):
            total[index] = total.get(index, 0) + count
    return total


def count(window, name="intended"):
    return window["latency"][name]["count"]


@pytest.mark.parametrize("slots", [[], ["--connections", 4, "--pipeline", 4]])
def test_windows_are_the_test(any_solotest, filled, slots):
    result = any_solotest.run(
        *("--windows", 0.5, "--duration", 3.2, "--arrivals", "jitter", *slots),
        *("test", filled.port, 100, 1000, 10, 500),
    )
    windows, last = windows_of(result.output)
    assert result.code == 0 and last["ended"] == "done" and last["error"] is None
    assert len(windows) == 6  # what is left of the last one is in the document only
    whole = last["test"]["latency"]
    assert last["test"]["requests"]["ok"] == 1600
    # The server's part of a latency is not known where the client was away while it sent; a quiet machine has no such
    # request.
    unknown = whole["intended"]["count"] - whole["server"]["count"]
    unanswered = 0
    for window in windows:
        assert abs(window["finished_at"] - window["started_at"] - 0.5) < 2e-6
        assert 200 < count(window) < 300 and window["too_late"] <= unanswered
        unanswered += window["unanswered"]
        assert count(window) == count(window, "punctual")
        assert 0 <= count(window) - window["unanswered"] - count(window, "server") <= unknown
    for name in ("server", "intended", "punctual"):
        pairs = whole[name]["buckets"]
        buckets = dict(zip(pairs[::2], pairs[1::2]))
        if all(window["unanswered"] == 0 for window in windows):
            assert all(number <= buckets[index] for index, number in histogram(windows, name).items())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_a_normal_end(any_solotest, filled, number):
    process = any_solotest.start("--windows", 0.2, "test", filled.port, 100, 1000, 10, 200, text=True)
    first = process.stdout.readline()
    begin = time.monotonic()
    process.send_signal(number)
    output, messages = process.communicate(timeout=20)
    windows, last = windows_of(first + output)
    assert process.returncode == 0 and messages == "" and time.monotonic() - begin < 5
    assert last["ended"] == "signal" and last["error"] is None and last["interrupted"] is None
    requests = last["test"]["requests"]
    assert requests["sent"] == requests["ok"] == last["test"]["latency"]["intended"]["count"] - requests["not_sent"]
    assert last["server_after"]["dbsize"] == 1000 and len(windows) >= 1


def test_a_server_that_hangs_is_in_its_windows_and_does_not_hold_a_stop(any_solotest, filled):
    process = any_solotest.start("--windows", 0.3, "test", filled.port, 100, 1000, 10, 200, text=True)
    text = process.stdout.readline()
    os.kill(filled.process.pid, signal.SIGSTOP)
    try:
        for _line in range(4):
            text += process.stdout.readline()
        begin = time.monotonic()
        process.terminate()
        time.sleep(1.5)
    finally:
        os.kill(filled.process.pid, signal.SIGCONT)
    output, _messages = process.communicate(timeout=20)
    windows, last = windows_of(text + output)
    hung = [window for window in windows if window["unanswered"] > 0]
    assert len(hung) >= 3 and time.monotonic() - begin < 10
    # A request that was due in such a window waited until the end of the next one at least.
    assert all(window["latency"]["intended"]["max_ns"] > 0.29e9 for window in hung)
    assert all(55 <= count(window) <= 65 for window in hung[1:])
    assert last["ended"] == "signal" and last["test"]["requests"]["lost"] > 0


def test_a_lease_that_lapses_ends_it(solotest, filled, tmp_path):
    lease = tmp_path / "lease"
    lease.touch()
    begin = time.monotonic()
    process = solotest.start("--windows", 1, "--lease", lease, "test", filled.port, 100, 1000, 10, 100, text=True)
    while time.monotonic() - begin < 6:
        lease.touch()
        time.sleep(0.5)
    assert process.poll() is None  # it was renewed
    output, _messages = process.communicate(timeout=20)
    assert process.returncode == 0 and windows_of(output)[1]["ended"] == "lease"
    assert 10 < time.monotonic() - begin < 16


def test_a_machine_that_stood_still_ends_no_lease(solotest, filled, tmp_path):
    """Client and conductor stop at the same time, and the client goes on first."""
    lease = tmp_path / "lease"
    lease.touch()
    process = solotest.start("--windows", 1, "--lease", lease, "test", filled.port, 100, 1000, 10, 100, text=True)
    first = process.stdout.readline()
    process.send_signal(signal.SIGSTOP)
    time.sleep(6)
    process.send_signal(signal.SIGCONT)
    time.sleep(1)
    assert process.poll() is None
    lease.unlink()
    output, _messages = process.communicate(timeout=4)
    assert windows_of(first + output)[1]["ended"] == "lease"


def test_a_lease_that_is_removed_ends_it_at_once(solotest, filled, tmp_path):
    lease = tmp_path / "lease"
    lease.touch()
    process = solotest.start("--windows", 0.3, "--lease", lease, "test", filled.port, 100, 1000, 10, 100, text=True)
    first = process.stdout.readline()
    lease.unlink()
    output, _messages = process.communicate(timeout=4)
    assert windows_of(first + output)[1]["ended"] == "lease"


def test_nobody_who_reads_ends_it(solotest, filled):
    reader, writer = os.pipe()
    process = solotest.start("--windows", 0.1, "test", filled.port, 100, 1000, 10, 100, stdout=writer)
    os.close(writer)
    os.close(reader)
    assert process.wait(timeout=20) == 6
    process.stderr.close()


@pytest.mark.parametrize(
    "options, said",
    [
        (["--lease", "x"], "--lease needs --windows"),
        (["--windows", 1, "--pacing", "none"], "--windows: not possible with --pacing none"),
        (["--windows", 1, "--raw", "x"], "--windows: not possible with --raw"),
        (["--windows", 0.01], "--windows: '0.01' is not allowed"),
    ],
)
def test_options_that_do_not_go_together(solotest, filled, options, said):
    result = solotest.run(*options, "test", filled.port, 100, 1000, 10, 100)
    assert result.code == 2 and said in result.messages


@pytest.mark.long
def test_valgrind_finds_nothing(build_of, filled):
    program = build_of("solotest-dynamic").program
    command = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite", program]
    options = ["--windows", "0.3", "--duration", "2", "--realtime", "off"]
    result = subprocess.run(
        [*command, *options, "test", str(filled.port), "100", "1000", "10", "50"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
