# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.solotest import client
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_command

# Not the link in the virtual environment: the path in a script's first line must not contain a space.
INTERPRETER = os.path.realpath(sys.executable)


@pytest.fixture
def options():
    return {
        "mode": "test",
        "executable": "solotest",
        "host": "127.0.0.1",
        "port": 6379,
        "socket": None,
        "username": None,
        "password": "secret",
        "tls": False,
        "validate_certs": True,
        "ca_certs": None,
        "client_cert_file": None,
        "client_key_file": None,
        "tls_server_name": None,
        "value_size": 1000,
        "key_count": 100,
        "requests": None,
        "rate": 2500.5,
        "influence": -1.0,
        "read_mix": 70,
        "start_at": 1795186271.123456,
        "stagger": 0.25,
        "arrivals": "jitter",
        "pacing": "hybrid",
        "spin_us": 40,
        "cpu": "any",
        "seed": None,
        "duration": None,
        "connections": 1,
        "pipeline": 1,
        "pattern": "gaussian",
        "compressibility": 0.0,
        "max_seconds": 84.0,
        "reply_timeout": 60.0,
        "overwrite": False,
        "raw_samples": None,
        "phase": "p",
        "run_id": "r",
        "observe": False,
    }


@pytest.fixture
def program(tmp_path):
    """A function that makes an executable of some lines of Python, to run instead of the client."""

    def make(*lines):
        path = tmp_path / "client"
        path.write_text(f"#!{INTERPRETER}\n" + textwrap.dedent("\n".join(lines)), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


def test_command_line(options):
    assert client.command(options, "/opt/solotest") == [
        "/opt/solotest",
        "--json",
        "--host=127.0.0.1",
        "--max-seconds=84",
        "--start-at=1795186271.123456",
        "--stagger=0.25",
        "--arrivals=jitter",
        "--pacing=hybrid",
        "--spin-us=40",
        "--connections=1",
        "--pipeline=1",
        "--pattern=gaussian",
        "--compressibility=0",
        "--timeout=60",
        "test",
        "6379",
        "1000",
        "100",
        "-1",
        "2500.5",
        "70",
    ]
    assert "secret" not in " ".join(client.command(options, "x"))


def test_a_fill_protects_foreign_data_unless_it_may_overwrite(options):
    assert "--protect" in client.command({**options, "mode": "fill"}, "x")
    assert "--protect" not in client.command({**options, "mode": "fill", "overwrite": True}, "x")


TLS = {
    "tls": True,
    "ca_certs": "/etc/ca.pem",
    "client_cert_file": "/etc/client.pem",
    "client_key_file": "/etc/client.key",
    "tls_server_name": "redis.example",
}


def test_tls_is_named_by_paths(options):
    argv = client.command({**options, **TLS}, "x")
    for word in ("--tls", "--cacert=/etc/ca.pem", "--cert=/etc/client.pem", "--key=/etc/client.key"):
        assert word in argv
    assert "--sni=redis.example" in argv and "--insecure" not in argv
    assert "--insecure" in client.command({**options, "tls": True, "validate_certs": False}, "x")
    assert "--insecure" not in client.command({**options, "validate_certs": False}, "x")


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"tls": True, "socket": "/run/redis.sock"}, "tls: not possible with socket: /run/redis.sock"),
        *[({name: "x"}, f"{name}: 'x' needs tls: true") for name in list(TLS)[1:]],
    ],
)
def test_options_that_do_not_go_with_tls(options, changes, named):
    with pytest.raises(SettingError, match=named):
        client.validate({**options, **changes})
    client.validate({**options, **TLS})


def test_large_and_small_numbers_have_no_exponent(options):
    argv = client.command({**options, "rate": 1e9, "influence": 1e-9, "stagger": 0.999999999}, "x")
    assert argv[-2] == "1000000000" and argv[-3] == "0.000000001"
    assert "--stagger=0.999999999" in argv


@pytest.mark.parametrize(
    "option, value",
    [
        ("port", 0),
        ("rate", 0.0),
        ("read_mix", 101),
        ("stagger", 1.0),
        ("key_count", 0),
        ("seed", -1),
        ("reply_timeout", 0.0),
    ],
)
def test_the_message_names_an_option_out_of_range(options, option, value):
    with pytest.raises(SettingError, match=f"^{option}: "):
        client.validate({**options, option: value})


@pytest.mark.parametrize(
    "mode, read_mix, expected", [("fill", 100, True), ("test", 99, True), ("test", 100, False), ("ping", 70, False)]
)
def test_which_modes_write(options, mode, read_mix, expected):
    assert client.writes({**options, "mode": mode, "read_mix": read_mix}) is expected


def unique(options, tmp_path):
    return {**options, "socket": str(tmp_path / "redis.sock")}


def test_only_one_execution_loads_an_endpoint(options, tmp_path):
    options = unique(options, tmp_path)
    with client.endpoint_lock(options, "/bin/true") as lock:
        os.pwrite(lock, json.dumps({"pid": os.getpid(), "run_id": "another"}).encode(), 0)
        with pytest.raises(client.ClientError, match="run another"), client.endpoint_lock(options, "/bin/true"):
            pass
        with client.endpoint_lock({**options, "observe": True}, "/bin/true"):
            pass  # an observer accompanies a load
    with client.endpoint_lock(options, "/bin/true"):
        pass


def test_no_lock_is_left_without_a_client(options, tmp_path):
    options = unique(options, tmp_path)
    _endpoint, path = client._lock_of(options)
    with client.endpoint_lock(options, "/bin/true"):
        assert os.path.exists(path)
    assert not os.path.exists(path)


def test_the_lock_of_a_client_that_goes_on_stays_until_it_has_ended(options, tmp_path):
    options = unique(options, tmp_path)
    _endpoint, path = client._lock_of(options)
    with client.endpoint_lock(options, "/bin/sleep") as lock:
        left = subprocess.Popen(["/bin/sleep", "60"], pass_fds=(lock,))
    client.remove_lock(options)
    assert os.path.exists(path)
    left.kill()
    left.wait()
    client.remove_lock(options)
    assert not os.path.exists(path)


def test_a_lock_that_was_removed_while_somebody_waited_for_it_keeps_nobody_out(options, tmp_path, monkeypatch):
    options = unique(options, tmp_path)
    _endpoint, path = client._lock_of(options)
    before, names = client.lock_if_free, []

    def try_lock(handle):
        if not names:
            os.unlink(path)
        names.append(os.readlink(f"/proc/self/fd/{handle}"))
        return before(handle)

    monkeypatch.setattr(client, "lock_if_free", try_lock)
    with client.endpoint_lock(options, "/bin/true") as lock:
        assert os.readlink(f"/proc/self/fd/{lock}") == path


def test_who_removes_a_lock_is_not_another_load(options, tmp_path):
    """It has the lock for a moment, in a file that names a client which has ended."""
    options = {**unique(options, tmp_path), "run_id": "next"}
    _endpoint, path = client._lock_of(options)
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    holder = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(holder, json.dumps({"pid": ended.pid, "run_id": "earlier"}).encode(), 0)
    fcntl.flock(holder, fcntl.LOCK_EX)
    timer = threading.Timer(0.3, os.close, [holder])
    timer.start()
    with client.endpoint_lock(options, "/bin/true"):
        timer.join()


def test_a_client_left_by_an_interrupted_playbook_is_ended(options, tmp_path, program):
    options = unique(options, tmp_path)
    sleeper = program("import time", "time.sleep(60)")
    with client.endpoint_lock(options, sleeper) as lock:
        # The kernel starts a script as an argument of its interpreter, so the interpreter is the executable here.
        left = subprocess.Popen([sleeper], pass_fds=(lock,))
        os.pwrite(lock, json.dumps({"pid": left.pid, "run_id": "r"}).encode(), 0)
    deadline = time.monotonic() + 10
    while INTERPRETER.encode() not in pathlib.Path(f"/proc/{left.pid}/cmdline").read_bytes():
        assert time.monotonic() < deadline
    with client.endpoint_lock(options, INTERPRETER):
        assert left.wait(timeout=10) == -signal.SIGTERM


def test_a_client_that_ends_before_it_is_ended_is_no_error(options, tmp_path, monkeypatch):
    options, held = unique(options, tmp_path), contextlib.ExitStack()
    lock = held.enter_context(client.endpoint_lock(options, "/bin/true"))
    os.pwrite(lock, json.dumps({"pid": os.getpid(), "run_id": "r"}).encode(), 0)
    monkeypatch.setattr(client, "is_running", lambda _pid, _executable: True)

    def kill(_pid, _signal):
        held.close()
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", kill)
    with client.endpoint_lock(options, "/bin/true"):
        pass


def test_another_process_with_the_id_of_a_client_is_left_alone(options, tmp_path, monkeypatch):
    options = unique(options, tmp_path)
    monkeypatch.setattr(client, "_TAKEOVER_SECONDS", 0.3)
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        with client.endpoint_lock(options, "/opt/solotest") as lock:
            os.pwrite(lock, json.dumps({"pid": bystander.pid, "run_id": "r"}).encode(), 0)
            with (
                pytest.raises(client.ClientError, match="wait until it ends"),
                client.endpoint_lock(options, "/opt/solotest"),
            ):
                pass
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_client_without_a_result(options, tmp_path, program):
    result = client.execute(unique(options, tmp_path), program("import sys", "sys.exit('no such luck')"), run_command)
    assert result["failed"] and "printed no result and ended with status 1: no such luck" in result["msg"]


def test_a_client_that_is_killed(options, tmp_path, program):
    killed = program("import os", "os.kill(os.getpid(), 9)")
    result = client.execute(unique(options, tmp_path), killed, run_command)
    assert result["failed"] and "printed no result and ended with signal 9" in result["msg"]


def test_a_client_that_cannot_be_run(options, tmp_path):
    result = client.execute(unique(options, tmp_path), "/nonexistent/solotest", run_command)
    assert result["failed"] and "is it built for this host" in result["msg"]


def test_a_client_of_another_version(options, tmp_path, program):
    result = client.execute(unique(options, tmp_path), program("print('{\"schema\": 99}')"), run_command)
    assert result["failed"] and "schema 99" in result["msg"]


def test_the_password_is_passed_in_the_environment_only(options, tmp_path, program):
    seen = tmp_path / "seen"
    client.execute(
        unique(options, tmp_path),
        program(
            "import os, sys",
            f"open({str(seen)!r}, 'w').write(os.environ.get('SOLOTEST_PASSWORD', '') + ' ' + ' '.join(sys.argv))",
        ),
        run_command,
    )
    words = seen.read_text(encoding="utf-8").split()
    assert words[0] == "secret" and "secret" not in words[1:]


@pytest.mark.parametrize(
    "kind, advice",
    [
        ("connect", "is Redis running there"),
        ("no_client", "maxclients"),
        ("auth", "password"),
        ("refused_foreign_data", "overwrite: true"),
    ],
)
def test_messages_name_the_endpoint_and_say_what_to_do(options, kind, advice):
    message = client.explain(options, {"kind": kind, "message": "no"})
    assert "127.0.0.1:6379" in message and advice in message


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_at_a_name_of_the_lock_that_others_can_guess_is_not_followed(options, tmp_path, monkeypatch, link):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    options, victim = unique(options, tmp_path), tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    digest = hashlib.sha256(client._endpoint(options).encode()).hexdigest()[:16]
    link(victim, tmp_path / f"solotest-{os.getuid()}-{digest}.lock")

    with client.endpoint_lock(options, "/bin/true") as lock:
        os.pwrite(lock, b"{}", 0)

    assert victim.read_text(encoding="utf-8") == "precious"
