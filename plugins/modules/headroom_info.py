#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: headroom_info
short_description: Read how much of their memory the VMs of a live host use, without loading them
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Returns for each VM of a host, or for what O(units) names, its memory in DRAM and beyond it, and its active memory,
    which is what was accessed within each of O(ages). Returns for the host its DRAM, tiers, pressure, refaults and
    page-ins.
  - Active memory is measured with DAMON, the kernel's data access monitor, on a random sample of pages. The accesses of
    KVM guests count. The memory of guests is never read.
  - DAMON is turned on for the longest of O(ages), and off afterwards, even if the module is killed. A DAMON that
    somebody else uses or has set up is not touched; active memory is then unknown. The reason says if it is only
    off because of a profile of M(memstretch.density.host_settings).
  - On a kernel without DAMON, the generations of MGLRU are read for units that have a control group of their own and
    are not under KVM. The kernel makes new generations for that, as it does whenever it reclaims.
  - With O(probe=true), what neither of these can measure is tried by evicting a little of each unit.
  - What cannot be measured is null or missing, and C(reason) says why. It is never 0.
options:
  units:
    description:
      - What to look at instead of VMs. Each is a systemd unit such as V(redis@*.service), a control group such as
        V(/kubepods/*), or C(process:) with the name of a program, such as V(process:redis-server), for each of its
        processes. Patterns of the shell are allowed.
      - A systemd unit below another one that matches is a part of that one. Units that have a process in common for
        another reason are refused, because its memory would count twice.
      - With an empty list, the VMs of libvirt and QEMU.
    type: list
    elements: str
    default: []
  ages:
    description: The ages in seconds, each 1 to 3,600, at most 12. The module takes as long as the longest one.
    type: raw
    default: [1, 3, 10, 30, 60, 180, 300]
  pages:
    description:
      - How many pages of each unit are watched for each age at most, 50 to 20,000. With 500, the error is at most 5
        percent of the memory of a unit (385 would do), more where the memory is in huge pages.
      - There are fewer where O(cpu_percent) does not allow as many, and at most 20,000 for each age, whatever the
        number of units. The interval of each age says what that costs in exactness.
    type: int
    default: 500
  cpu_percent:
    description:
      - How much of one CPU a look by DAMON may take while it lasts, 0.1 to 100 percent. Averaged over half an hour, it
        may take a fifth of that, which matters for ages of more than 6 minutes.
      - Looks of one second with few pages first try what a page costs on this host. Ten pages of each unit are
        watched whatever they cost.
    type: float
    default: 5
  probe:
    description:
      - Whether memory of the units may be evicted to see what comes back, if nothing else can measure it. It also
        allows to switch MGLRU on for the look.
      - It evicts half a percent of each unit at a time, at most 80 percent. It waits when a tenth of that is back at
        once, or when tasks waited for memory in 1 percent of the time, and takes no more after the third time in a row.
        At 10 percent it breaks off. At the end it reads everything back, even if the module is killed.
      - It needs swap, and a control group for each unit in which nothing else runs.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: In check mode it reads, and does not measure active memory, because that changes the kernel's settings.
  diff_mode:
    support: none
    description: It leaves no setting changed.
requirements:
  - Linux and root; for active memory a kernel with C(CONFIG_DAMON_PADDR) and C(CONFIG_DAMON_SYSFS), Linux 6.2 or
    later, or one with C(CONFIG_LRU_GEN) and debugfs
seealso:
  - module: memstretch.density.headroom
  - name: Linux kernel documentation, DAMON
    description: The monitor, and what it costs.
    link: https://docs.kernel.org/admin-guide/mm/damon/usage.html
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Look at the VMs for ten seconds
  memstretch.density.headroom_info:
    ages: [1, 3, 10]
  register: found

- name: Show what each VM used within ten seconds
  ansible.builtin.debug:
    msg: "{{ found.headroom.units | json_query('[].{vm: name, bytes: ages[-1].active_bytes}') }}"
"""

RETURN = r"""
headroom:
  description: What was seen.
  returned: always
  type: dict
  contains:
    taken_at:
      description: When the look began, in seconds since the epoch.
      type: float
    method:
      description: How active memory was measured, V(damon), V(mglru) or V(reclaim). Null if it was not.
      type: str
      sample: damon
    reason:
      description: Why active memory was not measured. Null if it was.
      type: str
    host:
      description:
        - The host, with C(dram_bytes), C(available_bytes), C(in_use_bytes) (without clean page cache),
          C(hugepages_bytes), C(ksm_saved_bytes), and C(numa_nodes).
        - C(tiers) are its swap areas (C(kind) is V(zram), V(drive) or V(file)). C(zram), of the devices with swap, and
          C(zswap) have their C(stored_bytes) and the C(used_bytes) of DRAM that these take. C(drives) are those with
          swap, and C(worn_percent) is how much of its endurance an NVMe drive says is used.
        - C(psi) has the averages of the pressure in percent, and C(rates) what happened each second of the look
          (C(page_ins), C(page_outs), C(major_faults), C(refaults)), the shares of the time in which tasks waited, the
          CPU time of kswapd, and C(drive_page_in_us), which is null if most reads of the drives were no page-ins.
      type: dict
    units:
      description: The units by name.
      type: list
      elements: dict
      contains:
        name:
          description: Name.
          type: str
        kind:
          description: Either V(vm), V(systemd unit), V(control group) or V(process).
          type: str
        given_bytes:
          description: What a VM may use. Null for other units.
          type: int
        balloon_bytes:
          description: What its balloon leaves of that. Null if that is unknown.
          type: int
        resident_bytes:
          description: Anonymous and shared memory in DRAM.
          type: int
        swapped_bytes:
          description: The same beyond DRAM, in any tier.
          type: int
        pinned_bytes:
          description: What can never be stretched, because it is locked, used by a device, or in hugetlbfs.
          type: int
        stretchable_bytes:
          description: Resident and swapped memory without what is locked.
          type: int
        ages:
          description:
            - For each age its C(seconds), and C(watched_s), how long it was really watched, which is up to an eighth
              more with DAMON because the kernel's timers are coarse.
            - Then the C(active_bytes) of the stretchable memory, and C(low_bytes) and C(high_bytes), the interval at 95
              percent. MGLRU counts all pages, so that the interval has no width. After a trial by reclaim, all three
              are the same upper bound.
          type: list
          elements: dict
        reason:
          description: Why something is missing; null if nothing is.
          type: str
    started:
      description: The names of units that have started during the look, whose memory was not looked at.
      type: list
      elements: str
    watch:
      description:
        - What M(memstretch.density.headroom_watch) has counted on this host since C(since), in seconds since the epoch.
          Null if it does not run.
        - C(half_hour) is the last half hour, and C(worst_hour) the hour of the last day in which tasks waited longest.
          Each is null until the watch has run so long. It has C(began_at) and C(seconds),
          C(memory_some_share), the share of the time in which some task waited, what happened each second (C(page_ins),
          C(refaults)), and C(moved_bytes), all memory that went beyond DRAM or came back.
      type: dict
    cost:
      description:
        - C(seconds) that the look took, CPU time of the module C(cpu_s) and of DAMON C(kernel_cpu_s).
        - C(pages) is how many pages of each unit DAMON was to watch for each age, and C(wanted_cpu_percent) what
          O(cpu_percent) would have to be for an error of at most 5 percent of a unit's memory. They are null where
          another method counted all pages; the latter also where O(cpu_percent) is enough, and where O(pages) or the
          number of units does not allow as many pages.
      type: dict
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.headroom import history, look, units
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, number, numbers


def main() -> None:
    module = AnsibleModule(
        {
            "units": {"type": "list", "elements": "str", "default": []},
            "ages": {"type": "raw", "default": list(look.AGES)},
            "pages": {"type": "int", "default": look.PAGES},
            "cpu_percent": {"type": "float", "default": look.CPU_PERCENT},
            "probe": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    given = module.params
    if os.uname().sysname != "Linux" or os.geteuid() != 0:
        module.fail_json(msg="headroom_info reads where the pages of Linux processes are; set become: true")
    files = HostFiles()
    try:
        ages = sorted(numbers("ages", given["ages"], look.RANGES["ages"]))
        if len(ages) > look.MOST_AGES:
            raise SettingError(f"ages: {len(ages)} ages are too many; there must be at most {look.MOST_AGES}")
        pages, cpu_percent = (number(name, given[name], look.RANGES[name]) for name in ("pages", "cpu_percent"))
        units.check(given["units"])
        found = units.find(files, given["units"])
    except SettingError as error:
        module.fail_json(msg=str(error))
    seen = look.Look(files, found, ages, pages, cpu_percent).take(not module.check_mode, given["probe"])
    try:
        started = units.started(found, units.find(files, given["units"]))
    except SettingError as error:  # there are too many now
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, headroom={**seen, "started": started, "watch": history.read(files)})


if __name__ == "__main__":
    main()
