# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from synthetic_ramps import dram, tier

from .judging import ROUNDS, judged


@pytest.fixture(scope="session")
def decided():
    return judged([*dram(ROUNDS), *tier("zram", ROUNDS, 28.5, page_ins=4000)])
