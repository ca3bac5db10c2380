#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: writeback_benchmark
short_description: Measure small synchronous writes under a flood of dirty pages, and find the vm.dirty_bytes that saves them
version_added: 0.1.0
description:
  - One sequential writer fills the page cache with dirty pages; beside it C(fio) writes small blocks at random places with an fsync after each. This is
    done with the host's own settings and with each value of O(dirty_bytes), and again with each of O(queues).
  - The knee is the setting that recovers most of the idle machine's synchronous writes and leaves at least 85 % of the sequential throughput.
  - Settings are put back at the end, also when it is interrupted; after a power cut or a kill, by the next execution or with O(state=restored).
options:
  state:
    description: With V(restored) nothing is measured; what an execution that was cut off left is put back and removed.
    type: str
    choices: [measured, restored]
    default: measured
  directory:
    description:
      - Directory on the disk to be measured. The files lie in a directory C(memstretch-writeback) in it, which is removed again. A tenth of the file system
        must stay free.
    type: path
    required: true
  dirty_bytes:
    description: Values of vm.dirty_bytes, in bytes or with K, M, G (powers of 1024). What the host has now is measured in any case, first.
    type: list
    elements: str
    default: [256M, 64M, 15M]
  queues:
    description: Settings of the disk's queue to be tried beside its own, each with some of C(scheduler), C(nr_requests), C(nomerges), C(max_sectors_kb),
      C(wbt_lat_usec), C(rq_affinity).
    type: list
    elements: dict
    default: []
  write_size:
    description: Size of a synchronous write, a multiple of 512 from 512 bytes to 1G.
    type: str
    default: 16K
  threads:
    description: Numbers of synchronous writers, each 1 to 1,024.
    type: raw
    default: [10, 1]
  seconds:
    description: How long each measurement writes, 0.5 to 3,600 seconds.
    type: raw
    default: 5
  repetitions:
    description: How often everything is measured, in turn, 1 to 1,000. The median counts.
    type: raw
    default: 1
  file_size:
    description: Size of the file of each synchronous writer.
    type: str
    default: 64M
  flood_size:
    description: Size of the file that is written in sequence, and over and over as the flood.
    type: str
    default: 1G
  record_directory:
    description: Where the originals are kept on the host.
    type: path
    default: /var/lib/memstretch
attributes:
  check_mode:
    support: full
    description: Checks the options and the directory, and says how long it would take; changes nothing.
  diff_mode:
    support: none
    description: Nothing is different afterwards.
  platform:
    support: full
    description: Needs fio.
    platforms: linux
notes:
  - Needs root.
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Find the vm.dirty_bytes of this host
  memstretch.density.writeback_benchmark:
    directory: /var/lib/libvirt/images
  register: measured
"""

RETURN = r"""
writing_seconds:
  description: How long the synchronous writes take altogether.
  returned: O(state=measured)
  type: float
writeback:
  description: What was measured.
  returned: O(state=measured), but not in check mode
  type: dict
  contains:
    settings_measured:
      description:
        - "Each setting, the host's own (C(dirty_bytes) 0) first: C(dirty_bytes), C(queue), C(sequential) (bytes per second), C(sequential_share), and for each
          number of C(threads) C(idle_iops), C(flood_iops), C(flood_p99_ms), C(gain) (over the host's own) and C(of_idle)."
      type: list
      elements: dict
    chosen:
      description: The knee, one of these; null if there is none.
      type: dict
    reason:
      description: Why there is no knee.
      type: str
    disk:
      description: The disk that was measured.
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.experiment import writeback
from ansible_collections.memstretch.density.plugins.module_utils.host import memory as host_memory
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.record import (
    DIRECTORY,
    HostRecord,
    HostRecordError,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import SettingsError
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError

ARGUMENTS = dict(
    state=dict(type="str", choices=["measured", "restored"], default="measured"),
    directory=dict(type="path", required=True),
    dirty_bytes=dict(type="list", elements="str", default=["256M", "64M", "15M"]),
    queues=dict(type="list", elements="dict", default=[]),
    write_size=dict(type="str", default="16K"),
    threads=dict(type="raw", default=[10, 1]),
    seconds=dict(type="raw", default=5),
    repetitions=dict(type="raw", default=1),
    file_size=dict(type="str", default="64M"),
    flood_size=dict(type="str", default="1G"),
    record_directory=dict(type="path", default=DIRECTORY),
)


def measured(module: AnsibleModule, host: writeback.Host, options: dict) -> dict:
    """Return what was measured, and the knee."""
    fio = module.get_bin_path("fio", required=True)
    settings = writeback.judged(writeback.measure(module.params["directory"], host, options, fio, module.run_command))
    chosen, reason = writeback.choose(settings)
    return dict(
        schema=writeback.SCHEMA,
        settings=options,
        settings_measured=settings,
        chosen=chosen,
        reason=reason,
        disk=dict(name=host.disk, **host_memory.block_queue(HostFiles(), host.disk)),
        fio=writeback.fio_version(module.run_command([fio, "--version"])[1]),
    )


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    record = HostRecord(writeback.RECORD, module.params["record_directory"])
    try:
        options = writeback.checked(module.params)
        left = writeback.is_left(record, module.params["directory"])
        if left and not module.check_mode:
            writeback.undo(record, module.params["directory"])
        if module.params["state"] == "restored":
            module.exit_json(changed=left)
        disk = writeback.check_directory(module.params["directory"], options)
        seconds = writeback.planned_seconds(options)
        if module.check_mode:
            module.exit_json(changed=False, writing_seconds=seconds, msg="check mode: nothing was measured")
        with record.locked():
            result = measured(module, writeback.Host(disk, record), options)
    except (SettingError, SettingsError, HostRecordError, writeback.MeasurementError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, writeback=result, writing_seconds=seconds)


if __name__ == "__main__":
    main()
