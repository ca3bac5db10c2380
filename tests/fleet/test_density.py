# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A density search over VMs: real libvirt, playbooks, ssh and Redis; an sshd stands in for the system of each VM."""

from __future__ import annotations

import collections
import itertools
import json
import pathlib
import signal
import subprocess
import time
import typing as t

import pytest
import yaml

from .conftest import ROOT, Lab
from .hooked_guests import HookedGuests

# Changes nothing: the hypervisors of the lab share the kernel of this machine.
PROFILE = {"description": "Changes nothing.", "swap": {"kind": "none", "others": "keep"}}
SEARCH = {
    "density_max": 2,
    "density_probes": 1,
    "site_check": False,
    "latency_benchmark_key_count": 500,
    "latency_benchmark_rate": 100,
    "latency_benchmark_duration": 1,
    "latency_benchmark_influences": [0],
    "latency_benchmark_read_mixes": [100],
    "latency_benchmark_warmups": 0,
    "latency_benchmark_min_overlap": 0,
    "latency_benchmark_slo_avg_us": 1e8,
    "latency_benchmark_slo_p99_us": 1e8,
}

# Tasks, as Ansible names them.
ROLES = "memstretch.density."
STOP = f"{ROLES}vm_fleet : Stop the VMs of the fleet"
TUNE = f"{ROLES}host_tuning : Apply the kernel settings"
BOOT_IDS = f"{ROLES}vm_fleet : Read the boot ID of the VM"
KERNEL = f"{ROLES}kernel_cmdline : Change the boot loader's configuration"
CONFIGURE_REDIS = f"{ROLES}redis : Configure, run and remove the instances"
START_REDIS = f"{ROLES}redis : Start and stop the instances of each machine"
INSTALL_CLIENT = f"{ROLES}client_program : Copy the program from the controller to the host"

FIRST, BOTH = ["try-001"], ["try-001", "try-002"]


class Played(t.NamedTuple):
    """A playbook of the search: its name, and for which hosts each of its tasks began."""

    playbook: str
    tasks: dict[str, list[str]]

    def vms(self, task: str) -> list[str]:
        """Return the VMs for which a task began."""
        return [host for host in self.tasks.get(task, []) if host in BOTH]


@pytest.fixture
def guests(lab: Lab) -> t.Iterator[HookedGuests]:
    made = HookedGuests(lab)
    yield made
    made.close()


def start(lab: Lab, guests: HookedGuests, directory: pathlib.Path, **variables: t.Any) -> subprocess.Popen[str]:
    """Start a density search over the VMs of the first hypervisor."""
    inventory = lab.write_inventory(1, {"vm_fleet_count": 1, "vm_fleet_memory": "192M"})
    groups = yaml.safe_load(inventory.read_text(encoding="utf-8"))
    inventory.write_text(yaml.safe_dump({**groups, "fleet": {"vars": guests.variables()}}), encoding="utf-8")
    callbacks = {
        "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests" / "fleet" / "callback"),
        "ANSIBLE_CALLBACKS_ENABLED": "memstretch.density.fleet_latency,played",
        "PLAYED": str(directory / "played"),
    }
    given = json.dumps({**SEARCH, "results_dir": str(directory / "results"), **variables})
    playbook = str(ROOT / "playbooks" / "density.yml")
    return lab.start("ansible-playbook", str(inventory), playbook, "-e", given, environment=callbacks)


def search(lab: Lab, guests: HookedGuests, directory: pathlib.Path, **variables: t.Any) -> list[Played]:
    """Run a density search to its end, and return what it has played from its first change on."""
    process = start(lab, guests, directory, **variables)
    output = process.communicate()[0]
    assert process.returncode == 0, output
    assert not lab.hypervisors[0].vms()
    return read_played(directory)


def read_played(directory: pathlib.Path) -> list[Played]:
    """Return the playbooks that have changed something, in order."""
    played: list[Played] = []
    for line in (directory / "played").read_text(encoding="utf-8").splitlines():
        each = json.loads(line)
        if each["playbook"] in ("density", "check"):
            continue
        if each["task"] is None:
            played.append(Played(each["playbook"], collections.defaultdict(list)))
        else:
            played[-1].tasks[each["task"]].append(each["host"])
    return played


def changes_of_vms(guests: HookedGuests) -> list[tuple[str, list[str]]]:
    """Return which VMs have started or stopped together, in that order."""
    events = [event.split() for event in guests.events()]
    return [
        (what, sorted(name for _what, name in those)) for what, those in itertools.groupby(events, key=lambda e: e[0])
    ]


def profiles(directory: pathlib.Path, *names: str) -> str:
    """Write profiles that change nothing, and return them as a search takes them."""
    paths = [directory / f"{name}.yml" for name in names]
    for path in paths:
        path.write_text(yaml.safe_dump({"name": path.stem, **PROFILE}), encoding="utf-8")
    return ",".join(map(str, paths))


def test_another_profile_begins_with_all_vms_stopped(lab: Lab, guests: HookedGuests, tmp_path: pathlib.Path) -> None:
    of_search = search(lab, guests, tmp_path, profiles=profiles(tmp_path, "calm", "quiet"), density_start=2)
    assert [each.playbook for each in of_search] == ["prepare_vms", "probe", "probe", "teardown", "restore"]
    assert changes_of_vms(guests) == [
        *(("started", BOTH), ("stopped", BOTH)),  # made and set up
        *(("started", BOTH), ("stopped", BOTH), ("started", BOTH)),  # a probe under each profile
        ("stopped", BOTH),  # removed
    ]
    for probe in of_search[1:3]:
        order = list(probe.tasks)
        assert order.index(STOP) < order.index(TUNE) < order.index(BOOT_IDS) < order.index(START_REDIS)
        assert probe.vms(KERNEL) == probe.vms(START_REDIS) == BOTH
    assert outcomes(tmp_path) == [("calm", 2, "pass"), ("quiet", 2, "pass")]


def test_vms_are_set_up_once_and_run_on_under_the_same_profile(
    lab: Lab, guests: HookedGuests, tmp_path: pathlib.Path
) -> None:
    of_search = search(lab, guests, tmp_path, profiles=profiles(tmp_path, "calm"), density_start=1, density_probes=3)
    assert outcomes(tmp_path) == [("calm", 1, "pass"), ("calm", 2, "pass"), ("calm", 2, "pass")]
    assert [each.playbook for each in of_search] == [
        *("prepare_vms", "probe", "prepare_vms", "probe", "probe"),
        *("teardown", "restore"),
    ]
    assert changes_of_vms(guests) == [
        *(("started", FIRST), ("stopped", FIRST), ("started", FIRST)),  # made and set up; probed
        *(("stopped", FIRST), ("started", BOTH), ("stopped", BOTH)),  # the second one is made and set up
        ("started", BOTH),  # probed twice
        ("stopped", BOTH),  # removed
    ]
    made = [each for each in of_search if each.playbook == "prepare_vms"]
    probes = [each for each in of_search if each.playbook == "probe"]
    for step in (CONFIGURE_REDIS, INSTALL_CLIENT):
        assert [each.vms(step) for each in made] == [FIRST, ["try-002"]], step
        assert [each.vms(step) for each in probes] == [[], [], []], step
    for step in (KERNEL, START_REDIS):
        assert [each.vms(step) for each in probes] == [FIRST, BOTH, []], step
    assert [each.vms(BOOT_IDS) for each in probes] == [FIRST, BOTH, BOTH]


def test_ctrl_c_while_vms_are_prepared_removes_them(lab: Lab, guests: HookedGuests, tmp_path: pathlib.Path) -> None:
    process = start(lab, guests, tmp_path, profiles=profiles(tmp_path, "calm"), density_start=2)
    while not {"started try-001", "started try-002"} <= set(guests.events()):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output = process.communicate()[0]
    assert process.returncode != 0 and "== The hosts are restored" in output, output
    assert changes_of_vms(guests) == [("started", BOTH), ("stopped", BOTH)] and not lab.hypervisors[0].vms()
    assert [each.playbook for each in read_played(tmp_path)] == ["prepare_vms", "teardown", "restore"]
    (path,) = (tmp_path / "results").glob("*/density.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["restored"] and not document["finished"] and document["runs"] == []


def outcomes(directory: pathlib.Path) -> list[tuple[str, int, str]]:
    """Return arm, size and outcome of each probe of the only search, after a look at the files of each."""
    (path,) = (directory / "results").glob("*/density.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["restored"] and document["finished"]
    for run in document["runs"]:
        summary = json.loads((directory / "results" / run["run_id"] / "summary.json").read_text(encoding="utf-8"))
        assert summary["fleet"]["reported"] == run["size"]
        assert "try1" in summary["cells"][0]["pressure"], "the memory pressure of the hypervisor"
    return [(run["arm"], run["size"], run["outcome"]) for run in document["runs"]]
