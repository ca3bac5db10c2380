# SPDX-License-Identifier: GPL-3.0-or-later
"""Ramps of podman's containers on this machine, of an image that no registry has, in a storage of their own."""

from __future__ import annotations

import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile

import jsonschema
import pytest

from ansible_collections.memstretch.density.plugins.module_utils.ramp import groups
from ansible_collections.memstretch.density.plugins.module_utils.ramp.servers import ServerError

from .conftest import wait_for
from .test_charged_dram import zram
from .test_density import SCHEMA, document, small
from .test_ramp import BUDGET, MIB, answers, assert_late_port_is_refused, ramp, requests, swapped

__all__ = ["ramp", "small", "zram"]
pytestmark = pytest.mark.long
IMAGE = "localhost/memstretch-test:1"


def podman(*arguments):
    done = subprocess.run(["podman", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"podman {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def pids(reference):
    """The first processes of the running containers of references or of the fleet, and what watches each of them."""
    names = podman("ps", "--format={{.Names}}").split()
    lines = [podman("inspect", "--format={{.State.Pid}} {{.State.ConmonPid}}", name).split() for name in names]
    return [
        (int(first), int(monitor))
        for first, monitor in lines
        if groups.RampGroup(groups.REFERENCES).has(int(first)) == reference
    ]


def groups_left():
    """The control groups of a ramp that are there, in any hierarchy."""
    return glob.glob("/sys/fs/cgroup/**/memstretch-*", recursive=True)


@pytest.fixture
def image(needs_root, monkeypatch):
    """An image with a Redis and nothing else. No container, control group or mount is left of it."""
    assert shutil.which("podman") and shutil.which("runc"), "podman is not installed; make test-local-long installs it"
    # Podman's sockets have short paths.
    path = pathlib.Path(tempfile.mkdtemp(prefix="ms-"))
    store, run = path / "store", path / "run"
    # Fewer processes and files than podman allows by default, which not every machine may allow; and Debian's crun
    # refuses the control groups of some.
    (path / "containers.conf").write_text(
        '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
        f'[engine]\nruntime = "runc"\ntmp_dir = "{path}/tmp"\n'
        f'static_dir = "{store}/libpod"\nvolume_path = "{store}/v"\n',
        encoding="utf-8",
    )
    (path / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{store}"\nrunroot = "{run}"\n', encoding="utf-8"
    )
    monkeypatch.setenv("CONTAINERS_CONF", str(path / "containers.conf"))
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(path / "storage.conf"))
    redis = shutil.which("redis-server")
    libraries = re.findall(r"/\S+", subprocess.run(["ldd", redis], capture_output=True, text=True, check=True).stdout)
    with tarfile.open(path / "image.tar", "w", dereference=True) as file:
        file.add(redis, "usr/bin/redis-server")
        for library in libraries:
            file.add(library, library.lstrip("/"))
    podman("import", "--quiet", "--change=CMD redis-server", str(path / "image.tar"), IMAGE)
    yield IMAGE
    left = podman("ps", "--all", "--format={{.Names}}")
    podman("rm", "--force", "--all")
    podman("rmi", "--force", "--all")
    assert str(path) not in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8"), (
        "podman unmounts what it mounts"
    )
    shutil.rmtree(path)
    assert not left and not groups_left()


def test_in_dram_a_ramp_of_containers_ends_where_the_kernel_kills_the_next_one(image, ramp):
    found = ramp(image=image)
    wait_for("the first window", found.windows)
    fleet, references = pids(False), pids(True)
    assert len(fleet) >= 2 and len(references) == 2
    for first, monitor in fleet + references:
        assert not any(groups.RampGroup(name).has(monitor) for name in (groups.FLEET, groups.REFERENCES))
        files = [f"/proc/{pid}/{name}" for pid in (first, monitor) for name in ("cmdline", "environ")]
        told = [pathlib.Path(each).read_bytes() for each in files]
        for file in found.path.glob("*.conf"):
            password = re.search(r"requirepass (\w{32})", file.read_text(encoding="ascii"))[1]
            assert not any(password.encode() in each for each in told) and file.stat().st_mode & 0o777 == 0o400
    end = found.end()
    assert (end["kind"], end["host"]) == ("does_not_fit", f"redis{end['n']}")
    # Where less is left than a start takes for a moment, the newcomer is killed before it has become a Redis.
    killed = r"Memory cgroup out of memory: Killed process \d+ \((redis-server|runc:\[\d:[A-Z]+\])\)"
    assert re.search(killed, end["message"]), end["message"]
    windows = found.windows()
    assert [window["n"] for window in windows] == list(range(2, end["n"])) and 3 <= end["n"] - 1 <= 5
    for window in windows:
        machine = window["machines"][""]
        assert 0 < machine["charged_bytes"] <= BUDGET and machine["page_ins"] == 0
        counts = {**requests(window, "hosts"), **requests(window, "references")}
        assert len(counts) == window["n"] + 2 and min(counts.values()) > 0
    assert podman("ps", "--all", "--quiet") == "" and podman("images", "--format={{.Repository}}").split() == [
        IMAGE.rpartition(":")[0]
    ]
    shutil.rmtree(found.path, ignore_errors=True)
    wait_for("the conductor's end", lambda: not found.is_running())
    assert found.left() == [] and groups_left() == []


def test_a_tier_carries_more_containers_within_the_budget_and_references_stay_in_dram(image, ramp, zram):
    found = ramp(image=image, tier=[f"/dev/{pathlib.Path(zram).name}"], sizes=[2, 8], hold_seconds=10)
    wait_for("a window of 8", lambda: [window for window in found.windows() if window["n"] == 8])
    assert [swapped(first) for first, _monitor in pids(True)] == [0, 0]
    assert found.end()["kind"] == "hosts"
    last = found.windows()[-1]["machines"][""]
    assert last["swap_used_bytes"] > 8 * MIB and last["charged_bytes"] <= 1.02 * BUDGET


def test_containers_of_a_killed_conductor_run_on_until_the_next_ramp_removes_them(image, ramp):
    found = ramp(image=image, sizes=[2], budget_bytes=1024 * MIB, hold_seconds=60)
    wait_for("a window", found.windows)
    os.kill(found.pid, signal.SIGKILL)
    wait_for("its end", lambda: not found.is_running())
    assert all(map(answers, found.ports[:2])) and len(podman("ps", "--quiet").split()) == 4
    second = ramp(sizes=[1], references=0, budget_bytes=1024 * MIB, servers=1)
    assert not found.path.exists() and second.end()["kind"] == "hosts" and podman("ps", "--all", "--quiet") == ""
    assert not any(map(answers, found.ports))


@pytest.mark.parametrize("how", ["signal", "lease"])
def test_whatever_ends_a_ramp_no_container_is_left(image, ramp, how):
    found = ramp(image=image, sizes=[2, 6], budget_bytes=1024 * MIB, lease_seconds=2 if how == "lease" else 60)
    wait_for("a container", lambda: found.renew() or podman("ps", "--quiet"))
    if how == "signal":
        os.kill(found.pid, signal.SIGTERM)
        assert found.end()["kind"] == "interrupted"
        shutil.rmtree(found.path, ignore_errors=True)
    wait_for("the conductor's end", lambda: not found.is_running())
    assert found.left() == [] and podman("ps", "--all", "--quiet") == ""


def test_a_container_that_is_killed_after_its_step_has_settled_ends_the_ramp(image, ramp):
    found = ramp(image=image, sizes=[2], budget_bytes=1024 * MIB, hold_seconds=60)
    wait_for("a window", found.windows)
    os.kill(pids(False)[0][0], signal.SIGKILL)
    end = found.end()
    assert (end["kind"], end["n"]) == ("killed", 2) and "with signal 9" in end["message"] and not found.lines("note")


def test_a_port_that_is_taken_after_the_launch_is_an_error_that_says_what_to_do(image, ramp, fleet, monkeypatch):
    assert_late_port_is_refused(ramp, fleet, monkeypatch, image=image)
    assert podman("ps", "--all", "--quiet") == ""


def test_an_image_that_nobody_has_is_refused(image, ramp):
    with pytest.raises(ServerError, match="density_image: podman has no image localhost:1/none and cannot pull it"):
        ramp(image="localhost:1/none")


def test_a_density_of_containers_is_measured_and_said(image, fleet, small):
    inventory, variables = small
    given = variables(profiles="dram", density_rounds=1, density_image=image)
    outcome = fleet.run_playbook("-e", given, playbook="density", inventory=inventory)
    assert outcome.status == 0, outcome.output
    found, ramp_found = document(fleet), document(fleet, "ramps/dram-1.json")
    jsonschema.validate(found, SCHEMA)
    assert 3 <= found["arms"][0]["density"] <= 5 and ramp_found["end"]["kind"] == "does_not_fit"
    assert "Redis containers" in json.dumps(outcome.output) and podman("ps", "--all", "--quiet") == ""
