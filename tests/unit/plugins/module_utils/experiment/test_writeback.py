# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The knee, with the figures of the source; and that whatever is changed is put back. The measuring itself is tested in tests/local."""

from __future__ import annotations

import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import writeback
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError

OPTIONS = {
    "dirty_bytes": ["64M", "15M"],
    "queues": [],
    "write_size": "16K",
    "threads": [10, 1],
    "seconds": 5,
    "repetitions": 1,
    "file_size": "1M",
    "flood_size": "1M",
}


def setting(dirty_bytes, sequential, flood, idle=None, queue=None):
    return {
        "dirty_bytes": dirty_bytes,
        "queue": queue or {},
        "sequential": {"median": sequential * 1e6},
        "threads": [
            {
                "threads": threads,
                "flood_iops": {"median": iops},
                "idle_iops": {"median": idle[threads]} if idle else None,
            }
            for threads, iops in flood.items()
        ],
    }


# 1,500 IOPS idle; 33 and 8 under the flood by default, 700 and 400 with 15 MB; sequential 251 and 216 MB/s.
DEFAULT = setting(0, 251, {10: 33, 1: 8}, {10: 1500, 1: 1500})
SOURCE = setting(15 << 20, 216, {10: 700, 1: 400})


def test_the_sources_figures_give_the_sources_remedy():
    settings = writeback.judged([DEFAULT, SOURCE])
    chosen, reason = writeback.choose(settings)

    assert (chosen["dirty_bytes"], reason) == (15 << 20, "")
    assert chosen["sequential_share"] == 0.8606
    assert [(each["gain"], each["of_idle"]) for each in chosen["threads"]] == [(21.212, 0.4667), (50.0, 0.2667)]


def test_a_setting_that_costs_too_much_sequential_throughput_is_no_knee():
    chosen, reason = writeback.choose(writeback.judged([DEFAULT, setting(15 << 20, 213, {10: 700, 1: 400})]))

    assert chosen is None and "less than 85%" in reason


def test_no_gain_is_no_knee():
    chosen, reason = writeback.choose(writeback.judged([DEFAULT, setting(15 << 20, 251, {10: 700, 1: 8.1})]))

    assert chosen is None and "no other setting recovers more" in reason


def test_of_equal_settings_the_larger_dirty_bytes_wins():
    settings = writeback.judged(
        [DEFAULT, setting(64 << 20, 240, {10: 690, 1: 390}), SOURCE, setting(256 << 20, 250, {10: 300, 1: 200})]
    )

    assert writeback.choose(settings)[0]["dirty_bytes"] == 64 << 20


def test_queue_settings_alone_may_be_the_knee():
    queued = setting(0, 250, {10: 1400, 1: 1400}, queue={"scheduler": "none"})

    assert writeback.choose(writeback.judged([DEFAULT, SOURCE, queued]))[0]["queue"] == {"scheduler": "none"}


@pytest.mark.parametrize(
    "name, value",
    [
        ("dirty_bytes", []),
        ("dirty_bytes", ["1"]),
        ("dirty_bytes", ["64M", "64M"]),
        ("dirty_bytes", ["x"]),
        ("queues", [{"elevator": "none"}]),
        ("queues", [{}]),
        ("write_size", "100"),
        ("threads", [0]),
        ("seconds", 0),
        ("repetitions", 0),
        ("flood_size", "x"),
    ],
)
def test_a_setting_that_cannot_be_is_named(name, value):
    with pytest.raises(SettingError, match=name):
        writeback.checked({**OPTIONS, name: value})


def test_the_hosts_own_setting_comes_first():
    options = writeback.checked(OPTIONS)

    assert options["dirty_bytes"] == [0, 64 << 20, 15 << 20] and options["queues"] == [{}]
    assert writeback.planned_seconds(options) == 2 * (5 + 3 * 7)


def test_it_refuses_to_fill_the_file_system(tmp_path):
    with pytest.raises(writeback.MeasurementError, match="flood_size"):
        writeback.check_directory(str(tmp_path), {**writeback.checked(OPTIONS), "flood_size": 2**60})
    with pytest.raises(writeback.MeasurementError, match="no directory"):
        writeback.check_directory(str(tmp_path / "none"), writeback.checked(OPTIONS))
    with pytest.raises(writeback.MeasurementError, match="on no disk"):
        writeback.check_directory("/dev/shm", {**writeback.checked(OPTIONS), "flood_size": 0, "file_size": 0})


def test_the_flood_begins_before_the_synchronous_writes():
    words = writeback.command("/place", writeback.checked(OPTIONS), 10, True, "fio")

    assert words.index("--name=flood") < words.index("--name=sync")
    assert "--fsync=1" in words and "--numjobs=10" in words and "--startdelay=2" in words and "--runtime=7" in words
    assert "--name=flood" not in writeback.command("/place", writeback.checked(OPTIONS), 10, False, "fio")


class TestHost:
    """The knobs are files here; a kernel's own pair of them is tested in tests/local."""

    @pytest.fixture
    def knobs(self, tmp_path, monkeypatch):
        for name, value in (("dirty_bytes", "0"), ("dirty_ratio", "20"), ("scheduler", "none"), ("nr_requests", "256")):
            (tmp_path / name).write_text(value)
        dirty, ratio = str(tmp_path / "dirty_bytes"), str(tmp_path / "dirty_ratio")
        monkeypatch.setattr(writeback, "DIRTY_BYTES", dirty)
        monkeypatch.setitem(writeback.PAIRS, dirty, ratio)
        monkeypatch.setitem(writeback.PAIRS, ratio, dirty)
        monkeypatch.setattr(writeback.Host, "_knob", lambda self, name: str(tmp_path / name))
        return lambda name: (tmp_path / name).read_text().strip()

    def test_what_is_set_is_put_back_by_another_process_too(self, knobs, tmp_path):
        record = HostRecord("writeback_benchmark", str(tmp_path / "records"))
        host = writeback.Host("sda", record)
        host.keep({"queues": [{}, {"nr_requests": 32, "scheduler": "mq-deadline"}]})
        host.set(15 << 20, {"nr_requests": 32, "scheduler": "mq-deadline"})
        assert (knobs("dirty_bytes"), knobs("scheduler"), knobs("nr_requests")) == (str(15 << 20), "mq-deadline", "32")

        assert writeback.Host("", HostRecord("writeback_benchmark", str(tmp_path / "records"))).restore() is True
        assert (knobs("dirty_ratio"), knobs("scheduler"), knobs("nr_requests")) == ("20", "none", "256")
        assert not os.path.exists(record.path)
        assert writeback.Host("", record).restore() is False

    def test_a_setting_begins_from_the_originals(self, knobs, tmp_path):
        host = writeback.Host("sda", HostRecord("writeback_benchmark", str(tmp_path / "records")))
        host.keep({"queues": [{"nr_requests": 32}]})
        host.set(0, {"nr_requests": 32})
        host.set(64 << 20, {})
        assert (knobs("nr_requests"), knobs("dirty_bytes")) == ("256", str(64 << 20))

    def test_a_knob_that_is_not_there_is_refused_before_anything_is_changed(self, knobs, tmp_path):
        record = HostRecord("writeback_benchmark", str(tmp_path / "records"))
        with pytest.raises(writeback.MeasurementError, match="wbt_lat_usec"):
            writeback.Host("sda", record).keep({"queues": [{"wbt_lat_usec": 0}]})
        assert record.read() is None
