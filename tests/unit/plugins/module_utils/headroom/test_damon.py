# SPDX-License-Identifier: GPL-3.0-or-later
"""When DAMON is refused, and how it is turned off, on files like those of the kernel.

tests/local/test_headroom.py runs the kernel's own.
"""

from __future__ import annotations

import errno
import os
import signal
import time

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom import damon
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord


@pytest.fixture
def admin(tmp_path):
    """The interface with two kdamonds, one of which is on."""
    for number, state in enumerate(("on", "off")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "state").write_text(state, encoding="ascii")
    (tmp_path / "nr_kdamonds").write_text("2\n", encoding="ascii")
    return tmp_path


def test_a_kernel_without_damon(tmp_path):
    with pytest.raises(damon.DamonError, match=r"this kernel has no DAMON \(CONFIG_DAMON_SYSFS\)"):
        damon.refuse(str(tmp_path / "missing"))


def test_a_damon_that_may_not_be_read_is_named(tmp_path):
    """Lockdown or a security module refuses it; root of this test may read any file, but not a directory."""
    (tmp_path / "nr_kdamonds").mkdir()
    with pytest.raises(damon.DamonError, match="^DAMON cannot be read: Is a directory$"):
        damon.refuse(str(tmp_path))


@pytest.fixture
def records(tmp_path):
    """The directory of the record of a profile that has switched off one kdamond of two."""
    directory = tmp_path / "records"
    knobs = {f"{tmp_path}/{number}/state": state for number, state in enumerate(("on", "off"))}
    HostRecord("host_settings", str(directory)).write({"profile": "zram", "originals": knobs})
    return directory


def test_what_a_profile_has_switched_off_is_not_to_be_removed_before_it_is_restored(admin, records):
    told = (
        r"DAMON is in use: .*nr_kdamonds is 2\. .*The profile zram has only switched it off, and the playbook restore "
        r"switches it on again\. Restore this host, end DAMON with the program that made it, and look again$"
    )
    with pytest.raises(damon.DamonInUse, match=told):
        damon.refuse(str(admin), str(records))


@pytest.mark.parametrize("original", ["off", None])
def test_what_no_profile_has_switched_off_has_the_usual_remedy(admin, records, original):
    HostRecord("host_settings", str(records)).write(
        {"profile": "zram", "originals": {f"{admin}/0/state": original} if original else {"/proc/sys/vm/x": "on"}}
    )
    with pytest.raises(damon.DamonInUse, match="type: echo 0 > .*/nr_kdamonds. Then look again$"):
        damon.refuse(str(admin), str(records))


def test_a_record_that_cannot_be_read_is_named_and_damon_is_refused_all_the_same(admin, records):
    (records / "host_settings.json").write_text("{", encoding="utf-8")
    with pytest.raises(
        damon.DamonInUse, match="Whether a profile has only switched it off is unknown: .*host_settings"
    ):
        damon.refuse(str(admin), str(records))


def test_monitoring_of_somebody_else_is_refused_and_left_alone(admin):
    told = "DAMON is in use: .*nr_kdamonds is 2.*type: echo 0 > .*nr_kdamonds. Then look again"
    with pytest.raises(damon.DamonInUse, match=told):
        damon.Damon([1], str(admin))
    assert (admin / "nr_kdamonds").read_text("ascii") == "2\n" and (admin / "0" / "state").read_text("ascii") == "on"


def test_nothing_speaks_against_an_idle_damon(tmp_path):
    (tmp_path / "nr_kdamonds").write_text("0\n", encoding="ascii")
    damon.refuse(str(tmp_path))


def test_turning_off(admin):
    damon.turn_off(str(admin))

    assert (admin / "nr_kdamonds").read_text("ascii")[0] == "0"
    assert [(admin / name / "state").read_text("ascii") for name in "01"] == ["off", "off"]


def test_one_kdamond_that_goes_on_leaves_no_other_on(admin, monkeypatch):
    """The question of a killed process may keep one of them busy for longer than anybody waits."""
    (admin / "1" / "state").write_text("on", encoding="ascii")
    real = damon.set_kernel_file

    def busy(path, value, directory=None):
        if path == str(admin / "0" / "state"):
            raise OSError(errno.EBUSY, "Device or resource busy")
        real(path, value, directory)

    monkeypatch.setattr(damon, "set_kernel_file", busy)
    monkeypatch.setattr(damon, "_END_S", 0.05)
    with pytest.raises(damon.DamonError, match=r"^the kernel refused DAMON \(off\): "):
        damon.turn_off(str(admin))
    assert [(admin / name / "state").read_text("ascii")[:3] for name in "01"] == ["on", "off"]
    assert (admin / "nr_kdamonds").read_text("ascii") == "2\n"


@pytest.mark.parametrize("ages", [(1, 3, 10), (1, 3, 10, 30, 60, 180, 300), (5, 10, 15, 20, 30), (1, 2, 3, 4)])
def test_no_two_intervals_end_at_the_same_time(tmp_path, ages):
    """While the kernel waits for the end of one, it answers no other question. It must not take much longer, either."""
    (tmp_path / "nr_kdamonds").write_text("0\n", encoding="ascii")
    passes = [min(3, ages[-1] // age) for age in ages]
    starts = damon.Damon(ages, str(tmp_path)).starts(passes)
    ends = sorted(start + age * (turn + 1) for start, age, of in zip(starts, ages, passes) for turn in range(of))

    assert all(later - earlier > 0.6 for earlier, later in zip(ends, ends[1:]))
    assert starts[-1] == 0 and ends[-1] <= ages[-1] + 10


@pytest.fixture
def idle(admin):
    """The interface while nobody uses it, with the files that the kernel makes for two kdamonds."""
    (admin / "nr_kdamonds").write_text("0", encoding="ascii")
    return admin


def test_what_was_set_is_undone_if_the_process_is_killed(idle):
    started = os.fork()
    if not started:
        with damon.Damon([1, 2], str(idle)):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(started, 0)
    deadline = time.monotonic() + 60
    while (idle / "nr_kdamonds").read_text("ascii") != "0":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_was_set_is_undone_after_an_error(idle):
    with pytest.raises(KeyError), damon.Damon([1, 2], str(idle)):
        assert (idle / "nr_kdamonds").read_text("ascii") == "2"
        raise KeyError
    assert (idle / "nr_kdamonds").read_text("ascii") == "0"
    assert (idle / "0" / "state").read_text("ascii") == "off"


def test_a_step_that_the_kernel_refuses_is_named_and_everything_undone(idle):
    """A kernel without CONFIG_DAMON_PADDR refuses the operations; here there is not even a file for them."""
    refused = r"^the kernel refused DAMON \(what it watches\): No such file or directory$"
    with pytest.raises(damon.DamonError, match=refused), damon.Damon([1, 2], str(idle)) as monitor:
        monitor.prepare(0, [1, 2])
    assert (idle / "nr_kdamonds").read_text("ascii") == "0"
