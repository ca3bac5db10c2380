# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options, and the restoration of all settings. tests/local tests the measurement."""

from __future__ import annotations

import json
import os
import shutil
import tempfile

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import writeback
from ansible_collections.memstretch.density.plugins.module_utils.host import cpu_time
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.temporary import TemporarySettings
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError

OPTIONS = {
    "dirty_bytes": ["64M", "15M"],
    "queues": [],
    "refine": 0,
    "write_sizes": ["16K"],
    "threads": [10, 1],
    "seconds": 5,
    "repetitions": 1,
    "file_size": "1M",
    "flood_size": "1M",
    "emulated_iops": 0,
    "emulated_bandwidth": "150M",
}


@pytest.mark.parametrize(
    "name, value",
    [
        ("dirty_bytes", []),
        ("dirty_bytes", ["1"]),
        ("dirty_bytes", ["64M", "64M"]),
        ("dirty_bytes", ["x"]),
        ("queues", [{"elevator": "none"}]),
        ("queues", [{}]),
        ("write_sizes", []),
        ("write_sizes", ["100"]),
        ("write_sizes", ["4K", "4096"]),
        ("refine", 9),
        ("emulated_iops", -1),
        ("emulated_bandwidth", "1000"),
        ("threads", [0]),
        ("seconds", 0),
        ("repetitions", 0),
        ("flood_size", "x"),
    ],
)
def test_the_message_names_an_option_that_is_not_allowed(name, value):
    with pytest.raises(SettingError, match=f"^{name}: "):
        writeback.check_options({**OPTIONS, name: value})


def test_the_hosts_own_setting_comes_first():
    options = writeback.check_options(OPTIONS)

    assert options["dirty_bytes"] == [0, 64 << 20, 15 << 20] and options["queues"] == [{}]
    assert writeback.writing_seconds(options) == 2 * (1 + 3) * 5
    refined = {**options, "refine": 1, "repetitions": 3}
    assert writeback.writing_seconds(refined) == (3 + 1) * 2 * (1 + 3 + 2) * 5


def test_the_flood_is_sized_from_the_machine():
    options = writeback.check_options({**OPTIONS, "flood_size": ""})
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:  # /tmp may be in memory
        writeback.check_directory(directory, options)

    limit = writeback.flood.thresholds(HostFiles())[0]
    free = shutil.disk_usage("/var/tmp").free
    assert options["flood_size"] > min(max(limit, 64 << 20), 0.3 * free)
    assert options["flood_size"] < free / 2


def test_a_directory_that_cannot_be_measured_is_refused(tmp_path):
    with pytest.raises(writeback.MeasurementError, match="flood_size"):
        writeback.check_directory(str(tmp_path), {**writeback.check_options(OPTIONS), "flood_size": 2**60})
    with pytest.raises(writeback.MeasurementError, match="is not a directory"):
        writeback.check_directory(str(tmp_path / "none"), writeback.check_options(OPTIONS))
    with pytest.raises(writeback.MeasurementError, match="is not on a disk"):
        writeback.check_directory("/dev/shm", {**writeback.check_options(OPTIONS), "flood_size": 0, "file_size": 0})


class TestOrder:
    def test_each_setting_and_each_cell_changes_its_place(self):
        rounds = [writeback.order("abcd", repetition) for repetition in range(4)]

        assert all(sorted(each) == list("abcd") for each in rounds)
        assert all(len(set(place)) == 4 for place in zip(*rounds))
        followed = [pair for each in rounds for pair in zip(each, each[1:])]
        assert len(set(followed)) == len(followed) == 12  # each follows each other one once

    def test_one_thing_has_one_order(self):
        assert [writeback.order("a", repetition) for repetition in range(3)] == [["a"]] * 3

    def test_a_round_measures_the_settings_in_its_order_and_from_the_same_state(self):
        done = []

        class Knobs:
            def set(self, dirty_bytes, _queue):
                done.append(dirty_bytes)

        class Bench:
            def idle(self, _repetition):
                return {}

            def prepare(self):
                done.append("prepare")

            def measure(self, repetition):
                done.append("measure")
                return {"repetition": repetition}

        settings = [writeback.Setting(value, {}) for value in (0, 64, 16, 4)]
        writeback._round(Bench(), Knobs(), settings, 1)

        assert done[0] == 0  # the idle host
        assert done[1:5] == [0, "prepare", writeback.order([0, 64, 16, 4], 1)[0], "measure"]
        assert done[3::4] == writeback.order([0, 64, 16, 4], 1) != [0, 64, 16, 4]
        assert all(each.repetitions == [{"repetition": 1, "idle": {}}] for each in settings)


class TestKeptRounds:
    """An execution that is interrupted in a repetition, and the next one."""

    OPTIONS = {**writeback.check_options({**OPTIONS, "repetitions": 3}), "refine": 1}

    class Knobs:
        def set(self, _dirty_bytes, _queue):
            pass

    class Bench:
        """Numbers what it measures, and is interrupted in the measurement before which C(left) are left."""

        def __init__(self, left=1000):
            self.left, self.measured = left, []

        def idle(self, repetition):
            return {(16384, 10): {"iops": 100 + repetition}, (16384, 1): {"iops": 50 + repetition}}

        def prepare(self):
            pass

        def measure(self, repetition):
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            self.measured.append(repetition)
            cells = {cell: {"iops": repetition} for cell in ((16384, 10), (16384, 1))}
            return {"limit": 7, "sequential": 1e9, "cells": cells}

    def run(self, place, bench, monkeypatch):
        monkeypatch.setattr(writeback.results, "around_the_knee", lambda _settings, _count: [(32 << 20, {})])
        file = writeback.finished(str(place), "sda", self.OPTIONS)
        origin = cpu_time.Origin(HostFiles(), file.kept.get("origin"))
        rounds = writeback.KeptRounds(file, origin, file.kept.get("flood_size", 123))
        return writeback._rounds(bench, self.Knobs(), self.OPTIONS, rounds)

    @pytest.mark.parametrize("left, done", [(0, 0), (2, 0), (3, 0), (6, 0), (7, 1), (12, 2)])
    def test_the_next_execution_goes_on_after_the_last_finished_repetition(self, tmp_path, monkeypatch, left, done):
        (tmp_path / "whole").mkdir()
        whole = self.run(tmp_path / "whole", self.Bench(), monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            self.run(tmp_path, self.Bench(left), monkeypatch)

        kept = writeback.finished(str(tmp_path), "sda", self.OPTIONS)
        assert writeback.repetitions_done(kept) == done
        assert writeback.is_unfinished(str(tmp_path)) is (left >= 3)  # the first round adds a value
        rest = self.Bench()
        assert self.run(tmp_path, rest, monkeypatch) == whole
        assert len(rest.measured) == (0 if left >= 3 else 3) + 4 * (3 - done)
        writeback.forget_rounds(str(tmp_path))
        assert not writeback.is_unfinished(str(tmp_path))

    def test_rounds_of_other_options_or_another_disk_are_not_used(self, tmp_path, monkeypatch):
        with pytest.raises(KeyboardInterrupt):
            self.run(tmp_path, self.Bench(8), monkeypatch)

        assert writeback.repetitions_done(writeback.finished(str(tmp_path), "sda", self.OPTIONS)) == 1
        assert writeback.finished(str(tmp_path), "sdb", self.OPTIONS).kept == {}
        assert writeback.finished(str(tmp_path), "sda", {**self.OPTIONS, "seconds": 6}).kept == {}


class TestBench:
    """A bench whose fio is a recording."""

    OPTIONS = {**writeback.check_options({**OPTIONS, "seconds": 0.5}), "write_sizes": [4096, 16384]}

    @pytest.fixture
    def bench(self, tmp_path):
        commands = []

        def run(words, **_more):
            commands.append(words)
            job = {
                "write": {"iops": 0.105, "runtime": 9500, "io_bytes": 4096, "lat_ns": {"mean": 1000.0}},
                "sync": {"lat_ns": {"N": 1, "mean": 9.5e9, "max": 9500000000, "percentile": {"95.000000": 9529458688}}},
            }
            return 0, json.dumps({"jobs": [job]}), ""

        water = writeback.flood.Flood("fio", str(tmp_path / "flood"), self.OPTIONS["flood_size"], run)
        found = writeback.Bench(str(tmp_path), "sda", self.OPTIONS, "fio", run, water, None)
        found.commands = commands
        return found

    def test_the_real_time_and_the_number_of_fsyncs_are_kept(self, bench):
        found = bench.idle(0)[4096, 1]

        assert (found["seconds"], found["fsyncs"], found["avg_ms"]) == (9.5, 1, 9500)

    def test_half_a_second_is_not_no_time(self, bench):
        """fio takes whole numbers only, and reads 0.5 as 0."""
        bench.idle(0)
        assert "--runtime=500ms" in bench.commands[0]

    def test_the_cells_change_their_order_but_not_in_the_result(self, bench):
        cells = [(4096, 10), (4096, 1), (16384, 10), (16384, 1)]
        orders = []
        for repetition in range(4):
            bench.commands.clear()
            assert list(bench.idle(repetition)) == cells
            orders.append([next(word for word in each if "--bs=" in word) for each in bench.commands])

        assert len({tuple(each) for each in orders}) > 1

    def test_the_flood_is_laid_out_once_and_stays(self, bench, tmp_path):
        bench.lay_out()
        flood = tmp_path / "flood"
        before = flood.stat()
        bench.prepare()
        bench.settle()

        assert before.st_size == self.OPTIONS["flood_size"] and before.st_blocks * 512 >= before.st_size
        assert (flood.stat().st_ino, flood.stat().st_size) == (before.st_ino, before.st_size)


def test_the_sequential_measurement_rewrites_the_blocks_that_are_there(tmp_path):
    path = tmp_path / "flood"
    path.write_bytes(b"x" * (3 << 20))

    assert writeback.sequential(str(path), 2 << 20) > 0
    assert path.stat().st_size == 3 << 20 and path.read_bytes()[2 << 20 :] == b"x" * (1 << 20)
    with pytest.raises(FileNotFoundError):
        writeback.sequential(str(tmp_path / "new"), 1)


def plant(tmp_path, kind):
    """Make something of the name that the measurement's directory has, and return a file that must stay."""
    victim = tmp_path / "target" / "victim"
    victim.parent.mkdir()
    victim.write_text("precious", encoding="utf-8")
    place = tmp_path / "memstretch-writeback"
    if kind == "link":
        place.symlink_to("target")
    else:
        victim = victim.rename(place)
    return victim


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_link_at_the_name_of_the_directory_is_not_followed(tmp_path, kind):
    victim = plant(tmp_path, kind)
    settings = TemporarySettings(str(tmp_path / "records"))
    record, knobs = settings.record, writeback.WritebackKnobs("", settings)
    with pytest.raises(writeback.MeasurementError, match="memstretch-writeback exists and was not created by this"):
        writeback.measure(
            str(tmp_path), knobs, writeback.check_options(OPTIONS), "fio", lambda *_args: pytest.fail(), None
        )
    assert not writeback.is_left(record, str(tmp_path))
    writeback.undo(record, str(tmp_path), lambda *_arguments: pytest.fail())
    assert victim.read_text(encoding="utf-8") == "precious"


def test_what_a_killed_execution_left_in_another_directory_is_removed(tmp_path):
    settings = TemporarySettings(str(tmp_path / "records"))
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    files = tmp_path / "one" / "memstretch-writeback"
    files.mkdir()
    (files / "flood").write_text("a flood of gigabytes", encoding="utf-8")
    settings.begin({}, str(tmp_path / "one"))
    elsewhere = str(tmp_path / "other")
    assert writeback.is_left(settings.record, elsewhere)
    writeback.undo(settings.record, elsewhere, lambda *_arguments, **_options: (0, "", ""))
    assert not files.exists() and not writeback.is_left(settings.record, elsewhere)


class TestKnobs:
    """The knobs are files here; tests/local tests the kernel's."""

    @pytest.fixture
    def value_of(self, tmp_path, monkeypatch):
        for name, value in (("dirty_bytes", "0"), ("dirty_ratio", "20"), ("scheduler", "none"), ("nr_requests", "256")):
            (tmp_path / name).write_text(value)
        dirty, ratio = str(tmp_path / "dirty_bytes"), str(tmp_path / "dirty_ratio")
        monkeypatch.setattr(writeback, "DIRTY_BYTES", dirty)
        monkeypatch.setitem(writeback.PAIRS, dirty, ratio)
        monkeypatch.setitem(writeback.PAIRS, ratio, dirty)
        monkeypatch.setattr(writeback.WritebackKnobs, "_knob", lambda self, name: str(tmp_path / name))
        return lambda name: (tmp_path / name).read_text().strip()

    def test_another_process_can_restore_the_originals(self, value_of, tmp_path):
        knobs = writeback.WritebackKnobs("sda", TemporarySettings(str(tmp_path / "records")))
        knobs.record_originals({"queues": [{}, {"nr_requests": 32, "scheduler": "mq-deadline"}]}, "/srv")
        knobs.set(15 << 20, {"nr_requests": 32, "scheduler": "mq-deadline"})
        assert (value_of("dirty_bytes"), value_of("scheduler"), value_of("nr_requests")) == (
            str(15 << 20),
            "mq-deadline",
            "32",
        )

        another = TemporarySettings(str(tmp_path / "records"))
        assert another.end() is True
        assert (value_of("dirty_ratio"), value_of("scheduler"), value_of("nr_requests")) == ("20", "none", "256")
        assert not os.path.exists(another.record.path)
        assert another.end() is False

    def test_each_setting_starts_from_the_originals(self, value_of, tmp_path):
        knobs = writeback.WritebackKnobs("sda", TemporarySettings(str(tmp_path / "records")))
        knobs.record_originals({"queues": [{"nr_requests": 32}]}, "/srv")
        knobs.set(0, {"nr_requests": 32})
        knobs.set(64 << 20, {})
        assert (value_of("nr_requests"), value_of("dirty_bytes")) == ("256", str(64 << 20))

    def test_a_missing_knob_is_refused_before_anything_changes(self, value_of, tmp_path):
        settings = TemporarySettings(str(tmp_path / "records"))
        with pytest.raises(writeback.MeasurementError, match="wbt_lat_usec"):
            writeback.WritebackKnobs("sda", settings).record_originals({"queues": [{"wbt_lat_usec": 0}]}, "/srv")
        assert settings.record.read() is None
