# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.records import (
    INDEX_BYTES,
    SLOT_BYTES,
    data_bytes,
    value_bytes,
)


@pytest.mark.parametrize(
    "size, taken",
    [
        (1, 16),
        (12, 16),
        (13, 32),
        (1000, 1024),
        (1020, 1024),
        (1021, 1280),
        (4092, 4096),
        (5000, 5120),
        (10**5, 114688),
    ],
)
def test_a_value_takes_a_size_class_of_memory(size, taken):
    assert value_bytes(size) == taken


def test_the_table_of_the_keys_has_a_power_of_two_of_slots():
    assert data_bytes(9000, 1000) == 9000 * (1024 + INDEX_BYTES) + 16384 * SLOT_BYTES
    assert data_bytes(1, 1000) == 1024 + INDEX_BYTES + 4 * SLOT_BYTES
