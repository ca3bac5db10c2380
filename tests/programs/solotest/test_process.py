# SPDX-License-Identifier: GPL-3.0-or-later
"""The process: its memory, its CPU, its start, and a run under valgrind."""

from __future__ import annotations

import os
import pathlib
import resource
import subprocess
import time

import pytest
import truth

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
    process = solotest.start("--json", "--duration", 30, "test", filled.port, 100, 1000, 0, 1000)
    filled.command("CONFIG", "RESETSTAT")
    filled.await_gets(1, process)
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    locked = int(next(line for line in status.splitlines() if line.startswith("VmLck")).split()[1])
    process.terminate()
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


def may_run_in_real_time():
    """True if the kernel grants it to a child of this process."""
    granted = subprocess.run(["chrt", "-f", "1", "true"], check=False, capture_output=True)
    return granted.returncode == 0


def test_real_time_is_had_or_the_reason_said(any_solotest, filled):
    run = ("--json", "--requests", 200, "test", filled.port, 100, 1000, 0, 2000)
    health = any_solotest.run(*run).json["client_health"]
    assert health["realtime"] is may_run_in_real_time()
    assert (health["realtime_refused"] is None) == health["realtime"]
    assert (health["spin_us_at_end"] is None) == health["realtime"]  # it sleeps there
    off = any_solotest.run("--realtime", "off", *run).json["client_health"]
    assert off["realtime"] is False and off["realtime_refused"] is None and off["spin_us_at_end"] is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop the right to real-time priority")
@pytest.mark.parametrize("wanted", ["auto", "required"])
def test_real_time_without_the_right_names_it(build_of, filled, wanted):
    def drop():
        resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    client = build_of("solotest")
    program = pathlib.Path("/tmp") / f"solotest-{os.getpid()}-{wanted}"
    program.write_bytes(pathlib.Path(client.program).read_bytes())
    program.chmod(0o755)
    try:
        client.program = str(program)
        result = client.run(
            *("--json", "--realtime", wanted, "--requests", 50, "test", filled.port, 100, 1000, 0, 2000),
            preexec_fn=drop,
        )
    finally:
        program.unlink()
    if wanted == "required":
        assert result.code == 7 and "RLIMIT_RTPRIO" in result.messages and result.output == ""
    else:
        assert result.code == 0 and "RLIMIT_RTPRIO" in result.json["client_health"]["realtime_refused"]


def test_real_time_that_would_starve_redis_is_refused(solotest, filled):
    for pacing in ("spin", "none"):
        result = solotest.run("--realtime", "required", "--pacing", pacing, "test", filled.port)
        assert result.code == 2 and f"--pacing {pacing}" in result.messages


def check_start(solotest, server, clients, *options, after=0.0):
    """Start clients with one start; check that each schedule begins then, as far as the machine lets the client."""
    start_at, stolen = time.time() + 1.5, truth.stolen_ns()
    started = [
        solotest.start(
            *("--json", "--start-at", f"{start_at:.6f}", "--requests", 1, *options),
            *("test", server.port, 100, 1000, 0, 2),
        )
        for dummy in range(clients)
    ]
    for client in started:
        os.waitid(os.P_PID, client.pid, os.WEXITED | os.WNOWAIT)
        away = truth.waited_for_cpu(client.pid) + truth.stolen_ns() - stolen + truth.TICK_NS
        test = solotest.finish(client).json["test"]
        sent_late = test["latency"]["intended"]["sum_ns"] - test["latency"]["service"]["sum_ns"]
        late = test["started_at"] - sent_late / 1e9 - start_at - after
        assert -1e-3 < late < 1e-3 + away / 1e9 + max(0, test["ready_at"] - start_at)


def test_clients_start_together(solotest, filled):
    check_start(solotest, filled, 8)


def test_stagger_shifts_the_first_request(solotest, filled):
    check_start(solotest, filled, 1, "--stagger", 0.5, after=0.25)


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
