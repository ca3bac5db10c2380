# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026, the memstretch.density contributors
"""Another VM is there, and the one that ran still runs."""

from __future__ import annotations


def test_the_third_vm_is_defined(virsh):
    assert set(virsh("list --all --name").split()) == {"try-001", "try-002", "try-003", "foreign"}


def test_the_vm_that_ran_still_runs(host, virsh):
    assert virsh("list --name") == "try-001"
    (process,) = (each for each in host.process.filter(user="libvirt-qemu") if "guest=try-001" in each.args)
    assert process.pid
