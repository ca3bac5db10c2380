# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run what CI runs: make test, then the long lanes in the order of their worth, as far as they fit into CI's time.

A lane begins only if what is left is enough for it on a machine as slow as make test has shown. One that is not
finished when the time is over is ended, and has failed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import typing as t

# CI ends a run after 90 minutes. The rest is for what a lane that is ended leaves to undo.
LIMIT_S = 87 * 60
UNDO_S = 90
# What make test should take on two quiet CPUs, and how many times as long as expected a lane may take.
TEST_S = 12 * 60
PATIENCE = 1.5
# Minutes on two quiet CPUs, estimated for client-long, in the order in which they run.
LONG_LANES = {
    "local-long": 20,
    "fleet-long": 5,
    "unit-long": 1,
    "client-long": 3,
    "release": 9,
    "guests": 20,
    "host": 30,
    "redis": 19,
    "trixie": 18,
    "demo": 145,
}


class Lanes:
    """What was run, and what came of it.

    Args:
        limit: seconds from now until all of it must have ended.
        run: runs a target of make within so many seconds; it returns the status, None if it had to end the target.
        clock: tells the seconds.
    """

    def __init__(
        self,
        limit: float,
        run: t.Callable[[str, float], int | None],
        clock: t.Callable[[], float] = time.monotonic,
    ) -> None:
        self._run, self._clock = run, clock
        self._end = clock() + limit
        self.report: list[str] = []
        self.failed = False

    def left(self) -> float:
        """Return how many seconds are left."""
        return self._end - self._clock()

    def run(self, target: str) -> float:
        """Run a target, and return how many seconds it took."""
        began = self._clock()
        status = self._run(target, max(0.0, self.left()))
        took = self._clock() - began
        why = {0: "passed", None: "FAILED, because it did not end in the time that was left:"}.get(status, "FAILED")
        self.failed = self.failed or status != 0
        self.report.append(f"{why} {target}: {took / 60:.0f} min")
        return took

    def leave_out(self, target: str, needed: float) -> None:
        """Report a target that does not fit."""
        left = max(0.0, self.left()) / 60
        self.report.append(f"not run {target}: it needs up to {needed / 60:.0f} min here, and {left:.0f} are left")

    def run_all(self) -> None:
        """Run the tests, and the long lanes that fit."""
        self.run("setup-test")
        slowness = max(1.0, self.run("test") / TEST_S)
        for lane, minutes in LONG_LANES.items():
            needed = minutes * 60 * slowness * PATIENCE
            if needed <= self.left():
                self.run(f"test-{lane}")
            else:
                self.leave_out(f"test-{lane}", needed)


def make(target: str, seconds: float) -> int | None:
    """Run a target of make; end it and all that it has started when the time is over, and return None then."""
    process = subprocess.Popen(["make", target], start_new_session=True)
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        print(f"== The time is over: make {target} ends now", file=sys.stderr, flush=True)
        return None
    finally:
        if process.poll() is None:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a session, as Ctrl-C does at first. Some of it may be root's."""
    sudo = ["sudo", "-n"] if os.geteuid() else []
    for number, seconds in ((signal.SIGINT, UNDO_S), (signal.SIGKILL, None)):
        # The shell's own: a small Debian lacks the program.
        subprocess.run([*sudo, "sh", "-c", f"kill -{number} -{process.pid}"], check=False)
        try:
            process.wait(timeout=seconds)
            return
        except subprocess.TimeoutExpired:
            continue


def main() -> int:
    lanes = Lanes(LIMIT_S, make)
    lanes.run_all()
    print("== CI", *lanes.report, sep="\n", flush=True)
    return int(lanes.failed)


if __name__ == "__main__":
    sys.exit(main())
