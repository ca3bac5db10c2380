# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch of a host's memory: its program, its timer, and the file with its metrics."""

from __future__ import annotations

import inspect
import os
import sys
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.headroom import watch_program
from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_checked
from ansible_collections.memstretch.density.plugins.module_utils.host.files import (
    remove_file,
    text_or_target,
    unsafe_directory,
    write_file,
    write_link,
)

PROGRAM = "/usr/local/lib/memstretch-headroom/memstretch-headroom"
COMMAND = "/usr/local/bin/memstretch-headroom"
SERVICE = "/etc/systemd/system/memstretch-headroom.service"
TIMER = "/etc/systemd/system/memstretch-headroom.timer"
LINK = "/etc/systemd/system/timers.target.wants/memstretch-headroom.timer"
PATHS = (PROGRAM, COMMAND, SERVICE, TIMER, LINK)
METRICS_FILE = "memstretch-headroom.prom"
MARK = "# Written by headroom_watch of memstretch.density; with state=absent it removes this file."
_SYSTEM_PYTHONS = ("/usr/bin/python3", "/usr/libexec/platform-python")
# Where Debian's node_exporter looks for files.
TEXTFILE_DIRECTORY = "/var/lib/prometheus/node-exporter"


class WatchError(Exception):
    """The watch cannot be installed or removed; the text is for the user."""


def wanted(directory: str) -> dict[str, str]:
    """Return the files of the watch, as texts by path; a link has its target."""
    texts = (_program(), PROGRAM, _service(directory), _TIMER, TIMER)
    return dict(zip(PATHS, texts))


_TIMER = f"""{MARK}
[Unit]
Description=Look at the memory of this host once a minute

[Timer]
OnBootSec=1min
OnUnitActiveSec=1min
AccuracySec=5s

[Install]
WantedBy=timers.target
"""
_LINKS = (COMMAND, LINK)


def _service(directory: str) -> str:
    path = f"{directory}/{METRICS_FILE}".replace("%", "%%")
    return f"""{MARK}
[Unit]
Description=Write the memory pressure of this host for Prometheus

[Service]
Type=oneshot
ExecStart={PROGRAM} write "{path}"
Nice=10
"""


def _program() -> str:
    """Return the program with its Python interpreter; it is a module itself."""
    return f"#!{interpreter()}\n{MARK}\n{inspect.getsource(watch_program)}"


def interpreter(candidates: t.Sequence[str] | None = None) -> str:
    """Return a Python that nobody but root can replace: the timer runs it as root, long after this module.

    The Python of this module may be in the home of a user, or lead there.

    Args:
        candidates: paths, the best first; by default this Python and those of the system.

    Raises:
        WatchError: there is none.
    """
    for path in candidates or (sys.executable, *_SYSTEM_PYTHONS):
        program = os.path.realpath(path)
        if os.path.isfile(program) and _is_roots(program):
            return program
    raise WatchError(
        f"{sys.executable} could be replaced by others than root, and the timer of headroom_watch runs it as root; "
        "install the system's python3"
    )


def _is_roots(program: str) -> bool:
    status = os.stat(program)
    is_safe = status.st_uid == 0 and not status.st_mode & 0o022
    return is_safe and unsafe_directory(os.path.dirname(program), "program") is None


class Watch:
    """The watch of a host.

    Args:
        run_command: AnsibleModule.run_command.
        root: the directory with the host's files; tests use another one than /.
    """

    def __init__(self, run_command: RunCommand, root: str = "/") -> None:
        self._run_command, self._root = run_command, root

    def missing(self, directory: str) -> list[str]:
        """Return the paths of the files that are not as they should be.

        Args:
            directory: of the textfile collector.

        Raises:
            WatchError: nothing can run the program.
        """
        return [path for path, text in wanted(directory).items() if self._read(path) != text]

    def installed(self) -> list[str]:
        """Return the paths of the watch that exist, its metrics included."""
        paths = (*PATHS, watch_program.STATE, *self._metrics_files())
        return [path for path in paths if os.path.lexists(self._at(path))]

    def install(self, directory: str) -> None:
        """Write what is missing, and start the timer.

        Raises:
            WatchError: a file of somebody else has one of the names; nothing was written.
        """
        texts = wanted(directory)
        for path in texts:
            self._require_ours(path)
        old = [path for path in self._metrics_files() if path != f"{directory}/{METRICS_FILE}"]
        for path in self.missing(directory):
            place = self._at(path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if path in _LINKS:
                write_link(place, texts[path])
            else:
                write_file(place, texts[path], 0o755 if path == PROGRAM else 0o644)
        for path in old:  # where it wrote before
            remove_file(self._at(path))
        self._systemctl("daemon-reload")
        self._systemctl("restart", os.path.basename(TIMER))
        # At once, so that a mistake shows now and the first rates come within a minute.
        self._systemctl("start", os.path.basename(SERVICE))

    def remove(self) -> None:
        """Stop the timer and remove all that was written, the metrics included.

        Raises:
            WatchError: a file of somebody else has one of the names; nothing was removed.
        """
        for path in PATHS:
            self._require_ours(path)
        metrics = self._metrics_files()
        if os.path.lexists(self._at(TIMER)):
            self._systemctl("stop", os.path.basename(TIMER))
        for path in (LINK, TIMER, SERVICE, COMMAND, PROGRAM, watch_program.STATE, *metrics):
            place = self._at(path)
            if os.path.isdir(os.path.dirname(place)):
                remove_file(place)
        for path in (os.path.dirname(PROGRAM), os.path.dirname(LINK)):
            if os.path.isdir(self._at(path)) and not os.listdir(self._at(path)):
                os.rmdir(self._at(path))
        self._systemctl("daemon-reload")

    def _metrics_files(self) -> list[str]:
        """Return the file that the installed service writes, if there is a service."""
        lines = (self._read(SERVICE) or "").splitlines()
        return [line.partition(' write "')[2].rstrip('"').replace("%%", "%") for line in lines if ' write "' in line]

    def _systemctl(self, *words: str) -> None:
        run_checked(self._run_command, ["systemctl", *words], WatchError)

    def _at(self, path: str) -> str:
        return os.path.join(self._root, path.lstrip("/"))

    def _require_ours(self, path: str) -> None:
        text = self._read(path)
        if text is None or (path in _LINKS and text in (PROGRAM, TIMER)) or MARK in text.splitlines()[:2]:
            return
        raise WatchError(f"{path} was not written by headroom_watch; it was not touched. Move it away")

    def _read(self, path: str) -> str | None:
        return text_or_target(self._at(path))
