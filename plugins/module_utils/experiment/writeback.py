# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure small synchronous writes under a flood of dirty pages, for each vm.dirty_bytes and each queue setting.

The original values are recorded before anything changes, so that the next execution, or one with C(state=restored),
undoes an interrupted one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import stat
import statistics
import subprocess
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand
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

SCHEMA = 1
DIRTY_BYTES = "/proc/sys/vm/dirty_bytes"
RANGES: Ranges = {
    "seconds": Range(float, 0.5, 3600, "seconds of each measurement"),
    "repetitions": Range(int, 1, 1000, "repetitions of everything"),
}
WRITERS = Range(int, 1, 1024, "synchronous writers")
# The share of the host's own sequential throughput that a setting must keep.
MIN_SEQUENTIAL = 0.85
# A setting counts as equal to the best one from this share of it on. Of equal settings the largest dirty_bytes wins.
EQUAL = 0.95
_QUEUE_KNOBS = ("scheduler", "nr_requests", "nomerges", "max_sectors_kb", "wbt_lat_usec", "rq_affinity")
_DIRECTORY = "memstretch-writeback"
_BLOCK = 2**20
# How long the flood runs before the synchronous writes begin.
_LEAD_SECONDS = 2
# The share of the file system that must stay free.
_FREE_SHARE = 0.1


class MeasurementError(Exception):
    """This host cannot be measured with these options. The text says why."""


def check_options(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the options with sizes and numbers as numbers. The first dirty_bytes is 0, for the host's own setting.

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
    write_size = size_in_bytes("write_size", options["write_size"])
    if not 512 <= write_size <= 2**30 or write_size % 512:
        raise SettingError(
            f"write_size: {options['write_size']!r} is out of range; it must be a multiple of 512 from 512 bytes to 1G"
        )
    return {
        "dirty_bytes": [0, *sorted(values, reverse=True)],
        "queues": [{}, *options["queues"]],
        "write_size": write_size,
        "threads": numbers("threads", options["threads"], WRITERS),
        **check_numbers(options, RANGES),
        "file_size": size_in_bytes("file_size", options["file_size"]),
        "flood_size": size_in_bytes("flood_size", options["flood_size"]),
    }


def check_directory(path: str, options: t.Mapping[str, t.Any]) -> str:
    """Return the disk that holds a directory, by its name in /sys/block.

    Raises:
        MeasurementError: the directory does not exist, is not on a disk, or has too little free space.
    """
    if not os.path.isdir(path):
        raise MeasurementError(f"directory: {path} is not a directory on this host")
    usage = shutil.disk_usage(path)
    needed = options["flood_size"] + options["file_size"] * max(options["threads"])
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
    real = os.path.realpath(link)
    return os.path.basename(os.path.dirname(real) if os.path.exists(f"{real}/partition") else real)


def undo(record: HostRecord, directory: str) -> None:
    """Restore the settings and remove the files that an interrupted execution left. Waits for one that still runs."""
    with record.locked():
        TemporarySettings(record.directory).end()
        if _is_our_directory(os.path.join(directory, _DIRECTORY)):
            shutil.rmtree(os.path.join(directory, _DIRECTORY))


def is_left(record: HostRecord, directory: str) -> bool:
    """Return whether an interrupted execution left something to undo."""
    return record.read() is not None or _is_our_directory(os.path.join(directory, _DIRECTORY))


def _is_our_directory(path: str) -> bool:
    """Return whether a path is a directory that we made: in /var/tmp, anybody may have made a link of that name."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def writing_seconds(options: t.Mapping[str, t.Any]) -> float:
    """Return the seconds of all synchronous writes together, without the sequential writing."""
    settings = len(options["dirty_bytes"]) * len(options["queues"])
    return (
        options["repetitions"]
        * len(options["threads"])
        * (options["seconds"] + settings * (options["seconds"] + _LEAD_SECONDS))
    )


class WritebackKnobs:
    """The kernel's settings that this experiment changes. The caller holds the lock of the host's records."""

    def __init__(self, disk: str, settings: TemporarySettings) -> None:
        self.disk, self.settings = disk, settings

    def _knob(self, name: str) -> str:
        return f"/sys/block/{self.disk}/queue/{name}"

    def record_originals(self, options: t.Mapping[str, t.Any]) -> None:
        """Record the original values of all knobs that will change.

        Raises:
            MeasurementError: the kernel does not have one of them.
        """
        names = sorted({name for queue in options["queues"] for name in queue}, key=lambda name: name != "scheduler")
        knobs = [DIRTY_BYTES, PAIRS[DIRTY_BYTES], *map(self._knob, names)]
        originals = {knob: value for knob in knobs if (value := read_knob(knob)) is not None}
        absent = [knob for knob in knobs if knob not in originals]
        if absent:
            raise MeasurementError(f"queues: this host has no {', '.join(absent)}")
        self.settings.begin(originals)

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


def measure(
    directory: str, knobs: WritebackKnobs, options: t.Mapping[str, t.Any], fio: str, run_command: RunCommand
) -> list[dict[str, t.Any]]:
    """Return the figures of each setting, the host's own first. The original settings are restored at the end.

    Raises:
        MeasurementError: fio failed.
    """
    place = os.path.join(directory, _DIRECTORY)
    combinations = [(queue, value) for queue in options["queues"] for value in options["dirty_bytes"]]
    figures: dict[int, dict[str, t.Any]] = {
        index: {"idle": {}, "flood": {}, "p99_ms": {}, "sequential": []} for index in range(len(combinations))
    }
    child = _Child()

    def run_child(*arguments: t.Any, **options: t.Any) -> tuple[int, str, str]:
        return run_command(*arguments, before_communicate_callback=child.remember, **options)

    with exit_on_signals(child):
        try:
            os.mkdir(place, 0o700)
        except FileExistsError as error:
            raise MeasurementError(f"{place} exists and is not ours; remove it, or name another directory") from error
        try:
            knobs.record_originals(options)
            for _repetition in range(options["repetitions"]):
                for index, (queue, value) in enumerate(combinations):
                    knobs.set(value, queue)
                    _measure_setting(place, options, figures[index], index == 0, fio, run_child)
        finally:
            knobs.settings.end()
            shutil.rmtree(place)
    return [_summary(queue, value, figures[index]) for index, (queue, value) in enumerate(combinations)]


def _measure_setting(
    place: str,
    options: t.Mapping[str, t.Any],
    figures: dict[str, t.Any],
    with_idle: bool,
    fio: str,
    run_command: RunCommand,
) -> None:
    figures["sequential"].append(sequential(os.path.join(place, "flood"), options["flood_size"]))
    for threads in options["threads"]:
        if with_idle:
            figures["idle"].setdefault(threads, []).append(
                _sync_writes(place, options, threads, False, fio, run_command)[0]
            )
        iops, p99 = _sync_writes(place, options, threads, True, fio, run_command)
        figures["flood"].setdefault(threads, []).append(iops)
        figures["p99_ms"].setdefault(threads, []).append(p99)
        os.sync()  # the next measurement must not write back this flood's pages


def sequential(path: str, size: int) -> float:
    """Return the bytes per second of a sequential write of a file and its fsync."""
    block = os.urandom(_BLOCK)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        started, left = time.monotonic(), size
        while left > 0:
            left -= os.write(descriptor, block[:left])
        os.fsync(descriptor)
        return size / (time.monotonic() - started)
    finally:
        os.close(descriptor)


def _sync_writes(
    place: str, options: t.Mapping[str, t.Any], threads: int, flood: bool, fio: str, run_command: RunCommand
) -> tuple[float, float]:
    """Return the writes per second, and the p99 of an fsync in milliseconds."""
    status, output, diagnostics = run_command(command(place, options, threads, flood, fio), cwd=place)
    if status != 0:
        raise MeasurementError(f"fio failed: {(diagnostics or output).strip()[-500:]}")
    report = json.loads(output[output.index("{") :])  # fio may print warnings first
    job = next(each for each in report["jobs"] if each["jobname"] == "sync")
    return job["write"]["iops"], job["sync"]["lat_ns"]["percentile"]["99.000000"] / 1e6


def command(place: str, options: t.Mapping[str, t.Any], threads: int, flood: bool, fio: str) -> list[str]:
    """Return fio's argument vector: small random writes with an fsync after each, and the flood if it is wanted."""
    lead = _LEAD_SECONDS if flood else 0
    words = [
        fio,
        "--output-format=json",
        "--ioengine=psync",
        "--group_reporting",
        "--thread",
        "--random_generator=tausworthe64",
        "--time_based",
    ]
    if flood:
        words += [
            "--name=flood",
            f"--filename={place}/flood",
            "--rw=write",
            f"--bs={_BLOCK}",
            f"--size={options['flood_size']}",
            "--overwrite=1",
            f"--runtime={lead + options['seconds']:g}",
        ]
    return words + [
        "--name=sync",
        "--new_group",
        f"--directory={place}",
        "--filename_format=sync.$jobnum",
        "--rw=randwrite",
        f"--bs={options['write_size']}",
        f"--size={options['file_size']}",
        "--fsync=1",
        f"--numjobs={threads}",
        f"--startdelay={lead}",
        f"--runtime={options['seconds']:g}",
    ]


def _summary(queue: t.Mapping[str, t.Any], dirty_bytes: int, figures: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    def median(values: t.Sequence[float], digits: int) -> dict[str, float]:
        return {
            "median": round(statistics.median(values), digits),
            "min": round(min(values), digits),
            "max": round(max(values), digits),
        }

    return {
        "dirty_bytes": dirty_bytes,
        "queue": dict(queue),
        "sequential": median(figures["sequential"], 0),
        "threads": [
            {
                "threads": threads,
                "idle_iops": median(figures["idle"][threads], 2) if threads in figures["idle"] else None,
                "flood_iops": median(iops, 2),
                "flood_p99_ms": median(figures["p99_ms"][threads], 3),
            }
            for threads, iops in figures["flood"].items()
        ],
    }


def with_ratios(settings: t.Sequence[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Add to each setting its share of the host's own throughput, and to each number of threads its gain.

    C(sequential_share) and C(gain) are relative to the host's own setting, C(of_idle) to the idle host.
    """
    default = settings[0]
    base = {each["threads"]: each["flood_iops"]["median"] for each in default["threads"]}
    idle = {each["threads"]: each["idle_iops"]["median"] for each in default["threads"]}
    return [
        {
            **setting,
            "sequential_share": round(setting["sequential"]["median"] / default["sequential"]["median"], 4),
            "threads": [
                {
                    **each,
                    "gain": round(each["flood_iops"]["median"] / base[each["threads"]], 3)
                    if base[each["threads"]]
                    else None,
                    "of_idle": round(each["flood_iops"]["median"] / idle[each["threads"]], 4)
                    if idle[each["threads"]]
                    else None,
                }
                for each in setting["threads"]
            ],
        }
        for setting in settings
    ]


def choose(settings: t.Sequence[t.Mapping[str, t.Any]]) -> tuple[t.Mapping[str, t.Any] | None, str]:
    """Return the knee, or None and the reason why there is none.

    The knee is the setting that recovers most synchronous writes and keeps enough of the sequential throughput. A
    setting recovers the share of the idle host's writes that it reaches with its worst number of threads.
    """

    def recovered(setting: t.Mapping[str, t.Any]) -> float:
        return min((each["of_idle"] or 0.0) for each in setting["threads"])

    allowed = [each for each in settings[1:] if each["sequential_share"] >= MIN_SEQUENTIAL]
    if not allowed:
        return None, f"every other setting keeps less than {MIN_SEQUENTIAL:.0%} of the sequential throughput"
    most = max(map(recovered, allowed))
    if most * EQUAL <= recovered(settings[0]):
        return None, "no other setting recovers more synchronous writes than the host's own"
    near = [each for each in allowed if recovered(each) >= most * EQUAL]
    return max(near, key=lambda each: (each["dirty_bytes"] or 2**63, -len(each["queue"]))), ""


def fio_version(text: str) -> str | None:
    """Return the version in the output of C(fio --version)."""
    match = re.match(r"^fio-(\S+)", text.strip())
    return match.group(1) if match else None
