# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles on this machine: applied, verified, changed and restored. Needs root.

The lane host does the same on a system with drives, systemd and a boot loader.
"""

from __future__ import annotations

import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

from .conftest import RAMP, STRETCHED, write_inventory
from .machine import IDLE_LIMITS, KDAMONDS, RECORDS, differences, snapshot, value


def idle_limits():
    """Return the resume latencies that the processors of this machine allow."""
    return {" ".join(value(path)) for path in glob.glob(IDLE_LIMITS)}


@pytest.fixture
def sleeping_processors(untuned_machine):
    """Let idle processors sleep, as the kernel does by default, and restore what was there."""
    before = {path: pathlib.Path(path).read_text(encoding="ascii") for path in glob.glob(IDLE_LIMITS)}
    for path in before:
        pathlib.Path(path).write_text("0", encoding="ascii")
    yield
    for path, text in before.items():
        pathlib.Path(path).write_text(text, encoding="ascii")


@pytest.fixture
def tune(sleeping_processors, fleet):
    """Return a function that runs a playbook on this machine; afterwards the machine is restored in any case."""
    fleet.environment["ANSIBLE_DISPLAY_OK_HOSTS"] = "true"

    def run_playbook(playbook, profile, *arguments, check=False):
        words = [word for each in (f"profile={profile}", *arguments) for word in ("-e", each)]
        return fleet.run_playbook(*words, *(["--check"] if check else []), playbook=playbook, inventory=STRETCHED)

    yield run_playbook
    if RECORDS.exists():
        restored = run_playbook("restore", "dram")
        assert restored.status == 0, restored.output


def changed(outcome):
    return int(re.search(r"^this_machine\s.*changed=(\d+)", outcome.output, re.M).group(1))


CLAIMING = """
- hosts: localhost
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  tasks:
    - memstretch.density.host_claim:
    - ansible.builtin.wait_for:
        path: "{{ playbook_dir }}/end"
"""


def test_a_second_playbook_is_refused_until_the_first_has_ended(tune, fleet, tmp_path):
    (tmp_path / "first.yml").write_text(CLAIMING, encoding="utf-8")
    before = snapshot()
    command = [pathlib.Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", tmp_path / "first.yml"]
    with subprocess.Popen(command, env=fleet.environment, stdout=subprocess.PIPE, text=True) as first:
        deadline = time.monotonic() + 60
        while not os.path.exists("/run/memstretch-0/claim.json"):
            assert time.monotonic() < deadline and first.poll() is None, "the first playbook has not claimed the host"
            time.sleep(0.1)
        for playbook in ("tune", "restore"):
            refused = tune(playbook, "zram")
            assert refused.status != 0 and "another playbook is changing this host since" in refused.output
            assert f"process {first.pid} " in refused.output and "first.yml" in refused.output
        refused = fleet.run_playbook("-e", "profiles=dram,zram", playbook="density", inventory=RAMP)
        assert refused.status != 0 and "another playbook is changing this host since" in refused.output
        assert "Site check" not in refused.output, "it would disturb what the first one measures"
        alone = [
            {
                "ansible.builtin.include_role": {"name": f"memstretch.density.{role}"},
                "vars": {f"{role}_state": "restored"},
            }
            for role in ("swap_space", "kernel_cmdline")
        ]
        for message in fleet.messages(alone, hosts="localhost", connection="local"):
            assert "another playbook is changing this host since" in message
        assert differences(before, snapshot()) == {}
        first.kill()
    (tmp_path / "end").touch()  # what it was waiting with goes on without it
    accepted = tune("restore", "zram")
    assert accepted.status == 0, accepted.output
    assert not os.path.exists("/run/memstretch-0/claim.json")


@pytest.mark.long
def test_a_profile_is_applied_changed_and_restored(tune, fleet, tmp_path, monkeypatch):
    before = snapshot()
    predicted = tune("tune", "zram_swap", check=True)
    assert predicted.status == 0 and changed(predicted) > 0, predicted.output
    assert differences(before, snapshot()) == {}, "check mode changes nothing"

    first = tune("tune", "swap")
    assert first.status == 0 and changed(first) == 3, first.output
    assert value("/proc/sys/vm/swappiness") == ["100"] and snapshot()["swap"] == ["/var/lib/memstretch/memstretch.swap"]
    assert idle_limits() == {"n/a"}, "the inventory keeps the processors awake"
    limit = "memory/fleet/memory.limit_in_bytes" if os.path.isdir("/sys/fs/cgroup/memory") else "fleet/memory.max"
    assert value(f"/sys/fs/cgroup/{limit}") == ["136314880"]
    pathlib.Path("/proc/sys/vm/swappiness").write_text("33", encoding="ascii")
    found = tune("verify", "swap")
    assert found.status != 0 and "/proc/sys/vm/swappiness is 33 and not 100" in found.output, found.output
    assert changed(tune("tune", "swap")) == 1, "only the settings are changed again"

    both = tune("tune", "zram_swap")
    assert both.status == 0, both.output
    assert sorted(snapshot()["swap"]) == ["/dev/zram0", "/var/lib/memstretch/memstretch.swap"]  # the file is older
    assert changed(tune("tune", "zram_swap")) == 0, "a second run changes nothing"
    assert tune("verify", "zram_swap").status == 0

    switched = tune("tune", "zram")
    assert switched.status == 0, switched.output
    assert snapshot()["swap"] == ["/dev/zram0"] and not os.path.exists("/var/lib/memstretch/memstretch.swap")
    another = tune("verify", "swap")
    assert another.status != 0 and "profile zram is applied to this host" in another.output

    # From another controller, which has neither this inventory nor the files of the first one.
    other = write_inventory(tmp_path / "hosts.yml", {"hypervisors": {"hosts": {"kvm01": {}}}})
    with monkeypatch.context() as controller:
        controller.setitem(fleet.environment, "HOME", str(tmp_path))
        restored = fleet.run_playbook(playbook="restore", inventory=other)
    assert restored.status == 0, restored.output
    assert differences(before, snapshot()) == {}
    assert changed(tune("restore", "zram")) == 0


@pytest.fixture
def damon_thread(needs_damon):
    """The state of a DAMON thread that runs; without a scheme it only watches."""
    try:
        for name, text in (
            ("nr_kdamonds", "1"),
            ("0/contexts/nr_contexts", "1"),
            ("0/contexts/0/operations", "paddr"),
            ("0/contexts/0/targets/nr_targets", "1"),
            ("0/state", "on"),
        ):
            (KDAMONDS / name).write_text(text, encoding="ascii")
        yield KDAMONDS / "0/state"
    finally:
        if value(KDAMONDS / "0/state") == ["on"]:  # the kernel refuses to stop one that is off
            (KDAMONDS / "0/state").write_text("off", encoding="ascii")
        (KDAMONDS / "nr_kdamonds").write_text("0", encoding="ascii")


@pytest.mark.long
def test_damon_is_stopped_and_started_again(tune, damon_thread):
    """It pages out what it finds cold, and a profile would get the credit."""
    before = snapshot()
    assert value(damon_thread) == ["on"]
    label = "DAMON of somebody else is switched off while the profile is applied"
    predicted = tune("tune", "dram", check=True)
    assert predicted.status == 0 and value(damon_thread) == ["on"] and label in " ".join(predicted.output.split())
    tuned = tune("tune", "dram")
    assert tuned.status == 0 and value(damon_thread) == ["off"] and label in " ".join(tuned.output.split())
    assert changed(tune("tune", "dram")) == 0

    assert tune("restore", "dram").status == 0
    assert value(damon_thread) == ["on"] and differences(before, snapshot()) == {}


@pytest.mark.long
def test_what_can_no_longer_be_restored_does_not_stop_the_rest(tune, fleet):
    """The kernel refuses one original, lacks the knob of another one, and the unit of a service is gone."""
    before = snapshot()
    assert tune("tune", "dram").status == 0
    path = RECORDS / "host_settings.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    # Values that another kernel has had: this one accepts swappiness up to 200.
    record["originals"] |= {"/proc/sys/vm/swappiness": "999", "/proc/sys/vm/of_another_kernel": "1"}
    record["services"] = {"of-a-purged-package": {"active": True, "enabled": True}}
    path.write_text(json.dumps(record), encoding="utf-8")
    swappiness = value("/proc/sys/vm/swappiness")

    fleet.environment["ANSIBLE_DISPLAY_OK_HOSTS"] = "false"  # the warnings are shown all the same
    for count, outcome in enumerate((tune("restore", "dram"), tune("restore", "dram"))):
        shown = " ".join(outcome.output.split())
        assert outcome.status == 0, outcome.output
        assert "/proc/sys/vm/swappiness cannot be restored to '999': the kernel refuses '999'" in shown
        assert "/proc/sys/vm/of_another_kernel cannot be restored to '1': this kernel or host no longer has it" in shown
        assert "service of-a-purged-package cannot be restored to 'running and enabled': this host no longer" in shown
        assert (changed(outcome) == 0) == (count == 1), "a second restore changes nothing"
    left = differences(before, snapshot())
    assert left.pop("records") and set(left) <= {"/proc/sys/vm/swappiness"}
    assert value("/proc/sys/vm/swappiness") == swappiness

    names = ["/proc/sys/vm/swappiness", "/proc/sys/vm/of_another_kernel", "service of-a-purged-package"]
    outcome = tune("restore", "dram", json.dumps({"host_tuning_forget": names}))
    assert outcome.status == 0 and changed(outcome) == 1 and not RECORDS.exists(), outcome.output
    pathlib.Path("/proc/sys/vm/swappiness").write_text(" ".join(before["/proc/sys/vm/swappiness"]), encoding="ascii")
    assert differences(before, snapshot()) == {}


@pytest.mark.long
def test_processors_are_kept_awake_under_any_profile_and_left_to_sleep_again(tune, tmp_path):
    before = snapshot()
    mine = tmp_path / "mine.yml"
    mine.write_text(f"name: mine\ndescription: Mine.\nsysfs: {{{IDLE_LIMITS}: 20}}\n", encoding="utf-8")
    assert tune("tune", mine, "host_tuning_cpu_idle=default").status == 0 and idle_limits() == {"20"}
    awake = tune("tune", mine)
    assert awake.status == 0 and idle_limits() == {"n/a"}, awake.output

    sleeper = glob.glob(IDLE_LIMITS)[0]
    pathlib.Path(sleeper).write_text("0", encoding="ascii")
    found = tune("verify", mine)
    assert found.status != 0 and f"{sleeper} is 0 and not n/a" in found.output, found.output

    default = tune("tune", "dram", "host_tuning_cpu_idle=default")
    assert default.status == 0 and idle_limits() == {"0"}, default.output
    assert tune("restore", "dram").status == 0
    assert differences(before, snapshot()) == {}


@pytest.mark.long
def test_settings_of_the_inventory_and_a_host_budget(tune):
    """How much memory the host needs is only known when the rest of the profile is in force."""

    def budget(size):
        return json.dumps({"host_tuning_dram_budget": {"mechanism": "hugepages", "size": size}})

    before = snapshot()
    refused = tune("tune", "dram", budget("16M"))
    assert refused.status != 0 and "would push the host into OOM" in refused.output, refused.output
    mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 - 1024
    outcome = tune(
        "tune",
        "dram",
        "host_tuning_dirty_bytes=15728640",
        '{"host_tuning_without": ["kernel.numa_balancing"]}',
        budget(f"{mib}M"),
    )
    assert outcome.status == 0 and f"DRAM budget of {mib} MiB by hugepages" in outcome.output, outcome.output
    assert value("/proc/sys/vm/dirty_bytes") == ["15728640"] and value("/proc/sys/vm/dirty_ratio") == ["0"]
    assert int(value("/proc/sys/vm/nr_hugepages")[0]) > 0
    assert tune("restore", "dram").status == 0
    assert differences(before, snapshot()) == {}


def test_a_mistake_is_refused_before_any_change(tune, fleet):
    devices = {"host_tuning_swap": {"kind": "devices"}, "swap_space_devices": ["/dev/nvme0n1"]}
    cases = [
        (devices, "/dev/disk/by-id"),
        ({"host_tuning_swap": {"kind": "tape"}}, "kind"),
        ({"host_tuning_dram_budget": {"mechanism": "cgroup"}}, "it must have a size"),
        ({"host_tuning_settings": {"sysctl": {"swappiness": 1}}}, "such as vm.swappiness"),
    ]
    assert not fleet.not_refused("host_tuning", cases, STRETCHED, hosts="hypervisors")
    assert not RECORDS.exists()


def of(plan, profile, size):
    return next(each for each in plan["fleets"] if (each["profile"], each["size"]) == (profile, size))


@pytest.mark.long
def test_a_plan_for_this_machine_changes_nothing(untuned_machine, fleet):
    before = snapshot()
    outcome = fleet.run_playbook(
        "-e", "profiles=dram,swap,zram,zram_swap", "-e", "fleet_sizes=1,8", playbook="plan", inventory=STRETCHED
    )
    assert outcome.status == 0, outcome.output
    assert differences(before, snapshot()) == {} and not RECORDS.exists()
    plan = fleet.document("plan", "plan")
    assert {(each["profile"], each["size"]) for each in plan["fleets"]} == {
        (profile, size) for profile in ("dram", "swap", "zram", "zram_swap") for size in (1, 8)
    }
    # What the inventory makes of each profile: 1 GiB under dram, 130 MiB and a swap file or zram under the others.
    assert of(plan, "dram", 8)["dram_bytes"] == 2**30 and of(plan, "dram", 8)["verdict"] == "fits"
    assert of(plan, "swap", 8)["dram_bytes"] == 130 * 2**20 and of(plan, "swap", 8)["tier"] == "file"
    assert of(plan, "zram", 8)["tier"] == "zram" and of(plan, "zram", 8)["tier_bytes"] > 1e9
    assert plan["capacity"]["zram_swap"]["servers"] > plan["capacity"]["zram"]["servers"]
    assert plan["duration"]["runs"] == 8 and plan["duration"]["phases"] == 5
    assert "Nothing was changed." in outcome.output

    checked = fleet.run_playbook(
        "--check",
        "-e",
        "profile=swap",
        "-e",
        "results_dir=" + str(fleet.path / "other"),
        playbook="plan",
        inventory=STRETCHED,
    )
    assert checked.status == 0 and "Nothing was changed." in checked.output and not (fleet.path / "other").exists(), (
        checked.output
    )
