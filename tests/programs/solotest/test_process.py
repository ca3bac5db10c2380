# SPDX-License-Identifier: GPL-3.0-or-later
"""The process: its memory, its CPU, its start, and a run under valgrind."""

from __future__ import annotations

import os
import pathlib
import resource
import subprocess
import time

import pytest

MEMORY_LIMIT_KB = 20 * 1024


@pytest.mark.parametrize(
    "arguments",
    [
        ["--requests", 500000, "--pacing", "none", "--pipeline", 64],
        ["--requests", 200000, "--pacing", "none", "--connections", 64, "--pipeline", 16],
    ],
    ids=["pipeline", "connections"],
)
def test_memory_is_bounded_whatever_the_count(solotest, filled, arguments):
    report = solotest.run("--json", *arguments, "test", filled.port, 100, 1000, 10, 1, 70).json
    assert report["error"] is None
    assert report["client_health"]["max_rss_kb"] <= MEMORY_LIMIT_KB


def test_many_keys_take_no_more_memory(solotest, fresh):
    """3.3 million keys, as in the brief: the hot set is counted in passes."""
    result = solotest.run(
        "--json", "--requests", 200000, "--pacing", "none", "--pipeline", 64, "test", fresh.port, 10, 3300000, 10, 1, 0
    )
    report = result.json
    assert result.code in (0, 1) and report["test"]["requests"]["sent"] == 200000
    assert report["test"]["hot_set"]["accesses"] == 200000
    assert report["client_health"]["max_rss_kb"] <= MEMORY_LIMIT_KB


def test_the_memory_it_reports_is_its_own(solotest, filled):
    """Not that of the large process that started it, which getrusage() would tell."""
    ballast = bytearray(200 << 20)
    ballast[::4096] = b"x" * len(ballast[::4096])
    report = solotest.run("--json", "--requests", 100, "test", filled.port, 100, 1000, 0, 5000).json
    assert report["client_health"]["max_rss_kb"] <= MEMORY_LIMIT_KB
    del ballast


def may_lock():
    return os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] >= 8 << 20


@pytest.mark.skipif(not may_lock(), reason="this user may not lock memory")
def test_memory_is_locked(solotest, filled):
    process = solotest.start("--json", "--duration", 1, "test", filled.port, 100, 1000, 0, 1000)
    time.sleep(0.5)
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    locked = int(next(line for line in status.splitlines() if line.startswith("VmLck")).split()[1])
    report = solotest.finish(process).json
    assert report["client_health"]["memory_locked"] is True and locked > 1000
    assert report["client_health"]["major_faults"] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop the right to lock memory")
def test_memory_that_may_not_be_locked_is_a_warning(solotest, filled):
    def drop():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    # a copy where any user may reach it
    program = pathlib.Path("/tmp") / f"solotest-{os.getpid()}"
    program.write_bytes(pathlib.Path(solotest.program).read_bytes())
    program.chmod(0o755)
    try:
        solotest.program = str(program)
        result = solotest.run("--json", "--requests", 100, "test", filled.port, 100, 1000, 0, 5000, preexec_fn=drop)
    finally:
        program.unlink()
    assert result.code == 0 and result.json["client_health"]["memory_locked"] is False
    assert "cannot lock memory" in result.messages


def test_an_ordinary_user_can_lock_within_the_usual_limit(solotest, filled):
    """8 MB is what systems give by default: the program fits."""
    report = solotest.run("--json", "--requests", 100, "test", filled.port, 1000, 1000, 0, 5000).json
    assert report["client_health"]["max_rss_kb"] < 8 * 1024


def test_cpu_placement(solotest, filled):
    cpu = max(os.sched_getaffinity(0))
    report = solotest.run("--json", "--cpu", cpu, "--requests", 500, "test", filled.port, 100, 1000, 0, 5000).json
    health = report["client_health"]
    assert health["cpus_allowed"] == str(cpu) and health["cpu_first"] == health["cpu_last"] == cpu
    assert report["settings"]["cpu"] == cpu


def start_together(solotest, server):
    """Eight clients with one start; return by how much each missed it, in seconds."""
    start_at = time.time() + 1.5
    clients = [
        solotest.start(
            "--json", "--start-at", f"{start_at:.6f}", "--requests", 200, "test", server.port, 100, 1000, 0, 200
        )
        for dummy in range(8)
    ]
    tests = [solotest.finish(client).json["test"] for client in clients]
    assert all(test["ready_at"] < start_at for test in tests)
    return [test["started_at"] - start_at for test in tests]


def test_clients_start_together(solotest, filled):
    for _attempt in range(5):
        skews = start_together(solotest, filled)
        assert min(skews) >= -1e-6  # never early; how late is a matter of free CPUs
        if sorted(skews)[len(skews) // 2] < 0.002:
            return
    pytest.fail(f"the clients missed their start by {skews}")


def test_stagger_shifts_the_first_request(solotest, filled):
    start_at = time.time() + 1
    report = solotest.run(
        "--json",
        "--start-at",
        f"{start_at:.6f}",
        "--stagger",
        0.5,
        "--requests",
        3,
        "test",
        filled.port,
        100,
        1000,
        0,
        2,
    ).json
    assert 0.25 - 1e-6 <= report["test"]["started_at"] - start_at < 0.75
    assert report["test"]["rate"]["achieved"] == pytest.approx(2, rel=0.5)


def test_a_start_in_the_past_is_now(solotest, filled):
    begin = time.time()
    result = solotest.run("--json", "--start-at", begin - 100, "--requests", 10, "test", filled.port, 100, 1000, 0, 100)
    assert result.code == 0 and "starting now" in result.messages
    assert result.json["test"]["started_at"] >= begin
    assert result.json["test"]["latency"]["lateness"]["max_ns"] < 50e9


def test_valgrind_finds_nothing(build_of, fresh):
    program = build_of("solotest-dynamic").program
    result = subprocess.run(
        [
            "valgrind",
            "-q",
            "--error-exitcode=9",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
            program,
            "--json",
            "--pacing",
            "none",
            "--connections",
            "2",
            "--pipeline",
            "8",
            "filltest",
            str(fresh.port),
            "100",
            "2000",
            "10",
            "1",
            "70",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
