#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: solotest
short_description: Fill one Redis, or measure its latency on an open schedule
version_added: 0.1.0
description:
  - Runs the latency client C(solotest) of this collection once against one Redis endpoint, on the host where
    that endpoint is to be measured from, and returns what it measured.
  - One execution is one phase of that host. To load many hosts at the same moment, launch it with O(detach=true)
    and a common O(start_at), as the role P(memstretch.density.latency_benchmark#role) does.
  - The callback P(memstretch.density.fleet_latency#callback) merges the results of all hosts.
  - "The size of a result: about 10 KB as JSON, whatever the number of requests (four histograms of 0.5 to 1.5 KB
    and a time series of at most 120 points), so a phase of 1,000 hosts is 10 MB."
options:
  mode:
    description:
      - V(test) sends O(requests) GETs and SETs on the schedule that O(rate) gives and measures each.
      - V(fill) empties the Redis (FLUSHALL), then writes the keys 0 to O(key_count) - 1.
      - V(ping) connects, authenticates and reads the server's figures; it measures nothing.
    type: str
    choices: [test, fill, ping]
    default: test
  executable:
    description: The client on the host. A name without a slash is looked up in PATH.
    type: path
    default: solotest
  host:
    description: Name or address of the Redis endpoint.
    type: str
    default: 127.0.0.1
  port:
    description: TCP port of the Redis endpoint, 1 to 65535.
    type: int
    default: 6379
  socket:
    description: Unix socket of the Redis endpoint. Takes the place of O(host) and O(port).
    type: path
  username:
    description: ACL user. Needs O(password).
    type: str
  password:
    description: Password. Reaches the client by its environment, never as an argument.
    type: str
  value_size:
    description: Bytes of a value, 1 to 67,108,864.
    type: int
    default: 1000
  key_count:
    description: Number of keys, 1 to 4,000,000,000.
    type: int
    default: 20000000
  requests:
    description: Number of requests of a test. O(key_count) if neither it nor O(duration) is given, as in the brief.
    type: int
  duration:
    description:
      - Length of the schedule of a test in seconds, 0.1 to 604,800; every request that is due in it is sent, however late. With
        O(requests) as well, what ends first ends the test. With O(pacing=none), the time after which nothing is sent.
    type: float
  rate:
    description: Requests per second, 0.001 to 10,000,000.
    type: float
    default: 1000000
  influence:
    description:
      - Width of the Gaussian pull of the keys towards the middle, -1000 to 1000; V(0) is flat, a larger one gives a
        narrower bell.
    type: float
    default: -1
  read_mix:
    description: Percent of GETs, -1 to 100. As in the brief, V(70) gives 29 % SETs; V(-1) is SETs only.
    type: int
    default: 100
  start_at:
    description: When to begin, in seconds since the epoch by this host's clock. At once if not given.
    type: float
  stagger:
    description: The first request is due this fraction of an interval (1 / O(rate)) after O(start_at), 0 to 0.999999.
    type: float
    default: 0
  pacing:
    description:
      - How the client waits for the next request. V(hybrid) sleeps until shortly before, then spins; V(none) is a
        closed loop without a schedule.
    type: str
    choices: [hybrid, sleep, spin, none]
    default: hybrid
  spin_us:
    description:
      - How long V(hybrid) spins before a request is due, at least, in microseconds, 0 to 1,000,000. Where sleeps end later
        than that, it learns to spin longer, up to 150 microseconds; C(health.spin_us_at_end) says how long at the end.
    type: int
    default: 40
  cpu:
    description:
      - Where the client runs. V(any) leaves it to the scheduler; the number of a CPU, 0 to 1023, pins it there.
      - V(beside_redis) pins it to the CPU on which the main thread of the Redis ran last. Redis itself is left as it is, so
        pin that as well (C(server_cpulist)) if both must stay together.
      - V(own) pins it to a CPU on which the Redis is not; a thread of the same core is avoided, and another NUMA node, where
        there is a choice. If the Redis may run on all CPUs, it is one on which it did not run last. Of several Redis on
        one host each avoids its own only.
      - Both need the Redis on the client's host and the right to call INFO, and fail otherwise. Where the client and the
        Redis were is returned in any case, as RV(solotest.placement).
    type: raw
    default: any
  connections:
    description: Connections, used in turn, 1 to 512.
    type: int
    default: 1
  pipeline:
    description: Requests in flight per connection, 1 to 4096.
    type: int
    default: 1
  pattern:
    description: How keys are chosen. V(gaussian) as O(influence) says, V(uniform), or V(sequential).
    type: str
    choices: [gaussian, uniform, sequential]
    default: gaussian
  compressibility:
    description:
      - Share of each value that is constant, in blocks of 128 bytes, 0 to 1. V(0) is random bytes as in the brief, which no
        memory tier compresses.
    type: float
    default: 0
  seed:
    description: Seed of the client's random numbers, for repeatable runs.
    type: int
  max_seconds:
    description:
      - A test ends after so many seconds, 0.1 to 604,800, even if requests are left; it then shows an achieved rate
        below O(rate).
    type: float
  reply_timeout:
    description: A reply that takes longer than so many seconds ends the execution as failed, 0.001 to 86,400.
    type: float
    default: 60
  overwrite:
    description:
      - A fill empties the Redis. Without V(true) it refuses if there are keys that a fill did not write.
    type: bool
    default: false
  raw_samples:
    description: File on the host for each request's four latencies in nanoseconds, one request a line.
    type: path
  detach:
    description:
      - Return as soon as the client is launched, with RV(job), and let it work in the background. Take what it measures with
        P(memstretch.density.solotest_result#module).
      - Unlike C(async) this takes one connection and one start of Python, so that a large fleet is launched sooner.
    type: bool
    default: false
  phase:
    description: Name of the phase that this execution belongs to. Returned as it is.
    type: str
  run_id:
    description:
      - Name of the run. An execution is refused while another one loads the same endpoint from this host; but one that
        an interrupted playbook of the same run left behind is ended (by its pid), and this one takes its place.
    type: str
attributes:
  check_mode:
    support: full
    description: Validates the options and says whether the Redis would be written to; sends nothing.
  diff_mode:
    support: none
    description: The values are random bytes.
  platform:
    support: full
    description: The client is built for one architecture.
    platforms: linux
seealso:
  - plugin: memstretch.density.fleet_latency
    plugin_type: callback
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Fill a Redis with 100,000 values of 1,000 bytes
  memstretch.density.solotest:
    executable: /opt/solotest/solotest
    mode: fill
    key_count: 100000

- name: Measure it for 20 seconds
  memstretch.density.solotest:
    executable: /opt/solotest/solotest
    key_count: 100000
    rate: 5000
    influence: 10
    read_mix: 70
  register: measured

- name: Show its p99
  ansible.builtin.debug:
    msg: "p99 {{ measured.solotest.latency.response.p99_us }} us"
"""

RETURN = r"""
job:
  description: What P(memstretch.density.solotest_result#module) takes; the C(path) of a file on the host and a C(pid).
  returned: O(detach=true)
  type: dict
solotest:
  description: What the client did and measured. Latencies in microseconds, times in seconds since the epoch.
  returned: when the client ran, also if it failed in the middle; not with O(detach=true)
  type: dict
  contains:
    schema:
      description: Version of this structure.
      type: int
      sample: 1
    mode:
      description: The option O(mode).
      type: str
      sample: test
    phase:
      description: The option O(phase).
      type: str
    settings:
      description: The settings that the client used.
      type: dict
    machine:
      description: Boot id of the host's kernel. Equal for all endpoints of one machine.
      type: str
    client:
      description: Version of the client and what it was built with.
      type: dict
    server:
      description: Version, memory (bytes), number of keys and CPU time (C(cpu_s), of the main thread) of the Redis, C(before) and C(after) the execution.
      type: dict
    started_at:
      description: When the first request was sent.
      type: float
    finished_at:
      description: When the last reply came.
      type: float
    ready_at:
      description: When the client was connected and waiting for O(start_at).
      type: float
    seconds:
      description: From the first request to the last reply.
      type: float
    requests:
      description: Number of requests planned, sent, ok, gets, sets, and the errors by their kind.
      type: dict
    rate:
      description: Requests per second, C(target) and C(achieved).
      type: dict
    latency:
      description:
        - C(service) is from send to reply. C(response) is from the intended start if the previous reply came after it,
          otherwise from the send; objectives are judged by it. C(intended) is from the intended start, always.
          C(lateness) is the client's own delay, from the earliest possible send to the send.
        - Each holds C(count), C(avg_us), C(min_us), C(p50_us), C(p95_us), C(p99_us), C(p999_us), C(max_us), the exact
          C(sum_ns), C(min_ns), C(max_ns), and C(histogram), the counts in HdrHistogram's compressed V2 encoding.
      type: dict
    hot_set:
      description: Keys and bytes that took 50, 90 and 99 percent of the accesses.
      type: dict
    series:
      description: The test over time, at most 120 points of count, average, p99 and maximum (microseconds).
      type: dict
    fill:
      description: Keys, seconds, keys per second and the number of keys afterwards.
      type: dict
    health:
      description: What makes the client's own figures doubtful, such as major faults, switches, steal, locked memory.
      type: dict
    placement:
      description:
        - Where the client and the Redis were. C(requested); C(client_cpus) and C(server_cpus), the CPUs that each may use;
          C(client_last_cpu) and C(server_last_cpu), where each ran last; C(server_pid); C(shares_cpu), whether they were on one
          CPU (V(always), V(possibly), V(never)), null if it is not known, with the reason in C(unknown).
      type: dict
    pressure:
      description: How the host's memory figures changed from right before to right after the execution.
      type: dict
    error:
      description: Kind and text of what ended the execution, or V(null).
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.solotest import client as client

ARGUMENTS = dict(
    mode=dict(type="str", choices=["test", "fill", "ping"], default="test"),
    executable=dict(type="path", default="solotest"),
    host=dict(type="str", default="127.0.0.1"),
    port=dict(type="int", default=6379),
    socket=dict(type="path"),
    username=dict(type="str"),
    password=dict(type="str", no_log=True),
    value_size=dict(type="int", default=1000),
    key_count=dict(type="int", default=20000000, no_log=False),
    requests=dict(type="int"),
    duration=dict(type="float"),
    rate=dict(type="float", default=1000000),
    influence=dict(type="float", default=-1),
    read_mix=dict(type="int", default=100),
    start_at=dict(type="float"),
    stagger=dict(type="float", default=0),
    pacing=dict(type="str", choices=["hybrid", "sleep", "spin", "none"], default="hybrid"),
    spin_us=dict(type="int", default=40),
    cpu=dict(type="raw", default="any"),
    connections=dict(type="int", default=1),
    pipeline=dict(type="int", default=1),
    pattern=dict(type="str", choices=["gaussian", "uniform", "sequential"], default="gaussian"),
    compressibility=dict(type="float", default=0),
    seed=dict(type="int"),
    max_seconds=dict(type="float"),
    reply_timeout=dict(type="float", default=60),
    overwrite=dict(type="bool", default=False),
    raw_samples=dict(type="path"),
    detach=dict(type="bool", default=False),
    phase=dict(type="str"),
    run_id=dict(type="str"),
)


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True, required_by={"username": ["password"]})
    options = module.params
    try:
        client.validate(options)
    except SettingError as error:
        module.fail_json(msg=str(error))
    if module.check_mode:
        module.exit_json(changed=client.writes(options), msg="check mode: the client was not run")
    path = options["executable"]
    if "/" not in path:
        path = module.get_bin_path(path, required=True)
    if options["detach"]:
        module.exit_json(
            changed=False, job=client.in_background(lambda: client.execute(options, path, module.run_command))
        )
    result = client.execute(options, path, module.run_command)
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
