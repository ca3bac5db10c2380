# SPDX-License-Identifier: GPL-3.0-or-later
"""The self-test on this machine: what fails is named, nothing else is hidden, and nothing stays."""

from __future__ import annotations

import json
import pathlib
import signal
import typing as t

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import GroupBudget
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord

from .conftest import LocalFleet, wait_for, write_inventory
from .machine import differences, snapshot
from .test_page_in import loop_device

HOST = "hypervisor-of-this-test"
LEFT = pathlib.Path("/var/lib/memstretch-selftest")
GROUP = "memstretch_selftest.slice"
SIZE = 64 * 2**20

pytestmark = pytest.mark.usefixtures("untuned_machine")


@pytest.fixture
def machine() -> t.Iterator[None]:
    """This machine, which must be the same afterwards."""
    before = snapshot()
    yield
    assert differences(before, snapshot()) == {} and not LEFT.exists()


def inventory(fleet: LocalFleet, **variables: t.Any) -> pathlib.Path:
    return write_inventory(fleet.path / "hosts.yml", {"hypervisors": {"hosts": {HOST: variables}}})


def report(fleet: LocalFleet) -> dict[str, t.Any]:
    path = fleet.results / "selftest" / "selftest.json"
    text = path.read_text(encoding="utf-8")
    assert HOST not in text and sorted(each.name for each in path.parent.iterdir()) == ["lock", "selftest.json"]
    return json.loads(text)


def plant_a_killed_self_test() -> None:
    """Leave what a self-test leaves that was killed while it tried its budget."""
    if pathlib.Path("/run/systemd/system").exists():
        pytest.skip("a control group is planted as it is made without systemd")
    budget, record = GroupBudget(SIZE, GROUP), HostRecord("dram_budget", str(LEFT / "records"))
    LEFT.mkdir(mode=0o700)
    asked = {"mechanism": "cgroup", "size_bytes": SIZE, "reserve_bytes": 0, "group": GROUP}
    original = budget.read_state()
    record.write({"asked": asked, "original": original})
    budget.set_state(budget.applied_state(original, original))


def plant_a_wrong_clock(fleet: LocalFleet) -> None:
    """Let the date of the host be an hour ahead."""
    program = fleet.path / "bin" / "date"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec /bin/date -d '+1 hour' \"$@\"\n", encoding="utf-8")
    program.chmod(0o755)
    fleet.environment["PATH"] = f"{program.parent}:{fleet.environment['PATH']}"


@pytest.mark.long
def test_a_failed_check_is_named_and_hides_no_other(fleet: LocalFleet, machine: None) -> None:
    plant_a_killed_self_test()
    plant_a_wrong_clock(fleet)
    # Where somebody else has set DAMON up, headroom leaves it alone.
    kdamonds = pathlib.Path("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds")
    may_look = kdamonds.exists() and kdamonds.read_text(encoding="ascii").strip() == "0"
    outcome = fleet.run_playbook(playbook="selftest", inventory=inventory(fleet))
    assert outcome.status != 0
    assert f"1 of 14 checks failed: clock on {HOST}" in outcome.output, outcome.output
    assert f"FAILED   clock             the clock of {HOST} is +3600." in outcome.output
    made = report(fleet)
    results = made["hosts"]["host-1"]["results"]
    assert {name: each["result"] for name, each in results.items()} == {
        "clock": "failed",
        "transport": "skipped",
        "kvm": "skipped",
        "drives": "passed",
        "profiles": "passed",
        "kernel_arguments": "skipped",
        "masters": "skipped",
        "page_in": "skipped",
        "budget": "passed",
        "pressure": "passed",
        "headroom": "passed" if may_look else "skipped",
        "vm": "skipped",
        "guest_arguments": "skipped",
        "put_back": "passed",
    }
    assert 3599 < results["clock"]["found"]["offset_s"] < 3601 and "chrony" in results["clock"]["advice"]
    assert results["budget"]["found"]["limit_bytes"] == SIZE <= 2 * results["budget"]["found"]["charged_bytes"]
    assert len(results["pressure"]["found"]["latency"]["blocks"]) == 3
    assert results["pressure"]["found"]["pressure"]["counters"]["clock_s"] > 3
    host = made["hosts"]["host-1"]
    assert results["pressure"]["seconds"] > 3 and host["seconds"] == round(
        sum(each["seconds"] for each in results.values()), 1
    )
    assert host["seconds"] < made["seconds"] < 600 and f"The self-test took {made['seconds']:.0f} s" in outcome.output
    skipped = [each for each in results.values() if each["result"] == "skipped"]
    assert all(each["reason"] for each in skipped) and "golden image" in results["vm"]["reason"]
    works = {each["what"]: each["works"] for each in made["hosts"]["host-1"]["works"]}
    assert works["a DRAM budget by a control group"] is True and works["kernel arguments of this host"] is False
    assert works["a run of several machines, which begins everywhere at the same time"] is False
    assert {what for what in works if "profile" in what} == {
        f"swap of the profile {name}" for name in ("zram", "zswap", "swap", "zram_swap")
    }
    assert "  Would not work here:" in outcome.output.splitlines(), outcome.output
    assert made["controller"]["collection"] and made["hosts"]["host-1"]["kernel"]["release"]


@pytest.mark.long
def test_the_drives_of_the_inventory_are_read_one_after_another(fleet: LocalFleet, machine: None) -> None:
    """Without selftest_drive these are the role swap_space's, each a path or a dictionary."""
    with loop_device(fleet.path) as first, loop_device(fleet.path) as second:
        hosts = inventory(fleet, swap_space_devices=[first, {"path": second, "serial": "X1"}])
        outcome = fleet.run_playbook("-e", "selftest_checks=page_in", playbook="selftest", inventory=hosts)
    assert outcome.status == 0, outcome.output
    found = report(fleet)["hosts"]["host-1"]["results"]["page_in"]
    assert [drive["path"] for drive in found["found"]["drives"]] == [None, None]
    assert all(drive["latency"]["page_ins"] > 0 for drive in found["found"]["drives"])
    assert "from drive 1 of 2 p50 " in found["reason"] and "; from drive 2 of 2 p50 " in found["reason"], found


def test_check_mode_touches_nothing(fleet: LocalFleet, machine: None) -> None:
    arguments = ("--check", "-e", "selftest_checks=drives,budget")
    outcome = fleet.run_playbook(*arguments, playbook="selftest", inventory=inventory(fleet))
    assert outcome.status == 0, outcome.output
    text = [line.split(None, 2) for line in outcome.output.splitlines()]
    assert ["skipped", "budget", "check mode changes nothing"] in text
    assert any(words[:2] == ["passed", "drives"] for words in text)
    disks = [path.parent.name for path in pathlib.Path("/sys/block").glob("*/device")]
    lines = [line.strip() for line in outcome.output.splitlines() if " | serial " in line]
    assert len(lines) == len(disks) and all(line.startswith("/dev/") for line in lines), outcome.output
    assert not fleet.results.exists()


def test_a_self_test_that_is_interrupted_puts_the_host_back(fleet: LocalFleet, machine: None) -> None:
    process = fleet.start("-e", "selftest_checks=budget,pressure", playbook="selftest", inventory=inventory(fleet))
    wait_for("the self-test has begun", LEFT.exists, process)
    process.send_signal(signal.SIGINT)
    outcome = fleet.wait(process)
    assert outcome.status != 0
    assert "== Interrupted: the running check ends now" in outcome.output, outcome.output
    assert "== The hosts are restored" in outcome.output, outcome.output
