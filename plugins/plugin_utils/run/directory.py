# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of a run: its files, which are written atomically, and its lock."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration

SCHEMA = 2
# Results of schema 1 have no lower bound, so a run of them can pass or be undecided, but not fail.
READABLE_SCHEMAS = (1, SCHEMA)
# An upper bound for the result of one host in one phase (measured: see docs/results.md).
BYTES_PER_RESULT = 16 * 1024


class RunError(Exception):
    """A run cannot be begun, continued or read. The text gives the reason and the remedy."""


class RunDirectory:
    """One directory below the results directory.

    Attributes:
        path: the directory, absolute.
        run_id: its name.
    """

    def __init__(self, results_dir: str, run_id: str) -> None:
        self.run_id = run_id
        self.results_dir = os.path.abspath(os.path.expanduser(results_dir))
        self.path = os.path.join(self.results_dir, run_id)

    @classmethod
    def at(cls, path: str) -> RunDirectory:
        """Return the run in the directory path, which may be the link "latest"."""
        results_dir, run_id = os.path.split(os.path.realpath(os.path.expanduser(path)))
        return cls(results_dir, run_id)

    def file(self, *names: str) -> str:
        """Return the path of a file of the run."""
        return os.path.join(self.path, *names)

    def exists(self) -> bool:
        """Return whether anything exists at the path of the run, even a broken link."""
        return os.path.lexists(self.path)

    def set_aside(self) -> str:
        """Rename the directory, so that another run can have its name, and return the new name."""
        other = unused(self.results_dir, f"{self.run_id}-set-aside")
        os.rename(self.path, other.path)
        return other.run_id

    def create(self) -> None:
        """Create the directory and let the link "latest" point to it."""
        os.makedirs(self.file("phases"), exist_ok=True)
        link = os.path.join(self.results_dir, "latest")
        temporary = f"{link}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        os.symlink(self.run_id, temporary)
        os.replace(temporary, link)

    def write_json(self, name: str, document: t.Any) -> bool:
        """Write document to the file name like write_text()."""
        return self.write_text(name, json.dumps(document, separators=(",", ":"), sort_keys=True) + "\n")

    def write_text(self, name: str, text: str) -> bool:
        """Write text atomically to the file name and return whether the file changed.

        Raises:
            OSError: it cannot be written, for example because the disk is full; an earlier file is kept.
        """
        target = self.file(name)
        with contextlib.suppress(FileNotFoundError), open(target, encoding="utf-8") as stream:
            if stream.read() == text:
                return False
        handle, temporary = tempfile.mkstemp(prefix=".", dir=os.path.dirname(target))
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
        return True

    def append_log(self, line: str) -> None:
        """Append a line with the time to log.txt."""
        with open(self.file("log.txt"), "a", encoding="utf-8") as stream:
            stream.write(f"{utc(time.time())} {line}\n")

    def read_json(self, *names: str) -> dict[str, t.Any]:
        """Read a file of the run.

        Raises:
            RunError: it is missing or damaged.
        """
        path = self.file(*names)
        try:
            with open(path, encoding="utf-8") as stream:
                document = json.load(stream)
        except OSError as error:
            raise RunError(f"{path}: {error.strerror}") from error
        except ValueError as error:
            raise RunError(f"{path} is damaged: {error}") from error
        if not isinstance(document, dict) or document.get("schema") not in READABLE_SCHEMAS:
            raise RunError(
                f"{path} was not written by this version of the collection (expected schema "
                f"{' or '.join(map(str, READABLE_SCHEMAS))})"
            )
        return document

    def read_phase(self, phase: t.Mapping[str, t.Any]) -> dict[str, t.Any] | None:
        """Return the document of a phase; None if the phase has not been measured."""
        name = configuration.file_name(phase)
        return self.read_json("phases", name) if os.path.exists(self.file("phases", name)) else None

    def write_phase(self, document: t.Mapping[str, t.Any]) -> None:
        """Write the document of a phase. An earlier one is kept below superseded/."""
        name = configuration.file_name(document["phase"])
        path = self.file("phases", name)
        if os.path.exists(path):
            os.makedirs(self.file("superseded"), exist_ok=True)
            os.link(path, self.file("superseded", f"{compact_utc(os.path.getmtime(path))}-{name}"))
        self.write_json(os.path.join("phases", name), document)

    def in_use_by(self) -> int | None:
        """Return the pid of the playbook that is working on this run, if there is one."""
        try:
            with open(self.file("lock"), encoding="ascii") as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(stream.read().strip() or 0)
        except FileNotFoundError:
            pass
        return None

    def lock(self) -> t.IO[str]:
        """Lock the run for this process until the returned file is closed or the process ends.

        Raises:
            RunError: another playbook is working on it.
        """
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context(open(self.file("lock"), "a+", encoding="ascii"))
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(f"{self.path}: another playbook is working on this run") from None
            stream.truncate(0)
            stream.write(f"{os.getpid()}\n")
            stream.flush()
            stack.pop_all()  # the caller closes it
        return stream


def latest(results_dir: str) -> RunDirectory | None:
    """Return the newest run below results_dir, if there is one."""
    link = os.path.join(os.path.abspath(os.path.expanduser(results_dir)), "latest")
    return RunDirectory.at(link) if os.path.isfile(os.path.join(link, "run.json")) else None


def unused(results_dir: str, run_id: str) -> RunDirectory:
    """Return a directory of that name, with a number appended if the name is taken."""
    directory, count = RunDirectory(results_dir, run_id), 1
    while directory.exists():
        count += 1
        directory = RunDirectory(results_dir, f"{run_id}-{count}")
    return directory


def check_name(option: str, name: str | None) -> None:
    """Check that name can be the name of a directory; it may also be empty.

    Raises:
        RunError: it cannot; the text names the option.
    """
    if name and (os.path.basename(name) != name or name.startswith(".") or name == "latest"):
        raise RunError(
            f"{option}: {name!r} is not allowed; it must be the name of a directory, without / and leading dot, "
            "and not 'latest'"
        )


def check_space(results_dir: str, results: int) -> None:
    """Check that results_dir, which may not exist yet, has room for a number of results.

    Args:
        results_dir: the directory.
        results: the number of results, each of one host in one phase.

    Raises:
        RunError: it cannot be written to, or has too little space.
    """
    path = os.path.abspath(os.path.expanduser(results_dir))
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise RunError(f"results_dir: {results_dir} cannot be used, {path} is not a directory")
    if not os.access(path, os.W_OK | os.X_OK):
        raise RunError(f"results_dir: {results_dir} cannot be used, no permission to write to {path}")
    free, needed = shutil.disk_usage(path).free, results * BYTES_PER_RESULT
    if free < needed:
        raise RunError(
            f"results_dir: {results_dir} has {free / 1e6:,.1f} MB free, but the results of the run may take "
            f"{needed / 1e6:,.1f} MB; make room or choose another directory"
        )


def utc(seconds: float) -> str:
    """Return a time as text such as 2026-01-31T12:00:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def compact_utc(seconds: float) -> str:
    """Return a time as a part of a name such as 20260131T120000Z."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))


def is_finished(phase: t.Mapping[str, t.Any], document: t.Mapping[str, t.Any] | None) -> bool:
    """Return whether phase need not be measured again: all hosts reported, and it is valid or only a warm-up."""
    return document is not None and not document["failed"] and (document["valid"] or phase["kind"] == "warmup")


def mark_finished(
    directory: RunDirectory, phases: t.Sequence[dict[str, t.Any]], filled: bool
) -> list[dict[str, t.Any]]:
    """Return phases, each with C(finished): whether a resumed run keeps it.

    A cell whose iterations are not all finished is warmed up again. A fleet without its data is filled again.
    """
    finished = {phase["index"]: is_finished(phase, directory.read_phase(phase)) for phase in phases}
    open_cells = {_cell(phase) for phase in phases if not finished[phase["index"]] and phase["kind"] != "fill"}

    def keep(phase: t.Mapping[str, t.Any]) -> bool:
        if phase["kind"] == "fill":
            return finished[phase["index"]] and filled
        return finished[phase["index"]] and not (phase["kind"] == "warmup" and _cell(phase) in open_cells)

    return [{**phase, "finished": keep(phase)} for phase in phases]


def _cell(phase: t.Mapping[str, t.Any]) -> tuple[float, float]:
    return phase["influence"], phase["read_mix"]
