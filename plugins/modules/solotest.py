#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: solotest
short_description: Fill one Redis, or measure its latency on an open schedule
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Runs the latency client C(solotest) of this collection once against one Redis endpoint and returns what it
    measured. The client runs on the target host, so that is where the endpoint is measured from.
  - One execution is one phase of that host. The role P(memstretch.density.latency_benchmark#role) loads
    many hosts at the same time, phase after phase.
  - The callback P(memstretch.density.fleet_latency#callback) merges the results of all hosts.
  - A result is about 10 KB of JSON, whatever the number of requests (six histograms of 0.5 to 1.5 KB and a time
    series of at most 120 points). A phase of 1,000 hosts is 10 MB.
options:
  mode:
    description:
      - V(test) sends O(requests) GETs and SETs on a schedule with O(rate) and measures each of them.
      - V(fill) deletes what an earlier fill wrote, then writes the keys 0 to O(key_count) - 1. The key
        C(memstretch:fill), a note with their number and size, shows later fills which keys are theirs. It is not
        counted in results.
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
    description: Unix socket of the Redis endpoint, instead of O(host) and O(port).
    type: path
  username:
    description: ACL user. Needs O(password).
    type: str
  password:
    description: Password. It is passed to the client in its environment, never as an argument.
    type: str
  tls:
    description:
      - Encrypt the connection. The client must have been built with TLS (C(client_program_tls) of the role
        P(memstretch.density.client_program#role)). TLS 1.2 is the oldest version that is accepted.
      - Latencies include the encryption by Redis and the decryption of a reply. A request is encrypted before it is
        due.
    type: bool
    default: false
  validate_certs:
    description: Whether the certificate of the server must be valid and have the name O(tls_server_name). With O(tls).
    type: bool
    default: true
  ca_certs:
    description: >-
      File on the host with the certificates of the authorities that are trusted (PEM). The default is those of the
      host, at the place where the OpenSSL of the builder expects them. Needs O(tls).
    type: path
  client_cert_file:
    description: >-
      File on the host with the client's certificate and its chain (PEM). Needs O(tls) and O(client_key_file).
    type: path
  client_key_file:
    description: >-
      File on the host with the private key of O(client_cert_file) (PEM, without a password). Only its path is an
      argument of the client. Needs O(tls) and O(client_cert_file).
    type: path
  tls_server_name:
    description: >-
      Name of the server, which is sent to it (SNI) and which its certificate must have. The default is O(host). An
      address is compared with the certificate and not sent. Needs O(tls).
    type: str
  value_size:
    description: Bytes of a value, 1 to 536,870,912.
    type: int
    default: 1000
  key_count:
    description: Number of keys, 1 to 1,000,000,000,000.
    type: int
    default: 20000000
  requests:
    description:
      - Number of requests of a test, 1 to 1,000,000,000,000. The default is O(key_count), as in the brief of 2018,
        unless O(duration) is given.
    type: int
  duration:
    description:
      - Length of the schedule of a test in seconds, 0.001 to 1,000,000,000. Every request that is due in this time is
        sent, however late. If O(requests) is given too, the test ends with whichever limit is reached first. With
        O(pacing=none), nothing is sent after this time.
    type: float
  rate:
    description: Requests per second, 0.001 to 1,000,000,000.
    type: float
    default: 1000000
  influence:
    description:
      - Strength of the pull of the keys towards the middle, -1,000,000 to 1,000,000. V(0) is flat; a larger value
        makes fewer keys hot. The sign has no effect.
    type: float
    default: -1
  read_mix:
    description: Percentage of GETs, -1 to 100. As in the brief of 2018, V(70) gives 29 % SETs; V(-1) gives SETs only.
    type: int
    default: 100
  start_at:
    description:
      - Start time in seconds since the epoch by this host's clock, 0 to 4,102,444,800. The default is to start at once.
    type: float
  stagger:
    description:
      - The first request is due this fraction of an interval (1 / O(rate)) after O(start_at), 0 to 0.999999999.
    type: float
    default: 0
  arrivals:
    description:
      - When requests are due. V(periodic) is every 1 / O(rate) seconds. V(jitter) is a random time within each of these
        intervals, so that no schedule keeps time with the kernel's timer. V(poisson) has random intervals with an
        exponential distribution. All have the same average rate and follow O(seed).
    type: str
    choices: [periodic, jitter, poisson]
    default: periodic
  pacing:
    description:
      - How the client waits until the next request is due. V(hybrid) sleeps until shortly before that time, then
        spins. V(none) is a closed loop without a schedule.
    type: str
    choices: [hybrid, sleep, spin, none]
    default: hybrid
  spin_us:
    description:
      - The shortest time that V(hybrid) spins before a request is due, in microseconds, 0 to 1,000,000. The client
        learns how late this machine's sleeps end, before the start and with every request. It spins as long as that
        takes, up to 150 microseconds and an eighth of the time; C(health.spin_us_at_end) is the final value.
    type: int
    default: 0
  cpu:
    description:
      - CPU of the client. V(any) leaves the choice to the scheduler. A CPU number, 0 to 1023, pins the client to
        that CPU.
      - V(beside_redis) pins the client to the CPU that the main thread of Redis ran on last. Redis itself is not
        pinned; pin it too (C(server_cpulist)) if both must stay together.
      - V(own) pins the client to a CPU that Redis does not use. If there is a choice, it is on another core than Redis
        and on the same NUMA node. If Redis may run on all CPUs, it is a CPU that Redis did not run on last. With
        several Redis on one host, each client avoids only the Redis that it measures.
      - V(beside_redis) and V(own) need a Redis on the client's host and the right to call INFO, and fail otherwise.
        RV(solotest.placement) always shows where the client and Redis ran.
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
      - Share of the values that LZ4 saves in pages of 4 KiB, 0 to 1. It is a mean. Values differ from one another as
        the memory of programs at work does.
      - V(0) gives random bytes, as in the brief of 2018, which no memory tier can compress.
    type: float
    default: 0
  seed:
    description: Seed of the client's random numbers, for repeatable runs, 0 to 9,007,199,254,740,991.
    type: int
  max_seconds:
    description:
      - A test ends after this many seconds, 0.001 to 1,000,000,000, even if requests are left. C(cut_off) of the result
        is then V(true), and the phase is not valid.
    type: float
  reply_timeout:
    description: The execution fails if a reply takes longer than this many seconds, 0.001 to 86,400.
    type: float
    default: 60
  overwrite:
    description:
      - If this is V(false), a fill deletes only keys of an earlier fill and of the tests after it, by their names. It
        refuses a Redis with any other key, with keys that expire or are in another database than 0, with replicas, or
        that is a replica, and changes nothing then. It looks at each of its own keys, which takes one to two seconds
        per million keys.
      - If this is V(true), a fill deletes all data of the Redis (FLUSHALL).
    type: bool
    default: false
  raw_samples:
    description: File on the host for the six latencies of each successful request in nanoseconds, C(-) if unknown.
    type: path
  phase:
    description: Name of the phase that this execution belongs to. It is returned unchanged.
    type: str
  run_id:
    description:
      - Name of the run. An execution is refused while another one loads the same endpoint from this host. But if an
        interrupted playbook of the same run left that one behind, it is ended (by its pid).
    type: str
  observe:
    description:
      - The execution is an observer - it may accompany another one that loads the same endpoint from this host
        (docs/measurement.md).
    type: bool
    default: false
extends_documentation_fragment:
  - memstretch.density.checked_answer
attributes:
  check_mode:
    support: full
    description: Checks the options and returns whether Redis would be written to; sends nothing.
  diff_mode:
    support: none
    description: The values are random bytes.
  platform:
    support: full
    description: Any architecture. Each needs its own build of the client.
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

- name: Measure its latency for 20 seconds
  memstretch.density.solotest:
    executable: /opt/solotest/solotest
    key_count: 100000
    rate: 5000
    influence: 10
    read_mix: 70
  register: measured

- name: Show the p99
  ansible.builtin.debug:
    msg: "p99 {{ measured.solotest.latency.response.p99_us }} us"
"""

RETURN = r"""
solotest:
  description: What the client did and measured. Latencies in microseconds, times in seconds since the epoch.
  returned: when the client ran, even if it failed then
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
    kernel:
      description:
        - The kernel's command line (C(cmdline)), the resolution of its timers (C(timer_resolution_ns), 1 with
          high-resolution timers, otherwise the length of a tick) and its swap space (C(swap_bytes)). Only O(mode=ping)
          returns it.
      type: dict
    memory:
      description: The memory that the host could give without swapping (C(available_bytes)), and its free swap space
        (C(swap_free_bytes)). Only O(mode=ping) returns it.
      type: dict
    client:
      description: Version of the client, and the compiler and libraries that it was built with.
      type: dict
    server:
      description:
        - Version, memory (bytes), number of keys and CPU time (C(cpu_s), of the main thread) of Redis, C(before) and
          C(after) the execution.
      type: dict
    started_at:
      description: When the first request was sent.
      type: float
    finished_at:
      description: When the last reply arrived.
      type: float
    ready_at:
      description: When the client was connected and waiting for O(start_at).
      type: float
    seconds:
      description: From the first request to the last reply.
      type: float
    cut_off:
      description: Whether O(max_seconds) ended the test before all its requests were sent.
      type: bool
    wall_offset:
      description:
        - This host's wall clock minus its monotonic clock in seconds, after the execution. It changes only when the
          wall clock is set, and then the hosts of a phase did not start together.
      type: float
    requests:
      description:
        - Number of requests planned, sent, ok, gets, sets, and the errors by their kind. C(not_sent) were due and not
          sent when the time was over. C(lost) is these plus all that were sent without getting a successful reply.
      type: dict
    rate:
      description: Requests per second, C(target) and C(achieved).
      type: dict
    latency:
      description:
        - C(service) is the time from the send to the reply. C(response) is the time from the intended start if the
          previous reply arrived after it, otherwise from the send. C(intended) is always
          the time from the intended start; it is an upper bound, and lost requests are in it with the time that they
          had waited. C(lateness) is the client's own delay, from the earliest possible send to the send. C(wakeup) is
          how long a reply had waited in the socket when the client read it. C(server) is a lower bound, what Redis
          and the machine certainly caused; its rules are in docs/latency-rules.md. The last two are empty for a Unix
          socket and a closed loop, which have no time stamps.
        - Each has C(count), C(avg_us), C(min_us), C(p50_us), C(p95_us), C(p99_us), C(p999_us), C(max_us), the exact
          C(sum_ns), C(min_ns), C(max_ns), and C(histogram), the counts in HdrHistogram's compressed V2 encoding.
      type: dict
    hot_set:
      description: Numbers of keys and bytes that received 50, 90 and 99 percent of the accesses.
      type: dict
    series:
      description: The test over time, at most 120 points of count, average, p99 and maximum (microseconds).
      type: dict
    fill:
      description: Keys written, seconds, keys per second and the number of keys afterwards.
      type: dict
    health:
      description:
        - The client's own state, such as major faults, context switches, stolen time and locked memory. It shows
          whether the figures are doubtful.
      type: dict
    placement:
      description:
        - Where the client and Redis ran. C(requested), the option O(cpu); C(client_cpus) and C(server_cpus), the CPUs
          that each may use; C(client_last_cpu) and C(server_last_cpu), where each ran last; C(server_pid);
          C(shares_cpu), whether both ran on the same CPU (V(always), V(possibly), V(never)), or null if that is not
          known, with the reason in C(unknown).
      type: dict
    pressure:
      description: How the host's memory figures changed during the execution.
      type: dict
    error:
      description:
        - The C(kind) and C(message) of the error that ended the execution, or V(null).
        - Redis was never there if the kind is C(connect), C(tls) (no handshake, or a certificate that is not accepted),
          C(auth), C(unsupported) (a node of a cluster, or a Sentinel) or C(no_client) (it has no connection left). It
          was there, but closed the connection, did not answer or sent nonsense before the first request of the load if
          the kind is C(not_ready).
        - It failed under the load, after the first request was sent, if the kind is C(lost) (the connection),
          C(timeout) (no reply in O(reply_timeout)) or C(protocol) (nonsense).
        - C(reply), some requests got error replies; C(value_size), a value is more than 1 MB larger than
          O(value_size); C(dbsize), a fill left another number of keys; C(refused_foreign_data); C(interrupted), by a
          signal; C(output), a file cannot be written; C(resources), the host lacks memory or open files for the client.
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.solotest import client
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import ARGUMENTS, NEEDED


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True, **NEEDED)
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
    result = client.execute(options, path, module.run_command)
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
