# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the builds of membw, and look at the memory of one that is running."""

from __future__ import annotations

import json
import os
import pathlib
import re
import resource
import subprocess
import time

import pytest

BUILD = pathlib.Path(__file__).resolve().parent / "build"
MAX_MEMORY = 2**30


def limit_memory():
    """Let no test take more than a bounded amount of memory, however large the cache of the machine is."""
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Membw:
    """One build of membw."""

    def __init__(self, name, prepare=limit_memory):
        self.program, self.prepare = BUILD / name, prepare

    def start(self, *arguments, stdout=subprocess.PIPE):
        """Start it."""
        words = [self.program, *map(str, arguments)]
        return Running(subprocess.Popen(words, stdout=stdout, stderr=subprocess.PIPE, text=True, preexec_fn=self.prepare))

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

    def buffer(self, size):
        """Wait until its buffer is filled and locked, and return the address. No other mapping has this size."""
        while self.process.poll() is None:
            locked = re.search(r"^VmLck:\s+[1-9]", (self.files / "status").read_text(encoding="ascii"), re.M)
            mappings = re.findall(r"^(\w+)-(\w+) rw-p .* 0 *$", (self.files / "maps").read_text(encoding="ascii"), re.M)
            found = [int(begin, 16) for begin, end in mappings if int(end, 16) - int(begin, 16) == size]
            if locked and found:
                return found[0]
            time.sleep(0.001)
        raise AssertionError(f"membw ended before its buffer was found: {self.end()}")

    def wait_for_threads_on(self, cpus):
        """Wait until each of these CPUs has one thread that is bound to it; return whether that happened before the end."""
        while self.process.poll() is None:
            status = [path.read_text(encoding="ascii") for path in self.files.glob("task/*/status") if path.parent.name != self.files.name]
            if sorted(int(text) for text in re.findall(r"^Cpus_allowed_list:\s+(\d+)$", "".join(status), re.M)) == cpus:
                return True
            time.sleep(0.001)
        return False

    def write(self, address, value):
        """Change a word of its memory."""
        with open(self.files / "mem", "r+b", buffering=0) as memory:
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
    return Membw(request.param, prepare=None)
