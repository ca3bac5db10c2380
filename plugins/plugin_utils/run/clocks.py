# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the clocks of the hosts held: they are compared with the controller's before, during and after a run.

A client computes latencies with its own clock. A VM that is paused or migrated stops that clock, so the client misses a
stall that every user saw. And a clock that was set makes hosts look synchronous that were not. Both move the host's
clock against the controller's. An exchange with a host strictly bounds its offset: the host read its clock between
the moments at which the controller sent the command and had the answer.
"""

from __future__ import annotations

import re
import typing as t

# The largest difference in speed of two clocks that are not set, as a share: 100 ppm. Crystals have 10 to 50 ppm.
DRIFT = 100e-6
# Stamps are rounded to microseconds; this is far above that and far below what matters.
MARGIN_SECONDS = 0.001
# By how much, in seconds, the wall clock of a host may have been set since its offset was measured.
MAX_STEP = 0.001

# Prints the time of a host as this module reads it: in a line of its own, whatever its login prints before.
COMMAND = "printf '\\n%s\\n' \"$(date +%s.%N)\""
# float() would also take nan and inf, which pass every comparison with a limit.
_SECONDS = re.compile(r"[0-9]{1,11}\.[0-9]{1,9}")

_CAUSES = (
    "a VM that is paused or migrated stops its clock and hides that time from its latencies, and a clock that is set "
    "does not start with the others; run again while neither happens"
)


class Reading(t.NamedTuple):
    """One comparison of a host's clock with the controller's.

    Attributes:
        at: when, by the controller's clock, in seconds since the epoch.
        offset: the host's clock minus the controller's, in seconds.
        uncertainty: the largest possible error of the offset, in seconds.
    """

    at: float
    offset: float
    uncertainty: float


def read(before: float, after: float, text: str) -> Reading | None:
    """Return the reading from what COMMAND printed on a host; None if that is not a time.

    Args:
        before: the controller's time when the command was sent, in seconds since the epoch.
        after: the same when its output had arrived.
        text: the output.
    """
    lines = text.strip().splitlines()
    if not lines or not _SECONDS.fullmatch(lines[-1]):
        return None
    return Reading(
        round(after, 6), round(float(lines[-1]) - (before + after) / 2, 6), round(abs(after - before) / 2, 6)
    )


def reading_of(measured: t.Mapping[str, t.Any]) -> Reading:
    """Return the reading in a result of the action solotest_schedule, or in the fleet of run.json."""
    return Reading(*(float(measured[f"clock_{name}"]) for name in ("read_at", "offset", "uncertainty")))


def moved(earlier: Reading, later: Reading) -> float | None:
    """Return by how many seconds a host's clock has moved against the controller's; None if it may have held."""
    change = later.offset - earlier.offset
    drift = DRIFT * abs(later.at - earlier.at)
    return change if abs(change) > earlier.uncertainty + later.uncertainty + drift + MARGIN_SECONDS else None


class HostClocks:
    """The clocks of a fleet while one session of a run is measured.

    Args:
        fleet: what the preflight measured on each host before the run. A host without C(clock_read_at) is not compared
            with the controller, and one without C(wall_offset) not with itself.

    Attributes:
        corrections: what is subtracted from the stamps of each host, in seconds.
        before: the readings before the run.
    """

    def __init__(self, fleet: t.Mapping[str, t.Mapping[str, t.Any]]) -> None:
        self.corrections: dict[str, float] = {host: each["clock_correction"] for host, each in fleet.items()}
        self.before = {host: reading_of(each) for host, each in fleet.items() if "clock_read_at" in each}
        self._wall_offsets = {host: each["wall_offset"] for host, each in fleet.items() if "wall_offset" in each}
        self._last = dict(self.before)

    def problems(self, host: str, result: t.Mapping[str, t.Any], begun_at: float) -> list[str]:
        """Explain why the times of a host cannot be used; none if they can.

        Args:
            host: its name.
            result: of the host; C(collected) is the reading that was taken with it.
            begun_at: when the controller began to launch the phase, in seconds since the epoch.
        """
        return self._set(host, result) + self._moved(host, result, begun_at)

    def _set(self, host: str, result: t.Mapping[str, t.Any]) -> list[str]:
        """Return by how much the clock of a host was set since the preflight: then its times are not comparable."""
        now, then = result.get("wall_offset"), self._wall_offsets.get(host)
        if now is None or then is None or abs(now - then) <= MAX_STEP:
            return []
        return [
            f"its clock was set by {now - then:+.3f} s since the preflight, so it did not start with the others; run "
            f"again when the clock is right, and let chrony slew it (no makestep) while you measure"
        ]

    def _moved(self, host: str, result: t.Mapping[str, t.Any], begun_at: float) -> list[str]:
        """Decide whether the clock of a host moved against the controller's."""
        first = self.before.get(host)
        if first is None:
            return []
        if not result.get("collected"):
            return [f"its clock could not be read with its result: {COMMAND} printed no time on it"]
        now = Reading(**result["collected"])
        last, self._last[host] = self._last[host], now
        # The last reading allows for less drift; the first one is that which the stamps are corrected by.
        change = moved(last, now) or moved(first, now)
        if change:
            return [
                f"its clock moved by {change:+.3f} s against the controller's before the end of this phase: {_CAUSES}"
            ]
        return self._outside(host, result, begun_at, now)

    def _outside(self, host: str, result: t.Mapping[str, t.Any], begun_at: float, now: Reading) -> list[str]:
        """List the stamps of a host that are not between launch and collection."""
        first = self.before[host]
        # The correction is 0 for an offset within its uncertainty, so it may be wrong by twice that.
        allowed = 2 * first.uncertainty + DRIFT * abs(now.at - first.at) + MARGIN_SECONDS
        for name in ("ready_at", "started_at", "finished_at"):
            if result.get(name) is None:
                continue
            stamp = result[name] - self.corrections[host]
            early, late = begun_at - stamp, stamp - now.at
            if max(early, late) > allowed:
                how = f"{early:.3f} s before the launch" if early > late else f"{late:.3f} s after the collection"
                return [f"its {name} is {how} by the controller's clock, so its times are wrong: {_CAUSES}"]
        return []


def changes(run: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return for each host whose clock did not hold until the end of a run what happened.

    Args:
        run: run.json. Sessions that were interrupted have no clocks measured after the last phase.
    """
    found: dict[str, str] = {}
    for session in run.get("sessions", []):
        for host, clock in (session.get("clocks") or {}).items():
            if "error" in clock["after"]:
                found[host] = (
                    f"its clock could not be measured again after the last phase: {clock['after']['error']}; "
                    f"run again when the host can be reached"
                )
                continue
            change = moved(Reading(**clock["before"]), Reading(**clock["after"])) if clock["before"] else None
            if change:
                found[host] = f"its clock moved by {change:+.3f} s against the controller's during the run: {_CAUSES}"
    return found
