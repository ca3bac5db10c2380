# SPDX-License-Identifier: GPL-3.0-or-later
"""Small runs of the writeback experiment on this machine. Needs root."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import flood, writeback
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_command

from .conftest import STRETCHED, wait_for
from .machine import RECORDS

WRITEBACK = {
    "writeback_benchmark_seconds": 0.5,
    "writeback_benchmark_repetitions": 1,
    "writeback_benchmark_dirty_bytes": ["16M", "4M"],
    "writeback_benchmark_refine": 0,
    "writeback_benchmark_write_sizes": ["16K"],
    "writeback_benchmark_threads": [1],
    "writeback_benchmark_file_size": "1M",
    "writeback_benchmark_flood_size": "64M",
    "writeback_benchmark_install": False,
}
DIRTY = ("/proc/sys/vm/dirty_bytes", "/proc/sys/vm/dirty_ratio")
THROTTLE = pathlib.Path("/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device")
RECORD = RECORDS / "writeback_benchmark.json"
TUNED = ("-e", "profile=dram", "-e", f"host_tuning_dirty_bytes={20 << 20}")


def dirty():
    return [pathlib.Path(path).read_text(encoding="ascii") for path in DIRTY]


@pytest.fixture
def disk(needs_root, fleet, tmp_path):
    """A fleet of one host with a directory on a disk; whatever happens, the host is as before."""
    assert not RECORD.exists(), (
        f"{RECORD} exists: run playbooks/writeback.yml -e writeback_benchmark_state=restored first"
    )
    place = tmp_path / "disk"
    place.mkdir()
    fleet.add("alone")
    fleet.variables.update(WRITEBACK, writeback_benchmark_directory=str(place))
    before = dirty()
    yield place
    if RECORD.exists():
        assert restore(fleet).status == 0
    assert dirty() == before and not RECORD.exists()


def restore(fleet):
    """Undo what a benchmark has left behind."""
    return fleet.run_playbook("-e", "writeback_benchmark_state=restored", playbook="writeback")


@pytest.fixture
def untuned(untuned_machine, fleet):
    """A machine without a profile, before and after the test."""
    yield
    if RECORDS.exists():
        assert fleet.run_playbook(*TUNED, playbook="restore", inventory=STRETCHED).status == 0


@pytest.mark.long
def test_writeback_measures_and_leaves_nothing_behind(fleet, disk):
    before = dirty()
    checked = fleet.run_playbook("--check", playbook="writeback")
    assert checked.status == 0, checked.output
    assert "seconds of synchronous writes" in checked.output
    assert not fleet.results.exists() and list(disk.iterdir()) == []

    done = fleet.run_playbook("-e", "run_id=wb", playbook="writeback")
    assert done.status == 0, done.output
    kept = fleet.document("wb", "writeback_benchmark")["hosts"]["alone"]
    settings = kept["settings_measured"]
    assert [setting["dirty_bytes"] for setting in settings] == [0, 16 << 20, 4 << 20]
    assert all(setting["cells"][0]["flood_iops"]["median"] > 0 for setting in settings)
    # The flood is far below the host's own limit and far above the others.
    assert "no write-back ran" in settings[0]["reason"]
    # What is written back at once is seldom seen dirty, so only this setting must show it.
    assert settings[0]["cells"][0]["dirty_max"] > 2**20
    assert kept["settings"]["flood_size"] < settings[0]["limit"] / 4
    for setting in settings[1:]:
        cell = setting["cells"][0]
        assert setting["valid"] and cell["writeback_per_second"]["median"] > 2**20, setting
        assert cell["samples"] and cell["p99_ms"]["median"] <= 1.05 * cell["max_ms"]  # of a slot of fio's histogram
    assert kept["baseline"]["dirty_bytes"] == 16 << 20
    assert "proof of write-back" in done.output.lower() and "does not count" in done.output
    assert "knee" in done.output
    assert dirty() == before and not RECORD.exists() and list(disk.iterdir()) == []
    again = restore(fleet)
    assert again.status == 0 and "changed=0" in again.output, again.output


def test_the_flood_rewrites_the_blocks_that_are_laid_out(disk):
    """If fio wrote a new file, the first cells would meet a slower flood than the last ones."""
    water = flood.Flood(shutil.which("fio"), str(disk / "flood"), 32 << 20, run_command)
    water.lay_out()

    def blocks():
        placed = subprocess.run(["filefrag", "-v", water.path], check=True, capture_output=True, text=True)
        return (disk / "flood").stat().st_ino, placed.stdout

    before = blocks()
    for _setting in range(2):
        water.start()
        assert water.runs()
        water.stop()
        os.sync()
        assert blocks() == before


def of_the_queue(name, knob):
    return pathlib.Path(f"/sys/block/{name}/queue/{knob}").read_text(encoding="ascii").strip()


def disk_of(place):
    """Return the name of the disk that holds a directory."""
    return writeback.check_directory(str(place), {"flood_size": 1, "file_size": 1, "threads": [1], "emulated_iops": 0})


@pytest.mark.long
def test_settings_of_the_queue_are_measured_and_restored(fleet, disk):
    name = disk_of(disk)
    scheduler, requests = of_the_queue(name, "scheduler"), of_the_queue(name, "nr_requests")
    offered = scheduler.replace("[", "").replace("]", "").split()
    if not {"none", "mq-deadline"} <= set(offered):
        pytest.skip(f"the disk {name} offers the schedulers {scheduler}")
    queues = [{"scheduler": "none"}, {"scheduler": "mq-deadline", "nr_requests": 16}]
    fleet.variables.update(writeback_benchmark_queues=queues, writeback_benchmark_dirty_bytes=["16M"])
    process = fleet.start("-e", "run_id=queues", playbook="writeback")
    try:
        wait_for("the scheduler is none", lambda: "[none]" in of_the_queue(name, "scheduler"), process)
        wait_for("the queue is short", lambda: of_the_queue(name, "nr_requests") == "16", process)
        assert "[mq-deadline]" in of_the_queue(name, "scheduler")
    finally:
        status = fleet.wait(process).status
    assert status == 0

    assert (of_the_queue(name, "scheduler"), of_the_queue(name, "nr_requests")) == (scheduler, requests)
    kept = fleet.document("queues", "writeback_benchmark")["hosts"]["alone"]
    found = [(each["dirty_bytes"], each["queue"]) for each in kept["settings_measured"]]
    assert found == [(size, queue) for queue in ({}, *queues) for size in (0, 16 << 20)]
    assert all(each["cells"][0]["fsyncs"]["min"] > 0 for each in kept["settings_measured"])
    text = (fleet.results / "queues" / "writeback_benchmark.txt").read_text(encoding="utf-8")
    assert "vm.dirty_bytes 16 MiB, nr_requests 16, scheduler mq-deadline" in text
    assert f"Linux {os.uname().release}, fio 3" in text


@pytest.mark.long
def test_the_queue_of_a_killed_benchmark_is_restored(fleet, disk):
    name = disk_of(disk)
    requests = of_the_queue(name, "nr_requests")
    fleet.variables.update(
        writeback_benchmark_queues=[{"nr_requests": 16}],
        writeback_benchmark_dirty_bytes=["16M"],
        writeback_benchmark_repetitions=100,
    )
    process = fleet.start(playbook="writeback")
    module = wait_for(
        "the queue is short", lambda: of_the_queue(name, "nr_requests") == "16" and module_above_fio(disk), process
    )
    os.kill(module, signal.SIGKILL)
    assert fleet.wait(process).status == 2 and RECORD.exists()

    assert restore(fleet).status == 0
    assert of_the_queue(name, "nr_requests") == requests and not list(disk.iterdir())


@pytest.mark.long
def test_a_scheduler_that_the_disk_lacks_is_refused_and_nothing_stays(fleet, disk):
    name = disk_of(disk)
    before = of_the_queue(name, "scheduler")
    fleet.variables.update(writeback_benchmark_queues=[{"scheduler": "elevator"}])
    done = fleet.run_playbook(playbook="writeback")

    assert done.status == 2 and "elevator" in done.output and "Traceback" not in done.output
    assert of_the_queue(name, "scheduler") == before and not RECORD.exists() and not list(disk.iterdir())


@pytest.mark.long
def test_a_killed_benchmark_goes_on_after_its_last_finished_repetition(fleet, disk):
    before = dirty()
    fleet.variables.update(writeback_benchmark_repetitions=3, writeback_benchmark_dirty_bytes=["16M"])
    process = fleet.start("-e", "run_id=resumed", playbook="writeback")
    finished = disk / "memstretch-writeback.json"
    module = wait_for(
        "the flood after a repetition that is kept",
        lambda: finished.exists() and module_above_fio(disk, "flood"),
        process,
    )
    os.kill(module, signal.SIGKILL)
    assert fleet.wait(process).status == 2
    first = json.loads(finished.read_text(encoding="utf-8"))["kept"]["repetitions"]
    done = len(first[0])
    assert 1 <= done <= 2

    resumed = fleet.run_playbook("-e", "run_id=resumed", playbook="writeback")
    assert resumed.status == 0 and f"{done} of 3 repetitions are done" in resumed.output, resumed.output
    kept = fleet.document("resumed", "writeback_benchmark")["hosts"]["alone"]
    assert kept["knee"]["repetitions"] == 3
    for setting, repetitions in zip(kept["settings_measured"], first):
        shown = [pytest.approx(setting["sequential"][each], rel=1e-3) for each in ("min", "median", "max")]  # all three
        assert all(each["sequential"] in shown for each in repetitions)
    assert dirty() == before and not RECORD.exists() and list(disk.iterdir()) == []


SLOW = 50


@pytest.fixture
def slow_drive(disk, fleet):
    """The same directory, in which a drive of 50 writes per second is emulated."""
    if not THROTTLE.exists():
        pytest.skip("this machine has no controller blkio of cgroup version 1")
    fleet.variables.update(writeback_benchmark_emulated_iops=SLOW, writeback_benchmark_dirty_bytes=["4M"])
    before = THROTTLE.read_text(encoding="ascii")
    yield disk
    assert not loops(disk) and THROTTLE.read_text(encoding="ascii") == before
    assert str(disk) not in pathlib.Path("/proc/mounts").read_text(encoding="utf-8")


@pytest.mark.long
def test_a_slow_drive_is_emulated_and_removed(fleet, slow_drive):
    done = fleet.run_playbook("-e", "run_id=slow", playbook="writeback")

    assert done.status == 0, done.output
    kept = fleet.document("slow", "writeback_benchmark")["hosts"]["alone"]
    assert kept["disk"]["name"].startswith("loop")
    # A write with its fsync takes more than one write of the drive: its data and the journal of the file system.
    cell = kept["settings_measured"][1]["cells"][0]
    assert 0 < cell["idle_iops"]["median"] <= SLOW and 0 < cell["flood_iops"]["median"] <= SLOW
    assert f"an EMULATED slow drive ({SLOW} writes/s" in done.output
    assert "host_tuning_dirty_bytes" not in done.output
    assert list(slow_drive.iterdir()) == []


@pytest.mark.long
def test_a_slow_drive_that_was_killed_is_removed(fleet, slow_drive):
    fleet.variables["writeback_benchmark_dirty_bytes"] = [f"{mib}M" for mib in range(15, 115)]
    before = dirty()
    process = fleet.start(playbook="writeback")
    module = wait_for("vm.dirty_bytes is set", lambda: dirty() != before and module_above_fio(slow_drive), process)
    os.kill(module, signal.SIGKILL)
    assert fleet.wait(process).status == 2 and loops(slow_drive)
    assert dirty() != before and RECORD.exists()

    assert restore(fleet).status == 0
    assert dirty() == before and not RECORD.exists() and list(slow_drive.iterdir()) == []


def loops(place):
    """Return the loop devices whose files are in a directory."""
    found = []
    for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(FileNotFoundError):  # another test has removed its own
            found += [path] if path.read_text(encoding="utf-8").startswith(f"{place}/") else []
    return found


@pytest.mark.long
def test_writeback_that_is_terminated_undoes_itself(fleet, disk):
    before = dirty()
    # Enough that it is still at work when it is ended, however long that takes.
    fleet.variables["writeback_benchmark_dirty_bytes"] = [f"{mib}M" for mib in range(15, 115)]
    process = fleet.start(playbook="writeback")
    module = wait_for("vm.dirty_bytes is set", lambda: dirty() != before and module_above_fio(disk), process)
    os.kill(module, signal.SIGTERM)

    assert fleet.wait(process).status == 2
    # Ansible does not wait for a module that was ended.
    wait_for("the module has cleaned up", lambda: not RECORD.exists() and not list(disk.iterdir()))
    assert dirty() == before


@pytest.mark.long
@pytest.mark.parametrize("tuning_is_restored_first", [True, False])
def test_a_killed_benchmark_on_a_tuned_host_is_undone_in_any_order(fleet, disk, untuned, tuning_is_restored_first):
    before = dirty()
    tuned = fleet.run_playbook(*TUNED, playbook="tune", inventory=STRETCHED)
    assert tuned.status == 0, tuned.output
    assert dirty()[0] == f"{20 << 20}\n"
    fleet.variables["writeback_benchmark_dirty_bytes"] = [f"{mib}M" for mib in range(30, 130)]
    process = fleet.start(playbook="writeback")
    module = wait_for(
        "vm.dirty_bytes is set", lambda: dirty()[0] != f"{20 << 20}\n" and module_above_fio(disk), process
    )
    os.kill(module, signal.SIGKILL)
    assert fleet.wait(process).status == 2 and RECORD.exists()
    assert dirty()[0] not in (before[0], f"{20 << 20}\n")

    restores = {
        "tuning": lambda: fleet.run_playbook(*TUNED, playbook="restore", inventory=STRETCHED),
        "benchmark": lambda: restore(fleet),
    }
    for name in ("tuning", "benchmark") if tuning_is_restored_first else ("benchmark", "tuning"):
        restored = restores[name]()
        assert restored.status == 0, restored.output
    assert dirty() == before
    assert not RECORDS.exists() and not list(disk.iterdir())


def module_above_fio(place, name=""):
    """Return the pid of the module whose fio writes to a directory, or None; name is that of its job."""
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if (
                entry.name.isdigit()
                and (entry / "comm").read_text(encoding="ascii").strip() == "fio"
                and str(place) in os.readlink(entry / "cwd")
                and f"--name={name}" in (entry / "cmdline").read_text(encoding="utf-8")
            ):
                parent = int((entry / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
                if pathlib.Path(f"/proc/{parent}/comm").read_text(encoding="ascii").startswith("python"):
                    return parent
    return None


def test_writeback_refuses_bad_input(fleet, disk):
    cases = [
        ({"writeback_benchmark_flood_size": "1000T"}, "must stay free. Use a smaller flood_size"),
        ({"writeback_benchmark_dirty_bytes": ["1"]}, "dirty_bytes: ['1'] is not allowed"),
        ({"writeback_benchmark_emulated_iops": "fast"}, "emulated_iops: 'fast' is not allowed"),
        ({"writeback_benchmark_directory": "/none/such"}, "directory: /none/such is not a directory"),
    ]
    common = {"writeback_benchmark_results_dir": str(fleet.results)}
    assert not fleet.not_refused("writeback_benchmark", [({**common, **case}, text) for case, text in cases])
    assert not fleet.results.exists()
