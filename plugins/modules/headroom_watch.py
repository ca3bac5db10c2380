#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: headroom_watch
short_description: Watch whether the memory of a host is still safe
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Installs a systemd timer that writes the memory pressure of a host once a minute for the textfile collector of
    node_exporter. The verdict comes from the time in which tasks waited for memory and from page-ins, never from how
    much swap is used.
  - Installs C(memstretch-headroom check), which prints one line and ends with 0 (safe), 1 (near its limit), 2 (over) or
    3 (unknown), as checks of Nagios do.
  - With O(state=absent) it removes all of this, with the metrics.
  - Alert rules for Prometheus and a dashboard for Grafana are in C(docs/headroom-alerts.yml) and
    C(docs/headroom-dashboard.json).
options:
  state:
    description: Whether the host is watched.
    type: str
    choices: [present, absent]
    default: present
  directory:
    description: Where the textfile collector of node_exporter looks for files. It must exist.
    type: path
    default: /var/lib/prometheus/node-exporter
attributes:
  check_mode:
    support: full
    description: It reports what it would change, and changes nothing.
  diff_mode:
    support: full
    description: It shows which files it writes or removes.
requirements:
  - Linux with systemd, and root
seealso:
  - module: memstretch.density.headroom_info
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Watch the memory of the hypervisors
  memstretch.density.headroom_watch:
    state: present
"""

RETURN = r"""
metrics_file:
  description: The file that the timer writes. Null if the host is not watched.
  returned: always
  type: str
  sample: /var/lib/prometheus/node-exporter/memstretch-headroom.prom
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.headroom import watch
from ansible_collections.memstretch.density.plugins.module_utils.host import systemd


def main() -> None:
    module = AnsibleModule(
        {
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "directory": {"type": "path", "default": watch.TEXTFILE_DIRECTORY},
        },
        supports_check_mode=True,
    )
    present, directory = module.params["state"] == "present", module.params["directory"]
    if os.geteuid() != 0:
        module.fail_json(msg="headroom_watch installs a timer of the system, which needs root; set become: true")
    if not systemd.booted():
        module.fail_json(msg="headroom_watch installs a timer of systemd, which does not manage this host")
    if present and not (os.path.isabs(directory) and os.path.isdir(directory)):
        module.fail_json(
            msg=f"directory: {directory!r} is not a directory of this host; it must be the one that the textfile "
            "collector of node_exporter reads"
        )
    host = watch.Watch(module.run_command)
    try:
        paths = host.missing(directory) if present else host.installed()
        if paths and not module.check_mode:
            if present:
                host.install(directory)
            else:
                host.remove()
    except watch.WatchError as error:
        module.fail_json(msg=str(error))
    before, after = ("", "\n".join(paths)) if present else ("\n".join(paths), "")
    module.exit_json(
        changed=bool(paths),
        diff={"before": before, "after": after},
        metrics_file=f"{directory}/{watch.METRICS_FILE}" if present else None,
    )


if __name__ == "__main__":
    main()
