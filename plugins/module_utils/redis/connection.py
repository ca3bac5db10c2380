# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A minimal client of the Redis protocol, for hosts without a Redis library."""

from __future__ import annotations

import socket
import types

from ansible_collections.memstretch.density.plugins.module_utils.redis.config import Address


class Connection:
    """One connection. It sends a command and reads its reply: a status, an error or a text."""

    def __init__(self, address: Address, timeout: float) -> None:
        if isinstance(address, tuple):
            self.socket = socket.create_connection(address, timeout)
        else:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(timeout)
            try:
                self.socket.connect(address)
            except OSError:
                self.socket.close()
                raise
        self.reader = self.socket.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: types.TracebackType | None
    ) -> None:
        self.reader.close()
        self.socket.close()

    def execute(self, *words: str) -> str:
        """Return the reply to a command: the text of a bulk reply, or the line of any other, such as "+PONG"."""
        parts = [f"*{len(words)}\r\n".encode()]
        for word in words:
            data = word.encode("utf-8", "surrogateescape")
            parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
        self.socket.sendall(b"".join(parts))
        line = self.reader.readline().decode("utf-8", "replace").rstrip("\r\n")
        if not line.startswith("$"):
            return line
        return self.reader.read(int(line[1:]) + 2).decode("utf-8", "replace")
