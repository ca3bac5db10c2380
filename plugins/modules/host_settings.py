#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_settings
short_description: Apply a profile's kernel settings to a host, and restore the original ones
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Sets all sysctls, files below C(/sys), CPU frequency governors and disk queues of a profile, and stops services.
    Makes the settings persistent with files in C(sysctl.d), C(tmpfiles.d) and C(udev/rules.d), and reads back the
    values that are in force.
  - Before the first change, the original values are recorded on the host's disk, in C(host_settings.json) below
    O(record_directory). An original value is never overwritten. Settings of an earlier profile that this one does not
    mention are restored, so that a change of profile is the same as a restore and then the new profile.
  - After an interrupted run, run the same task again to finish it, or use O(state=restored) to undo it. Both also work
    after a reboot.
  - A knob that this kernel lacks is reported and is not an error.
extends_documentation_fragment:
  - memstretch.density.recorded_change
  - memstretch.density.predicted_change
options:
  state:
    description:
      - With V(applied), the settings are in force and persistent.
      - With V(restored), everything that this module has ever changed on the host has its original value, and the
        record is removed. The options with settings are ignored.
      - What can no longer be restored does not stop the rest. A warning names it, the result lists it in RV(kept), and
        the record keeps its original value, until it can be restored or O(forget) names it.
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
      - Here and in the other sections an entry is a value, a list of values of which the first that the kernel accepts
        is set, or a dictionary with C(value). The dictionary may have the texts C(reason) and C(since), the first
        kernel with the knob. It may also have C(candidates), values that M(memstretch.density.study) may try; this
        module does not use them.
    type: dict
    default: {}
  sysfs:
    description: Values of files below C(/sys) by path. A path with V(*) sets all files that match. In the values of all
      sections V({percent:430M}) is 430 MiB as a percentage of the host's memory, rounded to 1 to 100.
    type: dict
    default: {}
  cpu_governor:
    description: One entry, the name of the frequency governor for all processors. If it is empty, they are not changed.
    type: raw
    default: ""
  block_queue:
    description: Values of files in the queue directory of each of the O(block_devices), by name.
    type: dict
    default: {}
  block_devices:
    description: The disks that O(block_queue) applies to, as stable paths below C(/dev/disk).
    type: list
    elements: path
    default: []
  services_stopped:
    description:
      - systemd services that must neither run nor start at boot, by name without C(.service). The value is C(true) or a
        dictionary with C(reason).
      - Sockets, timers and paths that would start such a service again are stopped, recorded and restored with it. They
        may also be named themselves, such as V(apt-daily.timer).
    type: dict
    default: {}
  applied_for:
    description:
      - What the profile belongs to, such as one run of a playbook that restores the host at its end. It is kept in the
        record, so that another such playbook does not restore a profile that somebody else has applied since.
    type: str
    default: ""
  forget:
    description:
      - Entries of the record that can no longer be restored and are given up, named as in RV(kept), for example
        V(service tuned) or V(/proc/sys/vm/swappiness). Their original values are removed from the record.
      - An entry that can be restored is restored anyway. A name that the record does not have is ignored.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    details: Which of several values the kernel accepts is not known before it is set; the first one is predicted.
notes:
  - Without systemd the settings last until the next reboot; RV(persistent) is then false.
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

- name: Restore the original settings
  memstretch.density.host_settings:
    state: restored
"""

RETURN = r"""
settings:
  description: The settings in the options, one entry for each setting and service; empty with O(state=restored).
  returned: always
  type: list
  elements: dict
  contains:
    section:
      description: Section of the profile.
      type: str
    name:
      description: Name of the setting; for a disk queue, with the name of the disk.
      type: str
    path:
      description: The file; null for a service, and for a knob that this kernel lacks.
      type: str
    wanted:
      description: The value in the options; of several values, the one that the kernel accepted.
      type: str
    before:
      description: The value when the module started.
      type: str
    effective:
      description:
        - The value in force when the module ended. A service is V(running), V(enabled), V(running and enabled),
          V(stopped) or V(absent).
      type: str
    original:
      description: The value before the first change by this module.
      type: str
    absent:
      description: Whether this kernel lacks the knob, or this host the service.
      type: bool
    since:
      description: The first kernel with the knob, as the profile says.
      type: str
    reason:
      description: The reason for the setting, as the profile says.
      type: str
    also_set_by:
      description: Other files and services that set it, and may override it at the next boot or at their next change.
      type: list
      elements: str
differences:
  description:
    - The settings that differed from the options when the module started, and what else sets them. In check mode, these
      are the settings that are not in force.
  returned: always
  type: list
  elements: str
  sample: [/proc/sys/vm/swappiness is 60 and not 100 (it is also set by /etc/sysctl.d/90-vendor.conf:3)]
persistent:
  description: Whether the settings survive a reboot.
  returned: always
  type: bool
profile:
  description: The profile that is applied to the host now; null after a restore.
  returned: always
  type: str
kept:
  description:
    - What an earlier profile has changed and can no longer be restored, because the service, the knob or its disk is
      gone, or the kernel refuses the value. Each run tries again. In check mode, what is known of it.
  returned: always
  type: list
  elements: dict
  contains:
    entry:
      description: The knob, or C(service) with the name of the service.
      type: str
      sample: service tuned
    original:
      description: The original value, which stays in the record.
      type: str
      sample: running and enabled
    reason:
      description: Why it cannot be restored.
      type: str
      sample: this host no longer has its unit
recorded:
  description:
    - The result of M(memstretch.density.host_memory_info) before the first change by this module; null if it has
      changed nothing.
  returned: always
  type: dict
"""

from functools import partial

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.record import (
    DIRECTORY,
    HostRecord,
    HostRecordError,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import SettingsError, mistakes
from ansible_collections.memstretch.density.plugins.module_utils.host.tuner import HostTuner, converge


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
            "applied_for": {"type": "str", "default": ""},
            "forget": {"type": "list", "elements": "str", "default": []},
            "record_directory": {"type": "path", "default": DIRECTORY},
        },
        supports_check_mode=True,
    )
    wrong = mistakes(module.params)
    if wrong:
        module.fail_json(msg="; ".join(wrong))
    try:
        record = HostRecord("host_settings", module.params["record_directory"])
        find_tuner = partial(HostTuner, module.params, record, module.run_command)
        result = converge(find_tuner, record, module.check_mode)
        for kept in result["kept"]:
            module.warn(
                f"{kept['entry']} cannot be restored to {kept['original']!r}: {kept['reason']}. The original stays in "
                f"{record.path}, and each run tries again. To give it up, run the same command with the variable "
                f"host_tuning_forget: [{kept['entry']!r}] (the option forget of the module host_settings)."
            )
        module.exit_json(**result)
    except (SettingsError, HostRecordError) as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(msg=f"host_settings needs root on the host: {error}")


if __name__ == "__main__":
    main()
