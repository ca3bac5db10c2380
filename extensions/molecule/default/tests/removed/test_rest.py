# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026, the memstretch.density contributors
"""Nothing of the servers is left."""

from __future__ import annotations

import os

DIRECTORY = os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]


def test_no_server_listens(host):
    assert not host.socket(f"tcp://127.0.0.1:{host.ansible.get_variables()['redis_port']}").is_listening


def test_no_process_has_its_directory(host):
    assert not [each.pid for each in host.process.filter(comm="redis-server") if DIRECTORY in each.args]


def test_no_file_is_left(host):
    assert not host.file(f"{DIRECTORY}/redis").exists
