#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: redis_instances
short_description: Configure, start, stop and remove Redis instances of a host
version_added: 1.0.0
author:
  - The memstretch.density contributors (@memstretch)
description:
  - Public. Its options and results stay compatible within a major version.
  - Runs one or many Redis (or Valkey) servers, as units of systemd, or as plain daemons where there is no systemd or no
    root. It installs nothing. The role P(memstretch.density.redis#role) installs the package and calls it.
  - Writes the configuration of each instance, restarts those whose configuration has changed, and queries them with a
    client of its own. A password is sent only through the connection, and no error repeats what the server answered to
    it.
  - An instance is the module's own if the first line of its configuration file says so. A directory with other files is
    refused.
  - Identifies a daemon by more than a process number. A process belongs to an instance if C(/proc) shows a Redis
    server's executable and the configuration file's path as the first argument. Redis before 6.2 overwrites its
    arguments, and is identified by its title and its working directory. So the module sends no signal to another
    process because of a stale pidfile or a reused process number. A daemon gets SIGTERM, never SIGKILL.
  - Runs of the module for the same instance wait for each other.
  - All options are checked before anything is changed. After that, an instance that fails does not keep the others from
    their states; the module fails at the end.
options:
  instances:
    description: The instances. A missing key has the value of the option of the same name.
    type: list
    elements: dict
    required: true
    suboptions:
      host_state:
        description: State of all instances of the inventory host. The strongest of it, O(state) and the
          instance's own state counts.
        type: str
        choices: [present, stopped, absent]
      name:
        description: As O(name).
        type: str
      inventory_host:
        description: As O(inventory_host).
        type: str
      owner:
        description: As O(owner).
        type: str
      state:
        description: As O(state).
        type: str
        choices: [present, stopped, absent]
      supervisor:
        description: As O(supervisor).
        type: str
        choices: [auto, systemd, daemon]
      directory:
        description: As O(directory).
        type: str
      port:
        description: As O(port).
        type: int
      bind:
        description: As O(bind).
        type: list
        elements: str
      socket:
        description: As O(socket).
        type: str
      socket_mode:
        description: As O(socket_mode).
        type: str
      maxmemory:
        description: As O(maxmemory).
        type: str
      maxmemory_policy:
        description: As O(maxmemory_policy).
        type: str
      persistence:
        description: As O(persistence).
        type: bool
      username:
        description: As O(username).
        type: str
      password:
        description: As O(password).
        type: str
      extra_config:
        description: As O(extra_config).
        type: dict
      executable:
        description: As O(executable).
        type: str
      timeout:
        description: As O(timeout).
        type: int
      user:
        description: As O(user).
        type: str
      group:
        description: As O(group).
        type: str
      slice:
        description: As O(slice).
        type: str
      oom_score_adjust:
        description: As O(oom_score_adjust).
        type: int
      daemon_user:
        description: As O(daemon_user).
        type: str
      cgroup:
        description: As O(cgroup).
        type: str
  name:
    description:
      - Name of the instance, 1 to 64 letters, digits, C(_), C(.) and C(-), the first one a letter or digit. Its unit,
        C(memstretch-redis@<name>.service), and its directories have this name. If empty, it is the port, or without a
        port O(inventory_host).
    type: str
    default: ""
  inventory_host:
    description:
      - Name of the inventory host that the instance belongs to. It is written into the configuration file.
    type: str
    default: ""
  owner:
    description:
      - Who sets the instance up, up to 200 letters, digits and C(_.:@/-). It is written into the configuration file. An
        instance of another owner is neither changed nor removed.
    type: str
    default: ""
  state:
    description:
      - V(present) configures and starts the instance. Under systemd it also starts at boot.
      - V(stopped) configures it, but stops it and does not start it at boot.
      - V(absent) removes everything that was created for it, including its data.
      - If the top level and the entry have a state, V(absent) overrides V(stopped), and V(stopped) overrides
        V(present).
    type: str
    choices: [present, stopped, absent]
    default: "present"
  supervisor:
    description:
      - V(auto) is V(systemd) if the host runs systemd and the module runs as root, and V(daemon) otherwise.
    type: str
    choices: [auto, systemd, daemon]
    default: "auto"
  directory:
    description:
      - Absolute path below which each instance has a directory of its name.
      - If empty, it is C(/etc/memstretch-redis) with systemd (data are in C(/var/lib/memstretch-redis)),
        C(~/.local/state/memstretch/redis) with daemons, and C(/var/lib/memstretch-redis-daemons) with daemons of root.
    type: str
    default: ""
  port:
    description:
      - TCP port, 0 to 65535; 0 is no TCP.
    type: int
    default: 6379
  bind:
    description:
      - Addresses to listen on. Addresses other than loopback need O(password).
    type: list
    elements: str
    default: ["127.0.0.1"]
  socket:
    description:
      - Unix socket, an absolute path of up to 107 characters. V(auto) is a path of its own. Empty means no socket.
    type: str
    default: ""
  socket_mode:
    description:
      - Mode of the unix socket, 0 and three octal digits, as text.
    type: str
    default: "0700"
  maxmemory:
    description:
      - Limit on the memory for data, in bytes, or with one of Redis' units k, kb, m, mb, g, gb. 0 is no limit.
    type: str
    default: "0"
  maxmemory_policy:
    description:
      - Eviction policy at the limit, such as V(noeviction) or V(allkeys-lru).
    type: str
    default: "noeviction"
  persistence:
    description:
      - Whether Redis keeps data on disk. Without it every restart loses all data, including a restart after a change of
        the configuration.
    type: bool
    default: false
  username:
    description:
      - The ACL user with the password. A name other than V(default) needs O(password), and replaces the user
        C(default).
    type: str
    default: "default"
  password:
    description:
      - Password of that user. The host stores only its SHA-256 hash, in a file that only the server's user can read.
        Needs Redis 6.0. Empty means no password.
    type: str
  extra_config:
    description:
      - Additional Redis directives, each with a text, number, boolean, or a list of these for several lines. Directives
        that other options set are refused. Do not put secrets here.
    type: dict
    default: {}
  executable:
    description:
      - Name or absolute path of the server's executable. C(valkey-server) also works.
    type: str
    default: "redis-server"
  timeout:
    description:
      - Seconds to wait until a daemon answers, or has stopped, 1 to 3600. For systemd units the limit is 10 minutes.
    type: int
    default: 30
  user:
    description:
      - With systemd, the user of the server. It must exist.
    type: str
    default: "redis"
  group:
    description:
      - With systemd, the group of the server. It must exist.
    type: str
    default: "redis"
  slice:
    description:
      - With systemd, the slice of the instances, for example C(fleet.slice). Empty is systemd's default.
    type: str
    default: ""
  oom_score_adjust:
    description:
      - With systemd, the preference of the kernel for killing an instance when memory runs out, -1000 to 1000.
    type: int
    default: 200
  daemon_user:
    description:
      - Without systemd, the user of the server, if the module runs as root. It must exist. Empty is O(user). V(root) is
        allowed, with a warning if there is no password.
    type: str
    default: ""
  cgroup:
    description:
      - Without systemd, the control group of the instances below the root of the memory controller, for example
        V(fleet). It must exist. A server that runs in another group is restarted, since memory is charged to the group
        in which it was first used.
    type: str
    default: ""
  option_prefix:
    description: What the names of options begin with in messages.
    type: str
    default: ""
extends_documentation_fragment:
  - memstretch.density.predicted_change
attributes:
  idempotent:
    support: full
    description: A second run changes nothing, and does not restart a server.
  platform:
    support: full
    description: Systems with C(/proc).
    platforms: linux
notes:
  - A Redis without persistence loses its data when it is restarted.
  - The diff does not show access control lists, since the hash of a weak password can be guessed.
  - The module cannot query a server whose only port uses TLS.
"""

EXAMPLES = r"""
- name: Run two Redis servers, one of them with a password
  memstretch.density.redis_instances:
    maxmemory: 512mb
    instances:
      - port: 6401
      - port: 6402
        password: "{{ vault_redis_password }}"

- name: Remove the first one and its data
  memstretch.density.redis_instances:
    instances:
      - port: 6401
        state: absent
"""

RETURN = r"""
instances:
  description: The instances that must exist, in the order of the option.
  type: list
  elements: dict
  returned: success
  contains:
    name:
      description: Its name.
      type: str
    inventory_host:
      description: As the option.
      type: str
    state:
      description: V(started) or V(stopped); in check mode the predicted state.
      type: str
    supervisor:
      description: V(systemd) or V(daemon).
      type: str
    host:
      description: The first address that it is bound to. Empty without TCP.
      type: str
    port:
      description: Its port, 0 without TCP.
      type: int
    socket:
      description: Path of its socket, or empty.
      type: str
    config:
      description: Path of its configuration file.
      type: str
    pid:
      description: Its process. Null if it does not run, or would be started in check mode.
      type: int
    version:
      description: Its version. Null as RV(instances[].pid), or if the user may not use C(INFO).
      type: str
    run_id:
      description: The C(run_id) of Redis, 40 hexadecimal digits, new at each start. Null in the same cases.
      type: str
    used_memory:
      description: Memory that Redis has allocated, in bytes. Null in the same cases.
      type: int
    maxmemory:
      description: Limit on the memory for data, in bytes. Null in the same cases.
      type: int
    maxmemory_policy:
      description: Eviction policy. Null in the same cases.
      type: str
    place:
      description: The kernel and the number of its directory. Equal for two inventory hosts that share one Redis.
      type: str
    actions:
      description: What was done with the server, or in check mode would be done, in this order.
      type: list
      elements: str
    reason:
      description: Reason for the actions on a daemon, for people to read.
      type: str
    error:
      description: Why it did not reach its state. Empty if it did.
      type: str
missing:
  description:
    - Executables that are not installed. Then nothing was changed; check mode predicts what would be changed after
      the installation.
  type: list
  elements: str
  returned: success
root:
  description: Whether the module ran as root.
  type: bool
  returned: success
systemd:
  description: Whether the host runs systemd.
  type: bool
  returned: success
left:
  description: How many instances remain in the directories from which others were removed.
  type: int
  returned: success
errors:
  description: The errors of all instances, also of those that must not exist. The module fails if there are any.
  type: list
  elements: str
  returned: always
notes:
  description: What was left alone, and why. Also shown as warnings.
  type: list
  elements: str
  returned: success
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.redis.instances import OPTIONS, STATES
from ansible_collections.memstretch.density.plugins.module_utils.redis.state import InstancesError, bring


def arguments() -> dict[str, t.Any]:
    """Return the options: those of an instance at the top level, and again without defaults in each entry."""
    entry = {name: {key: value for key, value in each.items() if key != "default"} for name, each in OPTIONS.items()}
    entry["host_state"] = {"type": "str", "choices": STATES}
    return {
        "instances": {"type": "list", "elements": "dict", "required": True, "options": entry},
        **OPTIONS,
        "option_prefix": {"type": "str", "default": ""},
    }


def main() -> None:
    module = AnsibleModule(arguments(), supports_check_mode=True)
    try:
        result = bring(module, module.params)
    except (InstancesError, OSError) as error:
        module.fail_json(msg=str(error), errors=[])
    for note in result["notes"]:
        module.warn(note)
    if result["errors"]:
        module.fail_json(msg="\n".join(result["errors"]), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
