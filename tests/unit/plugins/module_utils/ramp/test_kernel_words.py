# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel says of a process that it kills."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.kernel_log import KernelLog, KernelLogUnknown
from ansible_collections.memstretch.density.plugins.module_utils.ramp import kernel_words

KILL = "[  12.000000] Memory cgroup out of memory: Killed process 12 (qemu-system-x86) total-vm:1kB"

# The namespace of processes that the kernel starts with, whose number is the same on each machine.
FIRST = "pid:[4026531836]"


@pytest.fixture
def log(monkeypatch):
    """The lines of a kernel's log; None if nobody may read it."""
    found: dict[str, list[str] | None] = {"lines": ["[   1.000000] booted", KILL]}

    def read(after=None):
        if found["lines"] is None:
            raise KernelLogUnknown("/dev/kmsg: Permission denied")
        return KernelLog(7, found["lines"] if after in (0, 7) else [], 0)

    monkeypatch.setattr(kernel_words, "read_kernel_log", read)
    return found


def test_the_words_on_a_process_are_those_that_name_it(log, monkeypatch):
    monkeypatch.setattr(kernel_words.os, "readlink", lambda _path: FIRST)  # this test may run in a container
    words = kernel_words.KernelWords("fleet")
    assert words.on(12, True) == "Memory cgroup out of memory: Killed process 12 (qemu-system-x86)"
    assert words.on(1, True) == "" == words.on(2, True)


def test_nobody_knows_what_a_log_says_that_cannot_be_read(log):
    words = kernel_words.KernelWords("fleet")
    log["lines"] = None
    assert words.on(12, True) == "" == kernel_words.KernelWords("fleet").on(12, True)


@pytest.mark.parametrize(("namespace", "found"), [(FIRST, ""), ("pid:[4026532301]", "Killed process 12")])
def test_in_a_container_the_words_are_those_on_the_control_group(log, monkeypatch, namespace, found):
    monkeypatch.setattr(kernel_words.os, "readlink", lambda _path: namespace)
    words = kernel_words.KernelWords("fleet")
    line = "[ 9.0] oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/{0},task_memcg=/{0},task=redis,pid={1},uid=0"
    log["lines"] = [line.format("other", 11), line.format("fleet", 12), KILL, line.format("other", 13)]
    assert found in words.on(3, True) and bool(words.on(3, True)) is bool(found)
    assert words.on(3, False) == "", "it has ended by itself"


def test_a_process_that_was_killed_in_a_group_is_found(log):
    line = "[ 9.0] oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/r,task_memcg=/r/libpod-{},task=redis,pid={},uid=0"
    log["lines"] = [line.format("aa", 11), line.format("bb", 12), line.format("aa/container", 13)]
    assert [kernel_words.killed_in(f"libpod-{name}") for name in ("aa", "bb", "cc")] == [13, 12, 0]
    log["lines"] = None
    assert kernel_words.killed_in("libpod-aa") == 0
