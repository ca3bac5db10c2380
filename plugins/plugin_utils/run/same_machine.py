# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are one machine, such as several Redis instances."""

from __future__ import annotations

import typing as t

# How Ansible reaches a host by ssh; the older names of the first two begin with ansible_ssh_, too.
_REACHED = ("ansible_port", "ansible_user", "ansible_private_key_file", "ansible_password")
_SSH = ("ansible_ssh_", "ansible_sftp_", "ansible_scp_", "ansible_control_path")


def same_machine(hosts: t.Sequence[str], hostvars: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, str]:
    """Return for each host the first of those that are reached in the same way, which is on the same machine.

    Only local connections and ssh to the same address or name can be told; any other host is a machine of its own.

    Args:
        hosts: in the order of the play.
        hostvars: the variables of each.
    """
    first: dict[t.Any, str] = {}
    return {host: first.setdefault(_place(host, hostvars[host]), host) for host in hosts}


def recorded_machines(run: t.Mapping[str, t.Any]) -> dict[str, t.Mapping[str, t.Any]]:
    """Return the record of each machine of a run, by boot id; by the host's name if that is unknown.

    Args:
        run: run.json, or what the action C(benchmark_run) returned.
    """
    return {
        (record.get("kernel") or {}).get("boot_id") or host: record for host, record in run.get("hosts", {}).items()
    }


def _place(host: str, variables: t.Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    connection = str(variables.get("ansible_connection", "ssh")).rpartition(".")[2]
    names: list[str] = []
    if connection == "local":
        reached = ["local"]
    elif connection in ("ssh", "smart"):
        # Without an address, ssh takes the name of the host.
        reached = ["ssh", str(variables["ansible_host"]) if "ansible_host" in variables else host]
        names = [name for name in variables if name in _REACHED or name.startswith(_SSH)]
    else:
        reached = ["the machine", host]
    return (*reached, *sorted((name, str(variables[name])) for name in names))
