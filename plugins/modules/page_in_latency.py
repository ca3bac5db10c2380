#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: page_in_latency
short_description: Measure how long a page-in takes on a host
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Sends some memory of its own process to the active swap with C(MADV_PAGEOUT), and touches its pages again one at a
    time in random order. It times those touches that had to read a page. Other processes keep their memory.
  - With O(drive), it times reads of single pages at random places of a drive that does not carry swap yet, past the
    page cache. It writes nothing to a device or a file. Most drives answer for blocks that were never written, or were
    discarded, without reading their medium, so an empty drive looks faster than it will be.
  - The figures are those of a host without other page-ins; under load a drive is slower.
options:
  drive:
    description: Path of a block device to read from, instead of the active swap, or of a file on one. In a directory,
      64 MiB are written first to a file without a name, which is gone at the end, also of a killed module. O(size) and
      O(compressibility) do not matter then. A device needs root.
    type: path
  size:
    description: Memory to send to swap, in bytes or with K, M, G or T, 1M to 16G. Swap must have room for it.
    type: str
    default: 64M
  samples:
    description: The most page-ins to time, 100 to 1,000,000.
    type: int
    default: 10000
  compressibility:
    description: Share of the contents that LZ4 saves, 0 to 1, as in the module solotest.
    type: float
    default: 0
  max_seconds:
    description: The longest time of timing, in seconds, 0.1 to 3600.
    type: float
    default: 10
extends_documentation_fragment:
  - memstretch.density.read_only
attributes:
  check_mode:
    description: It measures in either mode, since nothing lasts.
requirements:
  - Linux 5.4 or later; any Linux with O(drive)
  - Python 3.8 or later on the host
seealso:
  - module: memstretch.density.density
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Measure the page-ins of this host
  memstretch.density.page_in_latency:
    compressibility: 0.5
  register: measured

- name: Show them
  ansible.builtin.debug:
    msg: "{{ measured.page_in_latency.tier }}: {{ measured.page_in_latency.avg_us }} us"
"""

RETURN = r"""
page_in_latency:
  description: The figures of all timed page-ins.
  returned: success
  type: dict
  contains:
    tier:
      description: What served them, C(zswap), C(zram), C(devices) or C(file). The first area by priority decides.
        C(devices) with O(drive).
      type: str
    page_ins:
      description: How many were timed.
      type: int
    avg_us:
      description: Average in microseconds. C(p50_us), C(p99_us) and C(max_us) are the median, the 99th percentile and
        the maximum.
      type: float
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.experiment import page_in
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, number, size_in_bytes

ARGUMENTS = {
    "drive": {"type": "path"},
    "size": {"type": "str", "default": "64M"},
    "samples": {"type": "int", "default": 10_000},
    "compressibility": {"type": "float", "default": 0},
    "max_seconds": {"type": "float", "default": 10},
}
NUMBERS = ("samples", "compressibility", "max_seconds")


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    try:
        options = {name: number(name, module.params[name], page_in.RANGES[name]) for name in NUMBERS}
        size = number("size", size_in_bytes("size", module.params["size"]), page_in.RANGES["size"])
        if module.params["drive"]:
            tier = "devices"
            took = page_in.read_drive(module.params["drive"], options["samples"], options["max_seconds"])
        else:
            tier = page_in.tier(HostFiles())
            took = page_in.measure(size, **options)
    except (SettingError, page_in.PageInError) as error:
        module.fail_json(msg=str(error))
    if not took:
        module.fail_json(msg="no touch had to read a page: the kernel had read all of them ahead; increase size")
    found = page_in.figures(took)
    module.exit_json(changed=False, page_in_latency={"tier": tier, **found})


if __name__ == "__main__":
    main()
