#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swap_space
short_description: Give a host swap space on disks, in a file or in zram, and take it back
version_added: 0.1.0
author:
  - The memstretch.density contributors (@memstretch)
description:
  - Brings the swap of a host to what is asked for, in one go. It first looks at everything and says all that speaks against it; only if
    nothing does, it begins to change the host.
  - A disk is taken only if it is named by a path below C(/dev/disk/by-id), is a whole disk that no mount, RAID, pool, virtual machine
    or program uses, and is blank or carries our own mark. It is looked at once more while it is held for writing.
  - All areas get the same priority, so that the kernel goes round them, and the priority is read back.
  - What it takes is recorded on the host, in C(swap_space.json) below O(record_directory), before it is taken. An interrupted run
    is finished by the same task again, or undone with O(state=restored), also after a reboot in between.
  - Going from one kind of swap to another gives back what is no longer wanted.
extends_documentation_fragment:
  - memstretch.density.recorded_change
options:
  state:
    description:
      - With V(present), the swap is in use and, under systemd, at each boot again.
      - With V(restored), our areas are off, our disks are blank, our files are gone, and the swap that was on before us is on again. Only
        O(reserve) counts then.
    type: str
    choices: [present, restored]
    default: present
  kind:
    description:
      - What the swap is on. V(none) stands for no swap of ours, as an arm without swap needs it together with O(others=off).
    type: str
    choices: [none, devices, file, zram]
    default: none
  devices:
    description:
      - The disks, each a path below C(/dev/disk/by-id) or a dictionary with C(path) and, to be sure that it is the right one, C(serial)
        (as the disk tells it) and C(size) (bytes, or a number with K, M, G or T).
      - Needed with O(kind=devices). All of them are refused if one is.
    type: list
    elements: raw
    default: []
  overwrite:
    description:
      - Disks out of O(devices) whose present content, whatever it is, may be lost for good. Paths below C(/dev/disk/by-id).
      - A disk that is in use is refused all the same.
    type: list
    elements: str
    default: []
  partitions:
    description:
      - 0 swaps onto the whole disk. From 1 to 128, the disk gets that many equal partitions with an area each. More of them do not make
        swap faster; they are here to compare.
    type: int
    default: 0
  priority:
    description: Priority of all areas, from 0 to 32767. Areas of equal priority are used in turn.
    type: int
    default: 10
  discard:
    description:
      - What the drive is told about areas that are free (TRIM). V(once) tells it about the whole area when it is turned on, which
        lets a drive that was full start afresh. V(pages) tells it about each cluster of pages when it is freed, which costs many drives
        latency just when memory is short. V(both) does both.
      - zram needs none of it and gets none.
    type: str
    choices: [none, once, pages, both]
    default: once
  encrypted:
    description:
      - Encrypt disks with a key that is made at each boot, kept in memory only and thrown away (dm-crypt, AES-XTS with 256 bits). What
        was swapped out cannot be read after power is off. Needs cryptsetup and O(kind=devices).
    type: bool
    default: false
  file:
    description: Absolute path of the swap file, with O(kind=file), on ext3, ext4, XFS or Btrfs.
    type: str
  file_size:
    description: Its size in bytes, or a number with K, M, G or T. At least 1 GiB has to remain free on its file system.
    type: str
  zram_size:
    description:
      - Size of all zram devices together, before compression, with O(kind=zram). Bytes, a number with K, M, G or T, or a share of the
        memory such as V(50%).
    type: str
    default: 50%
  zram_algorithm:
    description: Compression algorithms; the first that the kernel has is taken.
    type: list
    elements: str
    default: [zstd, lz4, lzo-rle]
  zram_devices:
    description: Number of zram devices, from 1 to 64. One is enough since Linux 3.15.
    type: int
    default: 1
  others:
    description:
      - What happens to swap that is not ours. V(off) turns it off and, under systemd, keeps it off at boot; V(keep) leaves it, and
        brings back what an earlier run has turned off.
    type: str
    choices: [keep, "off"]
    default: keep
  reserve:
    description:
      - Memory that must remain available when an area is turned off and what is in it comes back to memory. Bytes, or a number with K,
        M, G or T. With less, the task is refused with the figures.
    type: str
    default: 512M
  min_size:
    description: Disks below this size are refused, since a path to them is most likely a mistake.
    type: str
    default: 1G
  persistence:
    description:
      - Whether the swap comes back at boot, by units in C(/etc/systemd/system). V(auto) does what the host can, and warns if that
        is nothing; V(required) refuses a host that systemd does not run.
    type: str
    choices: [auto, required, never]
    default: auto
attributes:
  check_mode:
    support: full
    description: Refuses what it would refuse, says what would change, and changes nothing.
  diff_mode:
    support: full
    description: Shows the areas and what is on the disks, before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
  platform:
    platforms: linux
    description: Systems with util-linux 2.33 or newer.
    support: full
notes:
  - What was on a disk before is not kept. A disk that was blank is blank again afterwards, in the sense that its first and last 4 MiB
    are zeroes; what was swapped onto it remains in between.
  - A run waits up to a minute for another run of this collection on the same host.
seealso:
  - module: memstretch.density.host_memory_info
"""

EXAMPLES = r"""
- name: Swap onto two NVMe drives
  memstretch.density.swap_space:
    kind: devices
    devices:
      - /dev/disk/by-id/nvme-INTEL_SSDPE21K375GA_PHKE7481000A375AGN
      - path: /dev/disk/by-id/nvme-INTEL_SSDPE21K375GA_PHKE7481000B375AGN
        serial: PHKE7481000B375AGN
        size: 375083606016
    others: "off"

- name: The same for a drive that still holds what nobody needs
  memstretch.density.swap_space:
    kind: devices
    devices: [/dev/disk/by-id/nvme-INTEL_SSDPE21K375GA_PHKE7481000A375AGN]
    overwrite: [/dev/disk/by-id/nvme-INTEL_SSDPE21K375GA_PHKE7481000A375AGN]

- name: Compressed memory instead
  memstretch.density.swap_space:
    kind: zram
    zram_size: 50%
    priority: 100

- name: As before the first of these tasks
  memstretch.density.swap_space:
    state: restored
"""

RETURN = r"""
areas:
  description: Our swap areas; in check mode those that there would be.
  type: list
  elements: dict
  returned: success
  contains:
    source:
      description: What the area is on, as a path that stays the same over a boot.
      type: str
      sample: /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_OPT0
    device:
      description: The same as C(/proc/swaps) calls it now. Null if it is not there yet.
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
  description: What was done, or in check mode would be done, in this order.
  type: list
  elements: str
  returned: success
  sample: [use /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_OPT0 with priority 10]
warnings_list:
  description: What has to be known about this swap, for people.
  type: list
  elements: str
  returned: success
  sample: []
persistent:
  description: Whether the swap comes back at boot.
  type: bool
  returned: success
  sample: true
refusals:
  description: All that speaks against it, if anything does; then nothing was touched.
  type: list
  elements: str
  returned: failure
  sample: ["/dev/disk/by-id/ata-DISK_1 (sda, 465.8 GiB) carries the file system on / (sda1), which this system runs from. No option allows that"]
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
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import FormatError
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import Guard, GuardError
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import read
from ansible_collections.memstretch.density.plugins.module_utils.swap.steps import Plan, listing
from ansible_collections.memstretch.density.plugins.module_utils.swap.units import Systemd, UnitError

# What each kind needs, beside the programs that only some hosts have.
NEEDED = ("wipefs", "sfdisk", "partx", "mkswap", "swapon", "swapoff")
PERHAPS = ("modprobe", "cryptsetup")

ARGUMENTS = {
    "state": {"type": "str", "choices": ["present", "restored"], "default": "present"},
    "kind": {"type": "str", "choices": ["none", "devices", "file", "zram"], "default": "none"},
    "devices": {"type": "list", "elements": "raw", "default": []},
    "overwrite": {"type": "list", "elements": "str", "default": []},
    "partitions": {"type": "int", "default": 0},
    "priority": {"type": "int", "default": 10},
    "discard": {"type": "str", "choices": ["none", "once", "pages", "both"], "default": "once"},
    "encrypted": {"type": "bool", "default": False},
    "file": {"type": "str"},
    "file_size": {"type": "str"},
    "zram_size": {"type": "str", "default": "50%"},
    "zram_algorithm": {"type": "list", "elements": "str", "default": ["zstd", "lz4", "lzo-rle"]},
    "zram_devices": {"type": "int", "default": 1},
    "others": {"type": "str", "choices": ["keep", "off"], "default": "keep"},
    "reserve": {"type": "str", "default": "512M"},
    "min_size": {"type": "str", "default": "1G"},
    "persistence": {"type": "str", "choices": ["auto", "required", "never"], "default": "auto"},
    "record_directory": {"type": "path", "default": DIRECTORY},
}


class RefusedError(Exception):
    """Nothing was touched; refusals say why."""

    def __init__(self, refusals):
        super().__init__("nothing was touched, since\n- " + "\n- ".join(refusals))
        self.refusals = refusals


def systemd_of(module):
    """The service manager that makes swap last, or None."""
    persistence = module.params["persistence"]
    if persistence == "required" and not booted():
        raise RefusedError(["persistence: required needs systemd, which does not run on this host"])
    return None if persistence == "never" or not booted() else Systemd(module.run_command)


def tools_of(module):
    """Paths of programs by name. In check mode the role has not installed what it would install."""
    tools = {name: module.get_bin_path(name) for name in (*NEEDED, *PERHAPS)}
    missing = [name for name in NEEDED if not tools[name]]
    if missing and not module.check_mode:
        raise RefusedError(
            [f"{name} is missing on this host; Debian has it in the package fdisk or util-linux" for name in missing]
        )
    if module.check_mode:
        tools["cryptsetup"] = tools["cryptsetup"] or "cryptsetup"
    return tools


def plan_of(module, systemd):
    """A plan made from what the host is now, without anything that speaks against it."""
    files = HostFiles()
    params = module.params
    if params["state"] == "restored":
        params = {**params, "kind": "none", "encrypted": False, "others": "keep"}
    options = read(params, meminfo(files)["MemTotal"], tools_of(module))
    plan = Plan(
        options, Guard(module.run_command, files), HostRecord("swap_space", module.params["record_directory"]), systemd
    )
    (plan.present if module.params["state"] == "present" else plan.restored)()
    if plan.refusals:
        raise RefusedError(plan.refusals)
    return plan


def run(module):
    systemd = systemd_of(module)
    plan = plan_of(module, systemd)
    before, predicted = listing(plan.before), module.check_mode and bool(plan.steps)
    contents = plan.kind.contents()
    if plan.steps and not module.check_mode:
        with plan.record.locked():
            plan = plan_of(module, systemd)  # another run may have changed the host while we waited
            plan.run()
            plan.prove()
    return {
        "changed": bool(plan.steps),
        "actions": [step.text for step in plan.steps],
        "areas": plan.result_areas(predicted),
        "warnings_list": plan.warnings,
        "persistent": systemd is not None,
        "diff": {
            "before": before + "".join(f"{path}: {was}\n" for path, was, dummy in contents),
            "after": plan.predicted_listing()
            if predicted
            else listing(areas(plan.files)) + "".join(f"{path}: {now}\n" for path, dummy, now in contents),
        },
    }


def main():
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C", "LANGUAGE": "C"}
    try:
        if os.geteuid():
            raise RefusedError(["swap needs root: use become"])
        module.exit_json(**run(module))
    except RefusedError as error:
        module.fail_json(msg=str(error), refusals=error.refusals)
    except (GuardError, FormatError, HostRecordError, SettingError, SwapError, UnitError, OSError) as error:
        module.fail_json(msg=str(error), refusals=[])


if __name__ == "__main__":
    main()
