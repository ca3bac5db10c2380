# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026, the memstretch.density contributors
"""The host's files are as they were, byte for byte."""

from __future__ import annotations

testinfra_hosts = ["local://"]


def test_files_and_menu_are_as_before(host, root):
    now = host.check_output("cd %s && find boot etc -type f -exec sha256sum {} + | sort", str(root))
    assert now == (root.parent / "before").read_text(encoding="utf-8").rstrip("\n")


def test_the_record_of_the_change_is_gone(host, root):
    assert not host.file(f"{root}/var/lib/memstretch").exists
