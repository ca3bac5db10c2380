#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nocloud_seed
short_description: Create the disk that gives VMs their keys at the first boot
version_added: 1.0.0
description:
  - Private. Do not use it directly; only this collection's roles and playbooks do, and any release may change it.
  - Creates a small ISO 9660 disk with the given files and the label C(cidata), which cloud-init's data source NoCloud
    reads.
  - Its file name contains a digest of the contents, so the same files give the same disk. The module leaves older disks
    in the directory, since VMs may be using them.
  - The disk holds secrets, and only its owner can read it. While a VM is running, libvirt makes the user of the VMs the
    owner.
options:
  directory:
    description: Directory of the disk. It must exist.
    type: path
    required: true
  files:
    description: Contents of the files by name, as text. cloud-init reads C(meta-data) and C(user-data).
    type: dict
    required: true
attributes:
  check_mode:
    description: Reports whether the disk would be created, and creates nothing.
    support: full
  diff_mode:
    description: The contents are secret.
    support: none
requirements:
  - genisoimage, mkisofs or xorrisofs on the host
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Create the disk with the keys of the fleet
  memstretch.density.nocloud_seed:
    directory: /var/lib/libvirt/images/fleet-redis
    files:
      meta-data: "{}"
      user-data: "{{ user_data }}"
"""

RETURN = r"""
path:
  description: Path of the disk.
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


def create(module: AnsibleModule, files: t.Mapping[str, str], path: str) -> None:
    tool = next(filter(None, (module.get_bin_path(name) for name in TOOLS)), None)
    if tool is None:
        module.fail_json(msg=f"the host has none of {', '.join(TOOLS)}; on Debian install the package genisoimage")
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        module.fail_json(msg=f"directory: {directory!r} is not an existing directory; create it first")
    # In the target's directory, so that a rename replaces the target atomically. Others cannot enter the temporary one.
    with tempfile.TemporaryDirectory(prefix=".seed-", dir=directory) as work:
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
        module.fail_json(
            msg=f"files: {wrong} are not allowed; file names must not be empty, '.' or '..', or contain '/'"
        )
    # The values are secret, so the message has only their types.
    others = {name: type(content).__name__ for name, content in files.items() if not isinstance(content, str)}
    if others:
        found = ", ".join(f"that of {name!r} is of type {kind}" for name, kind in others.items())
        module.fail_json(msg=f"files: each content must be text (a quoted string), but {found}")
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]
    path = os.path.join(module.params["directory"], f"seed-{digest}.iso")
    missing = not os.path.exists(path)
    if missing and not module.check_mode:
        create(module, files, path)
    module.exit_json(changed=missing, path=path)


if __name__ == "__main__":
    main()
