# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.tests.unit.fixtures.looks import look_at


@pytest.fixture
def look():
    """A function that returns the look at a host of 64 GiB with some VMs of 4 GiB."""
    return look_at
