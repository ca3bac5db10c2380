# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directives of a Redis configuration file that a daemon needs."""

from __future__ import annotations

import hashlib
import os
import shlex
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, SettingError, number

# Where this machine reaches a server: the path of a unix socket, or a host and a port.
Address = t.Union[str, t.Tuple[str, int]]

DIRECTIVES = {"aclfile", "bind", "dir", "logfile", "pidfile", "port", "unixsocket"}
PORT = Range(int, 0, 65535, "TCP port; 0 is none")
_LOOPBACK = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::*": "::1", "::": "::1"}


class ConfigError(Exception):
    """The configuration file cannot be used; the text is for the user."""


class Config:
    """One configuration file. It may be missing: in check mode no earlier task has written it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.exists = os.path.isfile(path)
        self.values = self._read() if self.exists else {}
        self.directory = self._first("dir")
        self.pidfile = self._first("pidfile")
        self.logfile = self._first("logfile")
        self.socket = self._first("unixsocket")
        self.port = self._port()

    def _read(self) -> dict[str, list[str]]:
        values = {}
        try:
            with open(self.path, encoding="utf-8", errors="surrogateescape") as file:
                lines = [line.strip() for line in file]
        except OSError as error:
            raise ConfigError(f"config: cannot read {self.path}: {error.strerror}") from error
        for name, *rest in (line.split(None, 1) for line in lines if line):
            if name.lower() in DIRECTIVES:
                try:
                    values[name.lower()] = shlex.split(rest[0]) if rest else []
                except ValueError as error:
                    raise ConfigError(f"config: {self.path} has an unbalanced quote in the value of {name}") from error
        return values

    def _first(self, name: str) -> str:
        return (self.values.get(name) or [""])[0]

    def _port(self) -> int:
        try:
            return number("port", self._first("port") or "6379", PORT)
        except SettingError as error:
            raise ConfigError(f"config: in {self.path}, {error}") from None

    @property
    def address(self) -> Address:
        """Return the address at which this machine reaches the server."""
        if not self.port:
            return self.socket
        first = (self.values.get("bind") or ["127.0.0.1"])[0].lstrip("-")
        return _LOOPBACK.get(first, first), self.port

    @property
    def record(self) -> str:
        """Return the path of the file that records which process was started with which configuration."""
        return self.path + ".started"

    def checksum(self) -> str:
        """Return the SHA-256 of everything that the server reads at its start: this file and the ACL file."""
        digest = hashlib.sha256()
        for path in filter(None, (self.path, self._first("aclfile"))):
            try:
                with open(path, "rb") as file:
                    digest.update(file.read() + b"\0")
            except OSError as error:
                raise ConfigError(f"config: cannot read {path}: {error.strerror}") from error
        return digest.hexdigest()

    def require(self) -> None:
        """Raise ConfigError for a file that makes it impossible to find or reach the server later."""
        if not self.exists:
            raise ConfigError(f"config: {self.path} does not exist")
        for name in ("dir", "pidfile"):
            if not os.path.isabs(self._first(name)):
                raise ConfigError(f"config: {self.path} must set {name} to an absolute path, not {self._first(name)!r}")
        if not self.port and not self.socket:
            raise ConfigError(f"config: {self.path} has port 0 and no unixsocket: nothing can reach the server")


def address_text(address: Address) -> str:
    return f"unix socket {address}" if isinstance(address, str) else f"{address[0]}:{address[1]}"
