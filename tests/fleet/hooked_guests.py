# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests that come and go with real VMs: libvirt's own hook starts an sshd when a VM has started, and ends it with it.

The VMs have blank disks. What stands in for a guest is a PID namespace with an sshd, a boot id and a process table of
its own. All that runs in it ends with the VM; its files stay, as those on a disk do.
"""

from __future__ import annotations

import shutil
import typing as t

from .conftest import FLEET, Lab

NETWORK = "10.78.0"  # that of the lab's fleet
LEASES = "/var/lib/libvirt/dnsmasq"
FIRST_REDIS_PORT = 7001
MOST = 8

# libvirt gives it the name of the VM, what happens, and the definition on its input. It must not ask libvirt anything.
HOOK = r"""#!/bin/sh -e
case "$1" in {fleet}-*) ;; *) exit 0 ;; esac
place="{path}/$1"
address="{network}.1${{1##*0}}"
case "$2" in
started)
  definition=$(cat)
  mac=$(echo "$definition" | sed -n "s/.*<mac address='\([^']*\)'.*/\1/p")
  bridge=$(echo "$definition" | sed -n "s/.*<source network=.* bridge='\([^']*\)'.*/\1/p")
  mkdir -p "$place/home"
  cat /proc/sys/kernel/random/uuid >"$place/boot_id"
  echo "Filename Type Size Used Priority" >"$place/swaps"
  # Where libvirt finds the address that its network has given to a VM.
  echo '{{"ip-address": "'$address'", "mac-address": "'$mac'", "expiry-time": 4000000000}}' >"$place/lease"
  flock {path}/lock sh -c 'echo "[$(cat {path}/*/lease | paste -sd ,)]" >"$1"' sh "{leases}/$bridge.status"
  cat >"$place/sshd_config" <<END
HostKey {keys}/host_key
AuthorizedKeysFile {keys}/key.pub
ListenAddress $address
StrictModes no
UsePAM no
PidFile none
PasswordAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
SetEnv HOME=$place/home
END
  setsid unshare --mount --pid --fork --kill-child --mount-proc sh -ec "
    mount --bind '$place/boot_id' /proc/sys/kernel/random/boot_id
    mount --bind '$place/swaps' /proc/swaps
    exec {sshd} -D -f '$place/sshd_config'" </dev/null >"$place/log" 2>&1 &
  echo $! >"$place/pid" ;;
stopped)
  kill -KILL "$(cat "$place/pid")" ;;
*) exit 0 ;;
esac
echo "$2 $1" >>{path}/events
"""


class HookedGuests:
    """The guests of the VMs on the first hypervisor of the lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.path = lab, lab.path / "guests"
        self.path.mkdir()
        sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
        assert sshd, "sshd is not installed; make test-fleet installs it"
        self._hook = lab.path / "lab" / lab.hypervisors[0].name / "etc" / "hooks" / "qemu"
        self._hook.parent.mkdir(exist_ok=True)
        text = HOOK.format(
            fleet=FLEET, path=self.path, keys=lab.path / "fleet", network=NETWORK, leases=LEASES, sshd=sshd
        )
        self._hook.write_text(text, encoding="utf-8")
        self._hook.chmod(0o755)
        self._change_addresses("add")
        self._restart_libvirtd()

    def _change_addresses(self, change: str) -> None:
        for number in range(1, MOST + 1):
            self.lab.hypervisors[0].run("ip", "addr", change, f"{NETWORK}.1{number}/32", "dev", "lo")

    def _restart_libvirtd(self) -> None:
        """Restart libvirtd, which looks for its hooks when it starts."""
        host = self.lab.hypervisors[0]
        end = 'pid=$(cat "$1"); kill "$pid"; while [ -e "/proc/$pid" ]; do sleep 0.1; done'
        host.run("sh", "-c", end, "sh", f"{self.lab.path}/lab/{host.name}/libvirtd.pid")
        self.lab.up(*(each.name for each in self.lab.hypervisors))

    def variables(self) -> dict[str, t.Any]:
        """Return the variables of the group fleet: the guests share the loopback interface of their hypervisor."""
        port = f"{{{{ {FIRST_REDIS_PORT} + groups['fleet'].index(inventory_hostname) }}}}"
        return {
            "redis_supervisor": "daemon",
            "redis_port": port,
            "redis_directory": f"{self.path}/{{{{ inventory_hostname }}}}/redis",
            "redis_daemon_user": "root",
            "latency_benchmark_port": port,
        }

    def events(self) -> list[str]:
        """Return which VM has started or stopped, in that order."""
        path = self.path / "events"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def close(self) -> None:
        """End the guests of VMs that still run, with these, and remove the hook."""
        host = self.lab.hypervisors[0]
        for name in host.vms("--state-running"):
            host.virsh("destroy", name)
        self._hook.unlink()
        self._restart_libvirtd()
        self._change_addresses("delete")
        shutil.rmtree(self.path)
