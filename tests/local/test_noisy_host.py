# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles and playbooks on a host whose sudo asks for a password, and whose login and sudo print what nobody wants."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from .conftest import SMALL, LocalFleet, free_ports, write_inventory
from .noisy_host import PASSWORD, NoisyHost, noisy_host

__all__ = ["noisy_host"]


def inventory(host: NoisyHost, fleet: LocalFleet, **variables: t.Any) -> pathlib.Path:
    groups = {name: {"hosts": {"noisy": host.variables}} for name in ("hypervisors", "fleet")}
    return write_inventory(fleet.path / "hosts.yml", groups, **SMALL, **variables)


def play(fleet: LocalFleet, tasks: list[dict[str, t.Any]]) -> str:
    path = fleet.path / "play.yml"
    path.write_text(json.dumps([{"hosts": "noisy", "gather_facts": False, "tasks": tasks}]), encoding="utf-8")
    return str(path)


def test_the_host_is_noisy(noisy_host: NoisyHost, fleet: LocalFleet) -> None:
    shown = {"ansible.builtin.debug": {"var": "said"}}
    tasks = [{"ansible.builtin.raw": "id -u; hostname", "register": "said"}, shown]
    outcome = fleet.run_playbook(playbook=play(fleet, tasks), inventory=inventory(noisy_host, fleet))
    assert outcome.status == 0, outcome.output
    for text in ("Welcome to memstretch-nowhere", "no newline at the end", "unable to resolve host"):
        assert text in outcome.output, outcome.output
    assert '"0"' in outcome.output, "it became root"


@pytest.mark.long
def test_a_whole_run_on_a_noisy_host(noisy_host: NoisyHost, fleet: LocalFleet, tmp_path: pathlib.Path) -> None:
    # A profile that sets what is set already: the kernel is that of this machine.
    now = int(pathlib.Path("/proc/sys/vm/stat_interval").read_text(encoding="ascii"))
    setting = {"value": now, "reason": "It is so.", "since": "2.6"}
    profile = tmp_path / "unchanged.yml"
    content = {
        "name": "unchanged",
        "description": "What is set.",
        "source": "This machine.",
        "sysctl": {"vm.stat_interval": setting},
    }
    profile.write_text(json.dumps(content), encoding="utf-8")
    port = free_ports(1)
    hosts = inventory(
        noisy_host,
        fleet,
        redis_port=port,
        redis_supervisor="daemon",
        redis_daemon_user="redis",
        redis_directory=str(noisy_host.path / "redis"),
        latency_benchmark_port=port,
        latency_benchmark_cache_directory=str(tmp_path / "cache"),
        client_program_cache_directory=str(tmp_path / "cache"),
    )
    try:
        for extra in ([], ["--check"]):
            outcome = fleet.run_playbook("-e", f"profile={profile}", *extra, playbook="site", inventory=hosts)
            assert outcome.status == 0, outcome.output
            assert PASSWORD not in outcome.output
    finally:
        restored = fleet.run_playbook(playbook="restore", inventory=hosts)
        removed = fleet.run_playbook(playbook="teardown", inventory=hosts)
    assert (restored.status, removed.status) == (0, 0), restored.output + removed.output
    assert not (noisy_host.path / "redis").exists()


def test_the_other_roles_on_a_noisy_host(noisy_host: NoisyHost, fleet: LocalFleet, tmp_path: pathlib.Path) -> None:
    def role(name: str, **variables: t.Any) -> dict[str, t.Any]:
        return {"ansible.builtin.include_role": {"name": f"memstretch.density.{name}"}, "vars": variables}

    tasks = [
        role("swap_space", swap_space_kind="file", swap_space_file="/srv/swap", swap_space_file_size="64M"),
        role("memory_bandwidth", client_program_cache_directory=str(tmp_path / "cache")),
        role("writeback_benchmark"),
    ]
    outcome = fleet.run_playbook("--check", playbook=play(fleet, tasks), inventory=inventory(noisy_host, fleet))
    assert outcome.status == 0, outcome.output
