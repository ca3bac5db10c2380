#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: writeback_benchmark
short_description: Measure small synchronous writes under a flood of dirty pages, and find the best vm.dirty_bytes
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - One sequential writer fills the page cache with dirty pages, more than the dirty limit, so that the kernel must
    write them back. At the same time C(fio) writes small blocks at random offsets, with an fsync after each. This is
    measured with the host's own settings, with each value of O(dirty_bytes), and all of it again with each of
    O(queues).
  - Dirty, Writeback and the bytes that the disk writes are recorded over time. A setting under which the flood was not
    written back does not count, and its RV(writeback.settings_measured) gives the reason.
  - The knee is the setting that recovers most of the idle host's synchronous writes, in the cell that has least of
    them, and keeps at least 85 % of the sequential throughput. Of settings that are equal within 5 % and one standard
    error, the one with the largest vm.dirty_bytes wins. From 3 repetitions on, there is a knee only if the 95 %
    interval of the gain over the host's own setting is above 1.
  - The original settings are restored at the end, also after an interruption. After a power cut or SIGKILL, the next
    execution restores them, or one with O(state=restored).
  - The finished repetitions are kept in the file C(memstretch-writeback.json) in O(directory) until the end. An
    execution with the same options goes on from there, unless the host was started again in between.
options:
  state:
    description:
      - V(restored) measures nothing. It restores the settings and removes the files that an interrupted execution left,
        also its finished repetitions.
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
    default: [1G, 256M, 64M, 16M, 4M, 1M]
  refine:
    description:
      - Number of values to add between the knee and each of its neighbours, in logarithmic steps, 0 to 8. A first round
        that does not count finds where to add them.
    type: raw
    default: 1
  queues:
    description:
      - Settings of the disk's queue to measure in addition to its own, each with one or more of C(scheduler),
        C(nr_requests), C(nomerges), C(max_sectors_kb), C(wbt_lat_usec), C(rq_affinity).
    type: list
    elements: dict
    default: []
  write_sizes:
    description: Sizes of a synchronous write, each a multiple of 512 from 512 bytes to 1G.
    type: list
    elements: str
    default: [16K, 4K]
  threads:
    description: Numbers of synchronous writers, each 1 to 1,024.
    type: raw
    default: [10, 1]
  seconds:
    description: How long each measurement writes, 0.5 to 3,600 seconds.
    type: raw
    default: 5
  repetitions:
    description:
      - Number of repetitions of all measurements, 1 to 1,000. Results show their median. Fewer than 3 give no interval
        of the gain, fewer than 5 none of the knee. Each repetition has its own order of settings and cells.
    type: raw
    default: 5
  file_size:
    description: Size of the file of each synchronous writer.
    type: str
    default: 64M
  flood_size:
    description:
      - Size of the flood's file, which is written once before all measurements and rewritten in them. By default it is
        1.25 times the largest dirty limit of the experiment, the host's own included, but at most half of the free
        space.
    type: str
    default: ""
  emulated_iops:
    description:
      - Writes per second of an emulated slow drive, 0 to 100,000. The drive is a file in O(directory), on a loop device
        that the kernel slows down. Needs C(mkfs.ext4) and the controller blkio of cgroup version 1. V(0) measures the
        real drive.
    type: raw
    default: 0
  emulated_bandwidth:
    description: Bytes per second that the emulated drive writes, at least 1M.
    type: str
    default: 150M
extends_documentation_fragment:
  - memstretch.density.recorded_change
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
flood_size:
  description: Size of the flood's file in bytes.
  returned: O(state=measured)
  type: int
repetitions_done:
  description: Number of repetitions that an interrupted execution had finished.
  returned: O(state=measured)
  type: int
writeback:
  description: The results.
  returned: O(state=measured), but not in check mode
  type: dict
  contains:
    settings_measured:
      description:
        - "For each setting, the host's own (C(dirty_bytes) 0) first: C(limit), the dirty limit in bytes; C(queue);
          C(valid) and C(reason); C(doubt), why its figures are doubtful; C(sequential), bytes per second, and
          C(sequential_share) of the baseline's; and C(cells)."
        - "For each cell, with its C(write_size) in bytes and C(threads): C(idle_iops), C(flood_iops), C(of_idle),
            C(gain) over the baseline; C(seconds), how long it took, and C(fsyncs), how many ended; C(avg_ms),
            C(p95_ms), C(p99_ms), C(max_ms) of an fsync, C(write_avg_ms) of the write before it;
            C(writeback_per_second) of the flood and C(device_per_second), in bytes; C(dirty_max), C(writeback_max),
            and C(samples) of the last repetition: seconds, Dirty, Writeback, bytes per second of the disk."
        - Figures with C(median), C(min) and C(max) are over the repetitions, ratios are medians of paired ratios.
      type: list
      elements: dict
    baseline:
      description:
        - The setting that the others are compared with. It is the host's own, or the largest vm.dirty_bytes if nothing
          was written back under the host's own.
      type: dict
    chosen:
      description: The knee, one of RV(writeback.settings_measured), or null if there is none.
      type: dict
    reason:
      description: Why there is no knee.
      type: str
    knee:
      description:
        - C(limits), the range of dirty limits that 95 % of resampled repetitions choose, null with fewer than 5
          repetitions; and C(gain), how many times as many synchronous writes as under the baseline, with the bounds of
          its 95 % interval, null with fewer than 3.
      type: dict
    disk:
      description: The disk that was measured, with the settings of its queue.
      type: dict
    fio:
      description: Version of fio.
      type: str
    origin:
      description:
        - C(date), C(seconds) of the whole measurement, C(cpu_model), C(kernel), and C(stolen), the share of CPU time
          that was stolen in these seconds.
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.experiment import writeback, writeback_results
from ansible_collections.memstretch.density.plugins.module_utils.experiment.finished_rounds import FinishedRounds
from ansible_collections.memstretch.density.plugins.module_utils.experiment.slow_drive import SlowDriveError
from ansible_collections.memstretch.density.plugins.module_utils.host import memory as host_memory
from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_time import Origin
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.record import (
    DIRECTORY,
    HostRecord,
    HostRecordError,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import SettingsError
from ansible_collections.memstretch.density.plugins.module_utils.host.temporary import TemporarySettings
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError

ARGUMENTS = {
    "state": {"type": "str", "choices": ["measured", "restored"], "default": "measured"},
    "directory": {"type": "path", "required": True},
    "dirty_bytes": {"type": "list", "elements": "str", "default": ["1G", "256M", "64M", "16M", "4M", "1M"]},
    "refine": {"type": "raw", "default": 1},
    "queues": {"type": "list", "elements": "dict", "default": []},
    "write_sizes": {"type": "list", "elements": "str", "default": ["16K", "4K"]},
    "threads": {"type": "raw", "default": [10, 1]},
    "seconds": {"type": "raw", "default": 5},
    "repetitions": {"type": "raw", "default": 5},
    "file_size": {"type": "str", "default": "64M"},
    "flood_size": {"type": "str", "default": ""},
    "emulated_iops": {"type": "raw", "default": 0},
    "emulated_bandwidth": {"type": "str", "default": "150M"},
    "record_directory": {"type": "path", "default": DIRECTORY},
}


def undone(module: AnsibleModule, record: HostRecord) -> bool:
    """Undo what an interrupted execution left. Return whether there was anything."""
    directory = module.params["directory"]
    left = writeback.is_left(record, directory)
    if left and not module.check_mode:
        writeback.undo(record, directory, module.run_command)
    if module.params["state"] == "restored":
        left = left or writeback.is_unfinished(directory)
        if not module.check_mode:
            writeback.forget_rounds(directory)
    return left


def measured(
    module: AnsibleModule, disk: str, settings: TemporarySettings, options: dict, done: FinishedRounds
) -> dict:
    """Return the results and the knee."""
    fio = module.get_bin_path("fio", required=True)
    directory = module.params["directory"]
    knobs = writeback.WritebackKnobs(disk, settings)
    origin = Origin(HostFiles(), done.kept.get("origin"))
    rounds = writeback.KeptRounds(done, origin, options["flood_size"])
    measured_settings = writeback.measure(directory, knobs, options, fio, module.run_command, rounds)
    result = dict(
        schema=writeback.SCHEMA,
        settings=options,
        **writeback_results.facts(measured_settings),
        disk=dict(name=knobs.disk, **host_memory.block_queue(HostFiles(), knobs.disk)),
        fio=writeback.fio_version(module.run_command([fio, "--version"])[1]),
        origin=origin.facts(),
    )
    writeback.forget_rounds(directory)
    return result


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    settings = TemporarySettings(module.params["record_directory"])
    record = settings.record
    try:
        options = writeback.check_options(module.params)
        left = undone(module, record)
        if module.params["state"] == "restored":
            module.exit_json(changed=left)
        directory, asked = module.params["directory"], dict(options)
        disk = writeback.check_directory(directory, options)
        done = writeback.finished(directory, disk, asked)
        options["flood_size"] = done.kept.get("flood_size", options["flood_size"])
        seconds = writeback.writing_seconds(options)
        repetitions = writeback.repetitions_done(done)
        expected = {"writing_seconds": seconds, "flood_size": options["flood_size"], "repetitions_done": repetitions}
        if module.check_mode:
            module.exit_json(changed=left, msg="check mode: nothing was measured", **expected)
        with record.locked():
            result = measured(module, disk, settings, options, done)
    except (SettingError, SettingsError, HostRecordError, writeback.MeasurementError, SlowDriveError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=left, writeback=result, **expected)


if __name__ == "__main__":
    main()
