# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A minimal client of the Redis protocol, for hosts without a Redis library."""

from __future__ import annotations

import re
import socket
import types

from ansible_collections.memstretch.density.plugins.module_utils.redis.config import Address

# A reply is a line or a text; INFO has some thousand bytes.
LONGEST_REPLY = 1 << 20


class Refused(Exception):
    """The server refuses a user or a command. The text has the code of its error only.

    A server that does not have the command AUTH repeats the arguments in its error, and so the password.
    """


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
        line = self.reader.readline(LONGEST_REPLY).decode("utf-8", "replace").rstrip("\r\n")
        if not re.match(r"\$\d{1,7}$", line):
            return line
        return self.reader.read(min(int(line[1:]), LONGEST_REPLY) + 2).decode("utf-8", "replace")

    def log_in(self, username: str, password: str) -> None:
        """Send the name and the password of a user, if there is one.

        Raises:
            Refused: the server does not accept them.
        """
        if password:
            self.require("AUTH", username, password)

    def require(self, *words: str) -> str:
        """Return the reply to a command.

        Raises:
            Refused: it is an error.
        """
        reply = self.execute(*words)
        if reply.startswith("-"):
            found = re.match(r"-([A-Z]{1,20})\b", reply)
            raise Refused(found.group(1) if found else "an unknown error")
        return reply


def fields(text: str) -> dict[str, str]:
    """Return the fields of what INFO returns."""
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
