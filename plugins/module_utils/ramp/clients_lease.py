# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease of the clients of a ramp: they end five seconds after the last time that it was renewed."""

from __future__ import annotations

import os
import threading
import time

RENEW_S = 1.0


class ClientsLease:
    """Renews a file in a thread, for as long as the conductor shows signs of life.

    The conductor itself may be busy for longer than the clients wait: the figures of a window of many servers take
    seconds on a slow or full machine.

    Args:
        path: the file that the clients watch.
        seconds: how long the conductor may be silent.
    """

    def __init__(self, path: str, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._alive = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def start(self) -> None:
        """Renew it now, and from now on."""
        self.show_life()
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

    def _keep(self) -> None:
        while not self._stopped.wait(RENEW_S):
            if time.monotonic() - self._alive < self._seconds:
                self._renew()

    def _renew(self) -> None:
        os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.utime(self._path)
