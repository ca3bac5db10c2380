# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A system that is booted by its own systemd in namespaces of this machine, so it runs at native speed.

Its processes, mounts, names and control groups are its own. It shares kernel and network with this machine, and so
memory, swap, kernel settings and ports. Its user has a sudo password, a umask of 0002, no /usr/sbin in the path, as
Debian's users have, a login that prints, and a host name that nothing resolves. Needs root.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "playbooks/files"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/bare"))

import bare
import debian_image
from noisy_login import BASHRC, PASSWORD, SUDO_DEFAULTS

NAME = "memstretch-systemd"
# Each machine is below a directory of this name.
PLACE, PREFIX = pathlib.Path("/var/tmp"), "memstretch-systemd-"
# Its records of what the roles have changed, and the swap file that they make, in its tree.
RECORDS, OUR_SWAP = "/var/lib/memstretch", "/var/lib/memstretch/memstretch.swap"
INTERRUPT_S = 300
PACKAGES = ["dbus", "init", "iproute2", "libpam-systemd", "procps", "python3", "python3-apt", "redis-server"]
READY_S = 120
# It has this much swap, which is in its fstab.
SWAP, SWAP_SIZE = "/swap.img", "64M"
GROUPS = pathlib.Path("/sys/fs/cgroup")
# The hierarchy of version 1 in which it stays in the root group: in a group below, the kernel would give no real-time
# priority (CONFIG_RT_GROUP_SCHED).
CPU = "cpu"
# It must not manage the terminals, devices, crash dumps and formats of programs of this machine, nor download anything
# or listen on a port.
MASKED = [
    "getty.target",
    "motd-news.timer",
    "redis-server.service",
    "ssh.service",
    "systemd-binfmt.service",
    "systemd-journald-audit.socket",
    "systemd-pstore.service",
    "systemd-tmpfiles-setup-dev-early.service",
    "systemd-tmpfiles-setup-dev.service",
    "systemd-udevd.service",
]
# Settings of this machine that systemd changes when it boots, whatever sysctl.d has.
READ_ONLY = (
    "fs/file-max",
    "fs/nr_open",
    "kernel/core_pattern",
    "kernel/printk_devkmsg",
    "net/unix/max_dgram_qlen",
)
# The empty variable tells systemd that it is in no container, where it would ignore swap.
ENTER = f"""\
set -eu
mount --make-rprivate /
mount --rbind "$1" "$1"
cd "$1"
mount -t proc proc proc
printf '%s\\n' "$2" >etc/kernel-cmdline
mount --bind etc/kernel-cmdline proc/cmdline
for each in {" ".join(READ_ONLY)}; do
    mount --bind "proc/sys/$each" "proc/sys/$each"
    mount -o remount,bind,ro "proc/sys/$each"
done
mount --rbind /sys sys
umount -lR sys/fs/cgroup
mount --rbind /dev dev
for each in console tty0; do [ ! -e "dev/$each" ] || mount --bind /dev/null "dev/$each"; done
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir run/before
pivot_root . run/before
cd /
umount -l run/before
exec env -i PATH=/usr/sbin:/usr/bin container= /lib/systemd/systemd --system </dev/null >/var/log/console 2>&1
"""
COMMAND_LINE = "systemd.show_status=0 systemd.unified_cgroup_hierarchy={}"
# systemd's own generator of units from fstab. It takes the empty variable, and a control group below the root, for a
# container.
FSTAB_GENERATOR = """#!/bin/sh
exec unshare --mount sh -ec \\
    'mount -t tmpfs tmpfs /sys/fs/cgroup; mount --bind /dev/null /proc/1/environ; exec "$0" "$@"' \\
    /lib/systemd/system-generators/systemd-fstab-generator "$@"
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

    Nobody else may touch it as long as this program runs. What a killed one has left is found by left().

    Args:
        path: its directory.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path, self.tree = path, path / "tree"
        self.group = f"memstretch-{path.name}"
        self.ssh = path / "ssh"
        self._pid = path / "pid"  # of the program that made the namespaces
        self._place = self.tree / "home" / bare.USER / "density"
        self._lock = os.open(path / "lock", os.O_CREAT | os.O_WRONLY, 0o600)  # until this program ends
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
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

    @classmethod
    def install(cls, suite: str) -> Machine:
        """Install a new machine with a release of Debian or Ubuntu, in a directory that every user can enter."""
        machine = cls(pathlib.Path(tempfile.mkdtemp(dir=PLACE, prefix=PREFIX)))
        machine.path.chmod(0o755)
        try:
            bare.install(suite, machine.tree, PACKAGES)
            machine._configure()
        except BaseException:
            machine.remove()
            raise
        return machine

    @classmethod
    def left(cls) -> t.Iterator[Machine]:
        """Yield the machines of programs that were killed."""
        for path in sorted(PLACE.glob(f"{PREFIX}*")):
            with contextlib.suppress(BlockingIOError):  # a program uses it
                yield cls(path)

    def remove(self) -> None:
        """Remove its files. Its power must be off."""
        os.close(self._lock)
        if self._place.is_mount():
            debian_image.run("umount", self._place)
        shutil.rmtree(self.path)

    @property
    def is_tuned(self) -> bool:
        """Whether the roles have changed something that is not restored."""
        return bool(list((self.tree / RECORDS.lstrip("/")).glob("*.json")))

    @property
    def is_on(self) -> bool:
        return bool(self._first())

    def _configure(self) -> None:
        (self.tree / "etc/sudoers.d" / bare.USER).write_text(
            f"{SUDO_DEFAULTS}{bare.USER} ALL=(ALL) ALL\n", encoding="utf-8"
        )
        debian_image.run("chroot", self.tree, "chpasswd", text=f"{bare.USER}:{PASSWORD}\n")
        with open(self.tree / "home" / bare.USER / ".profile", "a", encoding="utf-8") as profile:
            profile.write("umask 0002\n")
        bashrc = self.tree / "home" / bare.USER / ".bashrc"
        bashrc.write_text(BASHRC + bashrc.read_text(encoding="utf-8"), encoding="utf-8")
        (self.tree / "etc/hostname").write_text(f"{NAME}\n", encoding="utf-8")
        (self.tree / "etc/hosts").write_text("127.0.0.1 localhost\n", encoding="utf-8")
        # In memory: a drive may need a minute to remove the thousands of files that its user installs there.
        self._place.mkdir()
        debian_image.run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", self._place)
        for unit in (*MASKED, *debian_image.UNITS_OFF):
            (self.tree / "etc/systemd/system" / unit).unlink(missing_ok=True)
            (self.tree / "etc/systemd/system" / unit).symlink_to("/dev/null")
        swap = self.tree / SWAP.lstrip("/")
        debian_image.run("fallocate", "--length", SWAP_SIZE, swap)
        swap.chmod(0o600)
        debian_image.run("mkswap", "--quiet", swap)
        (self.tree / "etc/fstab").write_text(f"{SWAP} none swap sw 0 0\n", encoding="utf-8")
        generator = self.tree / "etc/systemd/system-generators/systemd-fstab-generator"
        generator.parent.mkdir(exist_ok=True)
        generator.write_text(FSTAB_GENERATOR, encoding="utf-8")
        generator.chmod(0o755)
        # At its boot it must set on this machine what the roles have set, and nothing else.
        (self.tree / "etc/sysctl.d").mkdir(exist_ok=True)
        for file in (self.tree / "usr/lib/sysctl.d").glob("*.conf"):
            (self.tree / "etc/sysctl.d" / file.name).unlink(missing_ok=True)
            (self.tree / "etc/sysctl.d" / file.name).symlink_to("/dev/null")
        # Empty: whether the kernel of this machine audits stays as it is.
        (self.tree / "etc/systemd/journald.conf.d").mkdir(exist_ok=True)
        (self.tree / "etc/systemd/journald.conf.d/audit.conf").write_text("[Journal]\nAudit=\n", encoding="utf-8")

    def boot(self) -> None:
        """Boot it, and wait until all of its units have started."""
        version_1 = (GROUPS / "memory").is_dir()
        self.process = subprocess.Popen(
            ["unshare", "--cgroup", "--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc"]
            + ["sh", "-c", ENTER, "sh", str(self.tree), COMMAND_LINE.format("0" if version_1 else "1")],
            preexec_fn=self._join_groups,
            start_new_session=True,
        )
        self._pid.write_text(str(self.process.pid), encoding="ascii")
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
        failed = self._first() and self.run("sh", "-c", "systemctl --failed --no-legend --plain; journalctl -p 4 -n 30")
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
            # Empty in a new group of version 1, which can hold no process then.
            for name in ("cpuset.cpus", "cpuset.mems") if hierarchy.name == "cpuset" else ():
                (own / name).write_text((hierarchy / name).read_text(encoding="ascii"), encoding="ascii")
            (own / "cgroup.procs").write_text("0", encoding="ascii")

    @staticmethod
    def _hierarchies() -> list[pathlib.Path]:
        """Return the mounted hierarchies of control groups that it has a group in."""
        mounts = (line.split() for line in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
        found = [pathlib.Path(mount[1]) for mount in mounts if mount[2] in ("cgroup", "cgroup2")]
        return [hierarchy for hierarchy in found if CPU not in hierarchy.name.split(",")]

    def _first(self) -> int:
        """Return the number of its first process on this machine, 0 if it has none."""
        with contextlib.suppress(OSError):  # it was never on, or has ended
            pid = self._pid.read_text(encoding="ascii")
            children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
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

    def clone(self) -> pathlib.Path:
        """Clone what is committed here into the home of the user, and return its path there."""
        return bare.clone(self.tree, bare.USER)

    def login(self, command: str) -> list[str]:
        """Return the command line that runs a command of the user's shell there, on the terminal of its caller."""
        return [*self._enter(), "runuser", "--login", bare.USER, "--session-command", command]

    def log_in(self, command: str, timeout: float) -> subprocess.CompletedProcess[str]:
        """Run a command as the user who has logged in, in a session of systemd, and return it when it has ended.

        Args:
            command: of the user's shell. Its standard input has the sudo password.
        """
        process = subprocess.Popen(
            [*self._enter(), "runuser", "--login", bare.USER, "--command", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            output, _errors = process.communicate(f"{PASSWORD}\n", timeout=timeout)
        except BaseException:
            # Its session is one of its own, where Ctrl-C does not arrive.
            for pid in descendants(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGINT)
            process.communicate(timeout=INTERRUPT_S)
            raise
        return subprocess.CompletedProcess(command, process.returncode, output)

    def cut_power(self) -> None:
        """End all of its processes at once, turn its swap off, and remove its control groups."""
        areas = self.swap_files()
        first = self._first()
        if first:
            os.kill(first, signal.SIGKILL)  # the kernel ends the other processes of the namespace
        if self.process:
            self.process.wait(timeout=READY_S)
        for area in areas:  # the kernel, which has it, is this machine's
            debian_image.run("swapoff", self.tree / area.lstrip("/"))
        for area in () if first else (SWAP, OUR_SWAP):  # nobody can say which are on, if its power was cut before
            subprocess.run(["swapoff", self.tree / area.lstrip("/")], check=False, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + READY_S
        for hierarchy in self._hierarchies():
            for group in sorted((hierarchy / self.group).rglob("*"), reverse=True):
                if group.is_dir():
                    self._remove_group(group, deadline)
            if (hierarchy / self.group).exists():
                self._remove_group(hierarchy / self.group, deadline)

    def swap_files(self) -> list[str]:
        """Return the swap files that are in use and in its tree, as it names them."""
        if not self._first():
            return []
        names = [line.split()[0] for line in self.run("cat", "/proc/swaps").splitlines()[1:]]
        return [name for name in names if not name.startswith("/dev/") and (self.tree / name.lstrip("/")).is_file()]

    @staticmethod
    def _remove_group(group: pathlib.Path, deadline: float) -> None:
        while True:
            try:
                group.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)  # its last process is ending
            else:
                return


def descendants(pid: int) -> list[int]:
    """Return the numbers of the processes that a process has started, and of those that these have started."""
    found = []
    with contextlib.suppress(OSError):  # it has ended
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            found += [int(child), *descendants(int(child))]
    return found
