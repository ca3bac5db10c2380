#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: redis_daemon
short_description: Run a Redis server as a plain daemon, without a service manager
version_added: 1.0.0
author:
  - The memstretch.density contributors (@memstretch)
description:
  - Starts, stops and restarts one Redis (or Valkey) server as a daemon of the user that runs the task.
    Use it on hosts without systemd, in containers, and as a user without root.
  - Identifies the server by more than a process number. A process belongs to the configuration file if C(/proc) shows
    a Redis server's executable and the configuration file's path as the first argument. (Redis before 6.2 overwrites
    its arguments and is identified by its title and its working directory.) The pidfile is only the first place to
    look, so neither a stale pidfile nor a reused process number makes the module send a signal to another process.
  - A server is I(started) when it answers C(PING) through its TCP port or its unix socket.
  - Runs of the module for the same configuration file wait for each other.
options:
  config:
    description:
      - Absolute path of the Redis configuration file.
      - It must set C(dir) and C(pidfile) to absolute paths, and C(port) or C(unixsocket). The module does not follow
        C(include), and cannot query a server whose only port uses TLS.
      - In check mode the file may be missing, since an earlier task may be about to write it.
    type: path
    required: true
  state:
    description:
      - V(started) makes sure that the server runs with the current configuration and answers. A server that this
        module started is restarted if its configuration file or its ACL file has changed since. A server that
        another program started keeps running unchanged.
      - V(restarted) stops the server if it runs, and starts it.
      - V(stopped) makes sure that the server does not run. It gets SIGTERM, so it saves its data if it is configured
        to; it never gets SIGKILL.
    type: str
    choices: [started, stopped, restarted]
    default: started
  executable:
    description: Name or absolute path of the server's executable.
    type: str
    default: redis-server
  username:
    description: Name of the ACL user for C(PING).
    type: str
    default: default
  password:
    description:
      - Password of O(username), if the server needs one. It is sent only through the connection.
    type: str
  cgroup:
    description:
      - Control group for the server, as a path below the root of the memory controller, for example V(fleet), or as the
        name of a slice, for example V(fleet.slice). It must exist. A server that runs in another group is restarted,
        since memory is charged to the group in which it was first used.
      - If empty, the system chooses the group.
    type: str
    default: ""
  timeout:
    description:
      - Seconds to wait until the server answers, and to wait until it has ended; from 1 to 3600.
      - A server with persistence answers only after it has loaded its data, and ends only after it has saved them.
    type: int
    default: 30
extends_documentation_fragment:
  - memstretch.density.redis_state
  - memstretch.density.predicted_change
notes:
  - A Redis without persistence loses its data when it is restarted.
  - The server runs as the user of the task.
seealso:
  - module: community.general.redis_info
"""

EXAMPLES = r"""
- name: Make sure that a Redis server runs with its current configuration
  memstretch.density.redis_daemon:
    config: /home/bench/redis/6401/redis.conf

- name: The same for a server that needs a password and loads much data
  memstretch.density.redis_daemon:
    config: /home/bench/redis/6402/redis.conf
    password: "{{ vault_redis_password }}"
    timeout: 600

- name: Stop the server
  memstretch.density.redis_daemon:
    config: /home/bench/redis/6401/redis.conf
    state: stopped
"""

RETURN = r"""
state:
  description: State of the server after the run (in check mode, the predicted state), V(started) or V(stopped).
  type: str
  returned: success
  sample: started
actions:
  description: What was done, or in check mode would be done, in this order.
  type: list
  elements: str
  returned: success
  sample: [stop, start]
reason:
  description: Reason for the actions, for people to read. Empty without actions.
  type: str
  returned: success
  sample: its configuration has changed since it was started
pid:
  description: Process number of the server. Null if it does not run, or would be started in check mode.
  type: int
  returned: success
  sample: 4711
version:
  description: Version of the server. Null if it does not run, or if O(username) may not use C(INFO).
  type: str
  returned: success
  sample: 7.0.15
run_id:
  description: The C(run_id) of Redis, 40 hexadecimal digits, new at each start. Null in the same cases as RV(version).
  type: str
  returned: success
  sample: 3d6b1ad9a7d5c1d5a5f8e1a7f0b5b9d6c2e7f801
used_memory:
  description: Memory that Redis has allocated, in bytes. Null in the same cases as RV(version).
  type: int
  returned: success
  sample: 892352
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.redis.state import ARGUMENTS, bring


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    result = bring(module, module.params)
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
