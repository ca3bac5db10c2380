#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kvm_info
short_description: Find out whether a VM really boots under KVM on this host
version_added: 0.1.0
description:
  - The device C(/dev/kvm) proves little. On some hosts, above all nested ones, it is there, and kernels hang under it.
  - So a disk image is booted under KVM, without network, and what it writes thrown away. Its system works as soon as it writes to its disk, as every system
    does when it mounts its file system; a boot loader and a kernel that hangs write nothing.
  - The answer is kept in C(/run) until the next boot of the host or another version of QEMU, since a host where KVM does not work takes the whole O(timeout).
options:
  image:
    description: Disk of qcow2 or raw format that boots; it is not changed.
    type: path
    required: true
  timeout:
    description: Seconds that the boot may take, 1 to 3600.
    type: int
    default: 40
  memory:
    description: Memory for the boot, such as V(512M).
    type: str
    default: 512M
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
    description: A guest is booted all the same, and leaves no trace but the answer in C(/run).
  diff_mode:
    support: none
  platform:
    support: full
    platforms: linux
author:
  - The memstretch.density contributors (@memstretch)
"""

EXAMPLES = r"""
- name: Does KVM work here?
  memstretch.density.kvm_info:
    image: /var/lib/libvirt/images/debian.qcow2
  register: kvm
"""

RETURN = r"""
works:
  description: Whether it does.
  returned: success
  type: bool
reason:
  description: How that was found out.
  returned: success
  type: str
  sample: a guest under KVM wrote to its disk 3.2 s after it was started
"""

import json
import os
import platform
import signal
import socket
import tempfile
import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand
from ansible_collections.memstretch.density.plugins.module_utils.host.files import write_file
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, size_in_bytes

KEPT = "/run/memstretch-kvm.json"
# More than a boot loader that notes a failed boot, less than any system that mounts its file system.
WRITES = 8
POLL_S = 0.2


class Monitor:
    """A connection to QEMU's monitor, QMP."""

    def __init__(self, connection: socket.socket) -> None:
        self._stream = connection.makefile("rw", encoding="utf-8")
        self._stream.readline()  # the greeting
        self.ask("qmp_capabilities")

    def ask(self, command: str) -> object:
        self._stream.write(json.dumps({"execute": command}) + "\n")
        self._stream.flush()
        while True:
            answer = json.loads(self._stream.readline() or '{"return": null}')  # QEMU has ended
            if "event" not in answer:
                return answer.get("return")


def try_it(
    run_command: RunCommand, qemu: str, image: str, image_format: str, memory: int, timeout: float
) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory(prefix="kvm-", dir="/run") as work:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(work, "qmp"))
        listener.listen(1)
        listener.settimeout(timeout)
        machine = "q35" if platform.machine() == "x86_64" else "virt"
        command = [
            qemu,
            "-machine",
            machine,
            "-accel",
            "kvm",
            "-cpu",
            "host",
            "-m",
            str(memory // 2**20),
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-snapshot",
            "-drive",
            f"if=none,id=root,file={image},format={image_format},file.locking=off",
            "-device",
            "virtio-blk-pci,drive=root",
            "-qmp",
            f"unix:{work}/qmp",
            "-daemonize",
            "-pidfile",
            os.path.join(work, "pid"),
        ]
        started = time.monotonic()
        # Its snapshot is a file that has no name any more, and goes with it.
        status, output, errors = run_command(command, environ_update={"TMPDIR": "/var/tmp"})
        if status != 0:
            return (
                False,
                f"QEMU ended with status {status} under KVM: {(errors or output).strip()[-300:] or 'without a word'}",
            )
        with open(os.path.join(work, "pid"), encoding="ascii") as file:
            pid = int(file.read())
        try:
            return watch(pid, listener, started, timeout)
        finally:
            if os.path.isdir(f"/proc/{pid}"):
                os.kill(pid, signal.SIGKILL)


def watch(pid: int, listener: socket.socket, started: float, timeout: float) -> tuple[bool, str]:
    monitor = None
    listener.settimeout(POLL_S)
    while time.monotonic() < started + timeout:
        if not os.path.isdir(f"/proc/{pid}"):
            return False, "QEMU ended under KVM without a word"
        if monitor is None:
            try:
                connection = listener.accept()[0]
            except socket.timeout:
                continue  # QEMU has not got that far
            connection.settimeout(timeout)
            monitor = Monitor(connection)
        statistics = monitor.ask("query-blockstats")
        writes = sum(each["stats"]["wr_operations"] for each in statistics) if isinstance(statistics, list) else 0
        if writes >= WRITES:
            return True, f"a guest under KVM wrote to its disk {time.monotonic() - started:.1f} s after it was started"
        time.sleep(POLL_S)
    return False, f"a guest under KVM has not written to its disk within {timeout:g} s of its start: its kernel hangs"


def answer(module: AnsibleModule) -> dict:
    image, timeout = module.params["image"], module.params["timeout"]
    memory = size_in_bytes("memory", module.params["memory"])
    if not 1 <= timeout <= 3600:
        raise SettingError(f"timeout: {timeout} is out of range; it takes 1 to 3600 (seconds)")
    if not os.path.exists("/dev/kvm"):
        return {"works": False, "reason": "there is no /dev/kvm"}
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return {"works": False, "reason": "/dev/kvm is there, but may not be used"}
    qemu = module.get_bin_path(f"qemu-system-{platform.machine()}") or module.get_bin_path(
        "qemu-kvm", opt_dirs=["/usr/libexec"], required=True
    )
    dummy, version, dummy = module.run_command([qemu, "--version"], check_rc=True)
    kernel = platform.release()
    try:
        with open(KEPT, encoding="utf-8") as file:
            kept = json.load(file)
        if kept["tried"] == [version, kernel]:
            return {"works": kept["works"], "reason": kept["reason"]}
    except FileNotFoundError:
        pass  # the first time since the boot
    dummy, facts, dummy = module.run_command(
        [module.get_bin_path("qemu-img", required=True), "info", "--force-share", "--output=json", image], check_rc=True
    )
    works, reason = try_it(module.run_command, qemu, image, json.loads(facts)["format"], memory, timeout)
    write_file(KEPT, json.dumps({"tried": [version, kernel], "works": works, "reason": reason}) + "\n")
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
        module.exit_json(changed=False, **answer(module))
    except SettingError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
