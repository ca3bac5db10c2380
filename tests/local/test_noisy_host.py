# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles and playbooks on a host whose sudo asks for a password, and whose login and sudo print what nobody wants."""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

import pytest
from noisy_login import PASSWORD
from terminal import on_a_terminal

from . import test_density
from .conftest import RAMP, SMALL, LocalFleet, free_ports, smaller_inventory, write_inventory
from .noisy_host import NoisyHost, noisy_host
from .other_host import python_with_mounts, without_libvirt

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


def unchanged(path: pathlib.Path) -> str:
    """Write a profile that sets what is set already, since the kernel is that of this machine."""
    now = int(pathlib.Path("/proc/sys/vm/stat_interval").read_text(encoding="ascii"))
    setting = {"value": now, "reason": "It is so.", "since": "2.6"}
    texts = {"name": path.stem, "description": "What is set.", "source": "This machine."}
    path.write_text(json.dumps({**texts, "sysctl": {"vm.stat_interval": setting}}), encoding="utf-8")
    return str(path)


def own_redis(host: NoisyHost, path: pathlib.Path) -> dict[str, t.Any]:
    """Return the variables of a Redis that the role sets up there."""
    port = free_ports(1)
    return {
        "redis_port": port,
        "redis_supervisor": "daemon",
        "redis_daemon_user": "redis",
        "redis_directory": str(host.path / "redis"),
        "latency_benchmark_port": port,
        "latency_benchmark_cache_directory": str(path / "cache"),
        "client_program_cache_directory": str(path / "cache"),
    }


def test_a_password_that_is_typed_tunes_a_noisy_host(
    noisy_host: NoisyHost, fleet: LocalFleet, tmp_path: pathlib.Path
) -> None:
    """With -K on a terminal, in check mode."""
    del noisy_host.variables["ansible_become_password"]
    profile = f"profile={unchanged(tmp_path / 'unchanged.yml')}"
    command = fleet.command("tune", "-K", "--check", "-e", profile, inventory=inventory(noisy_host, fleet))
    status, output = on_a_terminal(command, "BECOME password: ", PASSWORD, fleet.environment)
    assert status == 0, output
    assert re.search(r"noisy +: ok=[1-9]\d* .*unreachable=0 +failed=0", output), output
    assert PASSWORD not in output


@pytest.mark.long
def test_a_whole_run_on_a_noisy_host(noisy_host: NoisyHost, fleet: LocalFleet, tmp_path: pathlib.Path) -> None:
    profile = f"profile={unchanged(tmp_path / 'unchanged.yml')}"
    hosts = inventory(noisy_host, fleet, **own_redis(noisy_host, tmp_path))
    try:
        for playbook, *extra in (["tune"], ["verify"], ["site"], ["benchmark", "--check"]):
            outcome = fleet.run_playbook("-e", profile, *extra, playbook=playbook, inventory=hosts)
            assert outcome.status == 0, (playbook, outcome.output)
            assert PASSWORD not in outcome.output
    finally:
        restored = fleet.run_playbook(playbook="restore", inventory=hosts)
        removed = fleet.run_playbook(playbook="teardown", inventory=hosts)
    assert (restored.status, removed.status) == (0, 0), restored.output + removed.output
    assert not (noisy_host.path / "redis").exists()


OTHERS = {
    "fleet": {
        "vm_fleet_count": 1,
        "vm_fleet_image": "/dev/null",
        "vm_fleet_memory": "1G",
        "vm_fleet_accelerator": "qemu",
    },
    "headroom": {},
    "memory_bandwidth": {},
    "plan": {"profiles": "dram"},
    "study": {"profiles": "dram,dram_2018", "site_check": False},
    "throughput": {"throughput_rounds": 1, "throughput_benchmark_data": "1M", "redis_supervisor": "daemon"},
    "writeback": {},
}


@pytest.mark.long
@pytest.mark.parametrize("playbook", OTHERS)
def test_check_mode_of_the_other_playbooks(
    noisy_host: NoisyHost, fleet: LocalFleet, tmp_path: pathlib.Path, playbook: str
) -> None:
    """Check mode asks the host what the playbook needs to know, and would change it if sudo led elsewhere."""
    variables = {**OTHERS[playbook], "client_program_cache_directory": str(tmp_path / "cache")}
    if playbook == "fleet":  # whether a libvirtd runs on this machine makes no difference
        mounts = without_libvirt(noisy_host.path / "bare")
        noisy_host.variables["ansible_python_interpreter"] = python_with_mounts(noisy_host.path / "python", mounts)
    hosts = inventory(noisy_host, fleet)
    outcome = fleet.run_playbook("--check", "-e", json.dumps(variables), playbook=playbook, inventory=hosts)
    assert outcome.status == 0, outcome.output
    assert PASSWORD not in outcome.output


@pytest.mark.long
def test_a_password_that_is_typed_reaches_the_playbooks_that_a_playbook_runs(
    noisy_host: NoisyHost, fleet: LocalFleet
) -> None:
    """The self-test, with -K on a terminal, as the first command that a new user types."""
    del noisy_host.variables["ansible_become_password"]
    command = fleet.command(
        "selftest", "-K", "-e", "selftest_checks=clock,budget", inventory=inventory(noisy_host, fleet)
    )
    status, output = on_a_terminal(command, "BECOME password: ", PASSWORD, fleet.environment)
    assert status == 0, output
    assert re.search("passed +budget +a limit of 64M", output) and re.search("passed +put_back", output), output
    assert PASSWORD not in output


@pytest.mark.long
def test_a_password_that_is_typed_measures_a_density(
    noisy_host: NoisyHost, fleet: LocalFleet, untuned_machine: None, tmp_path: pathlib.Path
) -> None:
    """The playbooks that it runs for each profile get the password, too, and the host is restored."""
    del noisy_host.variables["ansible_become_password"]
    hosts = smaller_inventory(RAMP, tmp_path / "ramp", *test_density.SERVERS, **noisy_host.variables)
    variables = {
        **test_density.SMALL,
        "profiles": "dram",
        "density_rounds": 1,
        "latency_benchmark_port": test_density.port_of_each(),
        "client_program_cache_directory": str(tmp_path / "cache"),
    }
    command = fleet.command("density", "-K", "-e", json.dumps(variables), inventory=hosts)
    status, output = on_a_terminal(command, "BECOME password: ", PASSWORD, fleet.environment)
    assert status == 0, output
    found = json.loads((fleet.results / "small" / "density.json").read_text(encoding="utf-8"))
    assert found["restored"] and found["arms"][0]["density"], output
    assert PASSWORD not in output


@pytest.mark.long
def test_the_other_roles_on_a_noisy_host(noisy_host: NoisyHost, fleet: LocalFleet, tmp_path: pathlib.Path) -> None:
    def role(name: str, **variables: t.Any) -> dict[str, t.Any]:
        return {"ansible.builtin.include_role": {"name": f"memstretch.density.{name}"}, "vars": variables}

    tasks = [
        role("swap_space", swap_space_kind="file", swap_space_file="/srv/swap", swap_space_file_size="64M"),
        role("kernel_cmdline", kernel_cmdline_arguments=["nohz=off"], kernel_cmdline_required=False),
        role("packages", packages_names=["hello"]),
    ]
    outcome = fleet.run_playbook("--check", playbook=play(fleet, tasks), inventory=inventory(noisy_host, fleet))
    assert outcome.status == 0, outcome.output
