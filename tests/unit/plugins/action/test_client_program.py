# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of a program that does not start. tests/local/test_client_program.py installs programs."""

from __future__ import annotations

import re

import pytest

from ansible_collections.memstretch.density.plugins.action.client_program import refusal
from ansible_collections.memstretch.density.plugins.plugin_utils.program import Answer


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        # As in ansible/ansible#1609: homes of hardened hosts are mounted with noexec.
        ("sh: 4: /p/membw: Permission denied", "mounted with noexec, .* another directory .client_program_directory.$"),
        ("libhiredis.so: cannot open shared object file", "static libraries on the builder.*Then remove /c/membw"),
    ],
)
def test_the_advice_fits_what_the_host_says(said, advice):
    text = refusal(Answer("broken", "x86_64", "/p/membw", said), "/c/membw", "db1")
    assert "/p/membw" in text and f"on db1: {said}" in text
    assert re.search(advice, text), text
