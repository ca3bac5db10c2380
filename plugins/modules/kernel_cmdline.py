#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_cmdline
short_description: Add and remove single arguments of the kernel command line, and restore the original
version_added: 1.0.0
author:
  - The memstretch.density contributors (@memstretch)
description:
  - Public. Its options and results stay compatible within a major version.
  - Configures the boot loader to pass given arguments to the kernel, and to drop others, from the next boot on. The
    module never reboots.
  - On Debian and Ubuntu it writes its own drop-in, C(/etc/default/grub.d/zz-memstretch.cfg), and generates the menu
    with C(grub-mkconfig). The new menu replaces the old one atomically, and only if it is complete and correct for each
    of this system's kernels. The drop-in is read after those of images for clouds, such as C(50-cloudimg-settings.cfg).
    A file that is read even later and overrides it is refused by name.
  - On Red Hat and its derivatives it changes the entries with C(grubby).
  - A host that does not boot with these files is refused by name, with what to do there. Such hosts have systemd-boot,
    a unified kernel image or proxmox-boot-tool, or the hypervisor, the network or kexec has started their kernel.
  - If anything fails, all files of the boot loader and the record are as they were before. If they cannot be restored
    either, because a file system has become read-only in between, the error names them and the record is kept.
  - Before the first change it records the original configuration in C(/var/lib/memstretch/kernel_cmdline.json), so that
    O(state=restored) can restore it at any time.
options:
  state:
    description:
      - V(present) adds O(arguments) and removes O(removed). The two lists are the complete set. An argument that an
        earlier run changed and that is in neither list is restored; two empty lists are the same as V(restored).
      - V(restored) undoes this module's change and nothing else, and removes the record. With GRUB the drop-in is
        removed and the menu is generated again. The old menu is restored byte for byte if the generated one is what it
        was before the first change, and both boot the same kernels from the same file systems. Otherwise RV(notes)
        gives the reason. With C(grubby) our arguments are taken out of each entry. Those that we removed are added
        again unless another value was set since. Files without any other change are restored byte for byte.
      - V(verified) changes nothing. It fails if the boot menu, or with O(running) the running kernel, does not match
        O(arguments) and O(removed) or, without these, the record. It also fails if the settings of GRUB would give the
        next kernel that is installed other arguments.
    type: str
    choices: [present, restored, verified]
    default: present
  arguments:
    description:
      - Arguments to add, C(name) or C(name=value). They replace all present arguments with the same name. So an
        argument that can be given several times, such as C(console), must be listed with all of its values.
        C(hugepages), C(hugepagesz) and C(default_hugepagesz) belong together - each of them replaces all three, and
        their order is kept.
      - A name has letters, digits, C(_), C(.) and C(-), where C(-) and C(_) are the same to the kernel. A value has
        these and C(,:/@%+=!). C(root), C(rootfstype), C(ro), C(rw), C(init), C(initrd) and C(BOOT_IMAGE), which the
        boot loader sets itself, are refused.
    type: list
    elements: str
    default: []
  removed:
    description: Arguments to remove; C(name) with any value, C(name=value) only with that value.
    type: list
    elements: str
    default: []
  required:
    description:
      - Whether to fail if the host has no supported boot loader and its running kernel does not match the options. If
        not, RV(notes) says so. If it matches, because the arguments were set by hand, there is nothing to say.
    type: bool
    default: true
  running:
    description: Whether O(state=verified) also checks the running kernel, in C(/proc/cmdline).
    type: bool
    default: true
  forget:
    description:
      - Whether O(state=restored) removes a record that was made with another boot loader than the host has now. Such a
        record cannot be restored. If it is not removed, a warning and RV(notes) give the reason. A record that can be
        restored is restored anyway.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description:
      - Predicts the change and changes nothing. The boot menu is not generated; settings of GRUB that would override
        the drop-in are refused as without check mode.
  diff_mode:
    support: full
    description: Shows the command line of each entry of the boot menu before and after, and the drop-in.
  idempotent:
    support: full
    description: A second run changes nothing. A run after an interrupted run finishes it.
  platform:
    platforms: linux
    description: Systems with GRUB and C(grub-mkconfig), or with C(grubby).
    support: full
notes:
  - Menu entries from other sources, such as os-prober, are not changed.
  - C(update-grub) still works, and each kernel that is installed later gets the same arguments.
  - Needs root.
seealso:
  - name: The kernel's command-line parameters
    description: What the arguments mean.
    link: https://docs.kernel.org/admin-guide/kernel-parameters.html
"""

EXAMPLES = r"""
- name: Offload RCU callbacks from all processors
  memstretch.density.kernel_cmdline:
    arguments: [rcu_nocbs=all, nvme.io_queue_depth=64]
  register: cmdline

- name: Verify the arguments after a reboot
  memstretch.density.kernel_cmdline:
    state: verified
    arguments: [rcu_nocbs=all, nvme.io_queue_depth=64]

- name: Restore the original command line
  memstretch.density.kernel_cmdline:
    state: restored
"""

RETURN = r"""
boot_loader:
  description: The boot loader, V(grub) or V(grubby); null if the host has no supported one.
  type: str
  returned: success
  sample: grub
entries:
  description:
    - The entries of the boot menu for this system's kernels, the default one first. In check mode, the predicted
      entries.
  type: list
  elements: dict
  returned: success
  contains:
    kernel:
      description: Path of the kernel.
      type: str
      sample: /boot/vmlinuz-6.1.0-56-amd64
    cmdline:
      description: Its command line.
      type: str
      sample: root=/dev/vda1 ro quiet rcu_nocbs=all
running:
  description: Command line of the running kernel.
  type: str
  returned: success
reboot_required:
  description:
    - Whether the arguments that this module has changed differ between the running kernel and the first entry of the
      menu. In check mode, whether they would differ.
  type: bool
  returned: success
notes:
  description: Notes for the user.
  type: list
  elements: str
  returned: success
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.boot import arguments as boot_arguments
from ansible_collections.memstretch.density.plugins.module_utils.boot.command_line import (
    CommandLine,
    CommandLineError,
    forget_record,
    reboot_required,
    stranded_record,
)
from ansible_collections.memstretch.density.plugins.module_utils.boot.loader import (
    Entry,
    Grub,
    Grubby,
    find,
    read_text,
)
from ansible_collections.memstretch.density.plugins.module_utils.boot.other_loaders import (
    boots_without_grub,
    other_loader,
)
from ansible_collections.memstretch.density.plugins.module_utils.boot.rollback import BootLoaderError
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord, HostRecordError

NO_BOOT_LOADER = (
    "this host has no supported boot loader (GRUB with grub-mkconfig and /boot/grub/grub.cfg, or grubby), so its "
    "kernel command line cannot be changed"
)


def why_not(loader: Grub | Grubby) -> str | None:
    """Explain why the files of a boot loader are not those that this host boots with; None if they are."""
    files = HostFiles()
    return other_loader(files) or (boots_without_grub(files) if loader.NAME == Grub.NAME else None)


def diff_text(entries: t.Sequence[Entry], drop_in: str) -> str:
    """Return the entries and the drop-in as text for a diff."""
    return "".join(f"{entry.kernel} {entry.line}\n" for entry in entries) + drop_in


def result(
    command_line: CommandLine, running: str, entries: t.Sequence[Entry], names: t.Collection[str]
) -> dict[str, t.Any]:
    """Return the result of the module without a change."""
    return {
        "changed": False,
        "boot_loader": command_line.loader.NAME,
        "entries": [{"kernel": entry.kernel, "cmdline": entry.line} for entry in entries],
        "running": running,
        "reboot_required": reboot_required(entries, running, names),
        "notes": [],
    }


def without_boot_loader(params: dict[str, t.Any], running: str, reason: str = NO_BOOT_LOADER) -> dict[str, t.Any]:
    """Return the result on a host without a supported boot loader. Raises CommandLineError if that is an error."""
    wrong = boot_arguments.problems(boot_arguments.words(running), params["arguments"], params["removed"])
    if params["required"] and params["state"] != "restored" and wrong:
        raise CommandLineError(reason)
    return {
        "changed": False,
        "boot_loader": None,
        "entries": [],
        "running": running,
        "reboot_required": False,
        "notes": [reason] if wrong else [],
    }


def verify(command_line: CommandLine, check_running: bool, running: str) -> dict[str, t.Any]:
    """Return the result if the command line is as wanted. Raises CommandLineError if it is not."""
    command_line.expect_recorded()
    wrong = command_line.menu_problems()
    wrong_running = command_line.running_problems(running) if check_running else []
    if wrong_running:
        wrong.append(f"{'; '.join(wrong_running)}; reboot the host, or find out what else configures its boot loader")
    if wrong:
        raise CommandLineError("; ".join(wrong))
    return result(command_line, running, command_line.loader.entries(), command_line.affected_names())


def converge(command_line: CommandLine, check_mode: bool, running: str) -> dict[str, t.Any]:
    """Change the command line if needed, and return the result."""
    loader = command_line.loader
    entries, drop_in, names = loader.entries(), loader.drop_in_text(), command_line.affected_names()
    if not command_line.change_needed():
        return result(command_line, running, entries, names)
    after = command_line.predicted_entries()
    notes: list[str] = []
    if not check_mode:
        notes = command_line.change()
        after = loader.entries()
    wanted_drop_in = loader.wanted_drop_in(command_line.arguments, command_line.removed)
    return {
        **result(command_line, running, after, names),
        "changed": True,
        "notes": notes,
        "diff": {
            "before_header": "kernel command lines",
            "before": diff_text(entries, drop_in),
            "after_header": "kernel command lines",
            "after": diff_text(after, wanted_drop_in),
        },
    }


def run(module: AnsibleModule) -> dict[str, t.Any]:
    """Bring the command line to the requested state, or verify it, and return the result."""
    params = module.params
    if params["state"] == "restored":
        params = {**params, "arguments": [], "removed": []}
    boot_arguments.check_both(params["arguments"], params["removed"])
    running = (read_text("/proc/cmdline") or "").strip()
    loader, record = find(module.run_command, module.get_bin_path), HostRecord("kernel_cmdline")
    stranded = stranded_record(record, loader)
    if stranded and params["state"] == "restored":
        if params["forget"]:
            forget_record(record, module.check_mode)
        else:
            module.warn(f"not restored: {stranded}")
        return {**without_boot_loader(params, running), "changed": params["forget"], "notes": [stranded]}
    if loader is None:
        return without_boot_loader(params, running)
    other = why_not(loader) if record.read() is None else None  # what was changed with a loader is restored with it
    if other:
        return without_boot_loader(params, running, f"the kernel command line cannot be changed, because {other}")
    command_line = CommandLine(loader, params["arguments"], params["removed"], record)
    if params["state"] == "verified":
        return verify(command_line, params["running"], running)
    return converge(command_line, module.check_mode, running)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "restored", "verified"], "default": "present"},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "removed": {"type": "list", "elements": "str", "default": []},
            "required": {"type": "bool", "default": True},
            "running": {"type": "bool", "default": True},
            "forget": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        outcome = run(module)
    except (CommandLineError, boot_arguments.ArgumentError, BootLoaderError, HostRecordError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**outcome)


if __name__ == "__main__":
    main()
