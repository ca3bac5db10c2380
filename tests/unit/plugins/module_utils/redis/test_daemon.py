# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import socket

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import dram_budget
from ansible_collections.memstretch.density.plugins.module_utils.redis.daemon import Daemon, DaemonError, actions_for
from ansible_collections.memstretch.density.plugins.module_utils.redis.process import Process


@pytest.fixture
def process():
    return Process(os.getpid())


@pytest.mark.parametrize(
    "state, runs, current, in_cgroup, actions, reason",
    [
        ("started", False, True, True, ["start"], "does not run"),
        ("started", True, True, True, [], ""),
        ("started", True, False, True, ["stop", "start"], "configuration has changed"),
        ("started", True, True, False, ["stop", "start"], "control group"),
        ("stopped", True, False, False, ["stop"], "it runs"),
        ("stopped", False, True, True, [], ""),
    ],
)
def test_actions(process, state, runs, current, in_cgroup, actions, reason):
    found = actions_for(state, process if runs else None, current, in_cgroup)
    assert found[0] == actions and reason in found[1] and bool(found[1]) == bool(actions)


@pytest.mark.parametrize(
    "changes, current",
    [
        ({}, True),
        ({"checksum": "of another configuration"}, False),
        ({"checksum": "of another configuration", "started": 0}, True),  # of an earlier process
        ({"checksum": "of another configuration", "pid": 1}, True),
    ],
)
def test_only_the_record_of_this_process_counts(write_config, process, changes, current):
    config = write_config()
    record = {"pid": process.pid, "started": process.started, "checksum": config.checksum(), **changes}
    with open(config.record, "w", encoding="ascii") as file:
        json.dump(record, file)
    daemon = Daemon(config, "redis-server", "default", "", 1, "", lambda *_args, **_options: (0, "", ""))
    assert daemon.is_current(process) is current


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_at_the_name_of_the_log_is_not_followed(write_config, tmp_path, link):
    config, victim = write_config(logfile=tmp_path / "redis.log"), tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    daemon = Daemon(config, "redis-server", "default", "", 1, "", lambda *_args, **_options: (0, "", ""))
    link(victim, config.logfile)
    assert "cannot be read" in daemon._log_tail(None)
    os.unlink(config.logfile)
    with open(config.logfile, "w", encoding="ascii") as file:
        file.write("its own line\n")
    assert daemon._log_tail(None).endswith("its own line")


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("end", ["", ".memstretch-new"])
def test_a_link_at_the_name_of_the_record_is_not_followed(write_config, process, tmp_path, link, end):
    config, victim = write_config(), tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    link(victim, f"{config.record}{end}")
    daemon = Daemon(config, "redis-server", "default", "", 1, "", lambda *_args, **_options: (0, "", ""))
    daemon.remember(process, "of another configuration")
    assert victim.read_text(encoding="utf-8") == "precious"
    assert daemon.is_current(process) is False


@pytest.mark.parametrize("cgroup", ["a-b.slice", "/a.slice/a-b.slice"])
def test_a_slice_is_the_control_group_below_its_parents(write_config, process, tmp_path, monkeypatch, cgroup):
    for name in ("CGROUP_V1", "CGROUP_V2"):
        monkeypatch.setattr(dram_budget, name, str(tmp_path / "cgroup"))
    procs = tmp_path / "cgroup" / "a.slice" / "a-b.slice" / "cgroup.procs"
    daemon = Daemon(write_config(), "redis-server", "default", "", 1, cgroup, lambda *_args, **_options: (0, "", ""))
    with pytest.raises(DaemonError, match="there is no control group 'a.slice/a-b.slice' of the memory controller"):
        daemon._cgroup_file()
    procs.parent.mkdir(parents=True)
    procs.touch()
    assert daemon._cgroup_file() == str(procs)
    monkeypatch.setattr(process, "in_cgroup", lambda group: group == "a.slice/a-b.slice")
    assert daemon.is_in_cgroup(process)


def never_called(*_arguments, **_options):
    raise AssertionError("a Redis was started")


def test_a_port_that_is_taken_is_refused_with_what_to_do_before_anything_is_started(write_config):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        config = write_config(port=port)
        with pytest.raises(DaemonError) as refused:
            Daemon(config, "redis-server", "default", "", 1, "", never_called).start()
    assert str(refused.value) == (
        f"cannot start the server of {config.path}: another process already listens on 127.0.0.1:{port}; stop it, or "
        "set another port (redis_port)"
    )


def test_a_unix_socket_that_is_taken_is_refused_with_what_to_do(write_config, tmp_path):
    path = str(tmp_path / "redis.sock")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        other.listen()
        daemon = Daemon(write_config(port=0, unixsocket=path), "redis-server", "default", "", 1, "", never_called)
        with pytest.raises(
            DaemonError, match=f"already listens on unix socket {path}; stop it, or set another unixsocket$"
        ):
            daemon.start()
