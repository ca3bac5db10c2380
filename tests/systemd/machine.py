# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Debian 12 that is booted by its own systemd in namespaces of this machine, so it runs at native speed.

Its processes, mounts, names and control groups are its own. It shares the kernel with this machine, and so memory,
swap and kernel settings. Its user has a sudo password, a umask of 0002, and no /usr/sbin in the path, as Debian's users
have. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "playbooks/files"), str(ROOT / "tests/bare")]

import bare  # noqa: E402
import debian_image  # noqa: E402

PASSWORD = "it's a sudo password"
PACKAGES = ["dbus", "init", "iproute2", "libpam-systemd", "procps", "python3", "python3-apt", "redis-server"]
READY_S = 120
GROUPS = pathlib.Path("/sys/fs/cgroup")
# It must not manage the terminals and devices of this machine, nor download anything, nor listen on a port.
MASKED = ["getty.target", "console-getty.service", "systemd-udevd.service", "redis-server.service", "ssh.service"]
ENTER = """\
set -eu
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
umount -lR sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir run/before
pivot_root . run/before
cd /
umount -l run/before
exec env -i PATH=/usr/sbin:/usr/bin container=memstretch \\
    /lib/systemd/systemd --system systemd.unified_cgroup_hierarchy="$2" </dev/null >/var/log/console 2>&1
"""
# Stands in for ssh. It does what sshd does there for a command, with a terminal if Ansible wants one.
SSH = """#!/usr/bin/python3
import os, pty, sys
command = {enter!r} + [
    "setpriv", "--reuid={user}", "--regid={user}", "--init-groups",
    "env", "-i", "HOME={home}", "USER={user}", "LOGNAME={user}", "SHELL=/bin/bash", "LANG=C.UTF-8",
    "PATH=/usr/local/bin:/usr/bin:/bin", "SSH_CLIENT=127.0.0.1 1 22", "SSH_CONNECTION=127.0.0.1 1 127.0.0.1 22",
    "bash", "-c", "umask 0002; cd; " + sys.argv[-1],
]
if "-tt" in sys.argv:
    sys.exit(os.waitstatus_to_exitcode(pty.spawn(command)))
os.execvp(command[0], command)
"""


class Machine:
    """The machine, and the variables with which Ansible reaches it.

    Args:
        path: an empty directory that every user can enter.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path, self.tree = path, path / "tree"
        self.group = f"memstretch-{path.name}"
        self.ssh = path / "ssh"
        bare.install("bookworm", self.tree, PACKAGES)
        self._configure()
        self.variables = {
            "ansible_connection": "ssh",
            "ansible_host": "127.0.0.1",
            "ansible_ssh_executable": str(self.ssh),
            "ansible_ssh_transfer_method": "piped",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_become": True,
            "ansible_become_password": PASSWORD,
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.boot()

    def _configure(self) -> None:
        (self.tree / "etc/sudoers.d" / bare.USER).write_text(f"{bare.USER} ALL=(ALL) ALL\n", encoding="utf-8")
        debian_image.run("chroot", self.tree, "chpasswd", text=f"{bare.USER}:{PASSWORD}\n")
        (self.tree / "etc/hostname").write_text("memstretch-systemd\n", encoding="utf-8")
        for unit in (*MASKED, *debian_image.UNITS_OFF):
            (self.tree / "etc/systemd/system" / unit).unlink(missing_ok=True)
            (self.tree / "etc/systemd/system" / unit).symlink_to("/dev/null")
        # At its boot it must set on this machine what the roles have set, and nothing else.
        for file in (self.tree / "usr/lib/sysctl.d").glob("*.conf"):
            (self.tree / "etc/sysctl.d").mkdir(exist_ok=True)
            (self.tree / "etc/sysctl.d" / file.name).unlink(missing_ok=True)
            (self.tree / "etc/sysctl.d" / file.name).symlink_to("/dev/null")

    def boot(self) -> None:
        """Boot it, and wait until all of its units have started."""
        version_1 = (GROUPS / "memory").is_dir()
        self.process = subprocess.Popen(
            ["unshare", "--cgroup", "--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc"]
            + ["sh", "-c", ENTER, "sh", str(self.tree), "0" if version_1 else "1"],
            preexec_fn=self._join_groups,
            start_new_session=True,
        )
        deadline = time.monotonic() + READY_S
        state = ""
        while state != "running":
            assert self.process.poll() is None, f"systemd has ended: {self._console()}"
            assert time.monotonic() < deadline, (
                f"systemd is {state or 'not there'} after {READY_S} s: {self._console()}"
            )
            time.sleep(0.2)
            state = self._state()
        self.ssh.write_text(
            SSH.format(enter=self._enter(), home=f"/home/{bare.USER}", user=bare.USER), encoding="utf-8"
        )
        self.ssh.chmod(0o755)

    def _console(self) -> str:
        console = self.tree / "var/log/console"
        text = console.read_text(encoding="utf-8", errors="replace") if console.exists() else ""
        failed = self._state() == "degraded" and self.run("systemctl", "--failed", "--no-legend", "--plain")
        return f"{failed or ''}\n{text[-2000:]}"

    def _state(self) -> str:
        if not self._first():
            return ""
        found = subprocess.run(
            [*self._enter(), "systemctl", "is-system-running"], check=False, capture_output=True, text=True
        )
        return found.stdout.strip()

    def _join_groups(self) -> None:
        """Enter a control group of its own in each hierarchy, which is the root of those that it sees."""
        for hierarchy in self._hierarchies():
            own = hierarchy / self.group
            own.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                if (hierarchy / name).exists() and (own / name).exists():
                    (own / name).write_text((hierarchy / name).read_text(encoding="ascii"), encoding="ascii")
            (own / "cgroup.procs").write_text("0", encoding="ascii")

    @staticmethod
    def _hierarchies() -> list[pathlib.Path]:
        """Return the mounted hierarchies of control groups, each once."""
        mounts = (line.split() for line in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
        return [pathlib.Path(mount[1]) for mount in mounts if mount[2] in ("cgroup", "cgroup2")]

    def _first(self) -> int:
        """Return the number of its first process on this machine, 0 if it has none."""
        assert self.process
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        with contextlib.suppress(OSError):  # it has ended
            for child in children.read_text(encoding="ascii").split():
                if b"systemd" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0]:
                    return int(child)
        return 0

    def _enter(self) -> list[str]:
        namespaces = ["--mount", "--pid", "--uts", "--ipc", "--cgroup"]
        return ["nsenter", f"--target={self._first()}", *namespaces]

    def run(self, *command: str, status: int = 0) -> str:
        """Run a command there as root, and return its output."""
        done = subprocess.run(
            [*self._enter(), *command], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert done.returncode == status, f"{shlex.join(command)}: {done.stdout}"
        return done.stdout.strip()

    def cut_power(self) -> None:
        """End all of its processes at once, and remove its control groups."""
        assert self.process
        first = self._first()
        if first:
            os.kill(first, signal.SIGKILL)  # the kernel ends the other processes of the namespace
        self.process.wait(timeout=READY_S)
        deadline = time.monotonic() + READY_S
        for hierarchy in self._hierarchies():
            for group in sorted((hierarchy / self.group).rglob("*"), reverse=True):
                if group.is_dir():
                    self._remove_group(group, deadline)
            if (hierarchy / self.group).exists():
                self._remove_group(hierarchy / self.group, deadline)

    def close(self) -> None:
        """End it. Swap outlives its processes, and must not outlive the file that it is in."""
        for path in self.swap_files():
            self.run("swapoff", path)
        self.cut_power()

    def swap_files(self) -> list[str]:
        """Return the swap files that are in use and in its tree, as it names them."""
        areas = pathlib.Path("/proc/swaps").read_text(encoding="utf-8").splitlines()[1:]
        names = [line.split()[0].removeprefix(str(self.tree)) for line in areas]
        return [name for name in names if (self.tree / name.lstrip("/")).is_file()]

    @staticmethod
    def _remove_group(group: pathlib.Path, deadline: float) -> None:
        while True:
            try:
                group.rmdir()
            except FileNotFoundError:
                return  # another path to the same hierarchy
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)  # its last process is ending
            else:
                return
