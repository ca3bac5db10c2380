# SPDX-License-Identifier: GPL-3.0-or-later
"""The members of a ramp, without root and without a control group."""

from __future__ import annotations

import signal
import socket
import types

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import children
from ansible_collections.memstretch.density.plugins.module_utils.ramp import members
from ansible_collections.memstretch.density.plugins.module_utils.ramp.clients_lease import ClientsLease
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import checked
from ansible_collections.memstretch.density.plugins.module_utils.ramp.servers import ServerError

from .conftest import free_ports, wait_for
from .test_ramp import BUDGET, LOAD, answers


def test_who_takes_a_port_learns_no_password_of_another_server(client, tmp_path):
    """A local user waits at the port of a server, and tries what he is told there at another one."""
    with socket.create_server(("127.0.0.1", 0)) as trap:
        ports = {"victim": free_ports(1), "taken": trap.getsockname()[1]}
        servers = [{"name": name, "port": port} for name, port in ports.items()]
        plan = checked({"budget_bytes": BUDGET, "load": LOAD, "client": str(client), "servers": servers})
        shared = members.Shared(plan, str(tmp_path), ClientsLease(str(tmp_path / "lease"), 30))
        here = types.SimpleNamespace(entry="")
        victim, taken = (members.Member(server, shared, here) for server in plan.servers)
        try:
            trap.settimeout(10)
            assert not taken.advance()  # at once, before its Redis has ended for want of a port
            caught, _address = trap.accept()
            wait_for("the victim", lambda: answers(ports["victim"]))
            with caught, socket.create_connection(("127.0.0.1", ports["victim"]), 5) as stranger:
                password = next(word for word in caught.recv(1000).split() if len(word) == 32)
                stranger.sendall(b"AUTH %s\r\n" % password)
                assert stranger.recv(100).startswith(b"-WRONGPASS")
            wait_for("the end of the Redis without a port", taken.redis.ended)
            victim.refuse_taken_port()
            with pytest.raises(
                ServerError, match=rf"^port {ports['taken']} \(latency_benchmark_port of taken\) is taken"
            ):
                taken.refuse_taken_port()
        finally:
            children.end([victim.redis, taken.redis], signal.SIGKILL, 2)
