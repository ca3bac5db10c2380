#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nocloud_seed
short_description: Make the disk from which VMs take their keys at their first boot
version_added: 0.1.0
description:
  - Makes a small ISO 9660 disk with the label C(cidata), as cloud-init's data source NoCloud reads it, that holds the given files.
  - The file's name follows from what is in it, so that the same files are the same disk. Earlier ones in the directory are left alone, since VMs may have them.
  - The disk holds secrets, and only its owner may read it. libvirt gives it to the user of the VMs while one of them runs.
options:
  directory:
    description: Where the disk goes. It must be there.
    type: path
    required: true
  files:
    description: The content of each file, by its name. C(meta-data) and C(user-data) are what cloud-init looks for.
    type: dict
    required: true
attributes:
  check_mode:
    description: Says whether it would be made, and makes nothing.
    support: full
  diff_mode:
    description: The content is secret.
    support: none
requirements:
  - genisoimage, mkisofs or xorrisofs on the host
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Keys for the fleet
  memstretch.density.nocloud_seed:
    directory: /var/lib/libvirt/images/fleet-redis
    files:
      meta-data: "{}"
      user-data: "{{ user_data }}"
"""

RETURN = r"""
path:
  description: The disk.
  returned: success
  type: str
  sample: /var/lib/libvirt/images/fleet-redis/seed-0a1b2c3d4e5f6071.iso
"""

import hashlib
import json
import os
import tempfile
import typing as t

from ansible.module_utils.basic import AnsibleModule

TOOLS = ("genisoimage", "mkisofs", "xorrisofs")


def make(module: AnsibleModule, files: t.Mapping[str, str], path: str) -> None:
    tool = next(filter(None, (module.get_bin_path(name) for name in TOOLS)), None)
    if tool is None:
        module.fail_json(
            msg=f"none of {', '.join(TOOLS)} is installed on the host; on Debian the package genisoimage has it"
        )
    # Beside the target, so that it can take its place at once; readable by nobody else from the first byte.
    with tempfile.TemporaryDirectory(prefix=".seed-", dir=os.path.dirname(path)) as work:
        tree = os.path.join(work, "tree")
        os.mkdir(tree)
        for name, content in files.items():
            with open(os.path.join(tree, name), "w", encoding="utf-8") as file:
                file.write(content)
        new = os.path.join(work, "new")
        status, output, errors = module.run_command([tool, "-quiet", "-o", new, "-V", "cidata", "-J", "-R", tree])
        if status:
            module.fail_json(msg=f"{tool} ended with status {status}: {errors.strip() or output.strip()}")
        os.chmod(new, 0o600)
        os.replace(new, path)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "files": {"type": "dict", "required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    files = module.params["files"]
    wrong = [name for name in files if not name or "/" in name or name in (".", "..")]
    if wrong:
        module.fail_json(msg=f"files: {wrong} are no names of files; they take names without a slash")
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]
    path = os.path.join(module.params["directory"], f"seed-{digest}.iso")
    missing = not os.path.exists(path)
    if missing and not module.check_mode:
        make(module, files, path)
    module.exit_json(changed=missing, path=path)


if __name__ == "__main__":
    main()
