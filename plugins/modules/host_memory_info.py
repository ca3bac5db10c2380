#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_memory_info
short_description: Read the memory, swap and kernel settings of a host, its memory pressure, and its drives
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Reads the kernel, processors, NUMA nodes, memory, swap, huge pages, page merging, reclaim, disk queues and control
    group of a Linux host from C(/proc) and C(/sys). Detects Intel Memory Drive Technology (IMDT), a hypervisor below
    the operating system.
  - It changes nothing and, except for V(drives), needs no privileges. For an ordinary user the result is the same,
    except for files that the system hides from that user; RV(host_memory.unreadable) lists them.
  - For V(record), the only program that it may run is the version tool of IMDT, C(/usr/local/bin/????version), with the
    argument C(--long), for at most 10 seconds. It runs it only if the file contains the text C(vsmpversion).
  - The record has about 4 KB as JSON, plus 150 bytes for each NUMA node and 250 bytes for each disk.
options:
  gather:
    description:
      - What is read. V(record) is the memory and its settings.
      - V(pressure) are the kernel's counters and gauges of memory pressure, such as page-ins, stalled time (PSI), swap,
        zswap and zram, and the latency of each disk. A figure that this kernel does not have, or does not let this user
        read, is absent. It is never zero.
      - V(log) are the kernel's messages. They need root where C(kernel.dmesg_restrict) is 1.
      - V(files) are the contents of C(/proc/meminfo), and those below C(/sys/kernel/mm).
      - V(drives) are the drives that could hold swap, and the objections to the others. These come from the checks by
        which P(memstretch.density.swap_space#module) refuses disks. They read the contents of drives, which needs root
        and the tools of util-linux and fdisk.
    type: list
    elements: str
    choices: [record, pressure, log, files, drives]
    default: [record]
  since:
    description: With V(pressure), an earlier RV(snapshot) of the same host. What has changed since is returned, too.
    type: dict
  log_after:
    description: With V(log), an earlier RV(log.position) of the same host. The later messages are returned.
    type: int
extends_documentation_fragment:
  - memstretch.density.read_only
notes:
  - A fixed key is always present; it is null if this kernel lacks the knob. A list, or a dictionary of discovered
    things by name (nodes, tiers, devices, page sizes, parameters of zswap), has only those that exist.
  - The record describes the machine. One record for each machine is enough, even if the machine has several inventory
    names. RV(host_memory.kernel.boot_id) differs between machines.
requirements:
  - Linux
  - Python 3.8 or later on the host
seealso:
  - module: memstretch.density.swap_space
  - name: Linux kernel documentation, memory management
    description: What the knobs mean.
    link: https://docs.kernel.org/admin-guide/mm/index.html
  - name: Linux kernel documentation, vm sysctls
    description: The sysctls of the record.
    link: https://docs.kernel.org/admin-guide/sysctl/vm.html
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Record the host
  memstretch.density.host_memory_info:
  register: recorded

- name: Show its swap areas
  ansible.builtin.debug:
    var: recorded.host_memory.swap.areas

- name: Read the memory pressure
  memstretch.density.host_memory_info:
    gather: [pressure]
  register: before

- name: Wait for a minute
  ansible.builtin.pause:
    minutes: 1

- name: Read it again
  memstretch.density.host_memory_info:
    gather: [pressure]
    since: "{{ before.snapshot }}"
  register: after

- name: Show how many pages were read back from swap
  ansible.builtin.debug:
    msg: "{{ after.pressure.counters.pswpin | default('unknown') }}"

- name: Read which drives could hold swap
  memstretch.density.host_memory_info:
    gather: [drives]
  become: true
  register: found

- name: Show the drives without objections
  ansible.builtin.debug:
    msg: "{{ found.swap_drives | rejectattr('against') | map(attribute='path') }}"
"""

RETURN = r"""
machine:
  description: Boot id of the host's kernel.
  returned: success
  type: str
snapshot:
  description: The present counters and gauges by name; C(plugins/module_utils/host/pressure.py) lists them.
  returned: O(gather=pressure)
  type: dict
pressure:
  description:
    - C(counters), their increase since O(since); C(gauges), each as its earlier and its present value; C(doubtful), the
      names of figures without a usable difference.
  returned: with O(since)
  type: dict
log:
  description: The kernel's messages.
  returned: O(gather=log)
  type: dict
  contains:
    position:
      description: Number of the last message; null if the messages cannot be read.
      type: int
    text:
      description: The messages after O(log_after), one for each line.
      type: str
      returned: with O(log_after), if they can be read
    lost:
      description: How many of these are missing, since the kernel had overwritten them or they are too long.
      type: int
      returned: with RV(log.text)
    unknown:
      description: Why the messages cannot be read.
      type: str
      returned: if they cannot be read
files:
  description: The content of C(/proc/meminfo), and what is below C(/sys/kernel/mm) as lines of name and value.
  returned: O(gather=files)
  type: dict
swap_drives_unknown:
  description: Which tools are missing to read the drives, and which packages have them.
  returned: with O(gather=drives), if they cannot be read
  type: str
swap_drives:
  description: The drives, those without an objection first; null if they cannot be read.
  returned: O(gather=drives)
  type: list
  elements: dict
  contains:
    disk:
      description: The kernel's name.
      type: str
      sample: nvme0n1
    path:
      description: The stable path; null if there is none.
      type: str
    model:
      description: Model.
      type: str
    serial:
      description: Serial number.
      type: str
    size_bytes:
      description: Size in bytes.
      type: int
    numa_node:
      description: The nearest NUMA node; null if it is unknown.
      type: int
    rotational:
      description: Whether it is a rotating disk.
      type: bool
    behind_pch:
      description: Whether it is behind the PCH of an Intel platform; null if that is unknown.
      type: bool
    against:
      description: The objections to using it for swap; empty if there are none.
      type: list
      elements: str
    summary:
      description: All of this in one line, for people.
      type: str
host_memory:
  description: The record.
  returned: O(gather=record)
  type: dict
  contains:
    kernel:
      description: The running kernel.
      returned: always
      type: dict
      contains:
        release:
          description: Release, as printed by C(uname -r).
          type: str
          sample: 6.12.117+deb13-amd64
        version:
          description: Build, as printed by C(uname -v).
          type: str
        architecture:
          description: Machine type.
          type: str
          sample: x86_64
        cmdline:
          description: The kernel's command line.
          type: str
        boot_id:
          description:
            - Identity of the running kernel.
            - It is the same for all inventory names of one machine and for its containers. It differs for each virtual
              machine, clones included, and after a reboot.
          type: str
        machine:
          description:
            - Identity of the installation, a digest of C(/etc/machine-id).
            - It is the same after a reboot. Clones of a machine may share it.
          type: str
          sample: 7dc0dde03bd2f6e3
        hardware:
          description: Vendor and product, as reported by the firmware.
          type: str
        uptime_s:
          description: Seconds since the boot.
          type: float
    cpu:
      description: The processors.
      returned: always
      type: dict
      contains:
        model:
          description: Model name of the first processor.
          type: str
        online:
          description: Number of logical processors online.
          type: int
        last:
          description: The highest number of a logical processor, offline ones included.
          type: int
        sockets:
          description: Number of processor packages.
          type: int
        smt:
          description: Whether more than one thread runs on a core.
          type: bool
        governors:
          description: Number of processors with each frequency governor; empty if the kernel does not set frequencies.
          type: dict
          sample: {performance: 64}
        frequency_driver:
          description: Driver that sets the frequency of the first processor.
          type: str
          sample: intel_pstate
        idle:
          description: What the processors do when they are idle.
          type: dict
          contains:
            driver:
              description: Driver of the idle states; V(none) if the kernel has none for these processors.
              type: str
              sample: intel_idle
            governor:
              description: Governor that chooses an idle state.
              type: str
              sample: menu
            awake:
              description:
                - Whether they stay awake, because no resume latency is allowed or because of C(idle=poll) on the
                  command line. Null if this kernel has no way to keep them awake. A limit that a program holds in
                  C(/dev/cpu_dma_latency) counts if the module runs as root.
              type: bool
        hypervisor:
          description: Whether the processor reports a hypervisor below; null if it cannot report one.
          type: bool
        clocksource:
          description: Clock source in use.
          type: str
          sample: tsc
        rcu_nocb_config:
          description:
            - Whether the kernel was built with CONFIG_RCU_NOCB_CPU; null if its configuration is not available.
          type: bool
        rcu_nocbs:
          description: Value of C(rcu_nocbs=) on the command line; null if it is not there.
          type: str
          sample: 0-63
    numa:
      description: NUMA.
      returned: always
      type: dict
      contains:
        nodes:
          description: The nodes; empty if the kernel does not support NUMA.
          type: list
          elements: dict
          contains:
            id:
              description: Number.
              type: int
            cpus:
              description: Its processors in the kernel's list notation; empty if it has none.
              type: str
              sample: 0-15,32-47
            total_bytes:
              description: Its memory in bytes.
              type: int
            free_bytes:
              description: Free memory in bytes.
              type: int
            distances:
              description: Distances to all nodes; 10 is the node itself.
              type: list
              elements: int
            memory_only:
              description: Whether it has memory but no processors, as with CXL memory.
              type: bool
        tiers:
          description: Nodes of each memory tier, in the kernel's list notation.
          type: dict
          sample: {memory_tier4: 0-1, memory_tier22: "2"}
        demotion_enabled:
          description: Whether reclaim moves pages to a slower node instead of to swap.
          type: bool
    memory:
      description: Memory that the kernel manages.
      returned: always
      type: dict
      contains:
        total_bytes:
          description: MemTotal in bytes.
          type: int
        available_bytes:
          description: MemAvailable in bytes.
          type: int
        page_bytes:
          description: Size of a page in bytes.
          type: int
        hugepages:
          description: Number of reserved huge pages of each size.
          type: dict
          sample: {2048kB: 512, 1048576kB: 0}
        hugepages_free:
          description: Number of huge pages of each size that are not in use.
          type: dict
    swap:
      description: Swap.
      returned: always
      type: dict
      contains:
        areas:
          description: Swap areas in use.
          type: list
          elements: dict
          contains:
            name:
              description: Device or file.
              type: str
            type:
              description: Either V(partition), for any device, or V(file).
              type: str
            size_bytes:
              description: Size in bytes.
              type: int
            used_bytes:
              description: In use, in bytes.
              type: int
            priority:
              description: Priority; areas of equal priority are used in turn.
              type: int
        zram:
          description: C(disksize_bytes) (int, 0 if not set up) and C(algorithm) (str) of each zram device.
          type: dict
          sample: {zram0: {disksize_bytes: 536870912, algorithm: zstd}}
        zswap:
          description: All parameters of zswap. If the kernel lacks zswap, only C(enabled), which is null.
          type: dict
          sample: {enabled: true, compressor: zstd, max_pool_percent: 20, shrinker_enabled: false}
        vma_readahead:
          description: Whether swap reads ahead by virtual addresses.
          type: bool
    thp:
      description: Transparent huge pages.
      returned: always
      type: dict
      contains:
        enabled:
          description: When the kernel uses them.
          type: str
          sample: madvise
        defrag:
          description: When the kernel compacts memory for them.
          type: str
        shmem_enabled:
          description: When shared memory uses them.
          type: str
        use_zero_page:
          description: 1 if a huge page of zeroes is shared.
          type: int
        khugepaged:
          description:
            - "Knobs of the daemon that creates them: C(defrag), C(pages_to_scan) (pages), C(scan_sleep_millisecs),
              C(alloc_sleep_millisecs) (ms), C(max_ptes_none), C(max_ptes_shared), C(max_ptes_swap) (pages)."
          type: dict
        sizes:
          description: C(enabled) and C(shmem_enabled) of each page size.
          type: dict
          sample: {enabled: {64kB: never, 2048kB: inherit}, shmem_enabled: {64kB: never}}
    ksm:
      description:
        - "Kernel same-page merging: its knobs C(run), C(pages_to_scan) (pages), C(sleep_millisecs) (ms),
          C(merge_across_nodes), C(use_zero_pages), C(max_page_sharing) (pages), C(smart_scan), C(advisor_mode)
          (str); its counters C(pages_shared), C(pages_sharing) (pages), C(full_scans)."
        - C(ksmtuned_running) is a boolean, null if the processes of other users are hidden.
      returned: always
      type: dict
    mglru:
      description: Multi-generational LRU, C(enabled) (str, a bit mask) and C(min_ttl_ms) (ms).
      returned: always
      type: dict
      sample: {enabled: "0x0007", min_ttl_ms: 0}
    damon:
      description:
        - DAMON, the kernel's data access monitor. C(running) has the actions of its schemes by the number of each
          kdamond that runs, and C(modules) the names of C(damon_reclaim) and C(damon_lru_sort) if they are enabled.
      returned: always
      type: dict
      sample: {running: {"0": [pageout]}, modules: []}
    sysctl:
      description: The sysctls that matter for memory, by name, each a whole number in the unit of its name.
      returned: always
      type: dict
      sample: {vm.page-cluster: 3, vm.swappiness: 60, vm.watermark_scale_factor: 10}
    block_queues:
      description:
        - "The real disks by name: C(scheduler) (str), C(nr_requests), C(max_sectors_kb), C(nomerges),
          C(read_ahead_kb), C(rq_affinity), C(wbt_lat_usec) (us), C(rotational) (bool), C(size_bytes), C(model),
          C(serial) (str), C(numa_node) (int, null if it has none)."
      returned: always
      type: dict
    nvme:
      description: Parameters of the NVMe driver, C(io_queue_depth) (requests).
      returned: always
      type: dict
    cgroup:
      description: The control group that this module ran in, with the limits of its parents.
      returned: always
      type: dict
      contains:
        version:
          description: Version of the hierarchy that controls memory.
          type: int
        path:
          description: Path in that hierarchy.
          type: str
        memory_controller:
          description: Whether memory can be limited.
          type: bool
        memory_max_bytes:
          description: Limit of memory in bytes; null if there is no limit.
          type: int
        memory_high_bytes:
          description: Throttling limit of memory in bytes (version 2).
          type: int
        swap_max_bytes:
          description: Limit of swap in bytes (version 2).
          type: int
        memory_and_swap_max_bytes:
          description: Limit of memory and swap together in bytes (version 1).
          type: int
        cpus:
          description: Processors that it may use, in the kernel's list notation.
          type: str
        mems:
          description: NUMA nodes that it may use, in the kernel's list notation.
          type: str
    imdt:
      description: Intel Memory Drive Technology, a hypervisor that presents SSDs as memory.
      returned: always
      type: dict
      contains:
        detected:
          description: Whether its version tool exists and works.
          type: bool
        tool:
          description: Path of the version tool.
          type: str
        version:
          description: The first 200 characters of the tool's output.
          type: str
        reason:
          description: Why it was not detected.
          type: str
    unreadable:
      description: Files that exist but could not be read, with the reason; at most 20, then the number of the others.
      returned: always
      type: list
      elements: str
    settings_digest:
      description:
        - SHA-256 of the part of the record that an operator can set, without counters, identities, amounts in use, and
          values that the kernel changes by itself.
        - It is equal in two records of a host unless the settings were changed in between.
      returned: always
      type: str
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.kernel_log import (
    KernelLogUnknown,
    raw_files,
    read_kernel_log,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.memory import gather
from ansible_collections.memstretch.density.plugins.module_utils.host.pressure import difference, snapshot
from ansible_collections.memstretch.density.plugins.module_utils.swap.candidates import candidates
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import Guard, lacks

ARGUMENTS = {
    "gather": {
        "type": "list",
        "elements": "str",
        "choices": ["record", "pressure", "log", "files", "drives"],
        "default": ["record"],
    },
    "since": {"type": "dict"},
    "log_after": {"type": "int"},
}
# The option that each other one belongs to.
NEEDED = {"since": "pressure", "log_after": "log"}


def wrong(options: t.Mapping[str, t.Any]) -> str | None:
    """Explain why the options cannot be used; None if they can."""
    for name, kind in NEEDED.items():
        if options[name] is not None and kind not in options["gather"]:
            return f"{name}: has no effect unless gather includes {kind}"
    for name, value in (options["since"] or {}).items():
        if not isinstance(value, (int, float)):
            return f"since.{name} is not a number; since must be an earlier snapshot of this module"
    return None


def read_log(after: int | None) -> dict[str, t.Any]:
    """Return the kernel's messages after a position, or why they cannot be read."""
    try:
        log = read_kernel_log(after)
    except KernelLogUnknown as error:
        return {"position": None, "unknown": str(error)}
    return {"position": log.position, **({} if after is None else {"text": "\n".join(log.lines), "lost": log.lost})}


def read_drives(module: AnsibleModule) -> dict[str, t.Any]:
    """Return the drives that could hold swap and the objections to the others, or why they cannot be read."""
    if os.geteuid() != 0:
        module.fail_json(msg="gather: drives reads the contents of drives, which needs root; set become: true")
    missing = [tool for tool in ("blkid", "sfdisk", "wipefs") if not module.get_bin_path(tool)]
    if missing:
        return {"swap_drives": None, "swap_drives_unknown": "; ".join(map(lacks, missing))}
    return {"swap_drives": candidates(Guard(module.run_command, HostFiles()))}


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    if os.uname().sysname != "Linux":
        module.fail_json(msg=f"host_memory_info reads /proc and /sys of Linux; this host runs {os.uname().sysname}")
    options = module.params
    problem = wrong(options)
    if problem:
        module.fail_json(msg=problem)
    found: dict[str, t.Any] = {"machine": HostFiles().text("/proc/sys/kernel/random/boot_id")}
    if "pressure" in options["gather"]:
        found["snapshot"] = snapshot()
        if options["since"] is not None:
            found["pressure"] = difference(options["since"], found["snapshot"])
    if "log" in options["gather"]:
        found["log"] = read_log(options["log_after"])
    if "files" in options["gather"]:
        found["files"] = raw_files()
    if "drives" in options["gather"]:
        found.update(read_drives(module))
    if "record" in options["gather"]:
        found["host_memory"] = gather(module.run_command)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
