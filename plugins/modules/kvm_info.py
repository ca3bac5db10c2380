#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kvm_info
short_description: Test whether a VM boots under KVM on this host
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - The device C(/dev/kvm) proves little. On some hosts, mostly nested ones, it exists, but kernels hang under KVM.
  - So the module boots a disk image under KVM, without network, and discards what the guest writes. KVM works if the
    guest writes to its disk, as every system does when it mounts its file system. A boot loader hardly writes, and
    a kernel that hangs does not write at all.
  - The result is cached in C(/run) until the host boots again or QEMU changes its version, because a host on which KVM
    does not work needs the whole O(timeout).
options:
  image:
    description: Bootable disk of qcow2 or raw format. The module does not change it.
    type: path
    required: true
  timeout:
    description: Seconds to wait for the boot, 1 to 3600.
    type: int
    default: 40
  memory:
    description: Memory of the guest, such as V(512M).
    type: str
    default: 512M
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
    description: Boots a guest in check mode too, and keeps no result.
  diff_mode:
    support: none
  platform:
    support: full
    platforms: linux
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Test KVM
  memstretch.density.kvm_info:
    image: /var/lib/libvirt/images/debian.qcow2
  register: kvm
"""

RETURN = r"""
present:
  description: Whether the host has the device C(/dev/kvm).
  returned: success
  type: bool
works:
  description: Whether KVM works.
  returned: success
  type: bool
reason:
  description: The observation behind it.
  returned: success
  type: str
  sample: a guest under KVM wrote to its disk 3.2 s after its start
"""

import contextlib
import json
import os
import platform
import signal
import socket
import tempfile
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand
from ansible_collections.memstretch.density.plugins.module_utils.host.files import write_file
from ansible_collections.memstretch.density.plugins.module_utils.options import (
    Range,
    SettingError,
    number,
    size_in_bytes,
)

TIMEOUT = Range(int, 1, 3600, "seconds")
CACHE = "/run/memstretch-kvm.json"
# More than a boot loader writes to record a failed boot, fewer than any system writes when it mounts its file system.
WRITES = 8
POLL_S = 0.2


class Monitor:
    """A connection to QEMU's monitor, QMP."""

    def __init__(self, connection: socket.socket) -> None:
        self._stream = connection.makefile("rw", encoding="utf-8")
        self._stream.readline()  # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str) -> t.Any:
        self._stream.write(json.dumps({"execute": command}) + "\n")
        self._stream.flush()
        while True:
            reply = json.loads(self._stream.readline() or '{"return": null}')  # an empty line: QEMU has ended
            if "event" not in reply:
                return reply.get("return")


def boot(
    run_command: RunCommand, qemu: str, image: str, image_format: str, memory: int, timeout: float
) -> tuple[bool, str]:
    """Boot a guest under KVM; return whether it works, and the reason."""
    with tempfile.TemporaryDirectory(prefix="kvm-", dir="/run") as work:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(work, "qmp"))
        listener.listen(1)
        listener.settimeout(timeout)
        machine = "q35" if platform.machine() == "x86_64" else "virt"
        command = [
            *(qemu, "-machine", machine, "-accel", "kvm", "-cpu", "host", "-m", str(memory // 2**20)),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-snapshot"),
            *("-drive", f"if=none,id=root,file={image},format={image_format},file.locking=off"),
            *("-device", "virtio-blk-pci,drive=root", "-qmp", f"unix:{work}/qmp"),
            *("-daemonize", "-pidfile", os.path.join(work, "pid")),
        ]
        started = time.monotonic()
        # QEMU writes its snapshot to an unlinked file, which disappears with the process.
        status, output, errors = run_command(command, environ_update={"TMPDIR": "/var/tmp"})
        if status != 0:
            message = (errors or output).strip()[-300:] or "no message"
            return False, f"QEMU ended with status {status} under KVM: {message}"
        with open(os.path.join(work, "pid"), encoding="ascii") as file:
            pid = int(file.read())
        try:
            return wait_for_writes(pid, listener, started, timeout)
        finally:
            with contextlib.suppress(ProcessLookupError):  # it may have ended
                os.kill(pid, signal.SIGKILL)


def wait_for_writes(pid: int, listener: socket.socket, started: float, timeout: float) -> tuple[bool, str]:
    """Wait until the guest has written to its disk; return whether it has, and the reason."""
    try:
        return _wait_for_writes(pid, listener, started, timeout)
    except socket.timeout:
        return False, f"QEMU did not answer under KVM within {timeout:g} s: it hangs"
    except (OSError, ValueError) as error:  # ValueError: a reply that breaks off
        return False, f"QEMU ended under KVM while it was asked what the guest has written: {error}"


def _wait_for_writes(pid: int, listener: socket.socket, started: float, timeout: float) -> tuple[bool, str]:
    monitor = None
    listener.settimeout(POLL_S)
    while time.monotonic() < started + timeout:
        if not os.path.isdir(f"/proc/{pid}"):
            return False, "QEMU ended under KVM without a message"
        if monitor is None:
            try:
                connection = listener.accept()[0]
            except socket.timeout:
                continue  # QEMU has not connected yet
            connection.settimeout(timeout)
            monitor = Monitor(connection)
        statistics = monitor.execute("query-blockstats")
        writes = sum(each["stats"]["wr_operations"] for each in statistics) if isinstance(statistics, list) else 0
        if writes >= WRITES:
            return True, f"a guest under KVM wrote to its disk {time.monotonic() - started:.1f} s after its start"
        time.sleep(POLL_S)
    return False, (
        f"a guest under KVM did not write to its disk within {timeout:g} s of its start: its kernel hangs, "
        "or the image does not boot"
    )


def check_kvm(module: AnsibleModule) -> dict[str, t.Any]:
    image, timeout = module.params["image"], module.params["timeout"]
    memory = size_in_bytes("memory", module.params["memory"])
    number("timeout", timeout, TIMEOUT)
    if not os.path.exists("/dev/kvm"):
        return {"works": False, "reason": "/dev/kvm does not exist"}
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return {"works": False, "reason": "/dev/kvm exists, but its permissions do not allow its use"}
    qemu = module.get_bin_path(f"qemu-system-{platform.machine()}") or module.get_bin_path(
        "qemu-kvm", opt_dirs=["/usr/libexec"], required=True
    )
    _status, version, _errors = module.run_command([qemu, "--version"], check_rc=True)
    versions = [version, platform.release()]
    try:
        with open(CACHE, encoding="utf-8") as file:
            cached = json.load(file)
        if cached["tried"] == versions:
            return {"works": True, "reason": cached["reason"]}
    except FileNotFoundError:
        pass  # the first run since the host booted
    command = [module.get_bin_path("qemu-img", required=True), "info", "--force-share", "--output=json", image]
    _status, info, _errors = module.run_command(command, check_rc=True)
    works, reason = boot(module.run_command, qemu, image, json.loads(info)["format"], memory, timeout)
    # A failure may be that of the image, so it is tried again.
    if works and not module.check_mode:
        write_file(CACHE, json.dumps({"tried": versions, "reason": reason}) + "\n")
    return {"works": works, "reason": reason}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "path", "required": True},
            "timeout": {"type": "int", "default": 40},
            "memory": {"type": "str", "default": "512M"},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(changed=False, present=os.path.exists("/dev/kvm"), **check_kvm(module))
    except SettingError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
