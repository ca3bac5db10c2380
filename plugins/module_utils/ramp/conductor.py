# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conductor of a ramp: one process on a machine that starts, fills and loads its servers step by step.

It holds the fleet within its DRAM budget, looks at each size for a window, and writes one JSON line a window into its
stream, from which the controller reads. It ends with the ramp, when the controller's lease lapses, when it is told to
stop, or by SIGTERM; then nothing that it started is left.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import signal
import time
import traceback
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host import children
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.ramp import decisions, groups
from ansible_collections.memstretch.density.plugins.module_utils.ramp.clients_lease import ClientsLease
from ansible_collections.memstretch.density.plugins.module_utils.ramp.kernel_words import KernelWords
from ansible_collections.memstretch.density.plugins.module_utils.ramp.machine import Machine, sample
from ansible_collections.memstretch.density.plugins.module_utils.ramp.members import (
    Member,
    ServerError,
    Shared,
    end_of,
    load_of,
)
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import (
    Plan,
    Server,
    first_size,
    following,
    window_seconds,
)
from ansible_collections.memstretch.density.plugins.module_utils.ramp.touch import Touch
from ansible_collections.memstretch.density.plugins.module_utils.ramp.window import (
    encoded,
    figures,
    second_of,
    was_steady,
)

STREAM, STOP, LEASE, CLIENTS_LEASE = "stream", "stop", "lease", "clients.lease"
# Kinds of ends.
KILLED, DOES_NOT_FIT, MISSED, HOSTS, INTERRUPTED, ERROR = (
    "killed",
    "does_not_fit",
    "missed",
    "hosts",
    "interrupted",
    "error",
)
# What goes on all the time is done so often: while servers join, while they settle, and in a window, where each look
# takes a CPU from them.
_JOIN_TICK_S, _TICK_S, _WINDOW_TICK_S = 0.01, 0.05, 0.25
# Clients, and what was written to drives, are checked so often.
_CHECK_S = 1.0
# Reclaim is looked at so often, and judged over one second.
_SETTLE_LOOK_S, _SETTLED_OVER_S = 0.25, 1.0
# A client prints a part of a window when its requests are answered, at the latest at the end of the next part.
_REPORT_SECONDS = 1.5
_QUIET_S = 2.0
# A server that was killed during its fill is tried once more after this time at most.
_BEFORE_RETRY_S = 5.0
# A tier that was used to this share in the last looks was full: a server that is killed frees its part at once.
_FULL, _FULL_LOOKS = 0.98, 20
# So many windows in a row above the budget end the ramp.
_OVER_BUDGET = 3
# The first servers of a ramp show what one takes.
_FIRST = 2
_END_SECONDS, _SHUTDOWN_SECONDS = 2.0, 60.0


class _Ended(Exception):
    """The ramp ends: C(kind), C(n) the size that did not hold or was looked at last, C(host) and C(message)."""

    def __init__(self, kind: str, n: int, host: str | None, message: str) -> None:
        super().__init__(message)
        self.end = {"kind": kind, "n": n, "host": host, "machine": None, "message": message}


class _NewcomerKilledError(Exception):
    """C(member) has ended before its step had settled."""

    def __init__(self, member: Member) -> None:
        super().__init__(member.name)
        self.member = member


class Conductor:
    """Conducts one ramp.

    Args:
        plan: of it.
        directory: of its files; the stream and the lease are there already.
        fleet, outside: the control groups of the fleet and of the references.
    """

    def __init__(self, plan: Plan, directory: str, fleet: groups.RampGroup, outside: groups.RampGroup) -> None:
        self._plan, self._directory = plan, directory
        self._tier_bytes = 0
        self._fleet, self._outside = fleet, outside
        self._machine = Machine(fleet.name, fleet)
        self._clients_lease = ClientsLease(os.path.join(directory, CLIENTS_LEASE), plan.lease_seconds)
        self._shared = Shared(plan, directory, self._clients_lease)
        self._keeper: groups.BudgetKeeper | None = None
        self._members: list[Member] = []
        self._filling: list[Member] = []
        self._references: list[Member] = []
        self._attempts: dict[str, int] = {}
        self._kills = decisions.Kills()
        self._stream = os.open(
            os.path.join(directory, STREAM), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        self._kernel = KernelWords(fleet.name)
        self._signalled = False
        self._lease: tuple[float, float] = (0.0, time.monotonic())
        self._checked = 0.0
        self._written_before = self._written_last = self._machine.written_bytes()
        self._used_before = self._machine.used()
        self._tier_used: collections.deque[float] = collections.deque([0.0], _FULL_LOOKS)
        self._looked_at, self._over, self._waited = 0, 0, 0.0
        self._curve, self._misses = decisions.Curve(), decisions.Misses(plan.objective, plan.has_drive)

    def run(self) -> None:
        """Conduct the ramp to its end, leave nothing running, and write how it ended."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        try:
            end = self._conduct()
        except _Ended as ended:
            end = ended.end
        except (BudgetError, ServerError, OSError) as error:
            end = _Ended(ERROR, len(self._members), None, str(error)).end
        except Exception:
            end = _Ended(ERROR, len(self._members), None, traceback.format_exc()).end
        realtime = None
        try:
            realtime = self._end_processes()
        except Exception:
            end = _Ended(ERROR, end["n"], None, f"{end['message']}; at the end: {traceback.format_exc()}").end
        used = os.times()
        self._write(
            {
                "event": "end",
                "at": time.time(),
                "end": end,
                "realtime": realtime,
                "conductor_cpu_seconds": round(used.user + used.system, 3),
                "reclaim_cpu_seconds": round(self._reclaim_cpu(), 3),
                "written_bytes": self._written(),
            }
        )
        os.close(self._stream)

    def linger(self) -> None:
        """Keep the stream until the controller has removed it, or its lease lapses; then remove what is left."""
        while os.path.isdir(self._directory) and not self._lapsed():
            time.sleep(_TICK_S)
        remove(self._directory)

    # --- the ramp ----------------------------------------------------------------------------------------------

    def _conduct(self) -> dict[str, t.Any]:
        self._begin()
        size: int | None = self._first()
        while size is not None:
            self._step(size)
            size = following(self._plan, size, self._misses.near, self._misses.leap)
        self._hold(self._looked_at)
        return _Ended(HOSTS, self._looked_at, None, "no more servers").end

    def _begin(self) -> None:
        """Make the groups, start the references, and say with which settings."""
        plan, swappiness = self._plan, HostFiles().number("/proc/sys/vm/swappiness") or 0
        self._tier_bytes = sum(area["size_bytes"] for area in groups.areas(plan.tier).tier)
        self._fleet.create(plan.budget_bytes, swappiness, self._tier_bytes)
        self._outside.create(None, swappiness, 0)
        self._outside.protect()
        if plan.tier:
            self._keeper = groups.BudgetKeeper(self._fleet, plan.budget_bytes, self._machine.outside)
            self._machine.reclaim = self._keeper
            self._keeper.start()
        self._clients_lease.start()
        settings = {"fleet": self._fleet.settings(), "references": self._outside.settings()}
        self._write({"event": "started", "at": time.time(), "groups": settings, "tier_bytes": self._tier_bytes})
        self._start_references()

    def _first(self) -> int:
        """Return the size of the first step; the first servers join for it."""
        plan = self._plan
        if plan.sizes:
            return plan.sizes[0]
        filled = min(_FIRST, len(plan.servers))
        self._grow(filled)
        charged = self._machine.charged_bytes()
        if charged is None:
            raise BudgetError("this kernel does not report the charged DRAM of the fleet; name the sizes of the steps")
        return first_size(plan.budget_bytes, charged, filled, len(plan.servers))

    def _step(self, size: int) -> None:
        began = time.monotonic()
        try:
            steady, settle_seconds = self._grow(size)
        except _Ended as ended:
            if ended.end["kind"] != DOES_NOT_FIT or len(self._members) <= self._looked_at:
                raise
            # Some of this step fit: their figures are the last before the wall.
            joined = time.monotonic()
            self._look(len(self._members), joined - began, *self._settle())
            raise
        self._look(len(self._members), time.monotonic() - began - settle_seconds, steady, settle_seconds)

    def _grow(self, size: int) -> tuple[bool, float]:
        """Let servers join until there are so many, or reclaim is not steady any more; return what _settle() does.

        Until they have settled, they are killed before all others, and tried once more. After the first kill of a ramp
        they join one at a time.
        """
        while True:
            try:
                with self._room():
                    self._fill(self._next(size))
                found = self._settle()
            except _NewcomerKilledError as killed:
                self._take_kill(killed.member)
                self._settle(_BEFORE_RETRY_S)
                continue
            for member in self._newcomers():
                member.spare()
            if len(self._members) >= size or not found[0]:
                return found

    def _next(self, size: int) -> list[Server]:
        """Return the servers that join next: all that are missing for a size, or the first of them alone."""
        there = {member.name for member in self._members}
        missing = [server for server in self._plan.servers[:size] if server.name not in there]
        return missing[:1] if self._kills.alone else missing

    def _fill(self, servers: t.Sequence[Server]) -> None:
        """Let servers start, be filled and loaded, a few at a time."""
        waiting, order = list(servers), self._plan.servers
        while waiting or self._filling:
            while waiting and len(self._filling) < max(2, os.cpu_count() or 1):
                server = waiting.pop(0)
                self._attempts[server.name] = 1 + self._attempts.get(server.name, 0)
                self._filling.append(Member(server, self._shared, self._fleet, self._attempts[server.name]))
            joined = [member for member in self._filling if member.advance()]
            self._filling = [member for member in self._filling if member not in joined]
            self._members = sorted(self._members + joined, key=lambda member: order.index(member.server))
            self._tick(_JOIN_TICK_S)

    @contextlib.contextmanager
    def _room(self) -> t.Iterator[None]:
        """Keep more room below the limit in the meantime. No window may have that much."""
        if self._keeper:
            self._keeper.make_room(True)
        try:
            yield
        finally:
            if self._keeper:
                self._keeper.make_room(False)

    def _take_kill(self, member: Member) -> None:
        """Take it that a newcomer was killed: all newcomers end, to join alone. End the ramp if it does not fit."""
        newcomers = self._newcomers()
        self._members = [each for each in self._members if not each.is_newcomer]
        self._filling = []
        end_of(newcomers, 0, lambda: self._tick(_TICK_S))
        if not member.redis.was_killed:
            raise ServerError(f"{member.name} has ended before its step had settled: {member.redis.says()}")
        why, others = self._why(member), len(newcomers) - 1
        if self._kills.add(member.name, others):
            raise _Ended(
                DOES_NOT_FIT, len(self._members) + 1, member.name, f"killed twice while it joined alone: {why}"
            )
        beside = f"with {others} other{'s' if others > 1 else ''}" if others else "alone"
        text = f"{member.name} was killed while it joined {beside}, and is tried once more: {why}"
        self._write({"event": "note", "text": text})

    def _newcomers(self) -> list[Member]:
        return [member for member in self._members + self._filling if member.is_newcomer]

    def _start_references(self) -> None:
        """Start, fill and load the references, outside of the budget."""
        waiting = [Member(server, self._shared, self._outside) for server in self._plan.references]
        self._references = list(waiting)
        while waiting:
            waiting = [member for member in waiting if not member.advance()]
            self._tick(_JOIN_TICK_S)
        for member in self._references:
            member.spare()

    def _settle(self, at_most: float | None = None) -> tuple[bool, float]:
        """Wait until reclaim is steady; return whether it is, and how long that took.

        Args:
            at_most: seconds; None for those of the plan.
        """
        limit = self._plan.settle_seconds if at_most is None else min(at_most, self._plan.settle_seconds)
        began = time.monotonic()
        readings = [self._machine.paging()]
        while True:
            self._wait(_SETTLE_LOOK_S)
            readings.append(self._machine.paging())
            took = readings[-1][0] - readings[0][0]
            if took >= _SETTLED_OVER_S:
                rates = [(after - before) / took for before, after in zip(readings[0][1:], readings[-1][1:])]
                steady = decisions.is_steady(*rates) and self._is_within()
                elapsed = time.monotonic() - began
                if steady or elapsed >= limit:
                    return steady, elapsed
                readings.pop(0)

    def _is_within(self) -> bool:
        return decisions.is_within(self._machine.charged_bytes(), self._plan.budget_bytes)

    def _look(self, size: int, join_seconds: float, settled: bool, settle_seconds: float) -> None:
        """Look at a size until a window is clean, or the ramp has waited long enough."""
        about = {
            "settled": settled,
            "settle_seconds": round(settle_seconds, 2),
            "join_seconds": round(join_seconds, 2),
        }
        look = 1
        while not (clean := self._is_clean(size, "step", {"look": look, **about})) or self._misses.look_again:
            looks = decisions.looks(self._plan.looks, self._waited, self._plan.wait_seconds)
            if not self._misses.look_again and look >= looks and not self._wait_for_quiet():
                return
            look += 1
            if not clean:
                self._waited += window_seconds(self._plan, size)

    def _hold(self, size: int) -> None:
        """Look at one size for a long time."""
        until = time.monotonic() + self._plan.hold_seconds
        look = 0
        while time.monotonic() < until:
            look += 1
            self._is_clean(size, "hold", {"look": look, "settle_seconds": 0.0, "join_seconds": 0.0})
        if look and self._plan.touch_seconds:
            self._touch(size)

    def _touch(self, size: int) -> None:
        """Touch all servers of a fleet at once, and write what each of the seconds after that was like."""
        begin = int(time.time()) + 1
        end = begin + self._plan.touch_seconds
        self._wait_until(begin)
        touch = Touch([member.login for member in self._members], self._plan.load["keys"])
        self._wait_until(end)
        self._wait_for_reports(begin, end)
        seconds = [[member.seconds(begin, end) for member in members] for members in (self._members, self._references)]
        found = {
            "n": size,
            "started_at": float(begin),
            "touched_seconds": touch.seconds and round(touch.seconds, 2),
            "seconds": [second_of(second, *seconds) for second in range(begin, end)],
        }
        self._write({"event": "touch", "touch": found})

    def _is_clean(self, size: int, kind: str, about: t.Mapping[str, t.Any]) -> bool:
        """Look for a window, write it, and return whether it was clean; end the ramp if it shows that it must end."""
        window, seen = self._window(size)
        machine = window["machines"][""]
        about = {"settled": was_steady(window), **about}
        why = decisions.disturbed(machine, self._plan.stolen_limit) or self._curve.left(size, seen)
        self._curve.add(size, seen, bool(why))
        self._write({"event": "window", "window": {**window, **about, "kind": kind, "disturbed": why or None}})
        self._looked_at = size
        self._end_if_over(size, machine, about["settled"])
        missed = self._misses.add(size, None if why else seen)
        if missed:
            raise _Ended(MISSED, size, None, missed)
        return not why

    def _end_if_over(self, size: int, machine: t.Mapping[str, t.Any], settled: bool) -> None:
        """End the ramp if the budget cannot be met, at once where reclaim has had all its time."""
        if machine["other_swap_grew"] and self._plan.tier:
            share = f"{100 * max(self._tier_used):.0f} % of the tier is in use"
            raise _Ended(DOES_NOT_FIT, size, None, f"pages went to a swap area of the machine's own; {share}")
        charged = machine["charged_bytes"]
        self._over = 0 if decisions.is_within(charged, self._plan.budget_bytes) else self._over + 1
        if self._over >= _OVER_BUDGET or (self._over and not settled):
            budget = self._plan.budget_bytes
            raise _Ended(
                DOES_NOT_FIT,
                size,
                None,
                f"the budget cannot be met: {charged or 0:,} bytes are charged, {budget:,} are allowed",
            )

    def _wait_for_quiet(self) -> bool:
        """Wait until no CPU loses time; return False once the ramp has waited as long as it may."""
        quiet_since = time.monotonic()
        before = self._machine.cpus()
        while self._waited < self._plan.wait_seconds:
            began = time.monotonic()
            self._wait(min(1.0, self._plan.wait_seconds - self._waited))
            self._waited += time.monotonic() - began
            now = self._machine.cpus()
            if any(after.stolen > earlier.stolen for earlier, after in zip(before, now)):
                quiet_since = time.monotonic()
            before = now
            if time.monotonic() - quiet_since >= _QUIET_S:
                return True
        return False

    def _window(self, size: int) -> tuple[dict[str, t.Any], decisions.Figures]:
        """Look for one window, and return it with its figures."""
        seconds = window_seconds(self._plan, size)
        loaded = [member.loaded_from for member in self._members + self._references]
        begin = int(max([time.time() + 1, *loaded]))
        if self._keeper:
            self._keeper.freeze(True)
        self._wait_until(begin)
        moments = [self._machine.moment()]
        for second in range(1, seconds + 1):
            self._wait_until(begin + second)
            moments.append(self._machine.moment())
        if self._keeper:
            self._keeper.freeze(False)
        self._wait_for_reports(begin, begin + seconds)
        hosts, references = (
            {member.name: load_of(self._reported(member, begin, begin + seconds)) for member in members}
            for members in (self._members, self._references)
        )
        drives = self._machine.drives() if self._plan.tier else []
        machine = sample(moments, self._plan.tier, self._tier_bytes, drives, self._used_before)
        window = {
            "n": size,
            "started_at": float(begin),
            "seconds": float(seconds),
            "hosts": {name: encoded(load) for name, load in hosts.items()},
            "references": {name: encoded(load) for name, load in references.items()},
            "machines": {"": machine},
        }
        return window, figures(hosts, references, machine, moments)

    def _wait_for_reports(self, begin: int, end: int) -> None:
        everybody = self._members + self._references
        deadline = time.time() + _REPORT_SECONDS
        while time.time() < deadline:
            if all(len(self._reported(member, begin, end)) == end - begin for member in everybody):
                return
            self._wait(_TICK_S)

    def _reported(self, member: Member, begin: int, end: int) -> list[dict[str, t.Any]]:
        """Return what the client of one server has reported. That of all takes half a minute on a slow machine."""
        self._clients_lease.show_life()
        return member.parts(begin, end)

    # --- what goes on all the time -------------------------------------------------------------------------------

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._tick(min(left, _TICK_S))

    def _wait_until(self, at: float) -> None:
        """Wait for a time in seconds since 1970, and tick at least once: on full CPUs it may be over already."""
        self._tick(0)
        while (left := at - time.time()) > 0:
            self._tick(min(left, _WINDOW_TICK_S))

    def _tick(self, seconds: float) -> None:
        """Sleep a little, show the clients' lease that this goes on, and end the ramp if it must end."""
        time.sleep(seconds)
        self._clients_lease.show_life()
        if self._plan.tier:
            self._tier_used.append(self._machine.tier_used(self._plan.tier))
        due = time.monotonic() - self._checked >= _CHECK_S
        if due:
            self._checked = time.monotonic()
            self._end_if_worn()
        if self._signalled:
            raise _Ended(INTERRUPTED, self._looked_at, None, "ended by a signal")
        if self._lapsed():
            raise _Ended(INTERRUPTED, self._looked_at, None, "the controller has not been heard of: its lease is over")
        stop = HostFiles().text(os.path.join(self._directory, STOP), 2000)
        if stop is not None:
            kind = MISSED if stop.startswith(MISSED) else INTERRUPTED
            raise _Ended(kind, self._looked_at, None, stop)
        if due or children.has_ended():
            self._check_members()

    def _end_if_worn(self) -> None:
        """End the ramp before it writes more to drives than it may, as the last second shows."""
        before, self._written_last = self._written_last, self._machine.written_bytes()
        if self._written() + self._written_last - before > self._plan.written_bytes:
            raise _Ended(
                HOSTS,
                self._looked_at,
                None,
                f"{self._written():,} bytes were written to swap on a drive, and a ramp may write "
                f"{self._plan.written_bytes:,}",
            )

    def _written(self) -> int:
        # Pages that are on their way to zram are counted at one end only.
        return max(0, self._written_last - self._written_before)

    def _check_members(self) -> None:
        for member in self._members + self._filling + self._references:
            if not member.redis.ended():
                member.check()
                continue
            member.refuse_taken_port()  # somebody has taken it since the launch
            if member in self._references:
                raise ServerError(f"{member.name}, which is outside of the budget: {self._kernel_words(member)}")
            if member.is_newcomer:
                raise _NewcomerKilledError(member)
            raise _Ended(KILLED, len(self._members), member.name, self._why(member))

    def _lapsed(self) -> bool:
        """Return whether the controller has not touched its lease for too long. Only a change of its time counts."""
        try:
            touched = os.stat(os.path.join(self._directory, LEASE)).st_mtime
        except FileNotFoundError:
            return True
        if touched != self._lease[0]:
            self._lease = (touched, time.monotonic())
        return time.monotonic() - self._lease[1] > self._plan.lease_seconds

    def _on_signal(self, _number: int, _frame: t.Any) -> None:
        self._signalled = True

    def _reclaim_cpu(self) -> float:
        return self._keeper.cpu_s if self._keeper else 0.0

    def _why(self, member: Member) -> str:
        """Return why a server has ended: the kernel's own words, and whether there was no room left in the tier."""
        full = max(self._tier_used) >= _FULL
        room = f"the tier of {self._tier_bytes:,} bytes is full, a larger one may carry more. " if full else ""
        return room + self._kernel_words(member)

    def _kernel_words(self, member: Member) -> str:
        """Return the kernel's own words on the end of a server."""
        redis = member.redis
        silent = f"{member.name} ended {redis.how()}; the kernel has said nothing about it. {redis.says()}".strip()
        return self._kernel.on(redis.pid, redis.was_killed) or silent

    def _write(self, line: t.Mapping[str, t.Any]) -> None:
        # One write for one line, so that a reader sees whole lines only.
        os.write(self._stream, (json.dumps(line, separators=(",", ":")) + "\n").encode())

    # --- the end -----------------------------------------------------------------------------------------------

    def _end_processes(self) -> bool | None:
        """End all servers and clients and remove the groups; return whether all clients ran in real time."""
        everybody = self._members + self._filling + self._references
        clients = [member.client for member in everybody if member.client]
        children.end(clients, signal.SIGTERM, _END_SECONDS)
        self._clients_lease.stop()
        realtime = [_is_realtime(member.report()) for member in everybody]
        if self._keeper:
            self._keeper.stop()  # not while the limit is lowered
        try:
            end_of(everybody, _SHUTDOWN_SECONDS, lambda: time.sleep(_TICK_S))
        finally:
            for group in (self._fleet, self._outside):
                group.destroy()
        known = [each for each in realtime if each is not None]
        return all(known) if known else None


def _is_realtime(report: t.Mapping[str, t.Any] | None) -> bool | None:
    health = (report or {}).get("client_health")
    return None if not health else bool(health.get("realtime"))


def remove(directory: str) -> None:
    """Remove the files of a ramp."""
    try:
        for entry in os.scandir(directory):
            os.unlink(entry.path)
        os.rmdir(directory)
    except FileNotFoundError:
        return
