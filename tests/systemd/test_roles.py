# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles on a machine with systemd: what they write survives a boot, and nothing is left of it when it is restored."""

from __future__ import annotations

import pathlib
import typing as t

from .conftest import Host
from .machine import OUR_SWAP, SWAP, Machine

# Of the slice of VMs, with version 1 of control groups and with version 2.
LIMITS = [
    f"/sys/fs/cgroup/{name}" for name in ("memory/machine.slice/memory.limit_in_bytes", "machine.slice/memory.max")
]
# Not swappiness: a control group of version 1 has its own from its creation.
SETTING = pathlib.Path("/proc/sys/vm/vfs_cache_pressure")


def unit(host: Host, name: str, *properties: str) -> dict[str, str]:
    shown = host.machine.run("systemctl", "show", f"--property={','.join(properties)}", name)
    return dict(line.split("=", 1) for line in shown.splitlines())


def is_well(host: Host) -> bool:
    return host.machine.run("systemctl", "is-system-running") == "running"


def limit_of_a_service_in_the_slice(host: Host) -> int:
    """Return the limit of the slice while a service runs in it: an empty slice has no control group."""
    host.machine.run("systemd-run", "--quiet", "--unit=load", "--slice=machine.slice", "sleep", "600")
    found = host.machine.run("sh", "-c", f"cat {' '.join(LIMITS)} 2>/dev/null || true")
    host.machine.run("systemctl", "stop", "load.service")
    return int(found)


def test_the_machine_and_its_user_are_those_of_debian(host: Host) -> None:
    """Otherwise the other tests would show nothing about them."""
    look = "umask; command -v swapon || echo none; sudo -n true 2>&1 || echo asks; sudo -S id -u"
    looked = host.machine.log_in(look, 60).stdout
    for text in ("0002\nnone\n", "asks\n", "Welcome to memstretch-systemd\n", "unable to resolve host", "lecture"):
        assert text in looked, looked
    assert looked.endswith("0\n"), looked
    assert is_well(host)
    assert host.machine.swap_files() == [SWAP], "systemd has turned on what is in fstab"
    assert host.machine.path not in {each.path for each in Machine.left()}, "nobody else takes it for a leftover"


def test_redis_runs_in_its_slice_and_starts_at_boot(host: Host) -> None:
    options: dict[str, t.Any] = {
        "redis_systemd_slice": "fleet.slice",
        "redis_instances": [{"port": 17601, "maxmemory": "32mb"}],
    }
    host.role("redis", **options)
    wanted = {"ActiveState": "active", "UnitFileState": "enabled", "Slice": "fleet.slice", "User": "redis"}
    assert unit(host, "memstretch-redis@17601.service", *wanted) == wanted
    assert host.machine.run("redis-cli", "-p", "17601", "ping") == "PONG"
    host.check_unchanged_by("redis", **options)
    host.machine.run("systemctl", "daemon-reexec")
    assert host.machine.run("redis-cli", "-p", "17601", "ping") == "PONG"
    host.machine.cut_power()
    host.machine.boot()
    assert host.machine.run("redis-cli", "-p", "17601", "ping") == "PONG"
    host.role("redis", redis_state="absent", **options)
    assert "memstretch-redis" not in host.machine.run("systemctl", "list-units", "--all", "--no-legend")
    assert host.left_over() == ""


def test_a_redis_whose_run_ended_before_the_restart_is_restarted_by_the_next_one(host: Host) -> None:
    """It ends when systemd should read the units again, and the configuration is written already."""

    def role(megabytes: int, fails: bool = False) -> None:
        host.role("redis", fails, redis_instances=[{"port": 17603, "maxmemory": f"{megabytes}mb"}])

    def in_force() -> str:
        return host.machine.run("redis-cli", "-p", "17603", "config", "get", "maxmemory").split()[-1]

    role(32)
    host.machine.run("mount", "--bind", "/bin/false", "/usr/bin/systemctl")
    try:
        role(33, fails=True)
    finally:
        host.machine.run("umount", "/usr/bin/systemctl")
    assert in_force() == str(32 * 2**20)
    role(33)
    assert in_force() == str(33 * 2**20)
    host.check_unchanged_by("redis", redis_instances=[{"port": 17603, "maxmemory": "33mb"}])
    host.role("redis", redis_state="absent", redis_instances=[{"port": 17603}])
    assert host.left_over() == ""


def test_a_redis_that_cannot_notify_systemd_is_refused_at_once(host: Host) -> None:
    """systemd would wait ten minutes for it."""
    options = {"redis_executable": "/usr/bin/true", "redis_instances": [{"port": 17602}]}
    assert "/usr/bin/true was built without libsystemd" in " ".join(host.role("redis", fails=True, **options).split())
    assert host.left_over() == ""


def test_swap_in_place_of_that_in_fstab_is_there_after_a_boot_and_restored(host: Host) -> None:
    options = {
        "swap_space_kind": "file",
        "swap_space_file_size": "64M",
        "swap_space_persistence": "required",
        "swap_space_others": "off",
    }
    host.role("swap_space", **options)
    assert host.machine.swap_files() == [OUR_SWAP]
    host.check_unchanged_by("swap_space", **options)
    host.machine.run("systemctl", "daemon-reexec")
    assert host.machine.swap_files() == [OUR_SWAP]
    host.machine.cut_power()
    host.machine.boot()
    assert host.machine.swap_files() == [OUR_SWAP]
    host.check_unchanged_by("swap_space", **options)
    host.role("swap_space", swap_space_state="restored")
    assert host.machine.swap_files() == [SWAP]
    assert host.left_over() == ""
    assert is_well(host)
    host.machine.cut_power()
    host.machine.boot()
    assert host.machine.swap_files() == [SWAP]


def test_a_profile_is_in_force_after_a_boot_and_restored(host: Host) -> None:
    """With a DRAM budget: the limit of the slice of VMs, which is the one that a fleet of VMs has without asking."""
    before = SETTING.read_text(encoding="ascii")
    other = str(int(before) - 1)
    options = {
        "host_tuning_profile": "dram",
        "host_tuning_settings": {
            "sysctl": {"vm.vfs_cache_pressure": {"value": int(other), "reason": "to be seen in this test"}}
        },
        "host_tuning_swap": {"others": "keep"},
        "host_tuning_dram_budget": {"mechanism": "cgroup", "size": "100M"},
        "vm_fleet_count": 1,
    }
    host.role("host_tuning", **options)
    try:
        assert SETTING.read_text(encoding="ascii").strip() == other
        assert limit_of_a_service_in_the_slice(host) == 100 * 2**20
        host.check_unchanged_by("host_tuning", **options)
        host.machine.run("systemctl", "daemon-reexec")
        assert limit_of_a_service_in_the_slice(host) == 100 * 2**20
        host.check_unchanged_by("host_tuning", **options)
        SETTING.write_text(before, encoding="ascii")
        host.machine.cut_power()
        host.machine.boot()
        assert SETTING.read_text(encoding="ascii").strip() == other
        assert limit_of_a_service_in_the_slice(host) == 100 * 2**20
    finally:
        host.restore()  # as after an interruption
    assert SETTING.read_text(encoding="ascii") == before
    assert host.left_over() == ""
    assert is_well(host)
