# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a host's original settings, on a real file system."""

from __future__ import annotations

import errno
import multiprocessing
import os
import stat

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord, HostRecordError
from ansible_collections.memstretch.density.tests.unit.fixtures.two_runs import change_while_waiting


@pytest.fixture
def record(tmp_path):
    return HostRecord("settings", str(tmp_path / "state"))


def test_a_record_is_read_as_it_was_written(record):
    assert record.read() is None
    with record.locked():
        record.write({"originals": {"b": "1", "a": "2"}})
    assert record.read() == {"originals": {"b": "1", "a": "2"}, "schema": 1}
    assert list(record.read()["originals"]) == ["b", "a"], "the order in which knobs were written is kept"
    assert stat.S_IMODE(os.stat(record.path).st_mode) == 0o600


def test_the_directory_is_removed_with_the_last_record(record):
    other = HostRecord("other", record.directory)
    with record.locked():
        record.write({})
        other.write({})
        record.remove()
    assert other.read() is not None
    with other.locked():
        other.remove()
    assert not os.path.exists(record.directory)


def test_a_mount_point_is_not_removed(record, monkeypatch):
    def busy(path):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)

    monkeypatch.setattr(os, "rmdir", busy)
    with record.locked():
        record.write({})
        record.remove()
    assert record.read() is None and os.listdir(record.directory) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 99}', ""])
def test_a_record_that_cannot_be_understood_is_an_error(record, text):
    os.makedirs(record.directory)
    with open(record.path, "w", encoding="utf-8") as file:
        file.write(text)
    with pytest.raises(HostRecordError, match=record.path):
        record.read()


def test_the_record_of_another_host_is_refused(tmp_path):
    """A clone of the host's disk has its record, and gets a machine ID of its own."""
    (tmp_path / "machine-id").write_text("0123456789abcdef0123456789abcdef\n", encoding="ascii")
    (tmp_path / "clone").write_text("fedcba9876543210fedcba9876543210\n", encoding="ascii")
    record, clone, unknown = (
        HostRecord("settings", str(tmp_path / "state"), str(tmp_path / name)) for name in ("machine-id", "clone", "no")
    )
    record.write({"originals": {"a": "1"}})
    assert record.read() == {"originals": {"a": "1"}, "schema": 1}
    with open(record.path, encoding="utf-8") as file:
        text = file.read()
    assert "0123456789abcdef" not in text, "the machine ID itself is confidential"
    for other in (clone, unknown):
        with pytest.raises(HostRecordError, match="original settings of another host.*remove the file"):
            other.read()
    with open(record.path, encoding="utf-8") as file:
        assert file.read() == text


def test_a_directory_that_others_can_write_to_is_refused(record):
    os.mkdir(record.directory)
    os.chmod(record.directory, 0o777)
    with pytest.raises(HostRecordError, match="must be a directory that only user"), record.locked():
        pass
    with pytest.raises(HostRecordError, match="must be a directory that only user"):
        record.write({})


def test_the_lock_is_no_link_and_its_target_stays_as_it_was(record, tmp_path):
    os.mkdir(record.directory, 0o700)
    (tmp_path / "target").write_text("precious", encoding="ascii")
    os.symlink(tmp_path / "target", os.path.join(record.directory, ".lock"))
    with pytest.raises(OSError, match="symbolic link"), record.locked():
        pass
    assert (tmp_path / "target").read_text(encoding="ascii") == "precious"


def test_the_lock_leaves_no_directory_without_a_record(record):
    with record.locked():
        assert os.path.isdir(record.directory)
    assert not os.path.exists(record.directory)


def test_a_run_gets_the_lock_after_another_run_has_removed_the_directory(record):
    def waiting():
        with record.locked():
            return "locked"

    assert change_while_waiting(record, waiting, lambda: None) == "locked"


def _hold(directory, entered, leave):
    with HostRecord("settings", directory).locked():
        entered.set()
        leave.wait(20)


def test_only_one_process_holds_the_lock(record):
    entered, leave = multiprocessing.Event(), multiprocessing.Event()
    holder = multiprocessing.Process(target=_hold, args=(record.directory, entered, leave))
    holder.start()
    assert entered.wait(20)
    with pytest.raises(HostRecordError, match=rf"in use for \d s by process {holder.pid} "), record.locked(timeout=0.3):
        pass
    leave.set()
    with record.locked(timeout=20):
        pass
    holder.join()


def test_the_lock_is_free_after_its_process_dies(record):
    entered, leave = multiprocessing.Event(), multiprocessing.Event()
    holder = multiprocessing.Process(target=_hold, args=(record.directory, entered, leave))
    holder.start()
    assert entered.wait(20)
    holder.kill()
    holder.join()
    with record.locked(timeout=5):
        pass
