# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles on this machine, for real: applied, verified, exchanged, put back. Needs root; the lane host does the same on a system with drives,
systemd and a boot loader."""

from __future__ import annotations

import glob
import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INVENTORY = ROOT / "inventories" / "stretched" / "hosts.yml"
RECORDS = pathlib.Path("/var/lib/memstretch")
COUNTERS = re.compile(
    r"/(pages_|full_scans|stable_node|ksm_zero|general_profit|free_hugepages|resv_hugepages|stats/|damon/|stat_refresh|compact_memory)"
)


def value(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").split()
    except OSError:  # written only, or without a value just now
        return None


def snapshot():
    """All that a profile could touch here."""
    places = (
        "/proc/sys/vm/*",
        "/proc/sys/kernel/numa*",
        "/sys/kernel/mm/**/*",
        "/sys/module/zswap/parameters/*",
        "/sys/block/*/queue/*",
        "/sys/block/zram*/disksize",
        "/sys/block/zram*/comp_algorithm",
    )
    state = {
        path: value(path)
        for place in places
        for path in glob.glob(place, recursive=True)
        if os.path.isfile(path) and not COUNTERS.search(path)
    }
    state["swap"] = [
        line.split()[0] for line in pathlib.Path("/proc/swaps").read_text(encoding="utf-8").splitlines()[1:]
    ]
    for directory in (
        "/etc/sysctl.d",
        "/etc/tmpfiles.d",
        "/etc/udev/rules.d",
        "/etc/systemd/system",
        "/var/tmp",
        "/sys/fs/cgroup/memory",
    ):
        state[directory] = sorted(os.listdir(directory)) if os.path.isdir(directory) else None
    state["records"] = RECORDS.exists()
    return state


def differences(before, after):
    return {
        key: (before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    }


@pytest.fixture
def tune(lab):
    """Playbooks on this machine, which is put back whatever happens."""
    if os.geteuid() != 0:
        pytest.skip("tuning this machine needs root")
    if RECORDS.exists():
        pytest.fail(
            f"{RECORDS} is there: this machine carries a profile already; restore it first (playbooks/restore.yml)"
        )
    lab.environment["ANSIBLE_DISPLAY_OK_HOSTS"] = "true"

    def play(playbook, profile, *arguments, check=False):
        words = [word for each in (f"profile={profile}", *arguments) for word in ("-e", each)]
        return lab.play(*words, *(["--check"] if check else []), playbook=playbook, inventory=INVENTORY)

    yield play
    if RECORDS.exists():
        undone = play("restore", "dram")
        assert undone.status == 0, undone.output


def changed(outcome):
    return int(re.search(r"^this_machine\s.*changed=(\d+)", outcome.output, re.M).group(1))


def test_a_machine_is_tuned_switched_and_put_back(tune):
    before = snapshot()
    for profile in ("dram", "swap", "zram"):
        foreseen = tune("tune", profile, check=True)
        assert foreseen.status == 0 and changed(foreseen) > 0, foreseen.output
        assert differences(before, snapshot()) == {}, "check mode changes nothing"

    first = tune("tune", "swap")
    assert first.status == 0 and changed(first) == 3, first.output
    assert value("/proc/sys/vm/swappiness") == ["100"] and snapshot()["swap"] == ["/var/tmp/memstretch.swap"]
    assert value("/sys/fs/cgroup/memory/fleet/memory.limit_in_bytes") in (["136314880"], None)
    assert changed(tune("tune", "swap")) == 0, "a second run changes nothing"
    assert tune("verify", "swap").status == 0

    pathlib.Path("/proc/sys/vm/swappiness").write_text("33", encoding="ascii")
    found = tune("verify", "swap")
    assert found.status != 0 and "/proc/sys/vm/swappiness is 33 and not 100" in found.output, found.output
    assert changed(tune("tune", "swap")) == 1, "only that is put right"

    switched = tune("tune", "zram")
    assert switched.status == 0, switched.output
    assert snapshot()["swap"] == ["/dev/zram0"] and not os.path.exists("/var/tmp/memstretch.swap")
    other = tune("verify", "swap")
    assert other.status != 0 and "the host carries profile zram" in other.output
    assert tune("verify", "zram").status == 0

    restored = tune("restore", "zram")
    assert restored.status == 0, restored.output
    assert differences(before, snapshot()) == {}
    assert changed(tune("restore", "zram")) == 0


def test_settings_of_the_inventory_and_a_host_budget(tune):
    before = snapshot()
    outcome = tune(
        "tune",
        "dram",
        "host_tuning_dirty_bytes=15728640",
        '{"host_tuning_without": ["kernel.numa_balancing"]}',
        '{"host_tuning_dram_budget": {"mechanism": "hugepages", "size": "8G"}}',
    )
    assert outcome.status == 0 and "DRAM budget of 8192 MiB by hugepages" in outcome.output, outcome.output
    assert value("/proc/sys/vm/dirty_bytes") == ["15728640"] and value("/proc/sys/vm/dirty_ratio") == ["0"]
    assert int(value("/proc/sys/vm/nr_hugepages")[0]) > 0
    assert tune("restore", "dram").status == 0
    assert differences(before, snapshot()) == {}


@pytest.mark.parametrize(
    "argument, message",
    [
        ('{"host_tuning_dram_budget": {"mechanism": "hugepages", "size": "16M"}}', "would push the host into OOM"),
        ('{"host_tuning_swap": {"kind": "devices"}, "swap_space_devices": ["/dev/nvme0n1"]}', "/dev/disk/by-id"),
        ('{"host_tuning_swap": {"kind": "tape"}}', "kind"),
        ('{"host_tuning_dram_budget": {"mechanism": "cgroup"}}', "it must have a size"),
        ('{"host_tuning_settings": {"sysctl": {"swappiness": 1}}}', "such as vm.swappiness"),
    ],
)
def test_a_mistake_is_refused(tune, argument, message):
    outcome = tune("tune", "dram", argument)
    assert outcome.status != 0 and message in outcome.output, outcome.output
    if "OOM" not in message:  # what the budget must fit into is only known when the rest is in force
        assert not RECORDS.exists()
