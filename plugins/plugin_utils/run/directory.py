# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of a run: its files, which are written atomically, and its lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.locks import lock_if_free, open_lock
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import plain

SCHEMA = 1
# The JSON schemas of the documents that other programs read.
_SCHEMAS = "https://raw.githubusercontent.com/memstretch/density/main/docs/schemas"
# The schedule of a run whose results are not collected yet.
SCHEDULE_FILE = "schedule.json"
# An upper bound for the result of one host in one phase (measured: see docs/results.md).
BYTES_PER_RESULT = 16 * 1024
# An upper bound for what is written once: run.json, log.txt, the exports, and the page with its charts.
BYTES_PER_RUN = 2 * 1024 * 1024

# The layout of the file of a phase.
_BEFORE_HOSTS, _LAST_LINE = ',"hosts":{\n', "}}\n"

# What file systems without symbolic links answer, such as exFAT, VFAT and shares of Windows.
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)

_Keep = t.Callable[[dict[str, t.Any]], t.Any]

_ATTEMPT = re.compile(r"-attempt([2-9]|[1-9][0-9]+)$")


class RunError(Exception):
    """A run cannot be begun, continued or read. The text gives the reason and the remedy."""


def described_by(schema: str) -> dict[str, t.Any]:
    """Return how a document names its format: its JSON schema, and the version that this collection reads.

    Args:
        schema: name of a file in docs/schemas, without .json.
    """
    return {"$schema": f"{_SCHEMAS}/{schema}.json", "schema": SCHEMA}


class RunDirectory:
    """One directory below the results directory.

    Others may be able to write to the results directory, so no file in it is trusted to be what its name says.

    Raises:
        RunError: the name is a path.

    Attributes:
        path: the directory, absolute.
        run_id: its name.
    """

    def __init__(self, results_dir: str, run_id: str) -> None:
        # It may be what a file says in a results directory that others write to.
        if os.path.basename(run_id) != run_id or run_id in (".", ".."):
            raise RunError(f"{run_id!r} cannot be a run in {results_dir}: it is not the name of a directory")
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
        """Decide whether anything exists at the path of the run, even a broken link."""
        return os.path.lexists(self.path)

    def make(self) -> None:
        """Make the directory, if it does not exist.

        Raises:
            RunError: it is somebody else's.
        """
        os.makedirs(self.results_dir, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o755)  # whatever the umask is: others must not be able to put links into it
        self.refuse_others()

    def refuse_others(self) -> None:
        """Raise RunError if the directory is somebody else's: what is written into it could go anywhere."""
        whose = self.whose()
        if whose:
            raise RunError(f"{self.path} {whose}, so nothing was read or written there; choose another name")

    def whose(self) -> str | None:
        """Return why the directory is somebody else's; None if it is not, or does not exist.

        Who owns the directory of all results could replace this one, so that user is trusted. It also is the owner on a
        file system that knows only one.
        """
        try:
            status, parent = os.lstat(self.path), os.stat(self.results_dir)
        except FileNotFoundError:
            return None
        if not stat.S_ISDIR(status.st_mode):
            return "is not a directory"
        if status.st_uid not in (os.geteuid(), parent.st_uid):
            return f"belongs to user {status.st_uid}"
        return None

    def create(self) -> list[str]:
        """Create the directory and let the link "latest" point to it, and return warnings, each a line.

        Raises:
            RunError: something of that name is not our link, or the directory is somebody else's.
        """
        link = _link_to_latest(self.results_dir)
        self.make()
        os.makedirs(self.file("phases"), exist_ok=True)
        temporary = f"{link}.{secrets.token_hex(8)}"
        try:
            os.symlink(self.run_id, temporary)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return [
                f"Warning: {link} cannot be made, because this file system has no symbolic links ({error.strerror}). A "
                "run is continued or reported only by its name (run_id)"
            ]
        os.replace(temporary, link)
        return []

    def write_json(self, name: str, document: t.Any) -> bool:
        """Write document to the file name like write_text()."""
        return self.write_text(name, f"{_json(document)}\n")

    def write_text(self, name: str, text: str) -> bool:
        """Write text atomically to the file name and return whether the file changed.

        Raises:
            OSError: it cannot be written, for example because the disk is full; an earlier file is kept.
        """
        if not self._differs(name, text):
            return False
        self._write(name, [text])
        return True

    def _differs(self, name: str, text: str) -> bool:
        with contextlib.suppress(FileNotFoundError), open_regular(self.file(name)) as stream:
            return stream.read() != text
        return True

    def _write(self, name: str, parts: t.Iterable[str]) -> None:
        """Write a text in parts, atomically."""
        target = self.file(name)
        handle, temporary = tempfile.mkstemp(prefix=".", dir=os.path.dirname(target))
        try:
            with _named(target), os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.writelines(parts)
                stream.flush()
                os.fsync(stream.fileno())
            _make_readable(temporary)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise

    def append_log(self, line: str) -> None:
        """Append a line with the time to log.txt."""
        path = self.file("log.txt")
        with _named(path), open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW) as stream:
            stream.write(f"{utc(time.time())} {line}\n")

    def read_json(self, *names: str) -> dict[str, t.Any]:
        """Read a file of the run.

        Raises:
            RunError: it is missing or damaged.
        """
        return self._read(self.file(*names), lambda stream: _load(stream.read()))

    def _read(self, path: str, load: t.Callable[[t.IO[str]], t.Any]) -> dict[str, t.Any]:
        """Read a document with load, and check that it is one of ours."""
        try:
            with open_regular(path) as stream:
                document = load(stream)
        except OSError as error:
            raise RunError(f"{path}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise RunError(f"{path} is damaged: {error}") from error
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise RunError(f"{path} was not written by this version of the collection (expected schema {SCHEMA})")
        return document

    def read_phase(
        self, phase: t.Mapping[str, t.Any], keep: _Keep | None = lambda result: result
    ) -> dict[str, t.Any] | None:
        """Return the document of a phase; None if the phase has not been measured.

        Args:
            phase: its entry in run.json.
            keep: returns what to keep of the result of each host, because all results of a large fleet need gigabytes
                of memory. If it is None, the results are not read, and C(hosts) is empty.

        Raises:
            RunError: its file is damaged.
        """
        path = self.file("phases", configuration.file_name(phase))
        return self._read(path, lambda stream: _load_phase(stream, keep)) if os.path.exists(path) else None

    def write_phase(self, document: t.Mapping[str, t.Any]) -> None:
        """Write the document of a phase. Only a warm-up, from which nothing is concluded, is ever replaced.

        Raises:
            RunError: the phase has been measured before.
        """
        name = configuration.file_name(document["phase"])
        if document["phase"]["kind"] != "warmup" and os.path.exists(self.file("phases", name)):
            raise RunError(f"{self.file('phases', name)}: this phase has been measured; its results are kept")
        self._write(os.path.join("phases", name), _phase_parts(document))

    def in_use_by(self) -> int | None:
        """Return the pid of the playbook that is working on this run, if there is one."""
        try:
            # In a directory that others can write to, its name may be a link or a pipe.
            descriptor = os.open(self.file("lock"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, encoding="ascii") as stream:
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
            RunError: another playbook is working on it, or it is somebody else's.
        """
        self.refuse_others()
        with contextlib.ExitStack() as stack:
            try:
                stream = stack.enter_context(os.fdopen(open_lock(self.file("lock")), "r+", encoding="ascii"))
            except OSError as error:
                raise RunError(f"{self.path}: the run cannot be locked: {error}") from error
            if not lock_if_free(stream.fileno()):
                raise RunError(f"{self.path}: another playbook is working on this run")
            with _named(self.file("lock")):
                os.ftruncate(stream.fileno(), 0)
                os.write(stream.fileno(), f"{os.getpid()}\n".encode("ascii"))
            stack.pop_all()  # the caller closes it
        return stream


def open_regular(path: str, flags: int = os.O_RDONLY, errors: str = "strict") -> t.IO[str]:
    """Open a text file. A pipe in its place would keep its reader waiting for ever.

    Args:
        path: of the file.
        flags: how to open it.
        errors: what to do with bytes that are not text.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "this is no regular file", path)
    return os.fdopen(descriptor, "a" if flags & os.O_APPEND else "r", encoding="utf-8", errors=errors)


@contextlib.contextmanager
def _named(path: str) -> t.Iterator[None]:
    """Name the file in an error of writing, such as that of a full disk, which does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise OSError(error.errno, error.strerror, path) from error
        raise


def _make_readable(path: str) -> None:
    try:
        os.chmod(path, 0o644)
    except PermissionError:
        # On FAT all files have one mode, which others can usually read.
        if os.stat(path).st_mode & 0o444 != 0o444:
            raise


def _json(document: t.Any) -> str:
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def _phase_parts(document: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """Yield the JSON of a phase in parts: everything but the hosts is in the first line, each host has one of its own.

    So a reader needs no more memory than for one host.
    """
    rest = _json({name: value for name, value in document.items() if name != "hosts"})
    yield rest[:-1] + _BEFORE_HOSTS
    hosts = sorted(document["hosts"].items())
    for number, (name, result) in enumerate(hosts, 1):
        yield f"{_json(name)}:{_json(result)}{',' if number < len(hosts) else ''}\n"
    yield _LAST_LINE


def _load_phase(stream: t.IO[str], keep: _Keep | None) -> t.Any:
    """Return the document of a phase, with what keep returns of each host."""
    first = stream.readline()
    if not first.endswith(_BEFORE_HOSTS):
        raise ValueError("its first line does not end where the hosts begin")
    document = _load(first[: -len(_BEFORE_HOSTS)] + "}")
    return {**document, "hosts": {name: keep(result) for name, result in _host_lines(stream)} if keep else {}}


def _load(text: str) -> t.Any:
    """Return what a text says, with texts that do not steer the terminal: others may have written it.

    Only a few documents have such characters, so that most are not gone through a second time.
    """
    is_harmless = text.isascii() and "\\" not in text and "\x7f" not in text
    return json.loads(text) if is_harmless else plain(json.loads(text))


def _host_lines(stream: t.IO[str]) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """Yield the name and the result of each host."""
    for line in stream:
        if line == _LAST_LINE:
            return
        yield from _load("{" + line.rstrip(",\n") + "}").items()
    raise ValueError("it is cut off")


def latest(results_dir: str) -> RunDirectory | None:
    """Return the newest run below results_dir, if there is one and it is not somebody else's."""
    link = os.path.join(os.path.abspath(os.path.expanduser(results_dir)), "latest")
    if not os.path.isfile(os.path.join(link, "run.json")):
        return None
    found = RunDirectory.at(link)
    return None if found.whose() else found


def unused(results_dir: str, run_id: str) -> RunDirectory:
    """Return a directory of that name, with a number appended if the name is taken."""
    directory, count = RunDirectory(results_dir, run_id), 1
    while directory.exists():
        count += 1
        directory = RunDirectory(results_dir, f"{run_id}-{count}")
    return directory


def attempt_name(run_id: str, number: int) -> str:
    """Return the name of an attempt at a run: dram-1, dram-1-attempt2, dram-1-attempt3."""
    first = first_attempt(run_id)
    return first if number == 1 else f"{first}-attempt{number}"


def first_attempt(run_id: str) -> str:
    """Return the name of the first attempt at the run of which run_id is an attempt."""
    return _ATTEMPT.sub("", run_id)


def attempt_number(run_id: str) -> int:
    """Return the number of the attempt that a run's name stands for."""
    found = _ATTEMPT.search(run_id)
    return int(found[1]) if found else 1


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


def _link_to_latest(results_dir: str) -> str:
    """Return the path of the link "latest". Raises RunError if something of that name is not our link."""
    link = os.path.join(results_dir, "latest")
    if os.path.lexists(link) and not (os.path.islink(link) and os.sep not in os.readlink(link)):
        raise RunError(
            f"results_dir: {link} is not a link to a run, so it would be lost. Nothing was changed. Move it, or choose "
            "another results_dir"
        )
    return link


def check_space(results_dir: str, results: int) -> None:
    """Check that results_dir, which may not exist yet, can hold a run, and has room for a number of results.

    Args:
        results_dir: the directory.
        results: the number of results, each of one host in one phase.

    Raises:
        RunError: it cannot be written to, has too little space, or something else in it has the name of our link.
    """
    path = os.path.abspath(os.path.expanduser(results_dir))
    _link_to_latest(path)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise RunError(f"results_dir: {results_dir} cannot be used, {path} is not a directory")
    if not os.access(path, os.W_OK | os.X_OK):
        raise RunError(f"results_dir: {results_dir} cannot be used, no permission to write to {path}")
    free, needed = shutil.disk_usage(path).free, BYTES_PER_RUN + results * BYTES_PER_RESULT
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
