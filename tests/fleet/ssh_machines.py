# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines behind real sshd processes, on which an ordinary user becomes root with sudo and a password.

Each is this machine in namespaces of its own: with another network, name and boot id, its own files in /etc, /run and
/var/lib, and a part of the memory controller as its root. Its user's login prints, and nothing resolves its name.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time
import typing as t
import uuid

import yaml
from noisy_login import BASHRC, PASSWORD, SUDO_DEFAULTS

from .ssh_guests import CONTROLLER, READY_S, SshGuests, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEMORY = pathlib.Path("/sys/fs/cgroup/memory")
USER = "memstretch-admin"
GONE_S = 10
SUDOERS = f"{SUDO_DEFAULTS}root ALL=(ALL:ALL) ALL\n{USER} ALL=(ALL:ALL) ALL\n"
FILES = "passwd: files\ngroup: files\nshadow: files\nhosts: files\n"


class SshMachines:
    """Some of them.

    Args:
        path: an empty directory that everybody may enter.
        names: of the machines.
    """

    def __init__(self, path: pathlib.Path, names: t.Sequence[str]) -> None:
        self.path, self.names = path, names
        self.addresses = {name: f"10.96.{number}.1" for number, name in enumerate(names, 1)}
        self.groups = {name: MEMORY / f"memstretch-test-{name}" for name in names}
        self._daemons: list[subprocess.Popen[str]] = []
        for key in ("key", "host_key"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path / key)
        try:
            run("ip", "netns", "add", CONTROLLER)
            run("ip", "-n", CONTROLLER, "link", "set", "lo", "up")
            for number, name in enumerate(names, 1):
                self._start(number, name)
            self._wait()
        except BaseException:
            self.close()
            raise

    def _start(self, number: int, name: str) -> None:
        namespace, own = f"memstretch-{name}", self.path / name
        run("ip", "netns", "add", namespace)
        ends = f"10.96.{number}.254/24", f"{self.addresses[name]}/24"
        SshGuests._link(CONTROLLER, f"m{number}", ends[0], namespace, ends[1])
        self.groups[name].mkdir()
        script = f"mount --bind {self.groups[name]} {MEMORY}\n"
        for place in ("etc", "var/lib"):
            over, work = own / "over" / place, own / "work" / place
            over.mkdir(parents=True)
            work.mkdir(parents=True)
            script += f"mount -t overlay overlay -o lowerdir=/{place},upperdir={over},workdir={work} /{place}\n"
        etc, home = own / "over" / "etc", own / "home"
        (etc / "sudoers").write_text(SUDOERS, encoding="utf-8")
        (etc / "sudoers").chmod(0o440)
        (etc / "nsswitch.conf").write_text(FILES, encoding="utf-8")
        (own / "boot_id").write_text(f"{uuid.uuid4()}\n", encoding="ascii")
        home.mkdir()
        (home / ".bashrc").write_text(BASHRC, encoding="utf-8")
        (own / "sshd.conf").write_text(
            f"HostKey {self.path / 'host_key'}\nAuthorizedKeysFile {self.path / 'key.pub'}\n"
            f"ListenAddress {self.addresses[name]}:22\nStrictModes no\nUsePAM no\nPidFile none\n"
            "PasswordAuthentication no\nLogLevel VERBOSE\nSubsystem sftp internal-sftp\n",
            encoding="utf-8",
        )
        sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        assert sshd, "sshd is not installed; make test-fleet installs it"
        script += (
            f"mount --bind {own / 'boot_id'} /proc/sys/kernel/random/boot_id\nmount -t tmpfs -o mode=755 tmpfs /run\n"
            f"mkdir /run/sshd\nrm -rf /var/lib/memstretch\nhostname {name}\n"
            f"useradd --no-create-home --home-dir={home} --shell=/bin/bash {USER}\n"
            f"echo {shlex.quote(f'{USER}:{PASSWORD}')} | chpasswd\nchown -R {USER}: {home}\n"
            f"exec {sshd} -D -E {own / 'sshd.log'} -f {own / 'sshd.conf'}\n"
        )
        (own / "start").write_text(script, encoding="utf-8")
        self._daemons.append(
            subprocess.Popen(
                [
                    *("nsenter", f"--net=/run/netns/{namespace}"),
                    *("unshare", "--mount", "--uts", "--propagation=private", "sh", "-e", str(own / "start")),
                ],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                text=True,
            )
        )

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_S
        logs = [self.path / name / "sshd.log" for name in self.names]
        while not all(log.exists() and "Server listening" in log.read_text(encoding="utf-8") for log in logs):
            assert all(each.poll() is None for each in self._daemons), "a machine has not started"
            assert time.monotonic() < deadline, "an sshd does not listen"
            time.sleep(0.05)

    def variables(self) -> dict[str, t.Any]:
        """Return how Ansible reaches all of them, but for their addresses."""
        return {
            "ansible_user": USER,
            "ansible_become_password": PASSWORD,
            "ansible_ssh_private_key_file": str(self.path / "key"),
            "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
            "ansible_python_interpreter": "/usr/bin/python3",
        }

    def playbook(self, name: str, groups: t.Mapping[str, t.Any], *arguments: str) -> tuple[int, str]:
        """Run a playbook of the collection on these groups, from the controller; return status and output."""
        inventory = self.path / "hosts.yml"
        inventory.write_text(yaml.safe_dump(dict(groups), width=10_000), encoding="utf-8")
        done = subprocess.run(
            [
                *("nsenter", f"--net=/run/netns/{CONTROLLER}"),
                *(str(pathlib.Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory)),
                *(str(ROOT / "playbooks" / f"{name}.yml"), *arguments),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.path / "cp"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def close(self) -> None:
        """End every process of these machines, and remove what was made of them."""
        names = [CONTROLLER, *(f"memstretch-{name}" for name in self.names)]
        for namespace in (each for each in names if pathlib.Path(f"/run/netns/{each}").exists()):
            for pid in run("ip", "netns", "pids", namespace).split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    continue
            run("ip", "netns", "delete", namespace)
        for each in self._daemons:
            each.kill()
            each.wait()
        for group in self.groups.values():
            self._remove(group)

    @staticmethod
    def _remove(group: pathlib.Path) -> None:
        """Remove a control group and those that a ramp has left below it, once their processes are gone."""
        deadline = time.monotonic() + GONE_S
        while group.exists():
            below = [each for each in group.iterdir() if each.is_dir()]
            for each in (*below, group):
                try:
                    each.rmdir()
                except OSError:
                    assert time.monotonic() < deadline, f"{each} still has processes"
                    time.sleep(0.05)
