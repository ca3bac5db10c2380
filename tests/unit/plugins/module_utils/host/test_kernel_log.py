# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import uuid

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import kernel_log


@pytest.mark.usefixtures("needs_root")  # to write a message of the kernel
def test_only_messages_after_the_position_are_read():
    device = pathlib.Path("/dev/kmsg")
    before, after = (f"memstretch test {uuid.uuid4()}" for _message in range(2))
    device.write_text(f"<7>{before}\n", encoding="utf-8")
    position = kernel_log.read_kernel_log().position
    device.write_text(f"<7>{after}\n", encoding="utf-8")
    log = kernel_log.read_kernel_log(position)
    assert any(after in line for line in log.lines) and not any(before in line for line in log.lines)
    assert log.lines[-1].startswith("[") and log.lost == 0 and log.position > position
    assert kernel_log.read_kernel_log(log.position + 10**9).lines == []  # of a kernel that was booted again


def test_a_log_that_cannot_be_read_is_unknown(tmp_path):
    with pytest.raises(kernel_log.KernelLogUnknown, match="No such file"):
        kernel_log.read_kernel_log(path=str(tmp_path / "kmsg"))


def test_the_raw_files_of_a_host(tmp_path):
    directory = tmp_path / "sys/kernel/mm/ksm"
    directory.mkdir(parents=True)
    (directory / "run").write_text("1\n", encoding="utf-8")
    (directory / "trigger").touch(mode=0o200)
    # Of a DAMON that looks at many places of the memory.
    for number in range(kernel_log._MOST_FILES):
        region = tmp_path / f"sys/kernel/mm/damon/targets/0/regions/{number}"
        region.mkdir(parents=True)
        (region / "start").write_text("4096\n", encoding="utf-8")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8 kB\n", encoding="utf-8")
    assert kernel_log.raw_files(str(tmp_path)) == {
        "/proc/meminfo": "MemTotal: 8 kB",
        "/sys/kernel/mm": "/sys/kernel/mm/ksm/run: 1",
    }
    assert "/sys/kernel/mm/transparent_hugepage/" in kernel_log.raw_files()["/sys/kernel/mm"]
