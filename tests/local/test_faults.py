# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong on real machines: a clear message, a status that is not 0, and nothing lost."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import time

import pytest

LONG = ("-e", "latency_benchmark_key_count=2000")  # phases of two seconds


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["profile=turbo"], ["profile", "turbo", "dram", "imdt", "zram"]),
        (["latency_benchmark_rate=fast"], ["latency_benchmark_rate", "'fast'", "0.001 to 1,000,000,000"]),
        (["latency_benchmark_rate=0"], ["latency_benchmark_rate", "0.001 to 1,000,000,000"]),
        (["latency_benchmark_key_count=0"], ["latency_benchmark_key_count", "1 to 1,000,000,000,000"]),
        (["latency_benchmark_value_size=1e3x"], ["latency_benchmark_value_size", "1 to 536,870,912"]),
        (["latency_benchmark_read_mixes=100,101"], ["latency_benchmark_read_mixes", "'101'", "-1 to 100"]),
        (["latency_benchmark_influences=5e6"], ["latency_benchmark_influences", "-1,000,000 to 1,000,000"]),
        (["latency_benchmark_iterations=0"], ["latency_benchmark_iterations", "1 to 1,000"]),
        (
            ["latency_benchmark_cpu=beside"],
            ["latency_benchmark_cpu", "'beside'", "any, beside_redis, own or a whole number from 0 to 1,023"],
        ),
        (["latency_benchmark_duration=0"], ["latency_benchmark_duration", "0.001 to 1,000,000,000"]),
        (
            ["latency_benchmark_duration=2", "latency_benchmark_requests=7"],
            ["latency_benchmark_duration", "2,000 requests", "says 7"],
        ),
        (
            ["latency_benchmark_pattern=uniform", "latency_benchmark_influences=10"],
            ["latency_benchmark_influences", "it takes [0]"],
        ),
        (["run_id=../elsewhere"], ["run_id", "../elsewhere"]),
    ],
)
def test_bad_input_is_refused_before_anything_is_touched(lab, arguments, message):
    lab.add("a")
    lab.servers["a"].command("set", "precious", "1")
    outcome = lab.play(*[word for each in arguments for word in ("-e", each)])
    assert outcome.status != 0
    for part in message:
        assert part in outcome.output, outcome.output
    assert not lab.results.exists()
    assert lab.servers["a"].command("get", "precious") == "1"


def test_a_fleet_without_hosts(lab):
    outcome = lab.play()
    assert outcome.status != 0
    assert "The fleet is empty" in outcome.output


def test_an_instance_that_does_not_answer(lab):
    lab.add("a", "b")
    lab.servers["b"].kill()
    outcome = lab.play()
    assert outcome.status != 0
    assert "fatal: [b]" in outcome.output and "is Redis running there" in outcome.output
    assert "hosts of the fleet cannot take part (b)" in outcome.output
    assert not lab.results.exists()
    assert lab.servers["a"].command("dbsize") == "0"


def test_a_password(lab):
    lab.add("a", password="correct horse")
    wrong = lab.play("-e", '{"latency_benchmark_password": "wrong staple"}')
    assert wrong.status != 0
    assert "check username and password" in wrong.output
    right = lab.play("-vvv", "-e", '{"latency_benchmark_password": "correct horse"}')
    assert right.status == 0, right.output
    # The command line that the user typed is not ours; everything that we print or keep is.
    assert "correct horse" not in right.output
    for path in right.run.rglob("*"):
        if path.is_file():
            assert "correct horse" not in path.read_text(encoding="utf-8")


def test_data_of_somebody_else_is_not_wiped(lab):
    lab.add("a")
    lab.servers["a"].command("set", "customer:17", "precious")
    outcome = lab.play()
    assert outcome.status != 0
    assert "overwrite" in outcome.output
    assert lab.servers["a"].command("get", "customer:17") == "precious"
    allowed = lab.play("-e", "latency_benchmark_overwrite=true")
    assert allowed.status == 0, allowed.output


def test_a_redis_that_dies_in_a_phase(lab):
    lab.add("a", "b", "c")
    process = lab.start(*LONG)
    lab.wait_for_phase(process, "03-i0-r100-1.json")
    lab.wait_for_clients(3)
    time.sleep(1)
    lab.servers["b"].kill()
    outcome = lab.wait(process)
    assert outcome.status != 0
    summary = outcome.summary
    assert summary["verdict"] == "invalid"
    assert summary["fleet"]["failed"] == ["b"]
    assert any("b: Redis 127.0.0.1" in reason for reason in summary["reasons"])
    # The others' results and the earlier phases are kept.
    last = outcome.phase(outcome.phase_files[-1])
    assert sorted(last["hosts"]) == ["a", "c"] and not last["valid"]
    assert outcome.phase_files[:3] == ["01-fill.json", "02-i0-r100-warmup1.json", "03-i0-r100-1.json"]
    assert outcome.output.count("Verdict: INVALID") == 1
    kept = outcome.phase("03-i0-r100-1.json")

    # Repaired, the same command finishes the run. The data of b is gone, so the fleet is filled again.
    lab.servers["b"].start()
    again = lab.play(*LONG)
    assert again.status == 0, again.output
    assert "Resuming run" in again.output
    assert again.run == outcome.run
    assert again.summary["verdict"] == "pass"
    assert again.phase("03-i0-r100-1.json") == kept
    assert [path.name for path in (again.run / "superseded").iterdir()]


def test_a_client_that_is_killed(lab):
    lab.add("a", "b")
    process = lab.start(*LONG)
    lab.wait_for_phase(process, "02-i0-r100-warmup1.json")
    victims = lab.wait_for_clients(2)
    os.kill(victims[0], signal.SIGKILL)
    outcome = lab.wait(process)
    assert outcome.status != 0
    assert outcome.summary["verdict"] == "invalid"
    assert len(outcome.summary["fleet"]["failed"]) == 1
    assert "printed no result" in outcome.output


def test_interrupted_by_the_keyboard_then_the_same_again(lab):
    lab.add("a", "b")
    process = lab.start(*LONG)
    lab.wait_for_phase(process, "03-i0-r100-1.json")
    lab.wait_for_clients(2)
    process.send_signal(signal.SIGINT)
    interrupted = lab.wait(process)
    assert interrupted.status != 0
    before = {name: interrupted.phase(name) for name in interrupted.phase_files}
    assert sorted(before) == ["01-fill.json", "02-i0-r100-warmup1.json", "03-i0-r100-1.json"]
    again = lab.play(*LONG)  # at once, while clients of the interrupted phase may still be there
    assert again.status == 0, again.output
    assert "Resuming run" in again.output
    assert again.run == interrupted.run
    assert again.summary["verdict"] == "pass"
    assert len(again.phase_files) == 5
    for name, document in before.items():
        assert again.phase(name) == document
    # A finished run is not resumed; the same command begins a new one.
    other = lab.play(*LONG)
    assert other.status == 0, other.output
    assert "Resuming run" not in other.output and other.run != again.run


def test_two_playbooks_at_once(lab):
    lab.add("a")
    process = lab.start(*LONG)
    lab.wait_for_phase(process, "01-fill.json")
    second = lab.play(*LONG)
    assert second.status != 0
    assert "is working on this run" in second.output
    assert lab.wait(process).status == 0


def test_a_results_directory_that_exists(lab):
    lab.add("a")
    short = ["-e", "latency_benchmark_read_mixes=100", "-e", "run_id=mine"]
    first = lab.play(*short)
    assert first.status == 0, first.output
    written = {path: path.read_bytes() for path in first.run.rglob("*.json")}
    same = lab.play(*short)
    assert same.status != 0 and "its run is finished" in same.output
    other = lab.play(*short, "-e", "latency_benchmark_rate=900")
    assert other.status != 0 and "load.rate: 1000.0 -> 900.0" in other.output
    assert written == {path: path.read_bytes() for path in first.run.rglob("*.json")}
    (lab.results / "theirs").mkdir()
    (lab.results / "theirs" / "thesis.txt").write_text("x", encoding="utf-8")
    foreign = lab.play(*short, "-e", "run_id=theirs")
    assert foreign.status != 0
    assert [path.name for path in (lab.results / "theirs").iterdir()] == ["thesis.txt"]


def test_the_callback_is_not_enabled(lab):
    lab.add("a")
    lab.environment["ANSIBLE_CALLBACKS_ENABLED"] = "ansible.builtin.tree"
    outcome = lab.play()
    assert outcome.status != 0
    assert "callbacks_enabled" in outcome.output
    assert lab.servers["a"].command("dbsize") == "0"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MB. Needs root, as in CI."""
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", path], check=True)
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk(lab, small_disk: pathlib.Path):
    lab.add("a")
    lab.results = small_disk / "results"
    (small_disk / "ballast").write_bytes(b"x" * (os.statvfs(small_disk).f_bavail * 4096 - 50_000))
    refused = lab.play()
    assert refused.status != 0
    assert "make room" in refused.output
    # The disk fills up while the run goes on.
    (small_disk / "ballast").unlink()
    process = lab.start("-e", "run_id=squeezed", *LONG)
    deadline = time.monotonic() + 60
    while not (lab.results / "squeezed" / "phases" / "02-i0-r100-warmup1.json").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    with open(small_disk / "ballast", "wb", buffering=0) as ballast, pytest.raises(OSError, match="No space"):
        while True:
            ballast.write(b"x" * 4096)
    outcome = lab.wait(process)
    assert outcome.status != 0
    assert "No space left on device" in outcome.output
    assert "is missing, so its results are lost" in outcome.output
    (small_disk / "ballast").unlink()
    again = lab.play("-e", "run_id=squeezed", *LONG)
    assert again.status == 0, again.output
    assert "Resuming run squeezed" in again.output
