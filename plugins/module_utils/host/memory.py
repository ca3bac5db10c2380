# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory record of a host: what determines how its memory behaves, read from /proc and /sys. Nothing is changed.

One function for each section of the record; the module C(host_memory_info) documents every key. Two rules hold
everywhere: a fixed key whose knob this kernel lacks is None, and a list or dictionary of discovered things (nodes,
devices, page sizes) has only those that exist. C(unreadable) names what exists but cannot be read.
"""

from __future__ import annotations

import collections
import glob
import hashlib
import json
import os
import re
import typing as t
import zlib

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.host.disks import disk_serial, numa_node, real_disks
from ansible_collections.memstretch.density.plugins.module_utils.host.files import (
    HostFiles,
    meminfo,
    mounts,
    parse_cpu_list,
    swap_areas,
)

# Kernel documentation: admin-guide/sysctl/vm.rst and kernel.rst.
SYSCTLS = (
    "vm.admin_reserve_kbytes",
    "vm.compaction_proactiveness",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_expire_centisecs",
    "vm.dirty_ratio",
    "vm.dirty_writeback_centisecs",
    "vm.min_free_kbytes",
    "vm.overcommit_kbytes",
    "vm.overcommit_memory",
    "vm.overcommit_ratio",
    "vm.page-cluster",
    "vm.percpu_pagelist_high_fraction",
    "vm.stat_interval",
    "vm.swappiness",
    "vm.vfs_cache_pressure",
    "vm.watermark_boost_factor",
    "vm.watermark_scale_factor",
    "vm.zone_reclaim_mode",
    "kernel.numa_balancing",
    "kernel.numa_balancing_promote_rate_limit_MBps",
)
# The kernel sets these itself: whenever huge pages are turned on or off it calculates min_free_kbytes from the current
# watermarks (mm/khugepaged.c, set_recommended_min_free_kbytes). Under one profile, two readings differed by 1 %.
KERNEL_SET_SYSCTLS = ("vm.min_free_kbytes",)
# admin-guide/mm/ksm.rst: the knobs, then the counters.
KSM_KNOBS = (
    "run",
    "pages_to_scan",
    "sleep_millisecs",
    "merge_across_nodes",
    "use_zero_pages",
    "max_page_sharing",
    "smart_scan",
    "advisor_mode",
)
KSM_COUNTERS = ("pages_shared", "pages_sharing", "full_scans")
KHUGEPAGED_KNOBS = (
    "defrag",
    "pages_to_scan",
    "scan_sleep_millisecs",
    "alloc_sleep_millisecs",
    "max_ptes_none",
    "max_ptes_shared",
    "max_ptes_swap",
)
# DAMON that a parameter of the kernel starts (admin-guide/mm/damon/reclaim.rst, lru_sort.rst).
DAMON_MODULES = ("damon_reclaim", "damon_lru_sort")
QUEUE_KNOBS = ("scheduler", "nr_requests", "max_sectors_kb", "nomerges", "read_ahead_kb", "rq_affinity", "wbt_lat_usec")

# A limit on the resume latency of all processors, in force while its writer holds it open (power/pm_qos_interface.rst).
CPU_LATENCY_LIMIT = "/dev/cpu_dma_latency"
NO_LATENCY = bytes(4)  # 0 us, as a 32-bit number

IMDT_TOOLS = "/usr/local/bin/????version"
IMDT_MARK = b"vsmpversion"
IMDT_TOOL_MAX_BYTES = 64 * 1024 * 1024
IMDT_TIMEOUT_S = 10.0

_MM = "/sys/kernel/mm"
_THP = f"{_MM}/transparent_hugepage"
# The threads of DAMON that somebody has set up; the pattern of the profiles for their states begins with it.
KDAMONDS = f"{_MM}/damon/admin/kdamonds"
_NODES = "/sys/devices/system/node"
_CPUS = "/sys/devices/system/cpu"
_UNREADABLE_MAX = 20


def gather(run_command: RunCommand, root: str = "/") -> dict[str, t.Any]:
    """Return the memory record of a host.

    Args:
        run_command: AnsibleModule.run_command.
        root: the directory with the host's /proc and /sys.
    """
    files = HostFiles(root)
    record: dict[str, t.Any] = {
        "kernel": kernel(files),
        "cpu": cpu(files),
        "numa": numa(files),
        "memory": memory(files),
        "swap": swap(files),
        "thp": thp(files),
        "ksm": ksm(files),
        "mglru": {
            "enabled": files.text(f"{_MM}/lru_gen/enabled"),
            "min_ttl_ms": files.number(f"{_MM}/lru_gen/min_ttl_ms"),
        },
        "damon": damon(files),
        "sysctl": {name: files.number("/proc/sys/" + name.replace(".", "/")) for name in SYSCTLS},
        "block_queues": {
            name: block_queue(files, name) for name in real_disks(files) if files.number(f"/sys/block/{name}/size")
        },
        "nvme": {"io_queue_depth": files.number("/sys/module/nvme/parameters/io_queue_depth")},
        "cgroup": cgroup(files),
        "imdt": imdt(files, run_command),
    }
    record["unreadable"] = _shortened(sorted(set(files.unreadable)))
    record["settings_digest"] = settings_digest(record)
    return record


def settings(record: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the part of a record that an operator can set, without anything that changes by itself.

    It is equal in two records of a host unless the host was changed: its kernel or command line, a knob, a swap
    area, a disk queue or a limit.
    """
    swap_, thp_, ksm_, cgroup_ = record["swap"], record["thp"], record["ksm"], record["cgroup"]
    # ksmtuned and the kernel's own advisor change this knob all the time.
    adjusted = {"pages_to_scan"} if ksm_["ksmtuned_running"] or ksm_["advisor_mode"] not in (None, "none") else set()
    return {
        "kernel": {name: record["kernel"][name] for name in ("release", "version", "cmdline")},
        "cpu": {name: record["cpu"][name] for name in ("online", "governors", "idle", "clocksource", "smt")},
        "numa": {"demotion_enabled": record["numa"]["demotion_enabled"]},
        "hugepages": record["memory"]["hugepages"],
        "swap": {
            "areas": [{name: area[name] for name in area if name != "used_bytes"} for area in swap_["areas"]],
            "zram": swap_["zram"],
            "zswap": swap_["zswap"],
            "vma_readahead": swap_["vma_readahead"],
        },
        "thp": thp_,
        "ksm": {name: ksm_[name] for name in (*KSM_KNOBS, "ksmtuned_running") if name not in adjusted},
        "mglru": record["mglru"],
        "sysctl": {name: value for name, value in record["sysctl"].items() if name not in KERNEL_SET_SYSCTLS},
        "block_queues": {
            disk: {name: queue[name] for name in QUEUE_KNOBS} for disk, queue in record["block_queues"].items()
        },
        "nvme": record["nvme"],
        "cgroup": {name: cgroup_[name] for name in cgroup_ if name != "path"},
        "imdt": {name: record["imdt"][name] for name in ("detected", "version")},
    }


def settings_digest(record: dict[str, t.Any]) -> str:
    """Return the SHA-256 of C(settings) in hexadecimal."""
    text = json.dumps(settings(record), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def selected(text: str | None) -> str | None:
    """Return the selected value of a knob that lists all values, as in "always [madvise] never"."""
    match = re.search(r"\[([^]]+)\]", text or "")
    return match.group(1) if match else text


def kernel(files: HostFiles) -> dict[str, t.Any]:
    """Return the section C(kernel)."""
    machine_id = files.text("/etc/machine-id")
    uptime = files.text("/proc/uptime")
    hardware = [files.text(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")]
    return {
        "release": files.text("/proc/sys/kernel/osrelease"),
        "version": files.text("/proc/sys/kernel/version"),
        "architecture": files.text("/proc/sys/kernel/arch") or os.uname().machine,
        "cmdline": files.text("/proc/cmdline"),
        "boot_id": files.text("/proc/sys/kernel/random/boot_id"),
        # machine-id(5) asks not to publish the identifier itself.
        "machine": hashlib.sha256(f"memstretch.density {machine_id}".encode()).hexdigest()[:16] if machine_id else None,
        "hardware": " ".join(filter(None, hardware)) or None,
        "uptime_s": float(uptime.split()[0]) if uptime else None,
    }


def cpu(files: HostFiles) -> dict[str, t.Any]:
    """Return the section C(cpu)."""
    cpus = _processors(files)
    packages = {files.text(f"{_CPUS}/{name}/topology/physical_package_id") for name in cpus} - {None}
    governors = collections.Counter(
        filter(None, (files.text(f"{_CPUS}/{name}/cpufreq/scaling_governor") for name in cpus))
    )
    # The first processor is enough; reading all of cpuinfo takes long on a large host.
    info = dict(
        re.findall(r"^([^\t:]+?)\s*: ?(.*)$", files.text("/proc/cpuinfo", size=16384) or "", re.MULTILINE)[::-1]
    )
    flags = info.get("flags")
    return {
        "model": info.get("model name"),
        "online": len(parse_cpu_list(files.text(f"{_CPUS}/online"))) or None,
        "last": max((int(name[3:]) for name in cpus), default=None),
        "sockets": len(packages) or None,
        "smt": _flag(files, f"{_CPUS}/smt/active"),
        "governors": dict(governors),
        "frequency_driver": files.text(f"{_CPUS}/cpu0/cpufreq/scaling_driver"),
        "idle": {
            "driver": files.text(f"{_CPUS}/cpuidle/current_driver"),
            "governor": files.text(f"{_CPUS}/cpuidle/current_governor"),
            "awake": stays_awake(files),
        },
        "hypervisor": "hypervisor" in flags.split() if flags is not None else None,
        "clocksource": files.text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "rcu_nocb_config": kernel_option(files, "CONFIG_RCU_NOCB_CPU"),
        "rcu_nocbs": boot_argument(files, "rcu_nocbs"),
    }


def stays_awake(files: HostFiles) -> bool | None:
    """Check whether the processors stay awake when they are idle; None if this kernel has no way to keep them awake.

    Where no resume latency is allowed, the kernel chooses the first state of the driver, which must be POLL for that
    (admin-guide/pm/cpuidle.rst). The limit that programs set for all processors can only be read by root.
    """
    if boot_argument(files, "idle") == "poll":
        return True
    if files.text(f"{_CPUS}/cpu0/cpuidle/state0/name") != "POLL":
        return None
    limit_of_programs = HostFiles(files.root).raw(CPU_LATENCY_LIMIT, len(NO_LATENCY))
    limits = {files.text(f"{_CPUS}/{name}/power/pm_qos_resume_latency_us") for name in _processors(files)}
    return limit_of_programs == NO_LATENCY or limits == {"n/a"}


def _processors(files: HostFiles) -> list[str]:
    """Return the names of the processors; offline ones have a directory, too."""
    return [name for name in files.names(_CPUS) if re.match(r"^cpu\d+$", name)]


def kernel_option(files: HostFiles, name: str) -> bool | None:
    """Check whether the kernel was built with an option; None if its configuration is not available."""
    config = files.raw("/proc/config.gz")
    if config is not None:
        config = zlib.decompress(config, wbits=zlib.MAX_WBITS | 16)
    else:
        config = files.raw(f"/boot/config-{files.text('/proc/sys/kernel/osrelease')}")
    return None if config is None else re.search(f"^{name}=y$".encode(), config, re.MULTILINE) is not None


def boot_argument(files: HostFiles, name: str) -> str | None:
    """Return the last value of an argument of the kernel command line; an empty string if it has no value."""
    values = [
        value
        for key, _equals, value in (word.partition("=") for word in (files.text("/proc/cmdline") or "").split())
        if key == name
    ]
    return values[-1] if values else None


def numa(files: HostFiles) -> dict[str, t.Any]:
    """Return the section C(numa)."""
    nodes = []
    for name in files.names(_NODES):
        if not re.match(r"^node\d+$", name):
            continue
        cpus = files.text(f"{_NODES}/{name}/cpulist")
        info = meminfo(files, f"{_NODES}/{name}/meminfo")
        nodes.append(
            {
                "id": int(name[4:]),
                "cpus": cpus,
                "total_bytes": info.get("MemTotal"),
                "free_bytes": info.get("MemFree"),
                "distances": [int(word) for word in (files.text(f"{_NODES}/{name}/distance") or "").split()],
                "memory_only": cpus == "" and info.get("MemTotal", 0) > 0,
            }
        )
    tiers = "/sys/devices/virtual/memory_tiering"
    demotion = files.text(f"{_MM}/numa/demotion_enabled")
    return {
        "nodes": nodes,
        "tiers": {
            name: files.text(f"{tiers}/{name}/nodelist")
            for name in files.names(tiers)
            if re.match(r"^memory_tier\d+$", name)
        },
        "demotion_enabled": None if demotion is None else demotion.lower() in ("1", "true", "y"),
    }


def memory(files: HostFiles) -> dict[str, t.Any]:
    """Return the section C(memory)."""
    info = meminfo(files)
    pools = f"{_MM}/hugepages"
    return {
        "total_bytes": info.get("MemTotal"),
        "available_bytes": info.get("MemAvailable"),
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "hugepages": {name[10:]: files.number(f"{pools}/{name}/nr_hugepages") for name in files.names(pools)},
        "hugepages_free": {name[10:]: files.number(f"{pools}/{name}/free_hugepages") for name in files.names(pools)},
    }


def swap(files: HostFiles) -> dict[str, t.Any]:
    """Return the section C(swap)."""
    zswap = "/sys/module/zswap/parameters"
    vma_readahead = files.text(f"{_MM}/swap/vma_ra_enabled")
    return {
        "areas": swap_areas(files),
        "zram": {
            name: {
                "disksize_bytes": files.number(f"/sys/block/{name}/disksize"),
                "algorithm": selected(files.text(f"/sys/block/{name}/comp_algorithm")),
            }
            for name in files.names("/sys/block")
            if re.match(r"^zram\d+$", name)
        },
        "zswap": {"enabled": None, **{name: _value(files.text(f"{zswap}/{name}")) for name in files.names(zswap)}},
        "vma_readahead": None if vma_readahead is None else vma_readahead == "true",
    }


def thp(files: HostFiles) -> dict[str, t.Any]:
    """Return the section C(thp), transparent huge pages."""
    sizes = [name for name in files.names(_THP) if name.startswith("hugepages-")]
    return {
        "enabled": selected(files.text(f"{_THP}/enabled")),
        "defrag": selected(files.text(f"{_THP}/defrag")),
        "shmem_enabled": selected(files.text(f"{_THP}/shmem_enabled")),
        "use_zero_page": files.number(f"{_THP}/use_zero_page"),
        "khugepaged": {name: files.number(f"{_THP}/khugepaged/{name}") for name in KHUGEPAGED_KNOBS},
        "sizes": {
            knob: {
                name[10:]: selected(files.text(f"{_THP}/{name}/{knob}"))
                for name in sizes
                if files.exists(f"{_THP}/{name}/{knob}")
            }
            for knob in ("enabled", "shmem_enabled")
        },
    }


def ksm(files: HostFiles) -> dict[str, t.Any]:
    """Return the section C(ksm), kernel same-page merging."""
    knobs = {name: files.number(f"{_MM}/ksm/{name}") for name in (*KSM_KNOBS, *KSM_COUNTERS) if name != "advisor_mode"}
    return {
        **knobs,
        "advisor_mode": selected(files.text(f"{_MM}/ksm/advisor_mode")),
        "ksmtuned_running": process_runs(files, "ksmtuned"),
    }


def damon(files: HostFiles) -> dict[str, t.Any]:
    """Return the section C(damon), the kernel's data access monitor: what runs of it, and what that does."""
    running = {}
    for number in map(str, range(files.number(f"{KDAMONDS}/nr_kdamonds") or 0)):
        if files.text(f"{KDAMONDS}/{number}/state") == "on":
            contexts = f"{KDAMONDS}/{number}/contexts"
            schemes = [
                f"{contexts}/{context}/schemes/{scheme}"
                for context in files.names(contexts)
                for scheme in files.names(f"{contexts}/{context}/schemes")
            ]
            running[number] = sorted({action for each in schemes if (action := files.text(f"{each}/action"))})
    enabled = [name for name in DAMON_MODULES if files.text(f"/sys/module/{name}/parameters/enabled") == "Y"]
    return {"running": running, "modules": enabled}


def process_runs(files: HostFiles, name: str) -> bool | None:
    """Check whether a process of that name runs; None if the processes of other users are hidden."""
    # The first process always exists. If the mount option hidepid hides it, it hides others too.
    if HostFiles(files.root).text("/proc/1/comm") is None:
        return None
    # A process that has just ended reads as absent.
    return any(files.text(f"/proc/{entry}/comm") == name for entry in files.names("/proc") if entry.isdigit())


def block_queue(files: HostFiles, name: str) -> dict[str, t.Any]:
    """Return the entry of one disk in the section C(block_queues)."""
    queue, device = f"/sys/block/{name}/queue", f"/sys/block/{name}/device"
    size = files.number(f"/sys/block/{name}/size")
    return {
        "scheduler": selected(files.text(f"{queue}/scheduler")),
        **{knob: files.number(f"{queue}/{knob}") for knob in QUEUE_KNOBS if knob != "scheduler"},
        "rotational": _flag(files, f"{queue}/rotational"),
        "size_bytes": None if size is None else size * 512,
        "model": files.text(f"{device}/model"),
        "serial": disk_serial(files, name),
        "numa_node": numa_node(files, name),
    }


def cgroup(files: HostFiles) -> dict[str, t.Any]:
    """Return the section C(cgroup): the limits of this process's control group and of its parents."""
    result: dict[str, t.Any] = {
        "version": None,
        "path": None,
        "memory_controller": False,
        "memory_max_bytes": None,
        "memory_high_bytes": None,
        "swap_max_bytes": None,
        "memory_and_swap_max_bytes": None,
        "cpus": None,
        "mems": None,
    }
    for line in (files.text("/proc/self/status") or "").splitlines():
        key, _colon, value = line.partition(":")
        if key in ("Cpus_allowed_list", "Mems_allowed_list"):
            result[key[:4].lower()] = value.strip()
    v1, v2 = _cgroup_paths(files)
    if v1 is not None:
        directories = _cgroup_directories(files, "cgroup", v1)
        result.update(version=1, path=v1, memory_controller=bool(directories))
        result["memory_max_bytes"] = _smallest_limit(files, directories, "memory.limit_in_bytes")
        result["memory_and_swap_max_bytes"] = _smallest_limit(files, directories, "memory.memsw.limit_in_bytes")
    elif v2 is not None:
        directories = _cgroup_directories(files, "cgroup2", v2)
        controllers = files.text(f"{directories[-1]}/cgroup.controllers") if directories else None
        result.update(version=2, path=v2, memory_controller="memory" in (controllers or "").split())
        result["memory_max_bytes"] = _smallest_limit(files, directories, "memory.max")
        result["memory_high_bytes"] = _smallest_limit(files, directories, "memory.high")
        result["swap_max_bytes"] = _smallest_limit(files, directories, "memory.swap.max")
    return result


def imdt(files: HostFiles, run_command: RunCommand, timeout: float = IMDT_TIMEOUT_S) -> dict[str, t.Any]:
    """Return the section C(imdt): whether Intel Memory Drive Technology, a hypervisor, runs below this system.

    It is detected by its version tool: an executable in /usr/local/bin whose name is four characters and "version",
    that contains the text C(vsmpversion) and exits with status 0 when run with C(--long).
    """
    reason = f"there is no {IMDT_TOOLS}"
    for path in sorted(glob.glob(files.path(IMDT_TOOLS))):
        name = "/" + os.path.relpath(path, files.root)
        if not os.path.isfile(path) or not os.access(path, os.X_OK):
            reason = f"{name} is not an executable file"
        elif IMDT_MARK not in (files.raw(name, IMDT_TOOL_MAX_BYTES) or b""):
            reason = f"{name} does not contain {IMDT_MARK.decode()}"
        else:
            # timeout(1) also ends the children of the tool; its exit status is then 124.
            command = ["timeout", "--kill-after=1", str(timeout), path, "--long"]
            status, answer, _errors = run_to_end(run_command, command, cwd="/")
            if status == 0:
                return {"detected": True, "tool": name, "version": answer[:200].strip(), "reason": None}
            reason = f"{name} --long " + (
                f"ended with status {status}" if status != 124 else f"did not end within {timeout:g} s"
            )
    return {"detected": False, "tool": None, "version": None, "reason": reason}


def _flag(files: HostFiles, name: str) -> bool | None:
    """Return the value of a file with 0 or 1; None if it has neither."""
    return {"0": False, "1": True}.get(files.text(name) or "")


def _shortened(reasons: list[str]) -> list[str]:
    """Return the first reasons, and the number of the others."""
    rest = reasons[_UNREADABLE_MAX:]
    return reasons[:_UNREADABLE_MAX] + ([f"and {len(rest)} more"] if rest else [])


def _value(text: str | None) -> bool | int | str | None:
    """Return the value of a kernel module's parameter with its type."""
    if text in ("Y", "N"):
        return text == "Y"
    return int(text) if text is not None and re.match(r"^-?\d+$", text) else text


def _cgroup_paths(files: HostFiles) -> tuple[str | None, str | None]:
    """Return the path of this process's control group in the memory hierarchy of version 1, and in version 2."""
    v1 = v2 = None
    for line in filter(None, (files.text("/proc/self/cgroup") or "").split("\n")):
        number, controllers, path = line.split(":", 2)
        if number == "0":
            v2 = path
        elif "memory" in controllers.split(","):
            v1 = path
    return v1, v2


def _cgroup_directories(files: HostFiles, kind: str, path: str) -> list[str]:
    """Return the directories of a control group and of its visible parents, topmost first."""
    for mount in mounts(files):
        root, point = mount.root, mount.place
        if mount.kind != kind or (kind == "cgroup" and "memory" not in mount.options.split(",")):
            continue
        # In a container the root of the mount may be the container's own group.
        inside = os.path.relpath(path, root) if path.startswith(root.rstrip("/") + "/") or path == root else "."
        parts = [] if inside == "." else inside.split("/")
        return ["/".join([point, *parts[:depth]]) for depth in range(len(parts) + 1)]
    return []


def _smallest_limit(files: HostFiles, directories: list[str], name: str) -> int | None:
    """Return the smallest limit of that name in the directories, or None if there is no limit."""
    limits = [files.number(f"{directory}/{name}") for directory in directories]
    # In version 1, no limit reads as the largest multiple of the page size.
    return min((limit for limit in limits if limit is not None and limit < 2**62), default=None)
