# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script that reserves huge pages at boot runs with the memory of several hosts. Nothing is reserved here."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import budget_service

MIB = 2**20
GIB_KIB = 1024 * 1024


@pytest.fixture(name="boot")
def _boot(tmp_path):
    """Return a function that runs the script at a boot with some memory; it returns its output and the huge pages."""

    def boot(total_kib, budget, original_pages=0, page_kib=2048):
        script, meminfo, target = tmp_path / "script", tmp_path / "meminfo", tmp_path / "nr_hugepages"
        script.write_text(budget_service.script(budget, original_pages), encoding="utf-8")
        lines = [f"MemTotal:       {total_kib} kB", "MemFree:  1 kB", "HugePages_Total:       7"]
        lines += [f"Hugepagesize:       {page_kib} kB"] if page_kib else []
        meminfo.write_text("\n".join(lines) + "\n", encoding="ascii")
        target.write_text(f"{original_pages}\n", encoding="ascii")
        command = ["/bin/sh", str(script), str(meminfo), str(target)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return output, int(target.read_text(encoding="ascii"))

    return boot


def test_the_memory_above_the_budget_is_reserved(boot):
    output, pages = boot(192 * GIB_KIB, 64 * 1024 * MIB)
    assert pages == 128 * 512
    assert output == "65536 of 65536 huge pages are reserved, so that a DRAM budget of 65536 MiB is left.\n"
    assert boot(192 * GIB_KIB, 64 * 1024 * MIB, original_pages=100)[1] == 128 * 512 + 100
    assert boot(192 * GIB_KIB, 64 * 1024 * MIB, page_kib=GIB_KIB)[1] == 128


@pytest.mark.usefixtures("needs_root")  # for the namespace
def test_the_number_is_read_back_from_a_file_of_sysctl(tmp_path):
    """Such a file cannot be read byte by byte. This one belongs to a network namespace: the machine stays as it is."""
    script, meminfo = tmp_path / "script", tmp_path / "meminfo"
    script.write_text(budget_service.script(64 * MIB, 0), encoding="utf-8")
    meminfo.write_text(f"MemTotal: {320 * 1024} kB\nHugepagesize: 2048 kB\n", encoding="ascii")
    in_namespace = ["unshare", "--net", "/bin/sh", str(script), str(meminfo)]
    done = subprocess.run([*in_namespace, "/proc/sys/net/core/somaxconn"], check=True, capture_output=True, text=True)
    assert done.stdout == "128 of 128 huge pages are reserved, so that a DRAM budget of 64 MiB is left.\n"


def test_a_host_with_half_its_memory_keeps_the_budget(boot):
    """A fixed number, 65536 pages of 2 MiB, would be 128 GiB of its 96 GiB."""
    assert boot(96 * GIB_KIB, 64 * 1024 * MIB)[1] == 32 * 512


@pytest.mark.parametrize("total_gib", [48, 64])
def test_a_host_without_more_memory_than_the_budget_reserves_nothing(boot, total_gib):
    output, pages = boot(total_gib * GIB_KIB, 64 * 1024 * MIB, original_pages=5)
    assert pages == 5
    mib = total_gib * 1024
    assert (
        output == f"No huge pages are reserved: the host has {mib} MiB of memory, and the DRAM budget is 65536 MiB.\n"
    )


def test_a_kernel_without_huge_pages_boots(boot):
    output, pages = boot(96 * GIB_KIB, 64 * 1024 * MIB, page_kib=0)
    assert "this kernel has no huge pages" in output and pages == 0


def test_a_number_that_the_kernel_refuses_fails_the_service(tmp_path):
    script, meminfo = tmp_path / "script", tmp_path / "meminfo"
    script.write_text(budget_service.script(64 * MIB, 0), encoding="utf-8")
    meminfo.write_text("MemTotal: 1000000 kB\nHugepagesize: 2048 kB\n", encoding="ascii")
    command = ["/bin/sh", str(script), str(meminfo), str(tmp_path)]
    assert subprocess.run(command, check=False, capture_output=True).returncode != 0


@pytest.fixture(name="files")
def _files(tmp_path, monkeypatch):
    paths = {name: str(tmp_path / getattr(budget_service, name).lstrip("/")) for name in ("SCRIPT_FILE", "UNIT_FILE")}
    paths["LINK"] = str(tmp_path / budget_service.LINK.lstrip("/"))
    for name, path in paths.items():
        monkeypatch.setattr(budget_service, name, path)
    monkeypatch.setattr(budget_service, "FILES", tuple(paths.values()))
    return paths


def test_the_service_is_written_once_and_removed(files, tmp_path):
    before = budget_service.read_files()
    wanted = budget_service.wanted_files(64 * MIB, 0)

    assert budget_service.write_files(wanted) and not budget_service.write_files(wanted)
    assert budget_service.read_files() == wanted
    assert os.path.samefile(files["LINK"], files["UNIT_FILE"])
    assert budget_service.write_files(budget_service.wanted_files(32 * MIB, 0)), "another budget"

    assert budget_service.write_files(before) and not budget_service.write_files(before)
    assert [name for name in tmp_path.rglob("*") if not name.is_dir()] == []
    assert not os.path.exists(os.path.dirname(files["LINK"]))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path):
    unit = tmp_path / f"{budget_service.NAME}.service"
    unit.write_text(budget_service.UNIT, encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    verified = subprocess.run(command, check=False, capture_output=True, text=True)
    assert verified.returncode == 0 and not verified.stderr, verified.stderr
