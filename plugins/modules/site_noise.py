#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: site_noise
short_description: Measure how steady a host is
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Runs a small Redis of its own on the loopback address, loads it with the client in blocks of some seconds, and ends
    it. Returns the latencies of each block and the share of CPU time that was stolen.
  - M(memstretch.density.site_check) judges the result.
options:
  executable:
    description: Path of the client, or its name if it is on the path.
    type: path
    default: solotest
  redis:
    description: Path of the Redis server, or its name if it is on the path. The default is the first of redis-server
      and valkey-server.
    type: path
  required:
    description: Whether a host without a Redis server is an error. If not, RV(unmeasured) names it as the reason.
    type: bool
    default: true
  rate:
    description: Requests per second, 0.001 to 1,000,000,000.
    type: float
    default: 5000
  key_count:
    description: Number of records, 1 to 1,000,000,000,000.
    type: int
    default: 10000
  value_size:
    description: Bytes of each value, 1 to 536,870,912.
    type: int
    default: 1024
  pacing:
    description: How the client waits for the next request, as in M(memstretch.density.solotest).
    type: str
    choices: [hybrid, sleep, spin]
    default: hybrid
  cpu_idle:
    description:
      - What the CPUs do when they are idle while this module measures. V(default) leaves them as they are.
      - V(awake) keeps them from sleeping, as the role host_tuning does for the runs. It holds C(/dev/cpu_dma_latency)
        at 0, and the kernel drops that when the module ends. Needs root.
    type: str
    choices: [default, awake]
    default: default
  blocks:
    description: Number of blocks, 3 to 1000. One more is measured first and does not count.
    type: int
    default: 10
  block_seconds:
    description: Length of a block in seconds, 0.1 to 600.
    type: float
    default: 2
extends_documentation_fragment:
  - memstretch.density.checked_answer
attributes:
  check_mode:
    support: full
    description: Measures nothing in check mode.
  diff_mode:
    support: none
    description: Nothing that lasts is changed.
seealso:
  - module: memstretch.density.site_check
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Measure how steady the host is
  memstretch.density.site_noise:
    executable: "{{ client_program_result.path }}"
  register: noise
"""

RETURN = r"""
site_noise:
  description: The figures of the host.
  returned: when it was measured
  type: dict
  contains:
    blocks:
      description: For each block C(avg_us) and C(p99_us) of C(intended), and C(lower_p99_us), the p99 of C(server) or
        V(null).
      type: list
      elements: dict
    stolen:
      description: Share of the CPU time that other machines took while this one wanted it; V(null) if unknown.
      type: float
    awake:
      description: Whether the CPUs stayed awake when they were idle; V(null) if this kernel has no way to keep them
        awake.
      type: bool
unmeasured:
  description: Why the host was not measured.
  returned: when it has no Redis server, and O(required=false)
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_idle import CpuIdleError
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, check_numbers
from ansible_collections.memstretch.density.plugins.module_utils.solotest import site
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import RANGES

ARGUMENTS = {
    "executable": {"type": "path", "default": "solotest"},
    "redis": {"type": "path"},
    "required": {"type": "bool", "default": True},
    "rate": {"type": "float", "default": 5000},
    "key_count": {"type": "int", "default": 10000, "no_log": False},
    "value_size": {"type": "int", "default": 1024},
    "pacing": {"type": "str", "choices": ["hybrid", "sleep", "spin"], "default": "hybrid"},
    "cpu_idle": {"type": "str", "choices": ["default", "awake"], "default": "default"},
    "blocks": {"type": "int", "default": 10},
    "block_seconds": {"type": "float", "default": 2},
}
SERVERS = ("redis-server", "valkey-server")


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    options = module.params
    load = site.Load(**{name: options[name] for name in site.Load._fields})
    ranges = {**site.RANGES, **{name: RANGES[name] for name in ("rate", "key_count", "value_size")}}
    try:
        check_numbers(options, ranges)
    except SettingError as error:
        module.fail_json(msg=str(error))
    if module.check_mode:
        module.exit_json(changed=False, msg="check mode: nothing was measured")
    executable = _program(module, "executable", options["executable"])
    redis = _program(module, "redis", *([options["redis"]] if options["redis"] else SERVERS))
    measured = {name: options[name] for name in ("blocks", "block_seconds", "cpu_idle")}
    try:
        found = site.measure(load, executable, redis, run_command=module.run_command, **measured)
    except site.SiteError as error:
        module.fail_json(msg=str(error))
    except CpuIdleError as error:
        module.fail_json(
            msg=f"cpu_idle: awake is not possible: {error}. Repair that, or set host_tuning_cpu_idle "
            "(or only site_check_cpu_idle) to default"
        )
    module.exit_json(changed=False, site_noise=found)


def _program(module: AnsibleModule, option: str, *names: str) -> str:
    """Return the path of the first program that is there."""
    found = [path for path in map(module.get_bin_path, names) if path]
    if not found:
        why = f"{option}: this host has no {' or '.join(names)}; install it, or give its path"
        if option == "redis" and not module.params["required"]:
            module.exit_json(changed=False, unmeasured=why)
        module.fail_json(msg=why)
    return found[0]


if __name__ == "__main__":
    main()
