# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All servers of a ramp are touched at once, as by a backup or by a job that cron starts everywhere."""

from __future__ import annotations

import threading
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.ramp.members import Login
from ansible_collections.memstretch.density.plugins.module_utils.redis.connection import Connection, Refused

# So many values are asked for before the first answer is read.
_BATCH = 100
# A server that is killed or hangs answers no more.
_ANSWER_SECONDS = 60.0


class Touch:
    """Reads all values of each server, all servers at the same time.

    The servers read their values themselves and answer with a number, so that their memory is touched but the CPUs have
    little to do.

    Args:
        logins: of the servers.
        keys: of each.
    """

    def __init__(self, logins: t.Sequence[Login], keys: int) -> None:
        self._began = time.monotonic()
        self._ended: list[float] = []
        batches = [_commands(first, min(first + _BATCH, keys)) for first in range(0, keys, _BATCH)]
        self._threads = [threading.Thread(target=self._read, args=(each, batches), daemon=True) for each in logins]
        for thread in self._threads:
            thread.start()

    @property
    def seconds(self) -> float | None:
        """How long it took until each server had read everything; None if one has not."""
        return max(self._ended, default=0.0) if len(self._ended) == len(self._threads) else None

    def _read(self, login: Login, batches: t.Sequence[bytes]) -> None:
        try:
            with Connection(login.address, _ANSWER_SECONDS) as connection:
                connection.log_in("default", login.password)
                for batch in batches:
                    connection.socket.sendall(batch)
                    for _answer in range(batch.count(b"*")):
                        if not connection.reader.readline().startswith(b":"):
                            return
        except (OSError, Refused):
            return  # seconds stays None: the record says that this server was not read
        self._ended.append(time.monotonic() - self._began)


def _commands(first: int, end: int) -> bytes:
    """Return the commands that read the values from a first key to the one before the end."""
    return b"".join(b"*2\r\n$8\r\nBITCOUNT\r\n$%d\r\n%d\r\n" % (len(str(key)), key) for key in range(first, end))
