# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles on a machine with systemd: what they write survives a boot, and nothing is left of it when it is restored."""

from __future__ import annotations

import pathlib
import subprocess
import typing as t

from .conftest import Host

SWAP_FILE = "/var/lib/memstretch/memstretch.swap"
# Of the slice, with version 1 of control groups and with version 2.
LIMITS = [f"/sys/fs/cgroup/{name}" for name in ("memory/fleet.slice/memory.limit_in_bytes", "fleet.slice/memory.max")]
SWAPPINESS = pathlib.Path("/proc/sys/vm/swappiness")


def unit(host: Host, name: str, *properties: str) -> dict[str, str]:
    shown = host.machine.run("systemctl", "show", f"--property={','.join(properties)}", name)
    return dict(line.split("=", 1) for line in shown.splitlines())


def left_over(host: Host) -> str:
    return host.machine.run("find", "/etc", "/var/lib", "-name", "*memstretch*")


def limit_of_a_service_in_the_slice(host: Host) -> int:
    """Return the limit of the slice while a service runs in it: an empty slice has no control group."""
    host.machine.run("systemd-run", "--quiet", "--unit=load", "--slice=fleet.slice", "sleep", "600")
    found = host.machine.run("sh", "-c", f"cat {' '.join(LIMITS)} 2>/dev/null || true")
    host.machine.run("systemctl", "stop", "load.service")
    return int(found)


def test_the_user_is_one_of_debian(host: Host) -> None:
    """Otherwise the other tests would show nothing about such a user."""
    ssh = [str(host.machine.ssh), "umask; command -v swapon || echo none; sudo -n true 2>&1 || echo asks"]
    lines = subprocess.run(ssh, check=True, capture_output=True, text=True).stdout.splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("0002", "none", "asks")
    assert host.machine.run("systemctl", "is-system-running") == "running"


def test_redis_runs_in_its_slice_and_starts_at_boot(host: Host) -> None:
    options: dict[str, t.Any] = {
        "redis_systemd_slice": "fleet.slice",
        "redis_instances": [{"port": 17601, "maxmemory": "32mb"}],
    }
    host.role("redis", **options)
    wanted = {"ActiveState": "active", "UnitFileState": "enabled", "Slice": "fleet.slice", "User": "redis"}
    assert unit(host, "memstretch-redis@17601.service", *wanted) == wanted
    assert host.machine.run("redis-cli", "-p", "17601", "ping") == "PONG"
    assert host.is_unchanged_by("redis", **options)
    host.machine.cut_power()
    host.machine.boot()
    assert host.machine.run("redis-cli", "-p", "17601", "ping") == "PONG"
    host.role("redis", redis_state="absent", **options)
    assert "memstretch-redis" not in host.machine.run("systemctl", "list-units", "--all", "--no-legend")
    assert left_over(host) == ""


def test_a_swap_file_is_the_same_after_a_boot_and_gone_when_restored(host: Host) -> None:
    """systemd turns no swap on or off in a container; the lane host boots a machine that does."""
    options = {"swap_space_kind": "file", "swap_space_file_size": "64M", "swap_space_persistence": "required"}
    before = pathlib.Path("/proc/swaps").read_text(encoding="utf-8")
    host.role("swap_space", **options)
    assert host.machine.swap_files() == [SWAP_FILE]
    assert host.machine.run("systemctl", "list-unit-files", "--no-legend", "*.swap").split()[:2] == [
        "var-lib-memstretch-memstretch.swap.swap",
        "enabled",
    ]
    assert host.is_unchanged_by("swap_space", **options)
    host.machine.cut_power()
    host.machine.boot()  # the swap is still on: the kernel is this machine's
    assert host.is_unchanged_by("swap_space", **options)
    host.role("swap_space", swap_space_state="restored")
    assert pathlib.Path("/proc/swaps").read_text(encoding="utf-8") == before
    assert left_over(host) == ""
    assert host.machine.run("systemctl", "--failed", "--no-legend") == ""


def test_a_profile_is_in_force_after_a_boot_and_restored(host: Host) -> None:
    """With a DRAM budget: the limit of the slice that VMs or Redis instances run in."""
    before = SWAPPINESS.read_text(encoding="ascii")
    other = "37" if before.strip() != "37" else "38"
    options = {
        "host_tuning_profile": "dram",
        "host_tuning_settings": {
            "sysctl": {"vm.swappiness": {"value": int(other), "reason": "to be seen in this test"}}
        },
        "host_tuning_swap": {"others": "keep"},
        "host_tuning_dram_budget": {"mechanism": "cgroup", "size": "100M", "group": "fleet.slice"},
    }
    host.role("host_tuning", **options)
    try:
        assert SWAPPINESS.read_text(encoding="ascii").strip() == other
        assert limit_of_a_service_in_the_slice(host) == 100 * 2**20
        assert host.is_unchanged_by("host_tuning", **options)
        SWAPPINESS.write_text(before, encoding="ascii")
        host.machine.cut_power()
        host.machine.boot()
        assert SWAPPINESS.read_text(encoding="ascii").strip() == other
        assert limit_of_a_service_in_the_slice(host) == 100 * 2**20
    finally:
        host.role("host_tuning", host_tuning_state="restored")
    assert SWAPPINESS.read_text(encoding="ascii") == before
    assert left_over(host) == ""
