# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026, the memstretch.density contributors
"""Another VM is there, and the one that ran still runs."""

from __future__ import annotations


def test_the_third_vm_is_defined(virsh):
    assert set(virsh("list --all --name").split()) == {"redis-001", "redis-002", "redis-003", "foreign"}


def test_the_vm_that_ran_still_runs(host, virsh):
    assert virsh("list --name") == "redis-001"
    process = host.process.get(pid=int(host.check_output("cat /run/libvirt/qemu/redis-001.pid")))
    assert process.comm.startswith("qemu-system") and "guest=redis-001" in process.args
