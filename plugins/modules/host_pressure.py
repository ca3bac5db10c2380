#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_pressure
short_description: Read the memory pressure of a host, before and after something that is measured
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Reads the kernel's figures on memory pressure, such as page-ins, stalled time (PSI), swap, zswap and zram, and the
    latency of each disk. Given an earlier reading, it returns what has changed since.
  - The role P(memstretch.density.latency_benchmark#role) runs it on every hypervisor before and after each phase, since
    the client in a VM sees only the VM's own memory.
  - A figure that this kernel does not have, or does not let this user read, is absent. It is never zero.
  - It changes nothing and needs no privileges, except for the kernel's messages where C(kernel.dmesg_restrict) is 1.
options:
  since:
    description: An earlier RV(host_pressure.snapshot) of the same host.
    type: dict
  log_after:
    description: An earlier RV(host_pressure.log_position) of the same host. The later messages are returned.
    type: int
  raw:
    description: Whether to return C(/proc/meminfo) and all of C(/sys/kernel/mm) too.
    type: bool
    default: false
extends_documentation_fragment:
  - memstretch.density.read_only
requirements:
  - Linux
  - Python 3.8 or later on the host
seealso:
  - module: memstretch.density.host_memory_info
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Read the memory pressure
  memstretch.density.host_pressure:
  register: before

- name: Wait for a minute
  ansible.builtin.pause:
    minutes: 1

- name: Read it again
  memstretch.density.host_pressure:
    since: "{{ before.host_pressure.snapshot }}"
    log_after: "{{ before.host_pressure.log_position | default(omit, true) }}"
  register: after

- name: Show how many pages were read back from swap
  ansible.builtin.debug:
    msg: "{{ after.host_pressure.pressure.counters.pswpin | default('unknown') }}"
"""

RETURN = r"""
host_pressure:
  description: The figures.
  returned: always
  type: dict
  contains:
    host:
      description: The inventory name of the host, that of the delegated one if the task is delegated.
      type: str
    moment:
      description: V(begin) with O(raw=true), V(after) with O(since), V(end) with O(log_after), otherwise V(before).
      type: str
    unknown:
      description: Why the host could not be read; then nothing else is returned, and the task does not fail.
      type: str
    machine:
      description: Boot id of the host's kernel.
      type: str
    snapshot:
      description: The present counters and gauges by name; C(plugins/module_utils/host/pressure.py) lists them.
      type: dict
    pressure:
      description:
        - C(counters), their increase since O(since); C(gauges), each as its earlier and its present value; C(doubtful),
          the names of figures without a usable difference.
      type: dict
      returned: with O(since)
    log_position:
      description: Number of the kernel's last message; null if the messages cannot be read.
      type: int
    log:
      description: The messages after O(log_after), one for each line.
      type: str
      returned: with O(log_after), if they can be read
    log_lost:
      description: How many of these messages are missing, since the kernel had overwritten them or they are too long.
      type: int
      returned: with RV(host_pressure.log)
    log_unknown:
      description: Why the kernel's messages cannot be read.
      type: str
      returned: if they cannot be read
    raw:
      description: The contents of C(/proc/meminfo), and those below C(/sys/kernel/mm) as lines of name and value.
      type: dict
      returned: with O(raw=true)
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.kernel_log import (
    KernelLogUnknown,
    raw_files,
    read_kernel_log,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.pressure import difference, snapshot

ARGUMENTS = dict(since=dict(type="dict"), log_after=dict(type="int"), raw=dict(type="bool", default=False))


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    if os.uname().sysname != "Linux":
        module.fail_json(msg=f"host_pressure reads /proc and /sys of Linux; this host runs {os.uname().sysname}")
    options, now = module.params, snapshot()
    result: dict = {
        "machine": HostFiles().text("/proc/sys/kernel/random/boot_id"),
        "snapshot": now,
        "log_position": None,
    }
    if options["since"] is not None:
        wrong = [name for name, value in options["since"].items() if not isinstance(value, (int, float))]
        if wrong:
            module.fail_json(msg=f"since.{wrong[0]} is not a number; since must be an earlier snapshot of this module")
        result["pressure"] = difference(options["since"], now)
    try:
        log = read_kernel_log(options["log_after"])
        result["log_position"] = log.position
        if options["log_after"] is not None:
            result.update(log="\n".join(log.lines), log_lost=log.lost)
    except KernelLogUnknown as error:
        result["log_unknown"] = str(error)
    if options["raw"]:
        result["raw"] = raw_files()
    module.exit_json(changed=False, host_pressure=result)


if __name__ == "__main__":
    main()
