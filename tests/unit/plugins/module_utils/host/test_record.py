# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a host's originals, on a real file system."""

from __future__ import annotations

import errno
import multiprocessing
import os
import stat

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import remove_file, write_file
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord, HostRecordError


@pytest.fixture
def record(tmp_path):
    return HostRecord("settings", str(tmp_path / "state"))


def test_what_is_written_is_read(record):
    assert record.read() is None
    with record.locked():
        record.write({"originals": {"b": "1", "a": "2"}})
    assert record.read() == {"originals": {"b": "1", "a": "2"}, "schema": 1}
    assert list(record.read()["originals"]) == ["b", "a"], "the order in which knobs were written is kept"
    assert stat.S_IMODE(os.stat(record.path).st_mode) == 0o600


def test_the_directory_goes_with_the_last_record(record):
    other = HostRecord("other", record.directory)
    with record.locked():
        record.write({})
        other.write({})
        record.remove()
    assert other.read() is not None
    with other.locked():
        other.remove()
    assert not os.path.exists(record.directory)


def test_a_directory_that_something_is_mounted_on_stays(record, monkeypatch):
    def busy(path):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)

    monkeypatch.setattr(os, "rmdir", busy)
    with record.locked():
        record.write({})
        record.remove()
    assert record.read() is None and os.listdir(record.directory) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 99}', ""])
def test_a_record_that_cannot_be_understood_is_never_ignored(record, text):
    os.makedirs(record.directory)
    with open(record.path, "w", encoding="utf-8") as file:
        file.write(text)
    with pytest.raises(HostRecordError, match=record.path):
        record.read()


def _hold(directory, entered, leave):
    with HostRecord("settings", directory).locked():
        entered.set()
        leave.wait(20)


def test_one_process_at_a_time(record):
    entered, leave = multiprocessing.Event(), multiprocessing.Event()
    holder = multiprocessing.Process(target=_hold, args=(record.directory, entered, leave))
    holder.start()
    assert entered.wait(20)
    with pytest.raises(HostRecordError, match="another process"), record.locked(timeout=0.3):
        pass
    leave.set()
    with record.locked(timeout=20):
        pass
    holder.join()


def test_a_holder_that_dies_leaves_no_lock(record):
    entered, leave = multiprocessing.Event(), multiprocessing.Event()
    holder = multiprocessing.Process(target=_hold, args=(record.directory, entered, leave))
    holder.start()
    assert entered.wait(20)
    holder.kill()
    holder.join()
    with record.locked(timeout=5):
        pass


def test_a_file_is_replaced_whole(tmp_path):
    path = str(tmp_path / "file")
    write_file(path, "old", 0o644)
    write_file(path, "new", 0o600)
    assert open(path, encoding="utf-8").read() == "new"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(tmp_path) == ["file"]
    with pytest.raises(UnicodeEncodeError):
        write_file(path, "\ud800")
    assert open(path, encoding="utf-8").read() == "new" and os.listdir(tmp_path) == ["file"]
    assert remove_file(path) and not remove_file(path)
