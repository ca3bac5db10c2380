# SPDX-License-Identifier: GPL-3.0-or-later
"""How the stream of a ramp is read: by a real shell, whatever the login and the terminal make of its output."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.ramp.stream import look, piece
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError

LINES = b'{"event":"note"}\n{"event":"window","long":"' + b"x" * 10_000 + b'"}\n{"event":"e'


@pytest.fixture
def directory(tmp_path):
    """One whose name a shell would take apart, with a stream and an old lease."""
    path = tmp_path / "it's a ramp"
    path.mkdir()
    (path / "stream").write_bytes(LINES)
    (path / "lease").touch()
    os.utime(path / "lease", (1, 1))
    return path


def shell(command):
    return subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("offset", [0, 1, 17, len(LINES) - 1, len(LINES)])
def test_a_look_continues_where_the_last_one_ended_and_renews_the_lease(directory, offset):
    assert piece(shell(look(str(directory), offset))) == LINES[offset:]
    assert (directory / "lease").stat().st_mtime > 1


def test_nothing_is_read_before_there_is_a_stream(directory):
    (directory / "stream").unlink()
    assert piece(shell(look(str(directory), 0))) == b""
    assert not (directory / "stream").exists()


def test_a_terminal_and_what_a_login_prints_change_nothing(directory):
    command = look(str(directory), 5)
    shown = bytearray()

    def keep(descriptor):
        found = os.read(descriptor, 1024)
        shown.extend(found)
        return found

    # The terminal ends lines in its own way.
    script = f"echo 'Welcome: {{\"event\":1}}'; {command}; echo you have mail"
    status = pty.spawn(["sh", "-c", script], keep)
    assert status == 0 and b"Welcome" in shown and b"\r\n" in shown
    found = piece(shown.decode())
    assert found == LINES[5:]


@pytest.mark.parametrize("damaged", ["<ramp A ramp>", "<ramp =AAA ramp>"])
def test_what_is_no_base64_is_refused(damaged):
    with pytest.raises(MeasurementError, match="the stream of the ramp cannot be read"):
        piece(damaged)
