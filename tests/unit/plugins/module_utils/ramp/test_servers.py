# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports of a ramp that another program has, and programs that answer in the place of a server."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.ramp import plan, servers, session
from ansible_collections.memstretch.density.plugins.module_utils.ramp.servers import Login, ServerError

from .test_plan import GIVEN


@pytest.fixture(name="port")
def _port():
    """A port that another program has. It accepts no connection."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


@pytest.fixture(name="free")
def _free():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
    yield number


@pytest.fixture(autouse=True)
def _at_once(monkeypatch, tmp_path):
    monkeypatch.setattr(servers, "_PORT_SECONDS", 0)
    monkeypatch.setattr(session, "private_directory", lambda: str(tmp_path))
    monkeypatch.setattr(session, "_left", list)


def planned(*ports, references=(), **more):
    def named(name, numbers):
        return [{"name": f"{name}{place}", "port": number, **more} for place, number in enumerate(numbers, 1)]

    given = {"servers": named("redis", ports), "references": named("reference", references), "sizes": []}
    return plan.checked({**GIVEN, **given})


def test_a_port_that_is_taken_is_named_with_its_option_and_what_to_do(port, free):
    with pytest.raises(ServerError) as refused:
        servers.refuse_taken_ports(planned(free, port))
    assert str(refused.value) == (
        f"port {port} (latency_benchmark_port of redis2) is taken by another program; stop it, or set another port"
    )


def test_the_port_of_a_reference_comes_from_those_of_the_fleet(port, free):
    with pytest.raises(ServerError) as refused:
        servers.refuse_taken_ports(planned(free, references=[port]))
    assert str(refused.value) == (
        f"port {port} (of reference1; references have the ports after the highest latency_benchmark_port) is taken by "
        "another program; stop it, or set another port"
    )


def test_further_ports_are_counted(port):
    with socket.create_server(("127.0.0.1", 0)) as second:
        found = planned(port, second.getsockname()[1])
        with pytest.raises(
            ServerError, match="redis1\\) and 1 other port of the ramp are taken by other programs; stop"
        ):
            servers.refuse_taken_ports(found)


def test_free_ports_and_those_of_vms_are_no_error(port, free):
    servers.refuse_taken_ports(planned(free))
    servers.refuse_taken_ports(planned(port, address="10.0.0.1"))


def test_the_servers_of_a_killed_conductor_have_time_to_end(monkeypatch):
    monkeypatch.setattr(servers, "_PORT_SECONDS", 30)
    with socket.create_server(("127.0.0.1", 0)) as ending:
        monkeypatch.setattr(servers.time, "sleep", lambda _seconds: ending.close())
        servers.refuse_taken_ports(planned(ending.getsockname()[1]))


def test_a_check_long_before_the_launch_refuses_a_port_that_is_taken(port):
    with pytest.raises(ServerError, match="latency_benchmark_port of redis1"):
        session.check(planned(port))


def test_such_a_check_leaves_alone_what_an_earlier_ramp_has_not_ended_yet(port, tmp_path):
    lock = session.open_lock(str(tmp_path / "ramp.lock"))
    assert session.lock_if_free(lock)
    with open(lock, "rb"):
        session.check(planned(port))
    with pytest.raises(ServerError):
        session.check(planned(port))


def test_such_a_check_leaves_alone_the_containers_that_a_killed_conductor_has_left(port, monkeypatch):
    """The launch removes them."""
    monkeypatch.setattr(session, "_left", lambda: ["a group"])
    session.check(planned(port))


def test_a_launch_refuses_a_port_before_it_starts_anything(port, tmp_path, monkeypatch):
    monkeypatch.setattr(session, "_sweep", lambda: None)
    with pytest.raises(ServerError, match="latency_benchmark_port of redis1"):
        session.launch(planned(port))
    assert [path.name for path in tmp_path.iterdir()] == ["ramp.lock"]


def test_a_stranger_that_answers_in_the_place_of_a_server_is_named_with_its_port():
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]

        def refuse():
            with contextlib.closing(stranger.accept()[0]) as caught:
                caught.recv(1000)
                caught.sendall(b"-WRONGPASS invalid username-password pair\r\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        found = planned(port)
        with pytest.raises(ServerError) as refused:
            servers.is_ready(found.servers[0], found, Login(("127.0.0.1", port), "secret"), 2, lambda: "")
        thread.join()
    assert str(refused.value).endswith(
        f"port {port} (latency_benchmark_port of redis1) is taken by another program; stop it, or set another port"
    )
