#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_settings
short_description: Apply a profile's kernel settings to a host, reversibly
version_added: 0.1.0
description:
  - Sets sysctls, files below C(/sys), CPU frequency governors and disk queues, and stops services, all of a profile in one go;
    makes them last over a reboot with the system's own means; and reads back what is in force.
  - The original of everything that it changes is recorded on the host, on the disk, before the first change, in
    C(host_settings.json) below O(record_directory). An original is never overwritten. What an earlier profile has set and this one does not
    mention is put back, so that going from one profile to another equals restoring and applying.
  - An interrupted run is finished by the same task again, or undone with O(state=restored), also after a reboot in between.
  - A knob that this kernel lacks is reported, not ignored and not an error.
extends_documentation_fragment:
  - memstretch.density.recorded_change
options:
  state:
    description:
      - With V(applied), the settings are in force and last.
      - With V(restored), everything that this module has ever changed on the host is as it was, and the record is gone. The settings
        are not looked at.
    type: str
    choices: [applied, restored]
    default: applied
  profile:
    description: Name of the profile, for the record and for messages.
    type: str
    default: ""
  sysctl:
    description:
      - Values of sysctls by name.
      - Here and in the other sections an entry is a value, or a list of values of which the first is taken that the kernel takes, or a
        dictionary with C(value), and perhaps C(reason) and C(since) (the kernel that brought it), texts for people.
    type: dict
    default: {}
  sysfs:
    description: Values of files below C(/sys) by path. V(*) in a path stands for all that match.
    type: dict
    default: {}
  cpu_governor:
    description: One entry, the name of the frequency governor of all processors. Empty leaves them as they are.
    type: raw
    default: ""
  block_queue:
    description: Values of files in the queue directory of each of O(block_devices), by name.
    type: dict
    default: {}
  block_devices:
    description: The disks that O(block_queue) is about, as stable paths below C(/dev/disk).
    type: list
    elements: path
    default: []
  services_stopped:
    description:
      - Units of systemd that must neither run nor start at boot, by name without C(.service); the value is C(true) or a dictionary with
        C(reason).
    type: dict
    default: {}
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying the target.
    support: full
    details: Which of several values the kernel takes is only known once it was tried; the first one is predicted.
  diff_mode:
    description: Returns details on what has changed, or would change in check mode, when in diff mode.
    support: full
notes:
  - Without systemd the settings last until the reboot; RV(persistent) says so.
seealso:
  - module: memstretch.density.host_memory_info
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Tune the host
  memstretch.density.host_settings:
    profile: mine
    sysctl:
      vm.page-cluster: {value: 0, reason: Read-ahead from NVMe only costs., since: "2.4"}
      vm.watermark_scale_factor: 400
    sysfs:
      /sys/kernel/mm/transparent_hugepage/enabled: never
    block_queue:
      scheduler: none
    block_devices: [/dev/disk/by-id/nvme-FAST0]

- name: Put everything back
  memstretch.density.host_settings:
    state: restored
"""

RETURN = r"""
settings:
  description: What was asked for, one entry for each setting and service; empty with O(state=restored).
  returned: always
  type: list
  elements: dict
  contains:
    section:
      description: Section of the profile.
      type: str
    name:
      description: What people call it; for a disk queue with the disk's name.
      type: str
    path:
      description: The file, or null for a service and for a knob that this kernel lacks.
      type: str
    wanted:
      description: The value that was asked for; of several, the one that the kernel took.
      type: str
    before:
      description: The value when the module began.
      type: str
    effective:
      description: The value that is in force; in check mode that of now. A service is V(running), V(enabled) or V(stopped).
      type: str
    original:
      description: The value before our first change.
      type: str
    absent:
      description: Whether this kernel lacks the knob, or this host the service.
      type: bool
    since:
      description: The kernel that brought it, as the profile says.
      type: str
    reason:
      description: Why the profile sets it.
      type: str
    also_set_by:
      description: Files and services that set it too and may win at the next boot or at their next change.
      type: list
      elements: str
differences:
  description: What was not as asked for when the module began, and who else sets it; in check mode this is what is not in force.
  returned: always
  type: list
  elements: str
  sample: [/proc/sys/vm/swappiness is 60 and not 100 (it is also set by /etc/sysctl.d/90-vendor.conf:3)]
persistent:
  description: Whether the settings last over a reboot.
  returned: always
  type: bool
profile:
  description: The profile that the host carries now; null after a restore.
  returned: always
  type: str
recorded:
  description: What M(memstretch.density.host_memory_info) returned before our first change; null if nothing was ever changed.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.record import (
    DIRECTORY,
    HostRecord,
    HostRecordError,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import SettingsError, mistakes
from ansible_collections.memstretch.density.plugins.module_utils.host.tuner import HostTuner


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["applied", "restored"], "default": "applied"},
            "profile": {"type": "str", "default": ""},
            "sysctl": {"type": "dict", "default": {}},
            "sysfs": {"type": "dict", "default": {}},
            "cpu_governor": {"type": "raw", "default": ""},
            "block_queue": {"type": "dict", "default": {}},
            "block_devices": {"type": "list", "elements": "path", "default": []},
            "services_stopped": {"type": "dict", "default": {}},
            "record_directory": {"type": "path", "default": DIRECTORY},
        },
        supports_check_mode=True,
    )
    wrong = mistakes(module.params)
    if wrong:
        module.fail_json(msg="; ".join(wrong))
    try:
        tuner = HostTuner(
            module.params, HostRecord("host_settings", module.params["record_directory"]), module.run_command
        )
        before = tuner.state_text()
        changes = tuner.changes()
        if changes and not module.check_mode:
            tuner.carry_out()
        after = tuner.foreseen_text() if module.check_mode else tuner.state_text()
        module.exit_json(changed=changes, diff={"before": before, "after": after}, **tuner.report())
    except (SettingsError, HostRecordError) as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(msg=f"host_settings needs root on the host: {error}")


if __name__ == "__main__":
    main()
