#!/usr/bin/python
# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_cmdline
short_description: Add and remove single arguments of the kernel command line, reversibly
version_added: 0.1.0
author:
  - The memstretch.density contributors (@memstretch)
description:
  - Makes the boot loader give the kernel certain arguments, and no longer give it others, from the next boot on.
    It never reboots.
  - On Debian it writes a drop-in of its own, C(/etc/default/grub.d/zz-memstretch.cfg), and has C(grub-mkconfig) make the
    menu. The new menu replaces the old one in one step, and only when it is complete and every entry of this
    system's kernels is right; if anything fails, drop-in and menu are as they were before.
  - On Red Hat's family it changes the entries with C(grubby).
  - Before the first change it records what was there in C(/var/lib/memstretch/kernel_cmdline.json), so that
    O(state=restored) can put it back at any time.
options:
  state:
    description:
      - V(present) makes sure of O(arguments) and O(removed). The two lists are the whole set. What an earlier run
        changed and this one does not name is as it was before; two empty lists are the same as V(restored).
      - V(restored) makes the boot loader's configuration what it was before the first change, and forgets the record.
        The old menu is put back byte for byte. Only if what it is made from has changed since -- a kernel, GRUB, a
        setting -- it is made anew, and RV(notes) says so.
      - V(verified) changes nothing and fails if the boot menu, or with O(running) the running kernel, is not what
        O(arguments) and O(removed) say; without these, what the record says.
    type: str
    choices: [present, restored, verified]
    default: present
  arguments:
    description:
      - Arguments to add, C(name) or C(name=value). What has the same name already is replaced, with every value.
        An argument that may stand several times, such as C(console), is therefore named with all of its values.
      - A name takes letters, digits, C(_), C(.) and C(-), where C(-) and C(_) are the same to the kernel. A value
        takes these and C(,:/@%+=!). C(root), C(rootfstype), C(ro), C(rw), C(init), C(initrd) and C(BOOT_IMAGE), which the boot
        loader sets itself, are refused.
    type: list
    elements: str
    default: []
  removed:
    description: Arguments to take away; C(name) with whatever value, C(name=value) with that value only.
    type: list
    elements: str
    default: []
  required:
    description: Whether it is an error if the host has no boot loader that this module knows. If not, RV(notes) says so.
    type: bool
    default: true
  running:
    description: Whether O(state=verified) also fails if the running kernel, which is shown by C(/proc/cmdline), was booted with others.
    type: bool
    default: true
attributes:
  check_mode:
    support: full
    description: Says what would change, and changes nothing. The generator of the boot menu is not run.
  diff_mode:
    support: full
    description: Shows the command line of each entry of the boot menu before and after, and the drop-in.
  idempotent:
    support: full
    description: A second run changes nothing. One after a run that was cut short finishes it.
  platform:
    platforms: linux
    description: Systems with GRUB and C(grub-mkconfig), or with C(grubby).
    support: full
notes:
  - Entries that others add to the menu, such as those of os-prober, are not changed.
  - C(update-grub) goes on to work, and each kernel that is installed later gets the same arguments.
  - Needs root.
seealso:
  - name: The kernel's command-line parameters
    description: What the arguments mean.
    link: https://docs.kernel.org/admin-guide/kernel-parameters.html
"""

EXAMPLES = r"""
- name: Take RCU callbacks off all processors
  memstretch.density.kernel_cmdline:
    arguments: [rcu_nocbs=all, nvme.io_queue_depth=64]
  register: cmdline

- name: Prove it after a reboot
  memstretch.density.kernel_cmdline:
    state: verified
    arguments: [rcu_nocbs=all, nvme.io_queue_depth=64]

- name: Put back what was there before
  memstretch.density.kernel_cmdline:
    state: restored
"""

RETURN = r"""
boot_loader:
  description: The boot loader, V(grub) or V(grubby). Null if there is none that this module knows.
  type: str
  returned: success
  sample: grub
entries:
  description: The entries of the boot menu for this system's kernels, the default one first. In check mode, what they would be.
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
    - Whether the running kernel has other values than the first entry of the menu, for the arguments that this module
      was ever asked to change. In check mode, whether it would have.
  type: bool
  returned: success
notes:
  description: What the user should know, as texts.
  type: list
  elements: str
  returned: success
"""

import json

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.memstretch.density.plugins.module_utils.boot import arguments as ba
from ansible_collections.memstretch.density.plugins.module_utils.boot import loader as bl
from ansible_collections.memstretch.density.plugins.module_utils.host.files import write_file
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord, HostRecordError

# Until the next boot, the names of arguments that were restored: the running kernel still has our values.
PENDING = "/run/memstretch-kernel_cmdline.json"


class CmdlineError(Exception):
    """Something that the user has to know; the text is for them."""


class Host:
    """The boot loader, what we recorded of it, and what is to be."""

    def __init__(self, loader, arguments, removed):
        self.loader, self.arguments, self.removed = loader, arguments, removed
        self.record = HostRecord("kernel_cmdline")
        self.read()

    def read(self):
        self.data = self.record.read()
        if self.data and self.data["boot_loader"] != self.loader.NAME:
            raise CmdlineError(
                f"{self.record.path} is of the boot loader {self.data['boot_loader']}, and this host has {self.loader.NAME} now; set the "
                "kernel command line right by hand and remove the file"
            )

    @property
    def restoring(self):
        return not self.arguments and not self.removed

    @property
    def change_needed(self):
        ours = self.loader.ours()
        if self.restoring:
            return bool(self.data or ours)
        wrong = bl.problems(self.loader.entries(), self.arguments, self.removed)
        if not self.data and not ours:
            return bool(wrong)  # it may be so already without us
        recorded = [self.data["arguments"], self.data["removed"]] if self.data else None
        return (
            bool(wrong)
            or recorded != [self.arguments, self.removed]
            or ours != self.loader.text(self.arguments, self.removed)
        )

    def foresee(self):
        """The entries after the change."""
        data = self.data or {"originals": {}, "arguments": []}
        return [
            bl.Entry(entry.kernel, " ".join(ba.changed(entry.words, self.arguments, self.removed)))
            for entry in self.loader.base(data["originals"], data["arguments"])
        ]

    def change(self):
        """Restore or apply; return notes."""
        with self.record.locked():
            self.read()  # another run may have been faster
            try:
                if not self.change_needed:
                    return []
                return self._restore() if self.restoring else self._apply()
            finally:
                if self.record.read() is None:
                    self.record.remove()  # the directory that the lock has made

    def _restore(self):
        if self.data:
            write_file(PENDING, json.dumps(sorted(self.names())) + "\n")
        notes = self.loader.restore(self.data["originals"] if self.data else {})
        self.record.remove()
        self.data = None
        return notes

    def _apply(self):
        before = self.data
        if not before and self.loader.ours():
            raise CmdlineError(
                f"{self.loader.drop_in} is ours, but the record of what was there before it, {self.record.path}, is missing; "
                "restore first (state restored), which makes the boot menu without it"
            )
        data = before or {"boot_loader": self.loader.NAME, "originals": self.loader.prepare()}
        self.data = {**data, "arguments": self.arguments, "removed": self.removed, "names": sorted(self.names())}
        self.record.write(self.data)
        try:
            notes = self.loader.apply(self.data["originals"], self.arguments, self.removed)
        except (bl.BootLoaderError, OSError):
            # The boot loader is as it was before, and so shall be what we know about it.
            if before:
                self.record.write(before)
            else:
                self.record.remove()
            raise
        self.record.write(self.data)
        return notes

    def names(self):
        """The arguments that the running kernel may have other values for than the boot menu because of us."""
        pending = json.loads(bl.read_text(PENDING) or "[]")
        return {
            *map(ba.name, self.arguments),
            *map(ba.name, self.removed),
            *(self.data or {}).get("names", []),
            *pending,
        }

    def reboot_required(self, entries, running, names):
        def values(words):
            return [(ba.name(word), word.partition("=")[1:]) for word in sorted(words) if ba.name(word) in names]

        return bool(entries) and values(entries[0].words) != values(ba.words(running))

    def verify(self, running):
        """What is not so, in words, first the menu and then the running kernel."""
        entries = self.loader.entries()
        if not entries:
            return ["the boot menu has no entry of this system's kernels"], []
        wrong = bl.problems(entries, self.arguments, self.removed)
        if wrong:
            wrong = [f"the boot menu is not right: {'; '.join(wrong)}; {self.loader.blame()}"]
        if self.data and [self.data["arguments"], self.data["removed"]] == [self.arguments, self.removed]:
            if self.loader.ours() != self.loader.text(self.arguments, self.removed):
                wrong.append(
                    f"{self.loader.drop_in} is not what was written there: the next kernel that is installed would get other arguments"
                )
        elif not self.data and self.loader.ours():
            wrong.append(f"{self.loader.drop_in} is there without a record")
        return wrong, [
            f"the running kernel: {text}" for text in ba.problems(ba.words(running), self.arguments, self.removed)
        ]


def describe(entries, drop_in):
    """For a diff."""
    return "".join(f"{entry.kernel} {entry.line}\n" for entry in entries) + drop_in


def result(host, running, entries, **more):
    return {
        "changed": False,
        "boot_loader": host.loader.NAME,
        "entries": [{"kernel": entry.kernel, "cmdline": entry.line} for entry in entries],
        "running": running,
        "reboot_required": host.reboot_required(entries, running, host.names()),
        "notes": [],
        **more,
    }


def verify(host, params, running):
    if host.restoring and host.data:
        host.arguments, host.removed = host.data["arguments"], host.data["removed"]
    wrong, wrong_running = host.verify(running)
    if params["running"]:
        wrong += wrong_running and [
            f"{'; '.join(wrong_running)}; reboot the host, or look for what else its boot loader has been told"
        ]
    if wrong:
        raise CmdlineError("; ".join(wrong))
    return result(host, running, host.loader.entries())


def converge(host, running, check_mode):
    entries, ours, names = host.loader.entries(), host.loader.ours(), host.names()
    if not host.change_needed:
        return result(host, running, entries)
    foreseen = host.foresee()
    notes = [] if check_mode else host.change()
    after = foreseen if check_mode else host.loader.entries()
    text = host.loader.text(host.arguments, host.removed)
    return result(
        host,
        running,
        after,
        changed=True,
        notes=notes,
        reboot_required=host.reboot_required(after, running, names),
        diff={
            "before_header": "kernel command lines",
            "before": describe(entries, ours),
            "after_header": "kernel command lines",
            "after": describe(after, text),
        },
    )


def run(module):
    params = module.params
    arguments, removed = ([], []) if params["state"] == "restored" else (params["arguments"], params["removed"])
    ba.check_both(arguments, removed)
    running = bl.read_text("/proc/cmdline").strip()
    loader = bl.find(module.run_command, module.get_bin_path)
    if loader is None:
        text = (
            "this host has no boot loader that is known here (GRUB with grub-mkconfig and /boot/grub/grub.cfg, or grubby), so that its kernel "
            "command line cannot be changed"
        )
        if params["required"] and not (
            params["state"] == "restored" or ba.problems(ba.words(running), arguments, removed) == []
        ):
            raise CmdlineError(text)
        return {
            "changed": False,
            "boot_loader": None,
            "entries": [],
            "running": running,
            "reboot_required": False,
            "notes": [text],
        }
    host = Host(loader, arguments, removed)
    if params["state"] == "verified":
        return verify(host, params, running)
    return converge(host, running, module.check_mode)


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "restored", "verified"], "default": "present"},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "removed": {"type": "list", "elements": "str", "default": []},
            "required": {"type": "bool", "default": True},
            "running": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        outcome = run(module)
    except (CmdlineError, ba.ArgumentError, bl.BootLoaderError, HostRecordError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**outcome)


if __name__ == "__main__":
    main()
