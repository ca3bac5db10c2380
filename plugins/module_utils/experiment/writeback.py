# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure small synchronous writes under a flood of dirty pages, for each vm.dirty_bytes and each queue setting.

The original values are recorded before anything changes, so that the next execution, or one with C(state=restored),
undoes an interrupted one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.experiment import finished_rounds, flood, slow_drive
from ansible_collections.memstretch.density.plugins.module_utils.experiment import writeback_results as results
from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_time import Origin
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import PAIRS, read_knob, write_knob
from ansible_collections.memstretch.density.plugins.module_utils.host.temporary import TemporarySettings
from ansible_collections.memstretch.density.plugins.module_utils.options import (
    Range,
    Ranges,
    SettingError,
    check_numbers,
    numbers,
    size_in_bytes,
    size_text,
)
from ansible_collections.memstretch.density.plugins.module_utils.orders import williams_design

SCHEMA = 1
DIRTY_BYTES = "/proc/sys/vm/dirty_bytes"
RANGES: Ranges = {
    "seconds": Range(float, 0.5, 3600, "seconds of each measurement"),
    "repetitions": Range(int, 1, 1000, "repetitions of everything"),
    "refine": Range(int, 0, 8, "values between the knee and each of its neighbours"),
    "emulated_iops": Range(int, 0, 100_000, "writes per second of an emulated drive; 0: the real drive"),
}
WRITERS = Range(int, 1, 1024, "synchronous writers")
_QUEUE_KNOBS = ("scheduler", "nr_requests", "nomerges", "max_sectors_kb", "wbt_lat_usec", "rq_affinity")
_DIRECTORY = "memstretch-writeback"
_FINISHED = "memstretch-writeback.json"
_BLOCK = 2**20
# Sequential throughput is measured over this many bytes, or the flood's if those are fewer.
_SEQUENTIAL_BYTES = 2**30
# The share of the file system that must stay free.
_FREE_SHARE = 0.1
# What the file system of an emulated drive needs for itself: its journal and tables.
_DRIVE_RESERVE = 256 * 2**20


_Figures = t.Dict[str, t.Any]


class MeasurementError(Exception):
    """This host cannot be measured with these options. The text says why."""


def check_options(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the options with sizes and numbers as numbers. The first dirty_bytes is 0, for the host's own setting.

    A flood_size of 0 means that it is chosen for the host.

    Raises:
        SettingError: an option is not allowed.
    """
    values = [size_in_bytes("dirty_bytes", value) for value in options["dirty_bytes"]]
    page = os.sysconf("SC_PAGE_SIZE")
    if not values or min(values) < 2 * page or len(set(values)) != len(values):
        raise SettingError(
            f"dirty_bytes: {options['dirty_bytes']!r} is not allowed; it must be a list of different sizes, "
            f"each at least two pages ({2 * page} bytes)"
        )
    for queue in options["queues"]:
        unknown = sorted(set(queue) - set(_QUEUE_KNOBS))
        if unknown or not queue:
            raise SettingError(f"queues: {queue!r} is not allowed; it must be one or more of {', '.join(_QUEUE_KNOBS)}")
    sizes = [size_in_bytes("write_sizes", value) for value in options["write_sizes"]]
    if not sizes or len(set(sizes)) != len(sizes) or any(not 512 <= size <= 2**30 or size % 512 for size in sizes):
        raise SettingError(
            f"write_sizes: {options['write_sizes']!r} is not allowed; it must be a list of different sizes, each a "
            f"multiple of 512 from 512 bytes to 1G"
        )
    bandwidth = size_in_bytes("emulated_bandwidth", options["emulated_bandwidth"])
    if bandwidth < _BLOCK:
        raise SettingError(
            f"emulated_bandwidth: {options['emulated_bandwidth']!r} is out of range; it must be at least 1M per second"
        )
    return {
        "dirty_bytes": [0, *sorted(values, reverse=True)],
        "queues": [{}, *options["queues"]],
        "write_sizes": sizes,
        "threads": numbers("threads", options["threads"], WRITERS),
        **check_numbers(options, RANGES),
        "file_size": size_in_bytes("file_size", options["file_size"]),
        "flood_size": size_in_bytes("flood_size", options["flood_size"]) if options["flood_size"] else 0,
        "emulated_bandwidth": bandwidth,
    }


def check_directory(path: str, options: dict[str, t.Any]) -> str:
    """Return the disk that holds a directory, by its name in /sys/block. Choose the flood's size if it is 0.

    Raises:
        MeasurementError: the directory does not exist, is not on a disk, or has too little free space.
    """
    if not os.path.isdir(path):
        raise MeasurementError(f"directory: {path} is not a directory on this host")
    usage = shutil.disk_usage(path)
    files = options["file_size"] * max(options["threads"]) + (_DRIVE_RESERVE if options["emulated_iops"] else 0)
    if not options["flood_size"]:
        free = usage.free - files - _FREE_SHARE * usage.total
        limits = [flood.thresholds(HostFiles())[0], *options["dirty_bytes"]]
        options["flood_size"] = max(_BLOCK, flood.size_for(limits, int(free)))
    needed = options["flood_size"] + files
    if usage.free - needed < _FREE_SHARE * usage.total:
        raise MeasurementError(
            f"directory: {path} has {size_text(usage.free)} free; the files need {size_text(needed)}, "
            f"and a tenth of the file system ({size_text(_FREE_SHARE * usage.total)}) must stay free. "
            f"Use a smaller flood_size or file_size, or another directory"
        )
    device = os.stat(path).st_dev
    link = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    if not os.path.exists(link):
        raise MeasurementError(
            f"directory: {path} is not on a disk (is it in memory or on a network?); choose a directory on a disk"
        )
    if options["emulated_iops"]:
        slow_drive.throttle_directory(HostFiles())
    real = os.path.realpath(link)
    return os.path.basename(os.path.dirname(real) if os.path.exists(f"{real}/partition") else real)


def undo(record: HostRecord, directory: str, run_command: RunCommand) -> None:
    """Restore the settings and remove the files that an interrupted execution left. Waits for one that still runs."""
    with record.locked():
        settings = TemporarySettings(record.directory)
        settings.put_back()
        for place in _places(record, directory):
            if _is_our_directory(place):
                slow_drive.remove(place, run_command)
                shutil.rmtree(place)
        settings.end()  # last, since the record names one of the places


def is_left(record: HostRecord, directory: str) -> bool:
    """Check whether an interrupted execution left something to undo."""
    return record.read() is not None or any(_is_our_directory(place) for place in _places(record, directory))


def _places(record: HostRecord, directory: str) -> list[str]:
    """Find where files may be: below this directory, and below that of the execution that was interrupted."""
    recorded = (record.read() or {}).get("directory") or directory
    return [os.path.join(each, _DIRECTORY) for each in dict.fromkeys((directory, recorded))]


def _is_our_directory(path: str) -> bool:
    """Check whether a path is a directory that we made: in /var/tmp, anybody may have made a link of that name."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def writing_seconds(options: t.Mapping[str, t.Any]) -> float:
    """Return the seconds of all synchronous writes together, without the sequential writing."""
    settings = (len(options["dirty_bytes"]) + 2 * options["refine"]) * len(options["queues"])
    rounds = options["repetitions"] + bool(options["refine"])
    return rounds * len(_cells(options)) * (1 + settings) * options["seconds"]


def _cells(options: t.Mapping[str, t.Any]) -> list[tuple[int, int]]:
    """Return each size of the synchronous writes with each number of writers."""
    return [(size, threads) for size in options["write_sizes"] for threads in options["threads"]]


T = t.TypeVar("T")


def order(things: t.Sequence[T], repetition: int) -> list[T]:
    """Return things in the order of a repetition: each then follows each other one about equally often."""
    rows = williams_design(len(things))
    return [things[place] for place in rows[repetition % len(rows)]]


class WritebackKnobs:
    """The kernel's settings that this experiment changes. The caller holds the lock of the host's records."""

    def __init__(self, disk: str, settings: TemporarySettings) -> None:
        self.disk, self.settings = disk, settings

    def _knob(self, name: str) -> str:
        return f"/sys/block/{self.disk}/queue/{name}"

    def record_originals(self, options: t.Mapping[str, t.Any], directory: str) -> None:
        """Record the original values of all knobs that will change, and the directory of the files.

        Raises:
            MeasurementError: the kernel does not have one of them.
        """
        names = sorted({name for queue in options["queues"] for name in queue}, key=lambda name: name != "scheduler")
        knobs = [DIRTY_BYTES, PAIRS[DIRTY_BYTES], *map(self._knob, names)]
        originals = {knob: value for knob in knobs if (value := read_knob(knob)) is not None}
        absent = [knob for knob in knobs if knob not in originals]
        if absent:
            raise MeasurementError(f"queues: this host has no {', '.join(absent)}")
        self.settings.begin(originals, directory)

    def set(self, dirty_bytes: int, queue: t.Mapping[str, t.Any]) -> None:
        """Restore the originals, then apply one setting. A dirty_bytes of 0 is the host's own."""
        self.settings.put_back()
        for name in sorted(queue, key=lambda name: name != "scheduler"):  # a new scheduler resets other knobs
            write_knob(self._knob(name), str(queue[name]))
        if dirty_bytes:
            write_knob(DIRTY_BYTES, str(dirty_bytes))


class _Child:
    """The fio that runs now. It must not outlive this process."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def remember(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def exit_on_signals(child: _Child) -> t.Iterator[None]:
    """Turn signals that would end this process into SystemExit, so that C(finally) runs, and end the child first."""

    def leave(signal_number: int, _frame: t.Any) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # nothing may interrupt the restoration
        child.end()
        raise SystemExit(128 + signal_number)

    before = {each: signal.signal(each, leave) for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@dataclasses.dataclass
class Setting:
    """One setting, and what each repetition measured with it.

    Attributes:
        dirty_bytes: 0 is the host's own.
        queue: settings of the disk's queue that differ from its own.
        refined: whether the first round suggested it.
        repetitions: the figures of each repetition in order, as Bench.measure() returns them.
    """

    dirty_bytes: int
    queue: t.Mapping[str, t.Any]
    refined: bool = False
    repetitions: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)


class KeptRounds:
    """The rounds of a measurement, kept after each of them.

    Attributes:
        added: the values around the knee, each with its queue; None if the first round was not finished.
    """

    def __init__(self, file: finished_rounds.FinishedRounds, origin: Origin, flood_size: int) -> None:
        self._file, self._origin, self._flood_size = file, origin, flood_size
        self.added: list[tuple[int, t.Mapping[str, t.Any]]] | None = file.kept.get("added")

    def keep_added(self, added: list[tuple[int, t.Mapping[str, t.Any]]]) -> None:
        """Keep the result of the first round."""
        self.added = added
        self.keep([])

    def keep(self, settings: t.Sequence[Setting]) -> None:
        """Keep the repetitions of all settings."""
        repetitions = [[_as_json(each) for each in setting.repetitions] for setting in settings]
        origin = self._origin.facts()
        self._file.save(
            {"added": self.added, "flood_size": self._flood_size, "origin": origin, "repetitions": repetitions}
        )

    def take(self, settings: t.Sequence[Setting]) -> int:
        """Add the repetitions that were kept to their settings. Return their number, which is the same for all."""
        for setting, repetitions in zip(settings, self._file.kept.get("repetitions", [])):
            setting.repetitions = [_from_json(each) for each in repetitions]
        return repetitions_done(self._file)


_OF_CELLS = ("cells", "idle")


def _as_json(repetition: t.Mapping[str, t.Any]) -> _Figures:
    """Return a repetition with lists for its dictionaries of cells: JSON wants strings as keys."""
    return {**repetition, **{name: list(repetition[name].items()) for name in _OF_CELLS}}


def _from_json(repetition: t.Mapping[str, t.Any]) -> _Figures:
    cells = {name: {tuple(cell): figures for cell, figures in repetition[name]} for name in _OF_CELLS}
    return {**repetition, **cells}


class Bench:
    """The directory, the disk and the programs of a measurement."""

    def __init__(
        self,
        directory: str,
        disk: str,
        options: t.Mapping[str, t.Any],
        fio: str,
        run_command: RunCommand,
        water: flood.Flood,
        drive: slow_drive.SlowDrive | None,
    ) -> None:
        self.directory, self.disk, self.options, self.fio = directory, disk, options, fio
        self._run, self._flood, self._drive, self._files = run_command, water, drive, HostFiles()

    def lay_out(self) -> None:
        """Write all files once, so that no measurement has to allocate their blocks, neither here nor below a VM."""
        self._fio(max(self.options["write_sizes"]), max(self.options["threads"]), "--create_only=1")
        self._flood.lay_out()
        os.sync()
        if self._drive:
            self._drive.slow_down()

    def idle(self, repetition: int) -> dict[tuple[int, int], dict[str, t.Any]]:
        """Return the figures of each cell without a flood."""
        return self._in_turn(repetition, self._synchronous)

    def prepare(self) -> None:
        """Rewrite what the sequential measurement will write, untimed and without the limits of an emulated drive.

        The measurement then finds its pages in the page cache and its blocks on the disk, whatever ran before.
        """
        with self._at_full_speed():
            sequential(self._flood.path, self._sequential_bytes())

    def measure(self, repetition: int) -> dict[str, t.Any]:
        """Return the sequential throughput, and each cell under the flood with the proof that it was written back."""
        found: dict[str, t.Any] = {
            "limit": flood.thresholds(self._files)[0],
            "sequential": sequential(self._flood.path, self._sequential_bytes()),
        }
        self._flood.start()
        try:
            found["cells"] = self._in_turn(repetition, self._under_the_flood)
        finally:
            self.settle()
        return found

    def _in_turn(self, repetition: int, one: t.Callable[[int, int], _Figures]) -> dict[tuple[int, int], _Figures]:
        """Measure the cells in the order of a repetition, and return them in their own order."""
        cells = _cells(self.options)
        found = {cell: one(*cell) for cell in order(cells, repetition)}
        return {cell: found[cell] for cell in cells}

    def _under_the_flood(self, write_size: int, threads: int) -> _Figures:
        """Return the figures of a cell, with the proof that the flood was written back at the same time."""
        with flood.Watch(self._files, self.disk, self._flood.pid) as watch:
            figures = self._synchronous(write_size, threads)
        evidence = flood.evidence(watch.samples, figures.pop("bytes"), self._flood.started)
        if not self._flood.runs():
            evidence.update(valid=False, reason="the flood ended early; is the file system full?")
        return {**figures, **evidence}

    def _sequential_bytes(self) -> int:
        return int(min(_SEQUENTIAL_BYTES, self.options["flood_size"]))

    @contextlib.contextmanager
    def _at_full_speed(self) -> t.Iterator[None]:
        """Lift the limits of an emulated drive inside the block."""
        if self._drive:
            self._drive.speed_up()
        try:
            yield
        finally:
            if self._drive:
                self._drive.slow_down()

    def settle(self) -> None:
        """End the flood and write what is left of it, so that the next measurement begins without dirty pages."""
        with self._at_full_speed():
            self._flood.stop()
            os.sync()

    def _synchronous(self, write_size: int, threads: int) -> _Figures:
        """Return the writes per second, their bytes, and the time of a write and of its fsync in milliseconds.

        C(seconds) is how long it took: fio waits for the fsync that runs at the end of its time.
        """
        # fio takes whole numbers only: 0.5 would be no time at all.
        report = self._fio(write_size, threads, "--time_based", f"--runtime={self.options['seconds'] * 1000:.0f}ms")
        job = report["jobs"][0]
        fsync = job["sync"]["lat_ns"]
        share = fsync.get("percentile", {})
        slowest = fsync["max"] or job["write"]["runtime"] * 1e6  # no fsync ended in time
        return {
            "iops": job["write"]["iops"],
            "seconds": job["write"]["runtime"] / 1000,
            "fsyncs": fsync.get("N", job["sync"].get("total_ios", 0)),
            "bytes": job["write"]["io_bytes"],
            "write_avg_ms": job["write"]["lat_ns"]["mean"] / 1e6,
            "avg_ms": (fsync["mean"] or slowest) / 1e6,
            "p95_ms": share.get("95.000000", slowest) / 1e6,
            "p99_ms": share.get("99.000000", slowest) / 1e6,
            "max_ms": slowest / 1e6,
        }

    def _fio(self, write_size: int, threads: int, *more: str) -> dict[str, t.Any]:
        words = command(self.directory, self.options["file_size"], write_size, threads, self.fio)
        status, output, diagnostics = self._run([*words, *more], cwd=self.directory)
        if status != 0:
            raise MeasurementError(f"fio failed: {(diagnostics or output).strip()[-500:]}")
        return json.loads(output[output.index("{") :])  # fio may print warnings first


def finished(directory: str, disk: str, options: t.Mapping[str, t.Any]) -> finished_rounds.FinishedRounds:
    """Return the rounds that an interrupted execution with these options has finished since the host's last boot."""
    boot = HostFiles().text("/proc/sys/kernel/random/boot_id")
    return finished_rounds.FinishedRounds(
        os.path.join(directory, _FINISHED), {"schema": SCHEMA, "boot": boot, "disk": disk, "options": options}
    )


def repetitions_done(rounds: finished_rounds.FinishedRounds) -> int:
    """Return the number of repetitions that are kept."""
    return len((rounds.kept.get("repetitions") or [[]])[0])


def is_unfinished(directory: str) -> bool:
    """Check whether an interrupted execution left rounds to go on from."""
    return finished_rounds.is_kept(os.path.join(directory, _FINISHED))


def forget_rounds(directory: str) -> None:
    """Remove the rounds that an execution has finished."""
    finished_rounds.forget(os.path.join(directory, _FINISHED))


def measure(
    directory: str,
    knobs: WritebackKnobs,
    options: t.Mapping[str, t.Any],
    fio: str,
    run_command: RunCommand,
    rounds: KeptRounds,
) -> list[Setting]:
    """Return the settings with their figures, the host's own first. The original settings are restored at the end.

    Raises:
        MeasurementError: fio failed.
        SlowDriveError: a drive cannot be emulated.
    """
    place = os.path.join(directory, _DIRECTORY)
    child = _Child()

    def run_child(words: t.Sequence[str], **more: t.Any) -> tuple[int, str, str]:
        command = [*flood.WITH_PARENT, *words]
        return run_to_end(run_command, command, before_communicate_callback=child.remember, **more)

    with exit_on_signals(child):
        try:
            os.mkdir(place, 0o700)
        except FileExistsError as error:
            raise MeasurementError(
                f"{place} exists and was not created by this benchmark; remove it, or choose another directory"
            ) from error
        bench = None
        try:
            drive = _emulated(place, options, run_command)
            if drive:
                place_of_files, knobs.disk = drive.directory, drive.disk
            else:
                place_of_files = place
            knobs.record_originals(options, directory)
            water = flood.Flood(fio, os.path.join(place_of_files, "flood"), options["flood_size"], run_command)
            bench = Bench(place_of_files, knobs.disk, options, fio, run_child, water, drive)
            bench.lay_out()
            return _rounds(bench, knobs, options, rounds)
        finally:
            if bench:
                bench.settle()
            knobs.settings.end()
            slow_drive.remove(place, run_command)
            shutil.rmtree(place)


def _emulated(place: str, options: t.Mapping[str, t.Any], run_command: RunCommand) -> slow_drive.SlowDrive | None:
    """Return the emulated drive, or None if the real one is wanted."""
    if not options["emulated_iops"]:
        return None
    drive = slow_drive.SlowDrive(place, options["emulated_iops"], options["emulated_bandwidth"], run_command)
    drive.start(options["flood_size"] + options["file_size"] * max(options["threads"]) + _DRIVE_RESERVE)
    return drive


def _rounds(bench: Bench, knobs: WritebackKnobs, options: t.Mapping[str, t.Any], rounds: KeptRounds) -> list[Setting]:
    """Return the settings with the figures of all repetitions.

    A first round, which does not count, finds where the knee is, and adds values around it.
    """
    settings = [Setting(value, queue) for queue in options["queues"] for value in options["dirty_bytes"]]
    if options["refine"] and rounds.added is None:
        _round(bench, knobs, settings, 0)
        rounds.keep_added(results.around_the_knee(settings, options["refine"]))
        for setting in settings:
            setting.repetitions.clear()
    settings += [Setting(value, queue, refined=True) for value, queue in rounds.added or []]
    done = rounds.take(settings)
    for repetition in range(done, options["repetitions"]):
        _round(bench, knobs, settings, repetition)
        rounds.keep(settings)
    return settings


def _round(bench: Bench, knobs: WritebackKnobs, settings: t.Sequence[Setting], repetition: int) -> None:
    """Measure each setting once, and the idle host once, in the order of a repetition."""
    knobs.set(0, {})
    idle = bench.idle(repetition)
    for setting in order(settings, repetition):
        knobs.set(0, {})
        bench.prepare()
        knobs.set(setting.dirty_bytes, setting.queue)
        setting.repetitions.append({**bench.measure(repetition), "idle": idle})


def sequential(path: str, size: int) -> float:
    """Return the bytes per second of a sequential write to the start of a file, which exists, and its fsync."""
    block = os.urandom(_BLOCK)
    descriptor = os.open(path, os.O_WRONLY)
    try:
        started, left = time.monotonic(), size
        while left > 0:
            left -= os.write(descriptor, block[:left])
        os.fsync(descriptor)
        return size / (time.monotonic() - started)
    finally:
        os.close(descriptor)


def command(directory: str, file_size: int, write_size: int, threads: int, fio: str) -> list[str]:
    """Return fio's argument vector for small random writes with an fsync after each."""
    return [
        fio,
        "--output-format=json",
        "--ioengine=psync",
        "--group_reporting",
        "--thread",
        "--random_generator=tausworthe64",
        "--name=sync",
        f"--directory={directory}",
        "--filename_format=sync.$jobnum",
        "--rw=randwrite",
        "--overwrite=1",
        f"--bs={write_size}",
        f"--size={file_size}",
        "--fsync=1",
        f"--numjobs={threads}",
    ]


def fio_version(text: str) -> str | None:
    """Return the version in the output of C(fio --version)."""
    match = re.match(r"^fio-(\S+)", text.strip())
    return match.group(1) if match else None
