# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the builds of membw, and look at the memory of one that is running."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import time

import pytest

BUILD = pathlib.Path(__file__).resolve().parent / "build"
# With 1 GiB, a test fails if it needs more memory the larger the cache is. There are no core files because some tests
# make membw crash.
LIMITED = ("prlimit", f"--data={2**30}", "--core=0")


class Membw:
    """One build of membw."""

    def __init__(self, name, prefix=LIMITED):
        self.command = (*prefix, BUILD / name)

    def start(self, *arguments, stdout=subprocess.PIPE):
        """Start it."""
        words = [*self.command, *map(str, arguments)]
        return Running(subprocess.Popen(words, stdout=stdout, stderr=subprocess.PIPE, text=True))

    def run(self, *arguments):
        """Run it until it ends."""
        return self.start(*arguments).end()

    def measure(self, *arguments):
        """Return its result."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


class Running:
    """A process of membw."""

    def __init__(self, process):
        self.process = process
        self.files = pathlib.Path("/proc") / str(process.pid)

    def end(self):
        """Wait until it ends."""
        output, diagnostics = self.process.communicate(timeout=60)
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, output, diagnostics)

    def read(self, name):
        """Return the text of one of its files in /proc; nothing if it has ended."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return (self.files / name).read_text(encoding="ascii")
        return ""

    def buffer(self, size):
        """Wait until its buffer is filled and locked, and return the address; None if it ends before that.

        No other mapping may have this size.
        """
        while self.process.poll() is None:
            locked = re.search(r"^VmLck:\s+[1-9]", self.read("status"), re.MULTILINE)
            mappings = re.findall(r"^(\w+)-(\w+) rw-p .* 0 *$", self.read("maps"), re.MULTILINE)
            found = [int(begin, 16) for begin, end in mappings if int(end, 16) - int(begin, 16) == size]
            if locked and found:
                return found[0]
            time.sleep(0.001)
        return None

    def wait_for_threads_on(self, cpus):
        """Wait until one thread is bound to each of these CPUs; return False if the process ends before that."""
        while self.process.poll() is None:
            threads = sorted(int(path.name) for path in self.files.glob("task/*"))[1:]  # without the main thread
            status = "".join(self.read(f"task/{thread}/status") for thread in threads)
            if sorted(map(int, re.findall(r"^Cpus_allowed_list:\s+(\d+)$", status, re.MULTILINE))) == cpus:
                return True
            time.sleep(0.001)
        return False

    def write(self, address, value):
        """Change a word of its memory, unless it has ended."""
        with contextlib.suppress(ProcessLookupError), open(self.files / "mem", "r+b", buffering=0) as memory:
            os.pwrite(memory.fileno(), value.to_bytes(8, "little"), address)


@pytest.fixture
def membw():
    """The program as it is shipped."""
    return Membw("membw")


@pytest.fixture(params=["membw", "membw-O3", "membw-clang-O3"])
def optimised(request):
    """The program from compilers that remove every read that they can."""
    return Membw(request.param)


@pytest.fixture(params=["membw-sanitized", "membw-threads"])
def sanitized(request):
    """The program with a sanitizer. Sanitizers map more memory than the limit allows."""
    return Membw(request.param, prefix=())
