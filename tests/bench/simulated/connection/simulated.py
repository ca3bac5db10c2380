# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: simulated
short_description: Answer as a host would
description:
  - For tests/bench. Each host answers from hosts.py next to this directory.
extends_documentation_fragment:
  - connection_pipelining
author:
  - The memstretch.density contributors (@memstretch)
"""

import json
import pathlib
import sys

from ansible.errors import AnsibleError
from ansible.plugins.connection import ConnectionBase

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from hosts import SimulatedHost


class Connection(ConnectionBase):
    """A connection to a simulated host."""

    transport = "simulated"
    has_pipelining = True

    def _connect(self):
        self._connected = True
        return self

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        host = SimulatedHost(self._play_context.remote_addr)
        output = json.dumps(host.module(in_data)) if in_data else host.shell(cmd)
        return 0, output.encode(), b""

    def put_file(self, in_path, out_path):
        super().put_file(in_path, out_path)

    def fetch_file(self, in_path, out_path):
        super().fetch_file(in_path, out_path)
        raise AnsibleError("no file is fetched from a simulated host")

    def close(self):
        self._connected = False
