# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processors that are kept awake for a while; tests/local/test_site_check.py reads from the kernel that they are."""

from __future__ import annotations

import multiprocessing
import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import cpu_idle


def test_a_kernel_without_a_limit_is_named_and_no_file_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu_idle, "CPU_LATENCY_LIMIT", str(tmp_path / "limit"))
    missing = "limit: No such file or directory; a kernel without CPU idle states lacks it"
    with pytest.raises(cpu_idle.CpuIdleError, match=missing), cpu_idle.kept_awake():
        pass
    assert not (tmp_path / "limit").exists()


def _try_as_a_user(answer):
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        with cpu_idle.kept_awake():
            answer.put("kept awake")
    except cpu_idle.CpuIdleError as error:
        answer.put(str(error))


@pytest.mark.skipif(not os.path.exists(cpu_idle.CPU_LATENCY_LIMIT), reason="this kernel or container has no limit")
def test_a_user_without_root_is_told_so():
    processes = multiprocessing.get_context("fork")
    answer = processes.SimpleQueue()
    process = processes.Process(target=_try_as_a_user, args=(answer,))
    process.start()
    process.join()
    assert answer.get().endswith(": Permission denied; it needs root (ansible_become)")
