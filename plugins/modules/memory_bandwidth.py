#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: memory_bandwidth
short_description: Measure how fast the CPUs of each NUMA node read the memory of each NUMA node
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - For each pair of NUMA nodes, measures the read bandwidth with one or more readers and the latency of a load, with
    the program C(membw) of this collection. Each pair is compared with the pair of that memory and its local CPUs.
  - Compares the best bandwidth with the theoretical bandwidth of the memory channels, if the firmware lists the memory
    modules (C(dmidecode), needs root).
  - Checks whether swap drives and VMs are on the nodes that use them.
  - A machine with one node has a matrix of one pair; RV(memory_bandwidth.notes) then explains that there is nothing to
    compare.
options:
  executable:
    description: The program C(membw) on the host. A name without a slash is looked up in PATH.
    type: path
    default: membw
  pattern:
    description:
      - How memory is read. V(all) reads every byte in sequence, V(line) one word of each line of 64 bytes. Both count
        whole lines.
    type: str
    choices: [all, line]
    default: all
  buffer:
    description:
      - Size of the buffer that all readers share, in bytes or with K, M, G, T (powers of 1024). The default is 16 times
        the last-level caches of the readers' CPUs, each counted once, and at least 256M. Less is refused, because reads
        would hit the caches. So is a buffer that does not leave a quarter of its size free on the node.
    type: str
    default: ""
  cache:
    description:
      - Size of the readers' last-level caches to assume, together, in bytes or with K, M, G, T, for a machine whose
        kernel reports a wrong size. The default is what the kernel reports. A given size is listed among the doubts of
        the result.
    type: str
    default: ""
  seconds:
    description: How long each measurement reads, 0.05 to 600 seconds.
    type: raw
    default: 0.5
  repetitions:
    description: Number of repetitions of all measurements, in turn, 1 to 1,000. Results show their median.
    type: raw
    default: 3
  readers:
    description: Numbers of readers, each 1 to 1,024. The default is 1, 2, 4 and so on up to the CPUs of a node.
    type: raw
    default: []
  huge_pages:
    description:
      - Huge pages for the buffer. V(reserved) takes them from vm.nr_hugepages. Without huge pages, the latency
        includes the cost of address translation.
    type: str
    choices: [none, transparent, reserved]
    default: none
  channels:
    description: Memory channels of the whole host, 1 to 1,024, if the firmware does not report them.
    type: raw
  link:
    description:
      - Speed of the link between two sockets in GB/s one way, 0.1 to 10,000. The result shows which share of it was
        reached. No kernel reports the speed.
    type: raw
attributes:
  check_mode:
    support: full
    description:
      - Checks the options, the nodes and their free memory, and returns how many measurements there would be and how
        long they would read.
  diff_mode:
    support: none
    description: The module changes nothing.
  platform:
    support: full
    description: Any architecture. Each needs its own build of C(membw).
    platforms: linux
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Measure the memory of each node from each node
  memstretch.density.memory_bandwidth:
    executable: /opt/memstretch/membw
  register: measured

- name: Show bandwidth and latency across sockets, relative to local memory
  ansible.builtin.debug:
    msg: "{{ measured.memory_bandwidth.pairs | rejectattr('local') | map(attribute='ratio') }}"
"""

RETURN = r"""
measurements:
  description: Number of measurements in a repetition.
  returned: always
  type: int
reading_seconds:
  description: Seconds of reading in all measurements together, without the time to fill the buffers.
  returned: always
  type: float
largest_buffer:
  description: Size of the largest buffer in bytes.
  returned: always
  type: int
memory_bandwidth:
  description: The results. Each figure has C(median), C(min) and C(max) of the repetitions.
  returned: not in check mode
  type: dict
  contains:
    pairs:
      description:
        - "For each pair C(cpu_node), C(memory_node), C(local); C(single) and C(highest), bytes per second with one
          reader and with the best number of readers; C(latency_ns), nanoseconds of a load; C(ratio), these three
          relative to the local pair of that memory."
      type: list
      elements: dict
    readers:
      description: Bytes per second for each pair and number of readers.
      type: list
      elements: dict
    theory:
      description:
        - C(bytes_per_second), the theoretical bandwidth of all C(channels); C(share), the part of it that the readers
          of all nodes reached; or C(reason), why it is unknown.
      type: dict
    link:
      description:
        - C(bytes_per_second) of O(link), C(highest) bandwidth between two nodes, and C(share), or the C(reason) why it
          is unknown.
      type: dict
    placement:
      description: C(swap_drives) with their nodes, and C(virtual_machines) with their memory by node.
      type: dict
    warnings:
      description: Swap drives and VMs on the wrong node.
      type: list
      elements: str
    notes:
      description: Notes about the figures.
      type: list
      elements: str
    doubts:
      description: What makes figures doubtful, such as a reader that had to share its CPU.
      type: list
      elements: str
    origin:
      description:
        - C(date), C(seconds) of the whole measurement, C(cpu_model), C(kernel), and C(stolen), the share of CPU time
          that was stolen in these seconds.
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.experiment import bandwidth
from ansible_collections.memstretch.density.plugins.module_utils.experiment import channels as memory_channels
from ansible_collections.memstretch.density.plugins.module_utils.experiment import numa as numa_placement
from ansible_collections.memstretch.density.plugins.module_utils.host import memory as host_memory
from ansible_collections.memstretch.density.plugins.module_utils.host.commands import run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_time import Origin
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError

ARGUMENTS = {
    "executable": {"type": "path", "default": "membw"},
    "pattern": {"type": "str", "choices": ["all", "line"], "default": "all"},
    "buffer": {"type": "str", "default": ""},
    "cache": {"type": "str", "default": ""},
    "seconds": {"type": "raw", "default": 0.5},
    "repetitions": {"type": "raw", "default": 3},
    "readers": {"type": "raw", "default": []},
    "huge_pages": {"type": "str", "choices": ["none", "transparent", "reserved"], "default": "none"},
    "channels": {"type": "raw"},
    "link": {"type": "raw"},
}


def theory_of(module: AnsibleModule, files: HostFiles, channels: int | None, pairs: list) -> dict:
    """Return the theoretical bandwidth of the memory channels, and the share of it that was reached."""
    dmidecode = module.get_bin_path("dmidecode", opt_dirs=["/usr/sbin", "/sbin"])
    status, output, diagnostics = 1, "", "dmidecode is not installed"
    if dmidecode:
        status, output, diagnostics = run_to_end(module.run_command, [dmidecode, "--type", "17"])
    modules = memory_channels.modules(output) if status == 0 else []
    if modules:
        found = memory_channels.theory(modules, host_memory.cpu(files)["sockets"] or 1, channels)
    else:
        reasons = diagnostics.strip().splitlines() or ["the firmware lists no memory modules"]
        found = {"bytes_per_second": None, "channels": channels, "reason": reasons[-1]}
    reached = sum(pair["highest"]["median"] for pair in pairs if pair["local"] and pair["highest"])
    return {
        **found,
        "modules": modules,
        "share": round(reached / found["bytes_per_second"], 4) if found["bytes_per_second"] else None,
    }


def ratio_text(pairs: list, cpu_node: int, memory_node: int) -> str:
    """Describe how a pair compares with local memory, as text for a warning; empty if it was not measured."""
    pair = next((each for each in pairs if (each["cpu_node"], each["memory_node"]) == (cpu_node, memory_node)), None)
    if not pair or not pair["ratio"]["single"] or not pair["ratio"]["latency"]:
        return ""
    return (
        f" (measured: {pair['ratio']['single']:.2f} of the local bandwidth, "
        f"{pair['ratio']['latency']:.2f} times the local latency)"
    )


def notes_of(facts: dict) -> list[str]:
    """Return the notes about the figures."""
    nodes = {pair["memory_node"] for pair in facts["pairs"]} | {pair["cpu_node"] for pair in facts["pairs"]}
    if not facts["numa"]:
        return ["the kernel of this machine has no NUMA support: there is one pair, and nothing to compare it with"]
    if len(nodes) == 1:
        return ["this machine has one NUMA node: there is one pair, and nothing to compare it with"]
    return []


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    files = HostFiles()
    try:
        options = bandwidth.check_options(module.params)
        nodes = bandwidth.nodes(files, bandwidth.allowed_cpus())
        measurements = bandwidth.measurements(nodes, options)
        largest = bandwidth.check_room(files, nodes, measurements, options)
        expected = {
            "measurements": len(measurements),
            "reading_seconds": len(measurements) * options["repetitions"] * options["seconds"],
            "largest_buffer": largest,
        }
        if module.check_mode:
            module.exit_json(changed=False, msg="check mode: nothing was measured", **expected)
        origin = Origin(files)
        path = module.params["executable"]
        path = path if "/" in path else module.get_bin_path(path, required=True)
        facts = bandwidth.facts(bandwidth.run(measurements, options, path, module.run_command))
    except (SettingError, bandwidth.MeasurementError) as error:
        module.fail_json(msg=str(error))
    pairs = facts["pairs"]
    drives, machines = numa_placement.swap_drives(files), numa_placement.virtual_machines(files)
    warnings = numa_placement.warnings(
        [node.number for node in nodes if node.cpus],
        drives,
        machines,
        lambda cpu_node, memory_node: ratio_text(pairs, cpu_node, memory_node),
    )
    result = dict(
        schema=bandwidth.SCHEMA,
        settings=options,
        cpu_model=host_memory.cpu(files)["model"],
        **facts,
        notes=notes_of(facts),
        warnings=warnings,
        link=bandwidth.link(pairs, options["link"]),
        theory=theory_of(module, files, options["channels"], pairs),
        placement={"swap_drives": drives, "virtual_machines": machines},
        origin=origin.facts(),
    )
    module.exit_json(changed=False, memory_bandwidth=result, **expected)


if __name__ == "__main__":
    main()
