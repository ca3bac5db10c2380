# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026, the memstretch.density contributors
"""virsh on the hypervisor."""

from __future__ import annotations

import pytest


@pytest.fixture(name="virsh")
def _virsh(host):
    """Return a function that returns what virsh prints."""
    return lambda command: host.check_output("virsh --quiet --connect qemu:///system " + command)
