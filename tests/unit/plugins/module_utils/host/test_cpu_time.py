# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a result comes from, and the share of CPU time that was stolen from it."""

from __future__ import annotations

import os
import re
import threading
import time

from ansible_collections.memstretch.density.plugins.module_utils.host import cpu_time
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles


def test_the_stolen_share_is_that_of_all_ticks():
    assert cpu_time.stolen_share([10, 0, 5, 80, 0, 0, 0, 5], [60, 0, 15, 110, 0, 0, 0, 15]) == 0.1
    assert cpu_time.stolen_share([1] * 8, [1] * 8) is None
    assert cpu_time.stolen_share([], []) is None


def test_a_result_names_its_machine(tmp_path):
    (tmp_path / "proc" / "sys" / "kernel").mkdir(parents=True)
    (tmp_path / "proc" / "sys" / "kernel" / "osrelease").write_text("6.12.1\n", encoding="ascii")
    (tmp_path / "proc" / "cpuinfo").write_text("processor\t: 0\nmodel name\t: A CPU\n\n", encoding="ascii")
    stat = tmp_path / "proc" / "stat"
    stat.write_text("cpu  10 0 5 80 0 0 0 5 0 0\ncpu0 1 2 3\n", encoding="ascii")
    origin = cpu_time.Origin(HostFiles(str(tmp_path)))
    stat.write_text("cpu  60 0 15 110 0 0 0 15 0 0\ncpu0 1 2 3\n", encoding="ascii")
    found = origin.facts()

    assert (found["cpu_model"], found["kernel"], found["stolen"]) == ("A CPU", "6.12.1", 0.1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"]) and 0 <= found["seconds"] < 60

    stat.write_text("cpu  10 0 5 80 0 0 0 5 0 0\n", encoding="ascii")
    resumed = cpu_time.Origin(HostFiles(str(tmp_path)), {"date": "2026-01-02", "seconds": 1e6, "stolen": 0.25})
    stat.write_text("cpu  60 0 15 110 0 0 0 15 0 0\n", encoding="ascii")
    together = resumed.facts()
    assert (together["date"], together["cpu_model"]) == ("2026-01-02", "A CPU")
    assert 1e6 <= together["seconds"] < 1e6 + 60 and together["stolen"] == 0.25  # 0.1 in less than a minute


def test_each_cpu_is_read(tmp_path):
    (tmp_path / "proc").mkdir()
    lines = ["cpu  9 9 9 9 9 9 9 9", "cpu0 1 2 3 40 5 6 7 8 0 0", "cpu1 0 0 0 1 0 0 0 0 0 0", "intr 5", "cpu2 1 2 3 4"]
    (tmp_path / "proc" / "stat").write_text("\n".join(lines))
    assert cpu_time.each_cpu(HostFiles(str(tmp_path))) == [(45, 8, 72), (1, 0, 1)]


def test_the_cpu_time_of_a_thread_is_exact_where_the_kernel_tells_it(tmp_path):
    files = HostFiles(str(tmp_path))
    directory = tmp_path / "proc" / "77"
    directory.mkdir(parents=True)
    assert cpu_time.thread_seconds(files, 77) is None

    (directory / "stat").write_text("77 (kdamond.0) S 2 0 0 0 -1 0 0 0 0 0 1 3 0 0 20 0 1 0 9\n", encoding="ascii")
    assert cpu_time.thread_seconds(files, 77) == 4 / os.sysconf("SC_CLK_TCK")
    (directory / "schedstat").write_text("41234567 100 12\n", encoding="ascii")
    assert cpu_time.thread_seconds(files, 77) == 0.041234567


def test_the_cpu_time_of_this_process_is_what_it_has_used():
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    time.sleep(0.01)  # the kernel counts it when the process is switched
    found = cpu_time.thread_seconds(HostFiles(), threading.get_native_id())
    assert found is not None and abs(found - time.thread_time()) < 0.1
