# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the latency client once and turn its report into the result of the module C(solotest)."""

from __future__ import annotations

import contextlib
import decimal
import hashlib
import json
import os
import signal
import subprocess
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host import background
from ansible_collections.memstretch.density.plugins.module_utils.host import pressure as memory_pressure
from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.host.files import private_directory
from ansible_collections.memstretch.density.plugins.module_utils.host.locks import is_named, lock_if_free
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, check_numbers
from ansible_collections.memstretch.density.plugins.module_utils.solotest import placement as client_placement
from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram, HistogramError
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import (
    FLAGS,
    POSITIONAL,
    RANGES,
    cpu_choice,
)

SCHEMA = 1

# How long to wait for the end of an execution that an interrupted playbook left behind.
_TAKEOVER_SECONDS = 10.0


class ClientError(Exception):
    """The client cannot be run, or its output cannot be used. The text says what to do."""


def validate(options: t.Mapping[str, t.Any]) -> None:
    """Check the numbers among the options, the CPU and what TLS needs.

    Raises:
        SettingError: one of them is not allowed.
    """
    check_numbers(options, {name: allowed for name, allowed in RANGES.items() if options[name] is not None})
    cpu_choice("cpu", options["cpu"])
    if options["tls"] and options["socket"] is not None:
        raise SettingError(f"tls: not possible with socket: {options['socket']}; Redis has no TLS on a Unix socket")
    for name in ("ca_certs", "client_cert_file", "client_key_file", "tls_server_name"):
        if options[name] is not None and not options["tls"]:
            raise SettingError(f"{name}: {options[name]!r} needs tls: true")


def writes(options: t.Mapping[str, t.Any]) -> bool:
    """Decide whether an execution writes to Redis."""
    return options["mode"] == "fill" or (options["mode"] == "test" and options["read_mix"] < 100)


def execute(options: t.Mapping[str, t.Any], executable: str, run_command: RunCommand) -> dict[str, t.Any]:
    """Run the client and return the module's result, with C(failed) and C(msg) if the client failed.

    Args:
        options: of the module.
        executable: path of the client.
        run_command: AnsibleModule's method.
    """
    # A ping loads nothing, so it may look at an endpoint that is being loaded.
    claim = contextlib.nullcontext() if options["mode"] == "ping" else endpoint_lock(options, executable)
    try:
        with claim as lock:
            measured = run(options, executable, lock, run_command)
    except ClientError as error:
        return {"failed": True, "msg": str(error)}
    result = {"changed": writes(options), "solotest": measured}
    if measured["error"]:
        return {"failed": True, "msg": explain(options, measured["error"]), **result}
    return result


def command(options: t.Mapping[str, t.Any], executable: str, cpu: int | None = None) -> list[str]:
    """Return the client's argument vector, pinned to a CPU if one is given. It never holds the password."""
    argv = [executable, "--json"]
    for option, flag in FLAGS.items():
        value = options[option]
        if value is not None:
            argv.append(f"{flag}={plain(value)}")
    if options["tls"]:
        argv.append("--tls")
        if not options["validate_certs"]:
            argv.append("--insecure")
    if cpu is not None:
        argv.append(f"--cpu={cpu}")
    if options["mode"] == "fill" and not options["overwrite"]:
        argv.append("--protect")
    return argv + [options["mode"], *(plain(options[name]) for name in POSITIONAL)]


def plain(value: t.Any) -> str:
    """Return value as text; a float in full, without an exponent."""
    if isinstance(value, float):
        digits = f"{decimal.Decimal(repr(value)):f}"
        return digits.rstrip("0").rstrip(".") if "." in digits else digits
    return str(value)


@contextlib.contextmanager
def endpoint_lock(options: t.Mapping[str, t.Any], executable: str) -> t.Iterator[int]:
    """Hold the lock that allows one execution to load an endpoint from this host; yield its file descriptor.

    Two loads at the same time would disturb each other's figures. An observer accompanies a load, so it has a lock of
    its own. The client inherits the descriptor, so that the lock lasts as long as the client even if the module is
    killed. Its file is removed unless the client goes on.

    Raises:
        ClientError: another execution holds the lock and must not be ended.
    """
    endpoint, path = _lock_of(options)
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ClientError(f"cannot open the lock file for {endpoint}: {error}") from error
        try:
            if not lock_if_free(handle):
                _end_leftover(handle, endpoint, options["run_id"], executable)
            if not is_named(handle, path):
                continue  # another process has removed it at its end
            os.ftruncate(handle, 0)
            yield handle
            return
        finally:
            os.close(handle)
            remove_lock(options)


def _lock_of(options: t.Mapping[str, t.Any]) -> tuple[str, str]:
    """Return what a lock protects, and the path of its file."""
    endpoint = _endpoint(options) + (" as an observer" if options["observe"] else "")
    digest = hashlib.sha256(endpoint.encode()).hexdigest()[:16]
    try:
        return endpoint, os.path.join(private_directory(), f"solotest-{digest}.lock")
    except OSError as error:
        raise ClientError(f"cannot open the lock file for {endpoint}: {error}") from error


def remove_lock(options: t.Mapping[str, t.Any]) -> None:
    """Remove the lock file of an endpoint, unless a client or another module has it."""
    _endpoint_name, path = _lock_of(options)
    with contextlib.suppress(FileNotFoundError):
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if lock_if_free(handle) and is_named(handle, path):
                os.unlink(path)
        finally:
            os.close(handle)


def _end_leftover(handle: int, endpoint: str, run_id: str | None, executable: str) -> None:
    """End a client that an interrupted playbook of the same run left behind, and take over its lock."""
    deadline = time.monotonic() + _TAKEOVER_SECONDS
    while True:
        owner = _owner(handle)
        if owner and owner["run_id"] != run_id and background.is_running(owner["pid"]):
            raise ClientError(
                f"another solotest (pid {owner['pid']}, {_run_text(owner['run_id'])}) is loading {endpoint} "
                f"from this host; wait until it ends, or end it"
            )
        if owner and run_id and is_running(owner["pid"], executable):
            with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(owner["pid"], signal.SIGTERM)
        time.sleep(0.05)
        if lock_if_free(handle):
            return
        if time.monotonic() > deadline:
            raise ClientError(f"another solotest is loading {endpoint} from this host; wait until it ends, or end it")


def _run_text(run_id: str | None) -> str:
    return f"run {run_id}" if run_id else "without a run"


def _owner(handle: int) -> dict[str, t.Any] | None:
    text = os.pread(handle, 4096, 0)
    try:
        return json.loads(text)
    except ValueError:
        return None  # the owner holds the lock but has not started the client yet


def is_running(pid: int, executable: str) -> bool:
    """Decide whether pid is still the client, and not another process that was given the same number."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return stream.read().split(b"\0")[0] == executable.encode()
    except (FileNotFoundError, ProcessLookupError):
        return False


def run(options: t.Mapping[str, t.Any], executable: str, lock: int | None, run_command: RunCommand) -> dict[str, t.Any]:
    """Run the client to its end and return what the module documents as RV(solotest).

    Raises:
        ClientError: the CPU that was asked for is not possible, the client cannot be started, or its report cannot be
            read.
    """
    cpu = choose_cpu(options, executable, run_command)
    files = memory_pressure.HostFiles()
    before = memory_pressure.snapshot()
    report = _report(options, executable, lock, run_command, cpu)
    pressure = memory_pressure.difference(before, memory_pressure.snapshot())
    placement = client_placement.describe(files, options, report, cpu)
    return facts(report, options["phase"], pressure, placement)


def choose_cpu(options: t.Mapping[str, t.Any], executable: str, run_command: RunCommand) -> int | None:
    """Return the CPU to which the client is pinned; None if it may run on any.

    Raises:
        ClientError: the CPU that was asked for is not possible.
    """
    try:
        return client_placement.place(
            memory_pressure.HostFiles(), options, lambda: _process_id(options, executable, run_command)
        )
    except client_placement.PlacementError as error:
        raise ClientError(str(error)) from error


def _process_id(options: t.Mapping[str, t.Any], executable: str, run_command: RunCommand) -> int | None:
    """Ask Redis for its process id.

    Raises:
        ClientError: Redis does not answer.
    """
    ping = {**options, "mode": "ping", "start_at": None, "raw_samples": None}
    report = _report(ping, executable, None, run_command, None)
    if report["error"]:
        raise ClientError(explain(options, report["error"]))
    return (report["server_before"] or {}).get("process_id")


def _report(
    options: t.Mapping[str, t.Any], executable: str, lock: int | None, run_command: RunCommand, cpu: int | None
) -> dict[str, t.Any]:
    """Run the client and return its report.

    Raises:
        ClientError: the client cannot be started, or its report cannot be read.
    """

    def write_owner(process: subprocess.Popen[bytes]) -> None:
        if lock is not None:
            os.pwrite(lock, json.dumps({"pid": process.pid, "run_id": options["run_id"]}).encode(), 0)

    try:
        status, output, diagnostics = run_to_end(
            run_command,
            command(options, executable, cpu),
            environ_update={} if options["password"] is None else {"SOLOTEST_PASSWORD": options["password"]},
            pass_fds=() if lock is None else (lock,),
            before_communicate_callback=write_owner,
            expand_user_and_vars=False,
            handle_exceptions=False,
        )
    except OSError as error:
        raise ClientError(
            f"cannot run the client {executable}: {error.strerror}; is it built for this host?"
        ) from error
    try:
        report = json.loads(output)
    except ValueError:
        ended = f"status {status}" if status >= 0 else f"signal {-status}"  # as subprocess has it
        raise ClientError(
            f"the client {executable} printed no result and ended with {ended}: {diagnostics.strip()[-800:]}"
        ) from None
    if report.get("schema") != SCHEMA:
        raise ClientError(
            f"the client {executable} reports with schema {report.get('schema')}, this module reads schema {SCHEMA}; "
            f"install the client of this collection's version"
        )
    return report


def facts(
    report: dict[str, t.Any], phase: str | None, pressure: dict[str, t.Any], placement: dict[str, t.Any]
) -> dict[str, t.Any]:
    """Turn the client's report into the module's result, with encoded histograms and latencies in microseconds.

    Raises:
        ClientError: a histogram in the report is damaged.
    """
    test = report["test"] or {}
    span = report["test"] or report["fill"] or {}
    series = test.get("series")
    return {
        "schema": SCHEMA,
        "mode": report["mode"],
        "phase": phase,
        "settings": {name: value for name, value in report["settings"].items() if value is not None},
        "machine": _boot_id(),
        "kernel": _kernel() if report["mode"] == "ping" else None,
        "memory": _free_memory() if report["mode"] == "ping" else None,
        "wall_offset": wall_offset(),
        "client": report["client"],
        "server": {"before": report["server_before"], "after": report["server_after"]},
        "started_at": span.get("started_at"),
        "finished_at": span.get("finished_at"),
        "ready_at": test.get("ready_at"),
        "seconds": span.get("seconds"),
        "cut_off": test.get("cut_off"),
        "requests": test.get("requests"),
        "rate": test.get("rate"),
        "latency": latency(test) or None,
        "hot_set": test.get("hot_set"),
        "series": series
        and {
            "interval_s": series["interval_s"],
            "points": [[count] + [round(value / 1000, 1) for value in rest] for count, *rest in series["points"]],
        },
        "fill": report["fill"],
        "health": report["client_health"],
        "placement": placement,
        "pressure": pressure,
        "error": report["error"],
    }


def latency(test: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the figures of each latency of a test.

    Raises:
        ClientError: a histogram is damaged.
    """
    try:
        return {
            name: Histogram.from_slots(each["buckets"], each["sum_ns"], each["min_ns"], each["max_ns"]).figures()
            for name, each in (test.get("latency") or {}).items()
        }
    except HistogramError as error:
        raise ClientError(f"the client printed a damaged histogram: {error}") from None


def wall_offset() -> float:
    """Return the wall clock minus the monotonic clock, in seconds. It changes only when the wall clock is set.

    The clocks are read one after another, five times, and the reading during which the least time passed counts.
    """
    readings = [
        (time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.time_ns(), time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        for _reading in range(5)
    ]
    before, wall, after = min(readings, key=lambda reading: reading[2] - reading[0])
    return (wall - (before + after) // 2) / 1e9


def _kernel() -> dict[str, t.Any]:
    """Read how the kernel treats a client that sleeps, and memory, before anything is measured."""
    files = memory_pressure.HostFiles()
    return {
        "cmdline": files.text("/proc/cmdline", 2000),
        # 1 ns with high-resolution timers, otherwise a tick: then sleeps end only at ticks.
        "timer_resolution_ns": round(time.clock_getres(time.CLOCK_MONOTONIC) * 1e9),
        "swap_bytes": memory_pressure.meminfo(files).get("SwapTotal"),
    }


def _free_memory() -> dict[str, int]:
    """Return the memory that this host can give without swapping, and its free swap space, in bytes."""
    with open("/proc/meminfo", encoding="ascii") as stream:
        lines = dict(line.split(":", 1) for line in stream)
    return {
        name: int(lines[key].split()[0]) * 1024
        for name, key in (("available_bytes", "MemAvailable"), ("swap_free_bytes", "SwapFree"))
    }


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        return stream.read().strip()


def _endpoint(options: t.Mapping[str, t.Any]) -> str:
    return options["socket"] or f"{options['host']}:{options['port']}"


def explain(options: t.Mapping[str, t.Any], error: t.Mapping[str, str]) -> str:
    """Return a message that names the endpoint, the error and what to do."""
    advice = {
        "connect": "is Redis running there, and is the endpoint right?",
        "no_client": "it runs, but has no connection left; raise its maxclients, or end other clients.",
        "auth": "check username and password.",
        "tls": "does it speak TLS on this port, and are ca_certs, client_cert_file and tls_server_name right?",
        "not_ready": "it accepted a connection, but failed before the first request of the load; see its log.",
        "refused_foreign_data": "use an empty Redis, or delete all its data with overwrite: true.",
        "lost": "Redis closed the connection or died under the load; see its log.",
        "timeout": "Redis did not answer in time under the load; see its log and the host's memory pressure.",
        "reply": "Redis answered with errors; see requests.errors.",
        "value_size": "use the value_size of the fill.",
        "resources": "free memory on the client's host, or raise the limits of its user.",
        "late": "the client heard of the start too late, or was held up by the phase before; a larger "
        "latency_benchmark_lead_seconds gives it more time, and the host's memory pressure may tell why.",
        "interrupted": "the client was ended by a signal.",
    }.get(error["kind"], "")
    return f"Redis {_endpoint(options)}: {error['message']}".rstrip(".") + (f": {advice}" if advice else "")
