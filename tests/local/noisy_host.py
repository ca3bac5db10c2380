# SPDX-License-Identifier: GPL-3.0-or-later
"""A host as people have it: sudo asks for a password, lectures and cannot resolve a name, and .bashrc prints.

It is this machine with other files in /etc and /var/lib and another name, in namespaces of its own. A program stands in
for ssh. It does what sshd does there for a command, with a terminal if Ansible wants one, but needs no network.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import tempfile
import typing as t

import pytest
from noisy_login import BASHRC, PASSWORD, SUDO_DEFAULTS

from .conftest import wait_for

USER = "memstretch-bench"
SUDOERS = f"""{SUDO_DEFAULTS}Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
root ALL=(ALL:ALL) ALL
{USER} ALL=(ALL:ALL) ALL
"""
# With SSH_CLIENT, bash reads .bashrc as it does under sshd.
SSH = """#!/usr/bin/python3
import os, pty, sys
command = [
    "nsenter", "--mount=/proc/{pid}/ns/mnt", "--uts=/proc/{pid}/ns/uts", "--wd={home}",
    "setpriv", "--reuid={user}", "--regid={user}", "--init-groups",
    "env", "-i", "HOME={home}", "USER={user}", "LOGNAME={user}", "SHELL=/bin/bash", "LANG=C.UTF-8",
    "PATH=/usr/local/bin:/usr/bin:/bin", "SSH_CLIENT=127.0.0.1 1 22", "SSH_CONNECTION=127.0.0.1 1 127.0.0.1 22",
    "bash", "-c", sys.argv[-1],
]
if "-tt" in sys.argv:
    sys.exit(os.waitstatus_to_exitcode(pty.spawn(command)))
os.execvp(command[0], command)
"""


class NoisyHost:
    """The host, and the variables with which Ansible reaches it.

    Args:
        path: an empty directory that every user can enter.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path, self.home = path, path / "home"
        # What is written there stays there.
        script = ""
        for name in ("etc", "var/lib"):
            over, work = path / "over" / name, path / "work" / name
            over.mkdir(parents=True)
            work.mkdir(parents=True)
            script += f"mount -t overlay overlay -o lowerdir=/{name},upperdir={over},workdir={work} /{name} && "
        # A swap file cannot stand on an overlay.
        (path / "srv").mkdir()
        script += f"mount --bind {path / 'srv'} /srv && "
        script += "hostname memstretch-nowhere && rm -rf /var/lib/memstretch && exec sleep infinity"
        etc = path / "over" / "etc"
        (etc / "sudoers").write_text(SUDOERS, encoding="utf-8")
        (etc / "sudoers").chmod(0o440)
        (etc / "nsswitch.conf").write_text(
            "passwd: files\ngroup: files\nshadow: files\nhosts: files\n", encoding="utf-8"
        )
        self.home.mkdir()
        (self.home / ".bashrc").write_text(BASHRC, encoding="utf-8")
        self.process = subprocess.Popen(["unshare", "--mount", "--uts", "--propagation=private", "sh", "-c", script])
        try:
            names = pathlib.Path(f"/proc/{self.process.pid}/comm")
            wait_for("the namespaces", lambda: names.read_text(encoding="utf-8") == "sleep\n")
            self._inside("useradd", "--no-create-home", f"--home-dir={self.home}", "--shell=/bin/bash", USER)
            self._inside("chpasswd", text=f"{USER}:{PASSWORD}\n")
            self._inside("chown", "--recursive", f"{USER}:", str(self.home))
        except BaseException:
            self.close()
            raise
        ssh = path / "ssh"
        ssh.write_text(SSH.format(pid=self.process.pid, home=self.home, user=USER), encoding="utf-8")
        ssh.chmod(0o755)
        self.variables = {
            "ansible_connection": "ssh",
            "ansible_host": "127.0.0.1",
            "ansible_ssh_executable": str(ssh),
            "ansible_ssh_transfer_method": "piped",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_become": True,
            "ansible_become_password": PASSWORD,
        }

    def _inside(self, *command: str, text: str = "") -> None:
        namespaces = [
            f"--{kind}=/proc/{self.process.pid}/ns/{name}" for kind, name in (("mount", "mnt"), ("uts", "uts"))
        ]
        subprocess.run(["nsenter", *namespaces, *command], input=text, text=True, check=True, capture_output=True)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def noisy_host(needs_root: None) -> t.Iterator[NoisyHost]:
    assert shutil.which("sudo"), "sudo is not installed; make test-local installs it"
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="memstretch-noisy-") as name:
        path = pathlib.Path(name)
        path.chmod(0o755)
        host = NoisyHost(path)
        yield host
        host.close()
