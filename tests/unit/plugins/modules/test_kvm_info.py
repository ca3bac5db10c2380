# SPDX-License-Identifier: GPL-3.0-or-later
"""A QEMU that hangs or ends while it is asked. tests/fleet boots guests."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest

from ansible_collections.memstretch.density.plugins.modules import kvm_info

GREETING, DONE = b'{"QMP": {}}\n', b'{"return": {}}\n'
STATISTICS = b'{"return": [{"stats": {"wr_operations": 9}}]}\n'


@pytest.fixture
def ask(tmp_path):
    """A function that asks a QEMU that gives these answers and then ends, or hangs."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "qmp"))
    listener.listen(1)
    asked = threading.Event()

    def answer(answers, hangs):
        with socket.socket(socket.AF_UNIX) as qemu:
            qemu.connect(str(tmp_path / "qmp"))
            for number, each in enumerate(answers):
                if number:
                    qemu.recv(4096)  # the command
                qemu.sendall(each)
            if hangs:
                asked.wait(30)

    def call(*answers, hangs=False):
        thread = threading.Thread(target=answer, args=(answers, hangs))
        thread.start()
        try:
            return kvm_info.wait_for_writes(os.getpid(), listener, time.monotonic(), 0.5)
        finally:
            asked.set()
            thread.join()

    with contextlib.closing(listener):
        yield call


def test_a_guest_that_writes_proves_kvm(ask):
    works, reason = ask(GREETING, DONE, STATISTICS, hangs=True)
    assert works and reason.startswith("a guest under KVM wrote to its disk")


@pytest.mark.parametrize("answers", [[], [GREETING], [GREETING, DONE]])
def test_a_qemu_that_hangs_does_not_work(ask, answers):
    assert ask(*answers, hangs=True) == (False, "QEMU did not answer under KVM within 0.5 s: it hangs")


@pytest.mark.parametrize("answers", [[], [GREETING], [GREETING, DONE], [GREETING, DONE, STATISTICS[:20]]])
def test_a_qemu_that_ends_does_not_work(ask, answers):
    works, reason = ask(*answers)
    assert not works and reason.startswith("QEMU ended under KVM")


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_connection_that_breaks_off_does_not_work(ask, monkeypatch, error):
    def execute(_monitor, _command):
        raise error("it broke off")

    monkeypatch.setattr(kvm_info.Monitor, "execute", execute)
    works, reason = ask(GREETING)
    assert not works and reason.endswith("while it was asked what the guest has written: it broke off")


def test_a_qemu_that_has_ended_by_itself_needs_no_signal(monkeypatch):
    """Its process ends between the answer and the signal."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    signals = []

    def run_command(command, **_options):
        pathlib.Path(command[command.index("-pidfile") + 1]).write_text(str(ended.pid), encoding="ascii")
        return 0, "", ""

    def kill(pid, number):
        signals.append((pid, number))
        raise ProcessLookupError

    monkeypatch.setattr(kvm_info.tempfile, "TemporaryDirectory", without_run(kvm_info.tempfile.TemporaryDirectory))
    monkeypatch.setattr(kvm_info, "wait_for_writes", lambda *_arguments: (True, "it wrote"))
    monkeypatch.setattr(kvm_info.os.path, "isdir", lambda _path: True)
    monkeypatch.setattr(kvm_info.os, "kill", kill)
    assert kvm_info.boot(run_command, "qemu", "image", "qcow2", 2**20, 1) == (True, "it wrote")
    assert signals == [(ended.pid, signal.SIGKILL)]


def without_run(directory):
    """Return the class of temporary directories, for a user who may not write to /run."""
    return lambda prefix, dir: directory(prefix=prefix)
