#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swap_space
short_description: Give a host swap space on disks, in a file or in zram, and take it back
version_added: 1.0.0
author:
  - The memstretch.density contributors (@memstretch)
description:
  - Public. Its options and results stay compatible within a major version.
  - Changes the swap of a host to what the options ask for. It first checks everything and reports all reasons against
    the change at once. It changes the host only if there are none.
  - A disk is used only if it is a whole disk, named by a path below C(/dev/disk/by-id), that no mount, RAID, pool,
    virtual machine or program uses. It must be blank or carry our own mark. It is checked again after it was opened
    exclusively for writing.
  - All areas get the same priority, so that the kernel uses them in turn. With O(zram_first), zram gets a higher one.
    The priorities are read back.
  - What is taken is first recorded on the host, in C(swap_space.json) below O(record_directory). The same task finishes
    an interrupted run, and O(state=restored) undoes it, also after a reboot.
  - A change from one kind of swap to another gives back what is no longer needed.
extends_documentation_fragment:
  - memstretch.density.recorded_change
options:
  state:
    description:
      - With V(present), the swap is in use and, under systemd, is turned on at each boot.
      - With V(restored), our areas are off, our disks are blank, our files are removed, and the swap that was on before
        our first run is on again. Of the other options, only O(reserve) is used.
    type: str
    choices: [present, restored]
    default: present
  kind:
    description:
      - What the swap is on. V(none) means no swap of ours. With O(others=off), the host then has no swap at all.
    type: str
    choices: [none, devices, file, zram]
    default: none
  devices:
    description:
      - The disks, each as a path below C(/dev/disk/by-id), or as a dictionary with C(path). To be sure of the right
        disk, the dictionary may have C(serial) (as the disk reports it) and C(size) (bytes, or a number with K, M, G or
        T).
      - Required with O(kind=devices). If one of them is refused, none is used.
    type: list
    elements: raw
    default: []
  overwrite:
    description:
      - The content of O(devices) that may be lost for good, each as a dictionary with C(path), below
        C(/dev/disk/by-id), and C(content), the fingerprint that the refusal of that disk shows.
      - The permission ends with that content. A disk that has changed since is refused, with its new fingerprint. A
        path without a fingerprint allows nothing.
      - A disk that is in use is still refused.
    type: list
    elements: raw
    default: []
  partitions:
    description:
      - Number of equal partitions with one area each, from 0 to 128. With 0, the whole disk is one area.
        More partitions do not make swap faster; they exist for comparison. Linux allows 23 swap areas together.
    type: int
    default: 0
  priority:
    description:
      - Priority of all areas, from 0 to 32767. The kernel uses areas of equal priority in turn.
      - With O(zram_first), this is the priority of the disks or the file, and at most 32766.
    type: int
    default: 10
  discard:
    description:
      - Which free areas are reported to the drive (TRIM). V(once) reports the whole area when it is turned on, so that
        a drive that was full can write at full speed again. V(pages) reports each cluster of pages when it is freed,
        which costs latency on many drives just when memory is short. V(both) does both.
      - Does not apply to zram.
    type: str
    choices: [none, once, pages, both]
    default: once
  encrypted:
    description:
      - Encrypt disks with a key that is made at each boot, kept only in memory and never stored (dm-crypt, AES-XTS with
        256 bits). After power-off, what was swapped out can no longer be read. Requires cryptsetup and O(kind=devices).
    type: bool
    default: false
  file:
    description:
      - Absolute path of the swap file, with O(kind=file). Supported file systems are ext3, ext4, XFS and Btrfs.
      - Nobody but root may be able to change the directory or one above it, because what is in the memory of programs
        is written to the file. C(/tmp) and C(/var/tmp) are refused. The default's directory is made.
    type: str
    default: /var/lib/memstretch/memstretch.swap
  file_size:
    description:
      - Size of the swap file in bytes, or a number with K, M, G or T. Required with O(kind=file). At least 1 GiB must
        remain free on its file system.
    type: str
    default: ""
  zram_size:
    description:
      - Size of all zram devices together, before compression, with O(kind=zram) or O(zram_first). Bytes, a number with
        K, M, G or T, or a share of the memory such as V(50%).
    type: str
    default: 50%
  zram_algorithm:
    description:
      - Compression algorithms, in order of preference; the first one that the kernel has is used. The default prefers
        fast decompression, because page faults wait for it.
    type: list
    elements: str
    default: [lz4, lzo-rle, zstd]
  zram_devices:
    description: Number of zram devices, from 1 to 64. Since Linux 3.15, one is enough.
    type: int
    default: 1
  zram_first:
    description:
      - Whether there are zram devices before the disks or the file. Requires O(kind=devices) or O(kind=file).
      - The priority of zram is O(priority) plus 1. The kernel writes pages to zram as long as O(zram_size) has room,
        and then to the disks or the file. It does not move pages from one to the other.
      - Pages that do not compress take as much memory in zram as before, so choose a O(zram_size) that the host can
        spare.
    type: bool
    default: false
  others:
    description:
      - What happens to swap that is not ours. V(off) turns it off and, under systemd, keeps it off at boot. V(keep)
        leaves it on, and turns on again what an earlier run has turned off.
    type: str
    choices: [keep, "off"]
    default: keep
  reserve:
    description:
      - Memory that must remain available when an area is turned off and its content goes back to memory. Bytes, or a
        number with K, M, G or T. If less would remain, the task is refused with the figures.
    type: str
    default: 512M
  min_size:
    description: A disk below this size is refused, since its path is most likely a mistake.
    type: str
    default: 1G
  persistence:
    description:
      - Whether the swap is turned on again at boot, by units in C(/etc/systemd/system). V(auto) does so on hosts that
        run systemd, and warns on others, and where C(swap.target) is masked for swap in a file or in zram.
        V(required) refuses a host where it is not possible. V(never) writes no units.
    type: str
    choices: [auto, required, never]
    default: auto
attributes:
  check_mode:
    support: full
    description: Refuses what would be refused, reports what would change, and changes nothing.
  diff_mode:
    support: full
    description: Shows the areas and the content of the disks, before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
  platform:
    platforms: linux
    description: Systems with util-linux 2.33 or newer.
    support: full
notes:
  - The former content of a disk is not kept. A disk is made blank again with zeroes in its first and last 4 MiB and, in
    between, in the samples that are also read to find data. What was swapped out to it remains elsewhere.
  - If another run of this collection is changing the same host, the module waits for it up to a minute.
seealso:
  - module: memstretch.density.host_memory_info
"""

EXAMPLES = r"""
- name: Swap on two NVMe drives
  memstretch.density.swap_space:
    kind: devices
    devices:
      - /dev/disk/by-id/nvme-INTEL_SSDPE21K375GA_PHKE7481000A375AGN
      - path: /dev/disk/by-id/nvme-INTEL_SSDPE21K375GA_PHKE7481000B375AGN
        serial: PHKE7481000B375AGN
        size: 375083606016
    others: "off"

- name: Swap on a drive whose content is no longer needed
  memstretch.density.swap_space:
    kind: devices
    devices: [/dev/disk/by-id/nvme-INTEL_SSDPE21K375GA_PHKE7481000A375AGN]
    overwrite:
      - path: /dev/disk/by-id/nvme-INTEL_SSDPE21K375GA_PHKE7481000A375AGN
        content: 1a2b3c4d-5e6f7a8b # from the error that refused it

- name: Swap in compressed memory
  memstretch.density.swap_space:
    kind: zram
    zram_size: 50%
    priority: 100

- name: Swap in compressed memory first, and in a file if that is full
  memstretch.density.swap_space:
    kind: file
    file_size: 64G
    zram_first: true
    zram_size: 50%

- name: Restore the swap from before the first of these tasks
  memstretch.density.swap_space:
    state: restored
"""

RETURN = r"""
areas:
  description: Our swap areas; in check mode the areas that would exist.
  type: list
  elements: dict
  returned: success
  contains:
    source:
      description: What the area is on, as a path that stays the same over reboots.
      type: str
      sample: /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_OPT0
    device:
      description: Its name in C(/proc/swaps) now. Null if it does not exist yet.
      type: str
      sample: /dev/nvme0n1
    size_bytes:
      description: Size in bytes.
      type: int
      sample: 375083601920
    priority:
      description: Priority, as read back.
      type: int
      sample: 10
actions:
  description: What was done, or would be done in check mode, in this order.
  type: list
  elements: str
  returned: success
  sample: ["turn on /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_OPT0 with priority 10, discard once"]
warnings_list:
  description: What the user should know about this swap.
  type: list
  elements: str
  returned: success
  sample: []
persistent:
  description: Whether the swap is turned on again at boot.
  type: bool
  returned: success
  sample: true
refusals:
  description: All reasons against the change, if there are any; then nothing was touched.
  type: list
  elements: str
  returned: failure
  sample:
    - >-
      /dev/disk/by-id/ata-DISK_1 (sda, 465.8 GiB) carries the file system on / (sda1), from which this system runs.
      No option allows that
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo
from ansible_collections.memstretch.density.plugins.module_utils.host.record import (
    DIRECTORY,
    HostRecord,
    HostRecordError,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.systemd import booted
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.swap.areas import SwapError, areas
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import GuardError
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import FormatError
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import Guard, lacks
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import DEFAULTS, read
from ansible_collections.memstretch.density.plugins.module_utils.swap.steps import SwapChange, listing
from ansible_collections.memstretch.density.plugins.module_utils.swap.units import Systemd, UnitError

RECORD = "swap_space"
REQUIRED_TOOLS = ("blkid", "wipefs", "mkswap", "swapon", "swapoff")
# Swap on disks needs these, too.
DISK_TOOLS = ("sfdisk", "partx")
# Only some kinds of swap use these.
OPTIONAL_TOOLS = ("modprobe", "cryptsetup")

_TYPES: dict[str, dict] = {
    "state": {"type": "str", "choices": ["present", "restored"]},
    "kind": {"type": "str", "choices": ["none", "devices", "file", "zram"]},
    "devices": {"type": "list", "elements": "raw"},
    "overwrite": {"type": "list", "elements": "raw"},
    "partitions": {"type": "int"},
    "priority": {"type": "int"},
    "discard": {"type": "str", "choices": ["none", "once", "pages", "both"]},
    "encrypted": {"type": "bool"},
    "file": {"type": "str"},
    "file_size": {"type": "str"},
    "zram_size": {"type": "str"},
    "zram_algorithm": {"type": "list", "elements": "str"},
    "zram_devices": {"type": "int"},
    "zram_first": {"type": "bool"},
    "others": {"type": "str", "choices": ["keep", "off"]},
    "reserve": {"type": "str"},
    "min_size": {"type": "str"},
    "persistence": {"type": "str", "choices": ["auto", "required", "never"]},
}
ARGUMENTS = {
    **{name: {**option, "default": DEFAULTS[name]} for name, option in _TYPES.items()},
    "record_directory": {"type": "path", "default": DIRECTORY},
}


class RefusedError(Exception):
    """The change is refused, and nothing was touched."""

    def __init__(self, refusals: list[str]) -> None:
        super().__init__("nothing was touched, because:\n- " + "\n- ".join(refusals))
        self.refusals = refusals


def find_systemd(module: AnsibleModule) -> Systemd | None:
    """Return the systemd that makes the swap persistent, or None if it is not persistent."""
    persistence = module.params["persistence"]
    if persistence == "required" and not booted():
        raise RefusedError(["persistence: required needs systemd, which this host does not run; use auto or never"])
    return None if persistence == "never" or not booted() else Systemd(module.run_command)


def find_tools(module: AnsibleModule, disks: bool) -> dict[str, str | None]:
    """Return the paths of programs by name.

    Args:
        disks: whether the swap is on disks, or was.
    """
    required = REQUIRED_TOOLS + DISK_TOOLS if disks else REQUIRED_TOOLS
    tools = {name: module.get_bin_path(name) for name in (*required, *OPTIONAL_TOOLS)}
    missing = [name for name in required if not tools[name]]
    if missing and not module.check_mode:
        raise RefusedError([lacks(name) for name in missing])
    if module.check_mode:
        # In check mode, the role has not installed it.
        tools["cryptsetup"] = tools["cryptsetup"] or "cryptsetup"
    return tools


def find_change(module: AnsibleModule, systemd: Systemd | None) -> SwapChange:
    """Return the change that this host needs now. Raises RefusedError if anything forbids it."""
    files = HostFiles()
    params, restore = module.params, module.params["state"] == "restored"
    if restore:
        params = {**params, "kind": "none", "encrypted": False, "zram_first": False, "others": "keep"}
    guard, record = Guard(module.run_command, files), HostRecord(RECORD, params["record_directory"])
    disks = params["kind"] == "devices" or bool((record.read() or {}).get("disks"))
    options = read(params, meminfo(files)["MemTotal"], find_tools(module, disks))
    change = SwapChange(options, guard, record, systemd, restore)
    if change.refusals:
        raise RefusedError(change.refusals)
    if params["persistence"] == "required" and change.kept_off_at_boot:
        raise RefusedError([f"persistence: required is not possible, because {change.kept_off_at_boot}"])
    return change


def run(module: AnsibleModule) -> dict:
    systemd = find_systemd(module)
    change = find_change(module, systemd)
    predicted = module.check_mode and bool(change.steps)
    before, contents = change.listing_before(), change.kind.contents()
    if change.steps and not module.check_mode:
        with change.record.locked():
            change = find_change(module, systemd)  # another run may have changed the host while we waited
            change.run()
            change.prove()
    now = listing(areas(change.files)) + "".join(f"{path}: {after}\n" for path, _before, after in contents)
    return {
        "changed": bool(change.steps),
        "actions": [step.text for step in change.steps],
        "areas": change.result_areas(predicted),
        "warnings_list": change.warnings,
        "persistent": systemd is not None and not change.kept_off_at_boot,
        "diff": {"before": before, "after": change.listing_predicted() if predicted else now},
    }


def main():
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C", "LANGUAGE": "C"}
    try:
        if os.geteuid():
            raise RefusedError(["swap_space needs root on the host; set become: true"])
        module.exit_json(**run(module))
    except RefusedError as error:
        module.fail_json(msg=str(error), refusals=error.refusals)
    except (GuardError, FormatError, HostRecordError, SettingError, SwapError, UnitError, OSError) as error:
        module.fail_json(msg=str(error), refusals=[])


if __name__ == "__main__":
    main()
