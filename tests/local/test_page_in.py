# SPDX-License-Identifier: GPL-3.0-or-later
"""Page-ins from real swap areas of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import page_in

from .conftest import LocalFleet, wait_for

ZRAM = pathlib.Path("/sys/block/zram0")


def page_ins():
    """Return the pages that the kernel has read from swap."""
    lines = pathlib.Path("/proc/vmstat").read_text(encoding="ascii").split("\n")
    return int(next(line.split()[1] for line in lines if line.startswith("pswpin ")))


@contextlib.contextmanager
def swap_on(path):
    subprocess.run(["mkswap", path], check=True, capture_output=True)
    subprocess.run(["swapon", "--priority", "32000", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["swapoff", path], check=True)


@contextlib.contextmanager
def zram():
    if not ZRAM.exists():
        pytest.skip("this kernel has no zram device")
    (ZRAM / "disksize").write_text("128M", encoding="ascii")
    try:
        with swap_on("/dev/zram0"):
            yield
    finally:
        (ZRAM / "reset").write_text("1", encoding="ascii")


@contextlib.contextmanager
def swap_file(directory):
    path = directory / "swap"
    subprocess.run(["fallocate", "-l", "128M", path], check=True)
    path.chmod(0o600)
    with swap_on(path):
        yield


def measured(fleet: LocalFleet, **options):
    """Return the result of the module on this machine."""
    tasks = [
        {"memstretch.density.page_in_latency": {"size": "16M", **options}, "register": "found"},
        {"ansible.builtin.copy": {"content": "{{ found | to_json }}", "dest": str(fleet.path / "found.json")}},
    ]
    playbook = fleet.custom_playbook(tasks, hosts="localhost", connection="local")
    outcome = fleet.run_playbook(playbook=playbook)
    assert outcome.status == 0, outcome.output
    return json.loads(fleet.path.joinpath("found.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("tier", ["zram", "file"])
def test_each_timed_page_in_is_one_of_the_kernels(untuned_machine, fleet, tier):
    with zram() if tier == "zram" else swap_file(fleet.path):
        before = page_ins()
        found = measured(fleet, compressibility=0.5)
        read = page_ins() - before
    figures = found["page_in_latency"]
    assert figures["tier"] == tier and not found["changed"]
    assert 100 <= figures["page_ins"] <= read
    assert 0 < figures["p50_us"] <= figures["p99_us"] <= figures["max_us"]


@contextlib.contextmanager
def loop_device(directory):
    """A drive, read-only: a write would fail."""
    image = directory / "drive.img"
    image.write_bytes(os.urandom(2**20))
    command = ["losetup", "--find", "--show", "--read-only", image]
    device = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@pytest.mark.usefixtures("needs_root")
def test_a_drive_without_swap_is_read_page_by_page(fleet):
    with loop_device(fleet.path) as device:
        statistics = pathlib.Path("/sys/block") / pathlib.Path(device).name / "stat"
        before = statistics.read_text(encoding="ascii").split()
        found = measured(fleet, drive=device, samples=200)
        after = statistics.read_text(encoding="ascii").split()
    figures = found["page_in_latency"]
    assert figures["tier"] == "devices" and figures["page_ins"] == 200 and not found["changed"]
    assert int(after[0]) - int(before[0]) >= 200 and after[4] == before[4]  # reads, and no writes
    assert 0 < figures["p50_us"] <= figures["p99_us"] <= figures["max_us"]


def test_below_a_directory_nothing_is_left(fleet, tmp_path):
    """Not while it is read either, so that Ctrl-C, a killed playbook or a power cut leaves nothing."""
    place = tmp_path / "place"
    place.mkdir()
    figures = measured(fleet, drive=str(place), samples=200)["page_in_latency"]
    assert figures["tier"] == "devices" and figures["page_ins"] == 200 and os.listdir(place) == []

    pid = os.fork()
    if not pid:
        page_in.read_drive(str(place), 1_000_000, 60)
        os._exit(0)
    try:
        fds = pathlib.Path(f"/proc/{pid}/fd")
        wait_for("the file", lambda: any(str(place) in os.readlink(each) for each in fds.iterdir()))
        assert os.listdir(place) == []
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert os.listdir(place) == []


@pytest.mark.long
def test_swap_without_room_and_bad_options_are_refused(untuned_machine, fleet):
    refused = [
        ({"size": "256M"}, "pages did not go to swap within 10 s; is there room for them?"),
        ({"size": "1K"}, "size: 1024 is out of range; it must be a whole number from 1,048,576 to"),
        ({"drive": "/dev/null"}, "drive: /dev/null is neither a block device nor a file or directory"),
        ({"drive": "/nonexistent"}, "drive: /nonexistent cannot be read: No such file or directory"),
    ]
    with zram():
        tasks = [{"memstretch.density.page_in_latency": options} for options, _text in refused]
        messages = fleet.messages(tasks, hosts="localhost", connection="local")
    assert [text in message for (_options, text), message in zip(refused, messages)] == 4 * [True], messages
