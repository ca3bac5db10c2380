#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: writeback_benchmark
short_description: Measure small synchronous writes under a flood of dirty pages, and find the best vm.dirty_bytes
version_added: 0.1.0
description:
  - One sequential writer fills the page cache with dirty pages. At the same time C(fio) writes small blocks at random
    offsets, with an fsync after each. This is measured with the host's own settings, with each value of O(dirty_bytes),
    and all of it again with each of O(queues).
  - The knee is the setting that recovers most of the idle host's synchronous writes and keeps at least 85 % of the
    sequential throughput.
  - The original settings are restored at the end, also after an interruption. After a power cut or SIGKILL, the next
    execution restores them, or one with O(state=restored).
options:
  state:
    description:
      - V(restored) measures nothing. It restores the settings and removes the files that an interrupted execution left.
    type: str
    choices: [measured, restored]
    default: measured
  directory:
    description:
      - Directory on the disk to measure. The files are written to a directory C(memstretch-writeback) in it, which is
        removed at the end. A tenth of the file system must stay free.
    type: path
    required: true
  dirty_bytes:
    description:
      - Values of vm.dirty_bytes, in bytes or with K, M, G (powers of 1024). The host's own setting is always measured
        too, as the first one.
    type: list
    elements: str
    default: [256M, 64M, 15M]
  queues:
    description:
      - Settings of the disk's queue to measure in addition to its own, each with one or more of C(scheduler),
        C(nr_requests), C(nomerges), C(max_sectors_kb), C(wbt_lat_usec), C(rq_affinity).
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
    description: Number of repetitions of all measurements, in turn, 1 to 1,000. Results show their median.
    type: raw
    default: 1
  file_size:
    description: Size of the file of each synchronous writer.
    type: str
    default: 64M
  flood_size:
    description: Size of the file that is written sequentially, and again and again as the flood.
    type: str
    default: 1G
  record_directory:
    description: Directory on the host for the record of the original settings.
    type: path
    default: /var/lib/memstretch
attributes:
  check_mode:
    support: full
    description: Checks the options and the directory, and returns how long the synchronous writes would take.
  diff_mode:
    support: none
    description: The module restores what it changes.
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
  description: Seconds of all synchronous writes together.
  returned: O(state=measured)
  type: float
writeback:
  description: The results.
  returned: O(state=measured), but not in check mode
  type: dict
  contains:
    settings_measured:
      description:
        - "For each setting, the host's own (C(dirty_bytes) 0) first, C(dirty_bytes), C(queue), C(sequential) (bytes per
          second) and C(sequential_share); and for each number of C(threads) C(idle_iops), C(flood_iops),
          C(flood_p99_ms), C(gain) (over the host's own setting) and C(of_idle)."
      type: list
      elements: dict
    chosen:
      description: The knee, one of RV(writeback.settings_measured), or null if there is none.
      type: dict
    reason:
      description: Why there is no knee.
      type: str
    disk:
      description: The disk that was measured, with the settings of its queue.
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.experiment import writeback
from ansible_collections.memstretch.density.plugins.module_utils.host import memory as host_memory
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.record import DIRECTORY, HostRecordError
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import SettingsError
from ansible_collections.memstretch.density.plugins.module_utils.host.temporary import TemporarySettings
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


def measured(module: AnsibleModule, knobs: writeback.WritebackKnobs, options: dict) -> dict:
    """Return the results and the knee."""
    fio = module.get_bin_path("fio", required=True)
    figures = writeback.measure(module.params["directory"], knobs, options, fio, module.run_command)
    settings = writeback.with_ratios(figures)
    chosen, reason = writeback.choose(settings)
    return dict(
        schema=writeback.SCHEMA,
        settings=options,
        settings_measured=settings,
        chosen=chosen,
        reason=reason,
        disk=dict(name=knobs.disk, **host_memory.block_queue(HostFiles(), knobs.disk)),
        fio=writeback.fio_version(module.run_command([fio, "--version"])[1]),
    )


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    settings = TemporarySettings(module.params["record_directory"])
    record = settings.record
    try:
        options = writeback.check_options(module.params)
        left = writeback.is_left(record, module.params["directory"])
        if left and not module.check_mode:
            writeback.undo(record, module.params["directory"])
        if module.params["state"] == "restored":
            module.exit_json(changed=left)
        disk = writeback.check_directory(module.params["directory"], options)
        seconds = writeback.writing_seconds(options)
        if module.check_mode:
            module.exit_json(changed=False, writing_seconds=seconds, msg="check mode: nothing was measured")
        with record.locked():
            result = measured(module, writeback.WritebackKnobs(disk, settings), options)
    except (SettingError, SettingsError, HostRecordError, writeback.MeasurementError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, writeback=result, writing_seconds=seconds)


if __name__ == "__main__":
    main()
