# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease of the clients of a ramp: they end when nobody has renewed it for five seconds."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback

RENEW_S = 1.0
# A client ends when the file has not changed for so long (LEASE_LOOKS in files/solotest/watch.h).
CLIENTS_WAIT_S = 5.0
# So many calls show where a conductor hangs.
_CALLS = 4


class ClientsLease:
    """Renews a file in a thread, for as long as the conductor shows signs of life.

    The conductor itself may be busy for longer than the clients wait: the figures of a window of many servers take
    seconds on a slow or full machine.

    Args:
        path: the file that the clients watch.
        seconds: how long the conductor may be silent.

    Attributes:
        path: the same.
    """

    def __init__(self, path: str, seconds: float) -> None:
        self.path, self._seconds = path, seconds
        self._alive = self._renewed = time.monotonic()
        self._latest, self._hung_in, self._conductor = 0.0, "", 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def start(self) -> None:
        """Renew it now, and from now on. The thread that calls this is the one that must show life."""
        self._conductor = threading.get_ident()
        self._alive = self._renewed = time.monotonic()
        self._renew()
        self._thread.start()

    def show_life(self) -> None:
        """Say that the conductor goes on."""
        self._alive = time.monotonic()

    def stop(self) -> None:
        """Renew it no more."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def why_lapsed(self) -> str:
        """Explain why a client may have found it lapsed."""
        if self._hung_in:
            return f"the conductor has done nothing for {self._seconds:.0f} s; it was at {self._hung_in}"
        return (
            f"this machine gave the conductor no CPU time for up to {self._latest:.0f} s. Load it less: lower "
            "latency_benchmark_rate or density_references"
        )

    def _keep(self) -> None:
        while not self._stopped.wait(RENEW_S):
            if time.monotonic() - self._alive < self._seconds:
                if time.monotonic() - self._renewed < CLIENTS_WAIT_S:
                    self._hung_in = ""  # no client has ended for that
                self._renew()
            elif not self._hung_in:
                self._hung_in = self._place()

    def _place(self) -> str:
        """Return where the conductor is in its program, the innermost call first."""
        calls = traceback.extract_stack(sys._current_frames()[self._conductor])[: -_CALLS - 1 : -1]
        return ", called by ".join(f"{call.name} ({os.path.basename(call.filename)}:{call.lineno})" for call in calls)

    def _renew(self) -> None:
        os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.utime(self.path)
        now = time.monotonic()
        self._renewed, self._latest = now, max(self._latest, now - self._renewed)
