# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of the README for an existing hypervisor, as its owner types them there, whose sudo asks for a password.

They need a checkout in which "make setup" has run. The hypervisor has no VM, so its headroom is that of its Redis.
"""

from __future__ import annotations

import shlex
import typing as t

from noisy_login import PASSWORD
from terminal import on_a_terminal

INVENTORY = """\
hypervisors:
  hosts:
    kvm01:
      ansible_connection: local
  vars:
    ansible_become: true
    ansible_python_interpreter: /usr/bin/python3
"""
# A command, and what it must say.
COMMANDS = {
    "selftest": ("Self-test of kvm01: Debian", "the settings are unchanged", "Would not work here:"),
    "headroom -e headroom_units=redis-server.service -e '{\"headroom_ages\": [1, 3, 10]}'": ("kvm01",),
    "plan -e profiles=dram,zram": ("zram",),
    "tune -e profile=zram --check --diff": ("zram", "failed=0"),
    "tune -e profile=zram": ("failed=0",),
    "restore": ("failed=0",),
}


def type_all(log_in: t.Callable[[str], t.Sequence[str]], place: str, damon: bool = True) -> dict[str, str]:
    """Type the commands one after the other, check what they say, and return the output of each playbook.

    Args:
        log_in: returns the command line that runs a command of the user's shell there.
        place: the checkout there.
        damon: whether the kernel has DAMON. Without it, the README says what to add.
    """
    outputs = {}
    for command, says in COMMANDS.items():
        if command.startswith("headroom") and not damon:
            command += " -e headroom_probe=true"
        inventory = f"printf %s {shlex.quote(INVENTORY)} >hosts.yml"
        program = f".venv/bin/ansible-playbook -K -i hosts.yml memstretch.density.{command}"
        login = log_in(f"cd {place} && {inventory} && {program}")
        status, output = on_a_terminal(login, "BECOME password: ", PASSWORD)
        print(f"$ {program}\n{output}")
        assert status == 0
        assert PASSWORD not in output
        missing = [text for text in says if text not in output]
        assert not missing, f"{command} does not say {missing}"
        outputs[command.split()[0]] = output
    assert "Verdict: unknown" not in outputs["headroom"]
    return outputs
