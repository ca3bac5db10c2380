# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the files of a host, /proc and /sys at low cost, and write our own files atomically."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
import typing as t

# ESRCH: the process of a /proc/PID file has ended. EOPNOTSUPP: pressure stall information is off.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EOPNOTSUPP, errno.ENODEV, errno.ESRCH)
# For a read of /proc/sys the kernel allocates as much memory as the read asks for.
_READ_BYTES = 32768


class HostFiles:
    """The files below a root directory, that of this host or of a recorded tree.

    A file that does not exist reads as None. So does a file that exists and cannot be read; C(unreadable) then has its
    name and the reason.
    """

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self.unreadable: list[str] = []

    def path(self, name: str) -> str:
        """Return the real path of an absolute path of the host."""
        return os.path.join(self.root, name.lstrip("/"))

    def raw(self, name: str, size: int = 4 * 1024 * 1024) -> bytes | None:
        """Return the first bytes of a file, at most C(size)."""
        try:
            descriptor = os.open(self.path(name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                parts = []
                while size > 0:
                    part = os.read(descriptor, min(size, _READ_BYTES))
                    if not part:
                        break
                    parts.append(part)
                    size -= len(part)
                return b"".join(parts)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno not in _ABSENT:
                self.unreadable.append(f"{name}: {error.strerror}")
            return None

    def text(self, name: str, size: int = 4 * 1024 * 1024) -> str | None:
        """Return the text of a file without blanks at its ends."""
        content = self.raw(name, size)
        return None if content is None else content.decode("utf-8", "replace").strip()

    def number(self, name: str) -> int | None:
        """Return the whole number in a file, or None if the file has anything else."""
        content = self.text(name)
        return int(content) if content is not None and re.match(r"^-?\d+$", content) else None

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted with numbers in numeric order; an empty list if it does not exist."""
        try:
            found = os.listdir(self.path(directory))
        except OSError as error:
            if error.errno not in _ABSENT:
                self.unreadable.append(f"{directory}: {error.strerror}")
            return []
        return sorted(
            found, key=lambda name: [(int(digits or -1), word) for digits, word in re.findall(r"(\d+)|(\D+)", name)]
        )

    def exists(self, name: str) -> bool:
        """Check whether a file or directory exists."""
        return os.path.exists(self.path(name))


class Mount(t.NamedTuple):
    """A mount, as /proc/PID/mountinfo shows it.

    Attributes:
        number: of its device, such as C(8:1).
        root: what of the file system is mounted.
        place: where.
        kind: of the file system.
        source: its device, or whatever the file system calls so.
        options: of the file system.
    """

    number: str
    root: str
    place: str
    kind: str
    source: str
    options: str


def mounts(files: HostFiles, process: str = "self") -> list[Mount]:
    """Return the mounts that a process sees.

    Any user can mount something, by FUSE, at a directory with any name. The kernel escapes blanks, tabs and line feeds
    in it. Python takes more characters for blanks and ends of lines.
    """
    found = []
    for line in (files.text(f"/proc/{process}/mountinfo") or "").split("\n"):
        words, _dash, rest = line.partition(" - ")
        if rest:
            _number, _parent, device, root, place = map(unescaped, words.split(" ")[:5])
            found.append(Mount(device, root, place, *map(unescaped, rest.split(" ")[:3])))
    return found


def unescaped(word: str) -> str:
    """Return a word of /proc/mounts, fstab and their kin without its octal codes, such as that of a blank."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), word)


def parse_cpu_list(text: str | None) -> list[int]:
    """Return the numbers of a list in the kernel's notation, such as "0-3,8"."""
    numbers: list[int] = []
    for part in filter(None, (text or "").split(",")):
        first, _dash, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def meminfo(files: HostFiles, name: str = "/proc/meminfo") -> dict[str, int]:
    """Return the figures of a meminfo file in bytes, or as plain counts where the kernel gives no unit."""
    found = re.findall(r"(\S+):\s+(\d+)( kB)?$", files.text(name) or "", re.MULTILINE)
    return {key: int(value) * (1024 if unit else 1) for key, value, unit in found}


def vmstat(files: HostFiles) -> dict[str, int]:
    """Return the counters of /proc/vmstat."""
    words = (files.text("/proc/vmstat") or "").split()
    return {name: int(value) for name, value in zip(words[::2], words[1::2])}


def swap_areas(files: HostFiles) -> list[dict[str, t.Any]]:
    """Return the active swap areas from /proc/swaps: name, type, sizes in bytes, priority."""
    areas = []
    for line in (files.text("/proc/swaps") or "").splitlines()[1:]:
        name, kind, size, used, priority = line.split()
        areas.append(
            {
                "name": unescaped(name),
                "type": kind,
                "size_bytes": int(size) * 1024,
                "used_bytes": int(used) * 1024,
                "priority": int(priority),
            }
        )
    return areas


def make_directory(path: str, mode: int = 0o777) -> None:
    """Make a directory and its parents unless they exist, also while another process removes the empty directory.

    os.makedirs fails if it has been removed between two of its looks.

    Raises:
        OSError: something else has its name, or it cannot be made.
    """
    while True:
        try:
            return os.makedirs(path, mode, exist_ok=True)
        except FileExistsError:
            if os.path.lexists(path) and not os.path.isdir(path):
                raise


def private_directory(parent: str | None = None) -> str:
    """Return a directory in which only this user can make files, for files with names that others could guess.

    It is the same for all processes of the user until the host boots again, so it can also hold locks.

    Args:
        parent: where it is; by default in /run for root, and where temporary files are for others.

    Raises:
        OSError: something else has its name.
    """
    user = os.geteuid()
    path = os.path.join(parent or (tempfile.gettempdir() if user else "/run"), f"memstretch-{user}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != user or status.st_mode & 0o077:
        raise OSError(
            errno.EPERM, f"{path} is not a directory that belongs to user {user} and has the mode 0700; remove it"
        )
    return path


def unsafe_directory(directory: str, what: str) -> str | None:
    """Explain why others than root could put another file in a directory, or replace the directory; None if nobody can.

    Where anybody may make files, as in /tmp, the sticky bit keeps a directory of root's in its place.

    Args:
        directory: its path.
        what: is to be kept in it, for the text.
    """
    parts = directory.strip("/").split("/") if directory != "/" else []
    for count in range(len(parts) + 1):
        path = "/" + "/".join(parts[:count])
        try:
            status = os.lstat(path)
        except OSError as error:
            return f"{path} cannot be examined ({error.strerror})"
        if not stat.S_ISDIR(status.st_mode):
            return f"{path} is not a directory; a symbolic link must not be part of the path of a {what}"
        if status.st_uid not in (0, os.geteuid()):
            return f"{path} belongs to user {status.st_uid}, who could read the {what} or replace it"
        kept = status.st_mode & stat.S_ISVTX and count < len(parts)
        if status.st_mode & 0o022 and not kept:
            mode = stat.S_IMODE(status.st_mode)
            return f"{path} has the mode {mode:04o}, so others than root could replace the {what}"
    return None


def read_file(path: str, size: int) -> bytes:
    """Return at most this many bytes of a file. A pipe in its place would keep its reader waiting for ever.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "this is no regular file", path)
        return file.read(size)


def write_file(
    path: str,
    text: str,
    mode: int = 0o644,
    before_replacing: t.Callable[[str], None] | None = None,
    owner: tuple[int, int] | None = None,
) -> None:
    """Replace a file atomically: after a power cut it has either its old or its new content.

    Args:
        path: of the file.
        text: its new content.
        mode: its permissions.
        owner: the user and the group that it belongs to; None is those of this process.
        before_replacing: is called with the directory when the new file is on the disk, before it gets its name.
    """
    directory = os.path.dirname(path)
    new = f"{path}.memstretch-new"
    remove_file(new)  # left by an interrupted write
    # Where others may write, the name could be a link to a foreign file.
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            if owner:
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if before_replacing:
            before_replacing(directory)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
    sync_directory(directory)


def set_kernel_file(path: str, value: t.Any, directory: int | None = None) -> None:
    """Write a value to a file of the kernel, such as one of sysfs or of a control group, by one call.

    Args:
        path: of the file.
        value: what is written.
        directory: the descriptor of the directory that the path begins at; that makes many writes to it cheaper.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def write_link(path: str, target: str) -> None:
    """Replace a file by a symbolic link, so that it stays after a power cut."""
    remove_file(path)
    os.symlink(target, path)
    sync_directory(os.path.dirname(path))


def text_or_target(path: str) -> str | None:
    """Return the text of a file, or the target of a symbolic link; None if it does not exist."""
    if os.path.islink(path):
        return os.readlink(path)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def remove_file(path: str) -> bool:
    """Remove a file so that it stays removed after a power cut; return whether it existed."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    sync_directory(os.path.dirname(path))
    return True


def sync_directory(directory: str) -> None:
    """Write the entries of a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
