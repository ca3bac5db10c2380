# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run keeps of a host as it is: the kernel's messages, /proc/meminfo and everything below /sys/kernel/mm."""

from __future__ import annotations

import errno
import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

# Documentation/ABI/testing/dev-kmsg: one message for each read, "level,sequence,microseconds,flags;text".
_MESSAGE = re.compile(rb"(\d+),(\d+),(\d+),[^;]*;([^\n]*)")
_MESSAGE_BYTES = 8192
# The most that is kept of the messages of a run: its end.
LONGEST_LOG = 256 * 1024
# The most that is kept of one file, and of the files below /sys/kernel/mm.
_LONGEST_FILE = 64 * 1024
_MOST_FILES = 2000
# Where DAMON has directories by the ten thousand; they would leave no room for the rest.
_REGIONS = {"regions", "tried_regions"}


class KernelLog(t.NamedTuple):
    """Messages of the kernel.

    Attributes:
        position: the number of the last message.
        lines: the messages after a position, as dmesg prints them: seconds since the boot, then the text.
        lost: messages that the kernel had overwritten before they were read, or that are left out because of their
            length.
    """

    position: int
    lines: list[str]
    lost: int


class KernelLogUnknown(Exception):
    """The kernel's messages cannot be read. The text gives the reason."""


def read_kernel_log(after: int | None = None, path: str = "/dev/kmsg") -> KernelLog:
    """Return the kernel's messages after a position; without one, only the present position.

    Raises:
        KernelLogUnknown: this user must not read them, or there is no such device (in a container).
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise KernelLogUnknown(f"{path}: {error.strerror}") from error
    try:
        messages = list(_messages(descriptor))
    except OSError as error:
        raise KernelLogUnknown(f"{path}: {error.strerror}") from error
    finally:
        os.close(descriptor)
    position = messages[-1][0] if messages else after or 0
    if after is None or position < after:  # below it after a reboot only: what there is belongs to no position
        return KernelLog(position, [], 0)
    new = [(number, line) for number, line in messages if number > after]
    lost = position - after - len(new)
    length = sum(len(line) + 1 for _number, line in new)
    while length > LONGEST_LOG:
        length -= len(new.pop(0)[1]) + 1
        lost += 1
    return KernelLog(position, [line for _number, line in new], lost)


def _messages(descriptor: int) -> t.Iterator[tuple[int, str]]:
    while True:
        try:
            content = os.read(descriptor, _MESSAGE_BYTES)
        except OSError as error:
            if error.errno == errno.EPIPE:  # overwritten while we read; the next read continues with the oldest
                continue
            if error.errno == errno.EAGAIN:
                return
            raise
        found = _MESSAGE.match(content)
        if not content:
            return
        if found:
            text = found[4].decode("utf-8", "replace")
            yield int(found[2]), f"[{int(found[3]) / 1e6:12.6f}] {text}"


def raw_files(root: str = "/") -> dict[str, str]:
    """Return /proc/meminfo, and the files below /sys/kernel/mm as lines of name and value, by the name of the source.

    A file that this user must not read is listed with the reason.
    """
    files = HostFiles(root)
    found = {"/proc/meminfo": files.text("/proc/meminfo", _LONGEST_FILE) or ""}
    lines = []
    for name in sorted(_below(files, "/sys/kernel/mm"))[:_MOST_FILES]:
        refused = len(files.unreadable)
        text = files.text(name, _LONGEST_FILE)
        if len(files.unreadable) > refused:
            text = f"({files.unreadable[-1].rpartition(': ')[2]})"
        lines += [f"{name}: {line}" for line in (text or "").splitlines()]
    found["/sys/kernel/mm"] = "\n".join(lines)
    return found


def _below(files: HostFiles, directory: str) -> t.Iterator[str]:
    """Yield the readable kinds of files below a directory; links are not followed."""
    for path, directories, names in os.walk(files.path(directory)):
        directories[:] = sorted(set(directories) - _REGIONS)
        base = "/" + os.path.relpath(path, files.root)
        for name in names:
            # Some files are only for writing, such as compaction's triggers.
            if os.stat(os.path.join(path, name), follow_symlinks=False).st_mode & 0o444:
                yield f"{base}/{name}"
