# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory record of a recorded host, and of this machine."""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import shutil
import time

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import memory as host_memory
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, parse_cpu_list
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_command

MB = 1024 * 1024


def test_kernel_and_processors(quiet):
    record = host_memory.gather(run_command, quiet)

    assert record["kernel"] == {
        "release": "6.12.117+deb13-amd64",
        "version": "#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1 (2026-11-12)",
        "architecture": "x86_64",
        "cmdline": "console=ttyS0 quiet rcu_nocbs=0-3 psi=1 rdinit=/init",
        "boot_id": "00000000-1111-2222-3333-444444444444",
        "machine": "7dc0dde03bd2f6e3",
        "hardware": "QEMU Standard PC (Q35 + ICH9, 2009)",
        "uptime_s": 16.15,
    }
    assert record["cpu"] == {
        "model": "QEMU TCG CPU version 2.5+",
        "online": 4,
        "last": 3,
        "sockets": 2,
        "smt": False,
        "governors": {},
        "frequency_driver": None,
        "idle": {"driver": None, "governor": None, "awake": None},
        "hypervisor": True,
        "clocksource": "hpet",
        "rcu_nocb_config": True,
        "rcu_nocbs": "0-3",
    }
    assert record["unreadable"] == []


def test_governors_are_counted(quiet, write):
    for cpu, governor in enumerate(("performance", "performance", "powersave", "performance")):
        write(quiet, f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", governor + "\n")

    assert host_memory.cpu(HostFiles(quiet))["governors"] == {"performance": 3, "powersave": 1}


@pytest.mark.parametrize(
    ("first_state", "limits", "programs", "awake"),
    [
        ("POLL", ("0", "0", "0", "0"), None, False),
        ("POLL", ("n/a", "n/a", "n/a", "n/a"), None, True),
        ("POLL", ("n/a", "n/a", "20", "n/a"), None, False),
        ("POLL", ("0", "0", "0", "0"), b"\0\0\0\0", True),
        ("POLL", ("0", "0", "0", "0"), b"\x00\x94\x35\x77", False),
        ("WFI", ("n/a", "n/a", "n/a", "n/a"), b"\0\0\0\0", None),
        (None, ("n/a", "n/a", "n/a", "n/a"), None, None),
    ],
)
def test_processors_stay_awake_if_no_latency_is_allowed_and_the_kernel_can_poll(
    quiet, write, first_state, limits, programs, awake
):
    write(quiet, "/sys/devices/system/cpu/cpuidle/current_driver", "acpi_idle\n")
    for number, limit in enumerate(limits):
        write(quiet, f"/sys/devices/system/cpu/cpu{number}/power/pm_qos_resume_latency_us", f"{limit}\n")
    if first_state:
        write(quiet, "/sys/devices/system/cpu/cpu0/cpuidle/state0/name", f"{first_state}\n")
    if programs:
        write(quiet, host_memory.CPU_LATENCY_LIMIT, programs)
    found = host_memory.cpu(HostFiles(quiet))["idle"]
    assert found == {"driver": "acpi_idle", "governor": None, "awake": awake}

    write(quiet, "/proc/cmdline", "quiet idle=poll\n")
    assert host_memory.cpu(HostFiles(quiet))["idle"]["awake"] is True


def test_configuration_in_the_kernel_comes_first_and_may_be_missing(quiet, write):
    write(
        quiet,
        "/proc/config.gz",
        gzip.compress(b"A=y\nCONFIG_RCU_NOCB_CPU_DEFAULT_ALL=y\n# CONFIG_RCU_NOCB_CPU is not set\n"),
    )
    assert host_memory.cpu(HostFiles(quiet))["rcu_nocb_config"] is False

    os.remove(quiet + "/proc/config.gz")
    shutil.rmtree(quiet + "/boot")
    assert host_memory.cpu(HostFiles(quiet))["rcu_nocb_config"] is None


def test_numa(quiet):
    numa = host_memory.gather(run_command, quiet)["numa"]

    assert [(node["id"], node["cpus"], node["memory_only"]) for node in numa["nodes"]] == [
        (0, "0-1", False),
        (1, "2-3", False),
        (2, "", True),
    ]
    assert [node["distances"] for node in numa["nodes"]] == [[10, 21, 31], [21, 10, 41], [31, 41, 10]]
    assert all(0 < node["free_bytes"] <= node["total_bytes"] for node in numa["nodes"])
    assert numa["tiers"] == {"memory_tier4": "0-2"}
    assert numa["demotion_enabled"] is True


def test_memory_and_swap(quiet):
    record = host_memory.gather(run_command, quiet)

    assert record["memory"]["hugepages"] == {"2048kB": 8, "1048576kB": 0}
    assert 1900 * MB < record["memory"]["available_bytes"] < record["memory"]["total_bytes"] < 2560 * MB
    assert [(area["name"], area["priority"]) for area in record["swap"]["areas"]] == [
        ("/dev/zram0", 100),
        ("/dev/nvme0n1", 10),
        ("/dev/nvme1n1", 10),
    ]
    assert record["swap"]["zram"] == {"zram0": {"disksize_bytes": 48 * MB, "algorithm": "zstd"}}
    assert record["swap"]["zswap"] == {
        "enabled": False,
        "accept_threshold_percent": 90,
        "compressor": "lzo",
        "max_pool_percent": 20,
        "shrinker_enabled": False,
        "zpool": "zsmalloc",
    }


def test_knobs(quiet):
    record = host_memory.gather(run_command, quiet)

    assert record["thp"]["enabled"] == "never"
    assert record["thp"]["sizes"]["enabled"]["2048kB"] == "inherit"
    assert "8kB" not in record["thp"]["sizes"]["enabled"] and "8kB" in record["thp"]["sizes"]["shmem_enabled"]
    assert record["ksm"]["run"] == 0 and record["ksm"]["advisor_mode"] == "none"
    assert record["mglru"] == {"enabled": "0x0007", "min_ttl_ms": 0}
    assert record["sysctl"]["vm.page-cluster"] == 0
    assert record["sysctl"]["vm.watermark_scale_factor"] == 400
    assert record["sysctl"]["kernel.numa_balancing"] == 2
    assert None not in record["sysctl"].values()
    assert record["nvme"] == {"io_queue_depth": 1024}


def test_disk_queues(quiet):
    queues = host_memory.gather(run_command, quiet)["block_queues"]

    assert list(queues) == ["nvme0n1", "nvme1n1", "sda"]
    assert queues["nvme0n1"] == {
        "scheduler": "mq-deadline",
        "nr_requests": 64,
        "max_sectors_kb": 512,
        "nomerges": 0,
        "read_ahead_kb": 128,
        "rq_affinity": 1,
        "wbt_lat_usec": 2000,
        "rotational": False,
        "size_bytes": 1024 * MB,
        "model": "QEMU NVMe Ctrl",
        "serial": "OPT0",
        "numa_node": 0,
    }
    assert (queues["nvme1n1"]["scheduler"], queues["nvme1n1"]["numa_node"]) == ("none", 1)
    assert (queues["sda"]["serial"], queues["sda"]["numa_node"]) == ("SCSI0", None)


def test_limit_of_a_control_group_is_the_smallest_of_its_own_and_its_parents(quiet):
    assert host_memory.cgroup(HostFiles(quiet)) == {
        "version": 2,
        "path": "/density/fleet",
        "memory_controller": True,
        "memory_max_bytes": 80 * MB,
        "memory_high_bytes": 64 * MB,
        "swap_max_bytes": 1024 * MB,
        "memory_and_swap_max_bytes": None,
        "cpus": "0-3",
        "mems": "0-2",
    }


@pytest.mark.parametrize("mount_root", ["/", "/outer"])
def test_limits_of_a_control_group_version_1(quiet, mount_root, write):
    inside = "/outer/inner"[len(mount_root.rstrip("/")) :]
    write(quiet, "/proc/self/cgroup", "4:cpu,memory:/outer/inner\n0::/somewhere\n")
    write(
        quiet, "/proc/self/mountinfo", f"35 31 0:32 {mount_root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    )
    write(quiet, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    write(quiet, f"/sys/fs/cgroup/memory{inside}/memory.limit_in_bytes", f"{100 * MB}\n")
    write(quiet, f"/sys/fs/cgroup/memory{inside}/memory.memsw.limit_in_bytes", "9223372036854771712\n")

    cgroup = host_memory.cgroup(HostFiles(quiet))

    assert (cgroup["version"], cgroup["path"], cgroup["memory_controller"]) == (1, "/outer/inner", True)
    assert (cgroup["memory_max_bytes"], cgroup["memory_and_swap_max_bytes"]) == (100 * MB, None)


def test_ksmtuned_is_found_and_unknown_if_processes_are_hidden(quiet, write):
    write(quiet, "/proc/77/comm", "ksmtuned\n")
    assert host_memory.ksm(HostFiles(quiet))["ksmtuned_running"] is True
    os.remove(quiet + "/proc/77/comm")
    assert host_memory.ksm(HostFiles(quiet))["ksmtuned_running"] is False
    os.remove(quiet + "/proc/1/comm")
    assert host_memory.ksm(HostFiles(quiet))["ksmtuned_running"] is None


def test_damon_that_runs_is_named_with_what_it_does(quiet, write):
    def kdamond(number, state, *actions):
        directory = f"/sys/kernel/mm/damon/admin/kdamonds/{number}"
        write(quiet, f"{directory}/state", f"{state}\n")
        write(quiet, f"{directory}/contexts/nr_contexts", "1\n")
        write(quiet, f"{directory}/contexts/0/schemes/nr_schemes", f"{len(actions)}\n")
        for scheme, action in enumerate(actions):
            write(quiet, f"{directory}/contexts/0/schemes/{scheme}/action", f"{action}\n")

    before = host_memory.gather(run_command, quiet)
    assert before["damon"] == {"running": {}, "modules": []}

    write(quiet, "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "3\n")
    kdamond(0, "off", "pageout")
    kdamond(1, "on", "stat", "pageout", "stat")
    kdamond(2, "on")
    write(quiet, "/sys/module/damon_reclaim/parameters/enabled", "Y\n")
    write(quiet, "/sys/module/damon_lru_sort/parameters/enabled", "N\n")
    after = host_memory.gather(run_command, quiet)
    assert after["damon"] == {"running": {"1": ["pageout", "stat"], "2": []}, "modules": ["damon_reclaim"]}
    assert after["settings_digest"] == before["settings_digest"], "its owner may turn it on and off at any time"
    assert after["unreadable"] == []


def test_an_empty_tree_has_every_fixed_key_without_a_value(quiet, tmp_path):
    empty = host_memory.gather(run_command, str(tmp_path / "nothing"))
    full = host_memory.gather(run_command, quiet)

    assert set(empty) == set(full)
    sections = ("kernel", "cpu", "numa", "memory", "swap", "thp", "ksm", "mglru", "damon", "sysctl", "cgroup", "imdt")
    for section in sections:
        assert set(empty[section]) == set(full[section]), section
    assert empty["swap"]["zswap"] == {"enabled": None}
    assert empty["numa"]["nodes"] == [] and empty["block_queues"] == {}
    assert set(empty["sysctl"].values()) == {None}
    assert empty["unreadable"] == []


def test_unreadable_files_are_listed(quiet):
    os.remove(quiet + "/proc/sys/vm/swappiness")
    os.mkdir(quiet + "/proc/sys/vm/swappiness")  # root may read every file, but no directory

    record = host_memory.gather(run_command, quiet)

    assert record["sysctl"]["vm.swappiness"] is None
    assert record["unreadable"] == ["/proc/sys/vm/swappiness: Is a directory"]


def test_a_record_is_small_and_plain_json(quiet):
    record = host_memory.gather(run_command, quiet)

    assert len(json.dumps(record)) < 6000
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_pressure_does_not_change_the_digest_of_the_settings(quiet, pressed, write):
    write(pressed, "/proc/uptime", "99999.5 1.0\n")
    before, after = host_memory.gather(run_command, quiet), host_memory.gather(run_command, pressed)

    assert before["swap"] != after["swap"]
    assert before["settings_digest"] == after["settings_digest"] == host_memory.settings_digest(after)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/proc/sys/vm/page-cluster", "3\n"),
        ("/proc/cmdline", "quiet\n"),
        ("/proc/sys/kernel/osrelease", "6.13.0\n"),
        ("/proc/swaps", "Filename Type Size Used Priority\n/dev/nvme0n1 partition 1048572 0 10\n"),
        ("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", "[always] inherit madvise never\n"),
        ("/sys/kernel/mm/lru_gen/enabled", "0x0000\n"),
        ("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "9\n"),
        ("/sys/module/zswap/parameters/enabled", "Y\n"),
        ("/sys/devices/virtual/block/zram0/comp_algorithm", "[lz4] zstd\n"),
        ("/sys/block/nvme0n1/queue/scheduler", "[none] mq-deadline\n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        ("/sys/devices/system/cpu/cpuidle/current_governor", "haltpoll\n"),
        ("/sys/fs/cgroup/density/memory.max", "1048576\n"),
        ("/proc/77/comm", "ksmtuned\n"),
    ],
)
def test_a_changed_setting_changes_the_digest(quiet, path, content, write):
    before = host_memory.gather(run_command, quiet)["settings_digest"]

    write(quiet, path, content)

    assert host_memory.gather(run_command, quiet)["settings_digest"] != before


def test_a_knob_that_the_advisor_of_ksm_adjusts_is_not_a_setting(quiet, write):
    write(quiet, "/sys/kernel/mm/ksm/advisor_mode", "none [scan-time]\n")
    before = host_memory.gather(run_command, quiet)["settings_digest"]

    write(quiet, "/sys/kernel/mm/ksm/pages_to_scan", "7777\n")

    assert host_memory.gather(run_command, quiet)["settings_digest"] == before


def test_a_sysctl_that_the_kernel_recalculates_is_not_a_setting(quiet, write):
    before = host_memory.gather(run_command, quiet)

    write(quiet, "/proc/sys/vm/min_free_kbytes", "19665\n")
    after = host_memory.gather(run_command, quiet)

    assert after["sysctl"]["vm.min_free_kbytes"] == 19665 != before["sysctl"]["vm.min_free_kbytes"]
    assert after["settings_digest"] == before["settings_digest"]


@pytest.fixture
def write_tool(quiet, write):
    """Return a function that writes a version tool of IMDT into the recorded host."""

    def write_tool(body, name="vsmpversion", mode=0o755):
        write(quiet, f"/usr/local/bin/{name}", "#!/bin/sh\n# vsmpversion\n" + body, mode)

    return write_tool


def test_imdt_is_detected_by_its_tool(quiet, write_tool):
    write_tool('test "$*" = --long && echo "Version 8.6.2535.33" && echo second line\n', name="imdtversion")

    assert host_memory.imdt(HostFiles(quiet), run_command) == {
        "detected": True,
        "tool": "/usr/local/bin/imdtversion",
        "version": "Version 8.6.2535.33\nsecond line",
        "reason": None,
    }


@pytest.mark.parametrize(
    ("name", "body", "mode", "reason"),
    [
        ("vsmpversion", "exit 3\n", 0o755, "/usr/local/bin/vsmpversion --long ended with status 3"),
        ("vsmpversion", "exit 0\n", 0o644, "/usr/local/bin/vsmpversion is not an executable file"),
        ("longerversion", "exit 0\n", 0o755, "there is no /usr/local/bin/????version"),
    ],
)
def test_imdt_is_not_detected_without_its_tool(quiet, name, body, mode, reason, write_tool):
    write_tool(body, name, mode)

    assert host_memory.imdt(HostFiles(quiet), run_command) == {
        "detected": False,
        "tool": None,
        "version": None,
        "reason": reason,
    }


def test_a_tool_without_the_mark_is_not_run(quiet, tmp_path, write):
    write(quiet, "/usr/local/bin/someversion", f"#!/bin/sh\ntouch {tmp_path}/ran\n", 0o755)

    assert (
        host_memory.imdt(HostFiles(quiet), run_command)["reason"]
        == "/usr/local/bin/someversion does not contain vsmpversion"
    )
    assert not os.path.exists(tmp_path / "ran")


def test_a_tool_that_hangs_is_killed_with_its_children(quiet, tmp_path, write_tool):
    write_tool(f"sleep 60 & echo $! > {tmp_path}/child\nwait\n")
    started = time.monotonic()

    result = host_memory.imdt(HostFiles(quiet), run_command, timeout=5)

    assert result["reason"] == "/usr/local/bin/vsmpversion --long did not end within 5 s"
    assert time.monotonic() - started < 30
    child = (tmp_path / "child").read_text().strip()
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{child}/exe") and time.monotonic() < deadline:
        time.sleep(0.05)
    # It may still be a zombie, which has no command line.
    command_line = pathlib.Path(f"/proc/{child}/cmdline")
    assert not command_line.exists() or command_line.read_bytes() == b""


def test_this_machine():
    record = host_memory.gather(run_command)

    assert record["kernel"]["release"] == os.uname().release
    assert record["kernel"]["version"] == os.uname().version
    assert record["kernel"]["uptime_s"] > 0
    assert record["cpu"]["online"] == os.cpu_count()
    assert record["memory"]["total_bytes"] > record["memory"]["available_bytes"] > 0
    assert sum(len(parse_cpu_list(node["cpus"])) for node in record["numa"]["nodes"]) == record["cpu"]["online"]
    assert record["sysctl"]["vm.swappiness"] is not None
    assert record["cgroup"]["version"] in (1, 2)
    assert len(json.dumps(record)) < 6000
