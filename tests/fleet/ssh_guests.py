# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests that only serve ssh: real sshd processes behind the real sshd of a hypervisor, in network namespaces.

The controller runs in a namespace of its own, whose only routes lead to the hypervisors. A guest sees its own boot id.
The role vm_fleet makes the inventory, as after it has created VMs.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import typing as t
import uuid

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
ANSIBLE_PROGRAMS = pathlib.Path(sys.executable).parent
CONTROLLER, BASTION = "memstretch-ctl", "memstretch-bst"
BASTION_ADDRESS = "10.97.0.1"
READY_S = 60


def run(*words: object) -> str:
    done = subprocess.run([str(each) for each in words], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@dataclasses.dataclass
class Jump:
    """A hypervisor: its namespace, and its addresses there."""

    name: str
    namespace: str
    address: str
    guests: dict[str, str]  # address of each guest by name


class SshGuests:
    """Hypervisors with guests. All guests of this object share a host key and a key, as those of one fleet do.

    Args:
        path: an empty directory, which only root may enter.
        guests: the number of guests on each hypervisor. Equal numbers give equal addresses.
        bastion: whether the controller reaches the hypervisors through another sshd alone.
        ipv6: whether hypervisors and guests have addresses of IPv6 alone.
        forwarding: whether the sshd of the hypervisors forward connections, as they do by default.
    """

    def __init__(
        self,
        path: pathlib.Path,
        guests: dict[str, int],
        bastion: bool = False,
        ipv6: bool = False,
        forwarding: bool = True,
    ) -> None:
        sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        assert sshd, "sshd is not installed; make test-fleet installs it"
        self.path, self.bastion, self.ipv6, self.sshd = path, bastion, ipv6, sshd
        self.forwarding = forwarding
        self.daemons: list[subprocess.Popen[str]] = []
        self.jumps: list[Jump] = []
        for key in ("key", "host_key", "jump_key"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path / key)
        self.jumps = [
            Jump(
                name,
                f"memstretch-hv{number}",
                self._address(number, 1),
                {
                    f"{name}-{guest:03}": f"fd99::{guest:x}" if ipv6 else f"10.99.{guest // 250}.{guest % 250 + 1}"
                    for guest in range(1, count + 1)
                },
            )
            for number, (name, count) in enumerate(guests.items(), 1)
        ]
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _address(self, network: int, host: int) -> str:
        """Return an address in the network between the controller, or the bastion, and a hypervisor."""
        return f"fd98:{network}::{host:x}" if self.ipv6 else f"10.98.{network}.{host}"

    def _start(self) -> None:
        run("ip", "netns", "add", CONTROLLER)
        run("ip", "-n", CONTROLLER, "link", "set", "lo", "up")
        above = CONTROLLER
        if self.bastion:
            run("ip", "netns", "add", BASTION)
            self._link(CONTROLLER, "bst", "10.97.0.254/24", BASTION, f"{BASTION_ADDRESS}/24")
            above = BASTION
        length = 64 if self.ipv6 else 24
        pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for number, jump in enumerate(self.jumps, 1):
            run("ip", "netns", "add", jump.namespace)
            upper = f"{self._address(number, 254)}/{length}"
            self._link(above, f"hv{number}", upper, jump.namespace, f"{jump.address}/{length}")
            host = 128 if self.ipv6 else 32
            commands = "".join(f"addr add {address}/{host} dev lo\n" for address in jump.guests.values())
            subprocess.run(["ip", "-n", jump.namespace, "-batch", "-"], input=commands, text=True, check=True)
            # MaxStartups and MaxSessions are sshd's own defaults.
            self._start_sshd(jump.namespace, jump.name, jump.address, "jump_key")
            for name, address in jump.guests.items():
                self._start_sshd(jump.namespace, name, address, "key")
        if self.bastion:
            self._start_sshd(BASTION, "bastion", BASTION_ADDRESS, "jump_key")
        self._wait()

    @staticmethod
    def _link(above: str, name: str, upper: str, below: str, lower: str) -> None:
        """Connect two namespaces; the second has its end, up0, and its loopback interface up."""
        run("ip", "-n", above, "link", "add", name, "type", "veth", "peer", "name", "up0", "netns", below)
        for namespace, link, address in ((above, name, upper), (below, "up0", lower)):
            # An address of IPv6 serves at once, without a search for duplicates.
            run("ip", "-n", namespace, "addr", "add", address, "dev", link, *(["nodad"] if ":" in address else []))
        for namespace, link in ((above, name), (below, "up0"), (below, "lo")):
            run("ip", "-n", namespace, "link", "set", link, "up")

    def _start_sshd(self, namespace: str, name: str, address: str, key: str) -> None:
        config = self.path / f"{name}.conf"
        config.write_text(
            f"HostKey {self.path / 'host_key'}\nAuthorizedKeysFile {self.path / key}.pub\n"
            f"ListenAddress [{address}]:22\n"
            "StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
            "LogLevel VERBOSE\nSubsystem sftp internal-sftp\n"
            f"AllowTcpForwarding {'yes' if self.forwarding else 'no'}\n",
            encoding="utf-8",
        )
        boot_id = self.path / f"{name}.boot_id"
        boot_id.write_text(f"{uuid.uuid4()}\n", encoding="ascii")
        script = (
            f"mount --bind '{boot_id}' /proc/sys/kernel/random/boot_id; "
            f"exec {self.sshd} -D -E '{self.path / name}.log' -f '{config}'"
        )
        self.daemons.append(
            subprocess.Popen(
                [
                    *("nsenter", f"--net=/run/netns/{namespace}"),
                    *("unshare", "--mount", "--propagation=private", "sh", "-ec", script),
                ],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                text=True,
            )
        )

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_S
        names = [name for jump in self.jumps for name in (jump.name, *jump.guests)] + ["bastion"] * self.bastion
        while waiting := [name for name in names if "Server listening" not in self.log(name)]:
            assert all(each.poll() is None for each in self.daemons), "an sshd has ended"
            assert time.monotonic() < deadline, f"these sshd do not listen: {waiting}"
            time.sleep(0.05)

    def log(self, name: str) -> str:
        """Return the log of the sshd of a guest or a hypervisor."""
        path = self.path / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def boot_ids(self) -> dict[str, str]:
        return {
            name: (self.path / f"{name}.boot_id").read_text(encoding="ascii").strip()
            for jump in self.jumps
            for name in jump.guests
        }

    def hypervisor_variables(self, jump: Jump) -> dict[str, t.Any]:
        """Return the variables that an operator would give this hypervisor; it is used as a jump host alone."""
        return {
            "ansible_host": jump.address,
            "vms": [{"name": name, "address": address, "port": 22} for name, address in jump.guests.items()],
        }

    def ssh_config(self) -> pathlib.Path:
        """Write the configuration of ssh of an operator who may log in to the hypervisors and the bastion."""
        path = self.path / "ssh_config"
        path.write_text(
            f"Host bastion\n  HostName {BASTION_ADDRESS}\nHost *\n  User root\n  IdentitiesOnly yes\n"
            f"  IdentityFile {self.path / 'jump_key'}\n  UserKnownHostsFile {self.path / 'jump_hosts'}\n"
            "  StrictHostKeyChecking accept-new\n",
            encoding="utf-8",
        )
        return path

    def end_jumps(self) -> dict[str, t.Any]:
        """Return a play that ends the connections that carry those to the guests."""
        end = f"for each in {self.path}/cp/*j; do ssh -o ControlPath=$each -O exit jump || exit; done"
        return {
            "hosts": "localhost",
            "gather_facts": False,
            "connection": "local",
            "tasks": [{"ansible.builtin.shell": end}],
        }

    def playbook(self, plays: list[dict[str, t.Any]], *arguments: str, **group: t.Any) -> tuple[int, str]:
        """Run plays on the guests, after the role has added them to the group fleet; return status and output."""
        variables = {
            "ansible_ssh_common_args": f"-F {self.ssh_config()}",
            "vm_fleet_name": "try",
            "vm_fleet_memory": "64M",
            "vm_fleet_local_directory": str(self.path),
            "vm_fleet_private_key_file": str(self.path / "key"),
            **group,
        }
        hosts = {jump.name: self.hypervisor_variables(jump) for jump in self.jumps}
        inventory = {"hypervisors": {"hosts": hosts, "vars": {k: v for k, v in variables.items() if v is not None}}}
        (self.path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        host_key = " ".join((self.path / "host_key.pub").read_text(encoding="utf-8").split()[:2])
        (self.path / "known_hosts").write_text(f"try {host_key}\n", encoding="utf-8")
        add = {
            "hosts": "hypervisors",
            "gather_facts": False,
            "vars": {
                "__vm_fleet_result": {"vms": "{{ vms }}"},
                "__vm_fleet_accelerator": "kvm",
            },
            "tasks": [
                {
                    "ansible.builtin.include_role": {"name": "memstretch.density.vm_fleet", "tasks_from": "inventory"},
                    "vars": {"__vm_fleet_own_numbers": "{{ dict(vms | map(attribute='name') | zip(vms)) }}"},
                }
            ],
        }
        (self.path / "play.yml").write_text(yaml.safe_dump([add, *plays]), encoding="utf-8")
        return self._play(*arguments)

    def playbook_of_guests(self, plays: list[dict[str, t.Any]], *arguments: str, **group: t.Any) -> tuple[int, str]:
        """Run plays on guests that the inventory lists, as those that somebody else has created."""
        hosts = {name: {"ansible_host": address} for jump in self.jumps for name, address in jump.guests.items()}
        own = {"ansible_user": "root", "ansible_ssh_private_key_file": str(self.path / "key"), **group}
        inventory = {"fleet": {"hosts": hosts, "vars": own}}
        (self.path / "hosts.yml").write_text(yaml.safe_dump(inventory, width=10_000), encoding="utf-8")
        (self.path / "play.yml").write_text(yaml.safe_dump(plays), encoding="utf-8")
        return self._play(*arguments)

    def _play(self, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [
                *("nsenter", f"--net=/run/netns/{CONTROLLER}", str(ANSIBLE_PROGRAMS / "ansible-playbook")),
                *("-i", str(self.path / "hosts.yml"), str(self.path / "play.yml"), *arguments),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.path / "cp"),
                "ANSIBLE_TIMEOUT": "120",  # the guests share the CPUs with all of their clients
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def close(self) -> None:
        """End every process of these namespaces, also the connections that ssh keeps, and remove the namespaces."""
        names = [CONTROLLER, BASTION, *(jump.namespace for jump in self.jumps)]
        for namespace in (each for each in names if pathlib.Path(f"/run/netns/{each}").exists()):
            for pid in run("ip", "netns", "pids", namespace).split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    continue
            run("ip", "netns", "delete", namespace)
        for each in self.daemons:
            each.kill()
            each.wait()
