# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026, the memstretch.density contributors
"""The files of the host, seen from this machine."""

from __future__ import annotations

import os
import pathlib

import pytest


@pytest.fixture(name="root")
def _root():
    return pathlib.Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "root")
