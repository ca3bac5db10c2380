# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small synchronous writes under a flood of dirty pages, for one value of vm.dirty_bytes and one set of queue settings after another.

Whatever is changed is written down before, so that an interrupted execution is undone by the next one (or by C(restored)).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import (
    PAIRS,
    read_knob,
    restore_knob,
    write_knob,
)
from ansible_collections.memstretch.density.plugins.module_utils.options import (
    SettingError,
    number,
    numbers,
    size_in_bytes,
)

SCHEMA = 1
RECORD = "writeback_benchmark"
DIRTY_BYTES = "/proc/sys/vm/dirty_bytes"
# Of the sequential throughput at the default so much must be left.
MIN_SEQUENTIAL = 0.85
# Two settings that recover this much of the same are taken for equal, and the larger dirty_bytes wins.
EQUAL = 0.95
_QUEUE_KNOBS = ("scheduler", "nr_requests", "nomerges", "max_sectors_kb", "wbt_lat_usec", "rq_affinity")
_DIRECTORY = "memstretch-writeback"
_BLOCK = 2**20
# The flood has the page cache to itself for so long before the synchronous writes begin.
_LEAD_SECONDS = 2
_FREE_SHARE = 0.1


class MeasurementError(Exception):
    """What was asked for cannot be measured here. The text says why."""


def checked(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the options as numbers; dirty_bytes begins with 0, which stands for what the host has now.

    Raises:
        SettingError: one cannot be used.
    """
    values = [size_in_bytes("dirty_bytes", value) for value in options["dirty_bytes"]]
    page = os.sysconf("SC_PAGE_SIZE")
    if not values or min(values) < 2 * page or len(set(values)) != len(values):
        raise SettingError(
            f"dirty_bytes: {options['dirty_bytes']!r} is not allowed; it takes different sizes, each at least two pages ({2 * page} bytes)"
        )
    for queue in options["queues"]:
        unknown = sorted(set(queue) - set(_QUEUE_KNOBS))
        if unknown or not queue:
            raise SettingError(f"queues: {queue!r} is not allowed; each takes some of {', '.join(_QUEUE_KNOBS)}")
    write_size = size_in_bytes("write_size", options["write_size"])
    if not 512 <= write_size <= 2**30 or write_size % 512:
        raise SettingError(
            f"write_size: {options['write_size']!r} is out of range; it takes a multiple of 512 from 512 bytes to 1G"
        )
    return {
        "dirty_bytes": [0, *sorted(values, reverse=True)],
        "queues": [{}, *options["queues"]],
        "write_size": write_size,
        "threads": numbers("threads", options["threads"], "writers"),
        "seconds": number("seconds", options["seconds"], "writing_seconds"),
        "repetitions": number("repetitions", options["repetitions"], "repetitions"),
        "file_size": size_in_bytes("file_size", options["file_size"]),
        "flood_size": size_in_bytes("flood_size", options["flood_size"]),
    }


def check_directory(path: str, options: t.Mapping[str, t.Any]) -> str:
    """Return the block device that carries a directory, its name as in /sys/block.

    Raises:
        MeasurementError: there is no such directory, no disk below it, or too little space.
    """
    if not os.path.isdir(path):
        raise MeasurementError(f"directory: {path} is no directory of this host")
    usage = shutil.disk_usage(path)
    needed = options["flood_size"] + options["file_size"] * max(options["threads"])
    if usage.free - needed < _FREE_SHARE * usage.total:
        raise MeasurementError(
            f"directory: {path} has {usage.free / 1e6:,.0f} MB free; the files take {needed / 1e6:,.0f} MB, and a tenth of the file system "
            f"({_FREE_SHARE * usage.total / 1e6:,.0f} MB) must stay free. Take a smaller flood_size or file_size, or another directory"
        )
    device = os.stat(path).st_dev
    link = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    if not os.path.exists(link):
        raise MeasurementError(
            f"directory: {path} is on no disk (a file system in memory or on a network?); choose one that is"
        )
    real = os.path.realpath(link)
    return os.path.basename(os.path.dirname(real) if os.path.exists(f"{real}/partition") else real)


def undo(record: HostRecord, directory: str) -> None:
    """Put back and remove what an execution that was cut off has left. Waits for one that still runs, which holds the lock."""
    with record.locked():
        Host("", record).restore()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            shutil.rmtree(os.path.join(directory, _DIRECTORY))
        record.remove()  # the lock goes with it


def is_left(record: HostRecord, directory: str) -> bool:
    """Return whether there is something to undo."""
    return record.read() is not None or os.path.isdir(os.path.join(directory, _DIRECTORY))


def planned_seconds(options: t.Mapping[str, t.Any]) -> float:
    """Return how long the synchronous writes take altogether; sequential writing comes on top."""
    settings = len(options["dirty_bytes"]) * len(options["queues"])
    return (
        options["repetitions"]
        * len(options["threads"])
        * (options["seconds"] + settings * (options["seconds"] + _LEAD_SECONDS))
    )


class Host:
    """The knobs of this experiment, which are put back whatever happens."""

    def __init__(self, disk: str, record: HostRecord) -> None:
        self.disk, self.record = disk, record

    def _knob(self, name: str) -> str:
        return f"/sys/block/{self.disk}/queue/{name}"

    def keep(self, options: t.Mapping[str, t.Any]) -> None:
        """Write the originals of all that will be changed to the disk, before anything is."""
        names = sorted({name for queue in options["queues"] for name in queue}, key=lambda name: name != "scheduler")
        knobs = [DIRTY_BYTES, PAIRS[DIRTY_BYTES], *map(self._knob, names)]
        originals = {knob: read_knob(knob) for knob in knobs}
        absent = [knob for knob, value in originals.items() if value is None]
        if absent:
            raise MeasurementError(f"queues: this host has no {', '.join(absent)}")
        self.record.write({"originals": originals})

    def set(self, dirty_bytes: int, queue: t.Mapping[str, t.Any]) -> None:
        """Bring the host to one setting, from the originals on."""
        self._put_back()
        for name in sorted(queue, key=lambda name: name != "scheduler"):  # which gives others new values
            write_knob(self._knob(name), str(queue[name]))
        if dirty_bytes:
            write_knob(DIRTY_BYTES, str(dirty_bytes))

    def _put_back(self) -> bool:
        record = self.record.read()
        originals = (record or {}).get("originals", {})
        for knob in originals:
            if knob != PAIRS[DIRTY_BYTES] and read_knob(knob) != originals[knob]:
                restore_knob(knob, originals)
        if originals and read_knob(PAIRS[DIRTY_BYTES]) != originals[PAIRS[DIRTY_BYTES]]:
            restore_knob(PAIRS[DIRTY_BYTES], originals)
        return record is not None

    def restore(self) -> bool:
        """Put the originals back and forget them; return whether there were any."""
        if not self._put_back():
            return False
        self.record.remove()
        return True


class _Child:
    """The fio that runs now, which must not outlive us."""

    def __init__(self) -> None:
        self.process: t.Any = None

    def remember(self, process: t.Any) -> None:
        self.process = process

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def put_back_also_when_ended(child: _Child) -> t.Iterator[None]:
    """Make signals that end a process raise, so that C(finally) runs, without its child."""

    def leave(signal_number: int, _frame: t.Any) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # what is being put back must not be left half-way
        child.end()
        raise SystemExit(128 + signal_number)

    before = {each: signal.signal(each, leave) for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def measure(
    directory: str, host: Host, options: t.Mapping[str, t.Any], fio: str, run_command: t.Callable
) -> list[dict[str, t.Any]]:
    """Return the figures of each setting, the host's own first; the host is as before afterwards.

    Raises:
        MeasurementError: fio failed.
    """
    place = os.path.join(directory, _DIRECTORY)
    combinations = [(queue, value) for queue in options["queues"] for value in options["dirty_bytes"]]
    figures: dict[int, dict[str, t.Any]] = {
        number_of: {"idle": {}, "flood": {}, "p99_ms": {}, "sequential": []} for number_of in range(len(combinations))
    }
    child = _Child()

    def run_child(*arguments: t.Any, **options: t.Any) -> tuple[int, str, str]:
        return run_command(*arguments, before_communicate_callback=child.remember, **options)

    with put_back_also_when_ended(child):
        try:
            os.mkdir(place, 0o700)
            host.keep(options)
            for dummy in range(options["repetitions"]):
                for number_of, (queue, value) in enumerate(combinations):
                    host.set(value, queue)
                    _measure_setting(place, options, figures[number_of], number_of == 0, fio, run_child)
        finally:
            host.restore()
            shutil.rmtree(place)
    return [_summary(queue, value, figures[number_of]) for number_of, (queue, value) in enumerate(combinations)]


def _measure_setting(
    place: str,
    options: t.Mapping[str, t.Any],
    figures: dict[str, t.Any],
    with_idle: bool,
    fio: str,
    run_command: t.Callable,
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
        os.sync()  # what the flood left would be the next one's


def sequential(path: str, size: int) -> float:
    """Return the bytes per second of writing a file in sequence, until all of it is on the disk."""
    block = os.urandom(_BLOCK)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        begun, left = time.monotonic(), size
        while left > 0:
            left -= os.write(descriptor, block[:left])
        os.fsync(descriptor)
        return size / (time.monotonic() - begun)
    finally:
        os.close(descriptor)


def _sync_writes(
    place: str, options: t.Mapping[str, t.Any], threads: int, flood: bool, fio: str, run_command: t.Callable
) -> tuple[float, float]:
    """Return writes per second and the p99 (milliseconds) of a write with its fsync."""
    status, output, diagnostics = run_command(command(place, options, threads, flood, fio), cwd=place)
    if status != 0:
        raise MeasurementError(f"fio failed: {(diagnostics or output).strip()[-500:]}")
    report = json.loads(output[output.index("{") :])  # warnings may come before
    job = next(each for each in report["jobs"] if each["jobname"] == "sync")
    return job["write"]["iops"], job["sync"]["lat_ns"]["percentile"]["99.000000"] / 1e6


def command(place: str, options: t.Mapping[str, t.Any], threads: int, flood: bool, fio: str) -> list[str]:
    """Return fio's argument vector: small writes at random places with an fsync after each, perhaps beside one sequential writer."""
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


def judged(settings: t.Sequence[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the settings with C(sequential_share), and for each number of threads C(gain), both relative to the host's own."""
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
    """Return the knee: the setting that recovers most synchronous writes and leaves enough of the sequential throughput; or why there is none.

    What counts is the worst of the numbers of threads, as a share of the idle machine's.
    """

    def recovered(setting: t.Mapping[str, t.Any]) -> float:
        return min((each["of_idle"] or 0.0) for each in setting["threads"])

    allowed = [each for each in settings[1:] if each["sequential_share"] >= MIN_SEQUENTIAL]
    if not allowed:
        return None, f"every other setting leaves less than {MIN_SEQUENTIAL:.0%} of the sequential throughput"
    most = max(map(recovered, allowed))
    if most * EQUAL <= recovered(settings[0]):
        return None, "no other setting recovers more synchronous writes than the host's own"
    near = [each for each in allowed if recovered(each) >= most * EQUAL]
    return max(near, key=lambda each: (each["dirty_bytes"] or 2**63, -len(each["queue"]))), ""


def fio_version(text: str) -> str | None:
    """Return fio's version from what it prints."""
    match = re.match(r"^fio-(\S+)", text.strip())
    return match.group(1) if match else None
