# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypervisors inside this machine: each is a real libvirtd in its own network and mount namespace, reached by ssh.

VMs, networks and files of a hypervisor stay in its namespaces, and `down` removes them all. The hypervisors share this
machine's kernel: tuning one tunes this machine. Needs root. No ssh daemon listens on a port: the client's ProxyCommand
starts sshd inside the namespaces.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

DIRECTORY = Path(os.environ.get("LAB_DIRECTORY") or Path(__file__).resolve().parents[1] / ".cache" / "lab")
PACKAGES = [
    "dnsmasq-base",
    "genisoimage",
    "iproute2",
    "iptables",
    "libvirt-clients",
    "libvirt-daemon",
    "libvirt-daemon-driver-qemu",
    "libvirt-daemon-system",
    "openssh-client",
    "openssh-server",
    "python3-libvirt",
    "python3-lxml",
    "qemu-system-x86",
    "qemu-utils",
    "util-linux",
]
# The directories of a hypervisor that are mounted over those of this machine.
MOUNTS = {
    "etc": "/etc/libvirt",
    "lib": "/var/lib/libvirt",
    "run": "/run/libvirt",
    "cache": "/var/cache/libvirt",
    "log": "/var/log/libvirt",
    "record": "/var/lib/memstretch",
}
# Golden images, which outlive a hypervisor, and their mount point in each.
GOLDEN = DIRECTORY.parent / "golden", "/var/lib/libvirt/images/golden"
# A process that can open a socket of libvirtd is root on this machine, without authentication: only root may open them.
LIBVIRTD_CONF = """auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
unix_sock_ro_perms = "0700"
unix_sock_admin_perms = "0700"
"""
READY_S = 60
END_S = 30
# Control groups are named after the number and the name of a VM, so that VMs of two labs could share one. The lab of a
# test that runs next to another one does without (LAB_CONTROL_GROUPS=no).
CONTROLLERS = ["memory", "cpuacct", "cpuset", "devices", "blkio"]
if os.environ.get("LAB_CONTROL_GROUPS") == "no":
    CONTROLLERS = []
QEMU_CONF = f"""security_driver = "none"
remember_owner = 0
cgroup_controllers = {json.dumps(CONTROLLERS)}
"""


class LabError(Exception):
    """The lab does not work; the text is for the user."""


def run(*command: object) -> str:
    try:
        return subprocess.run(
            [str(word) for word in command],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        ).stdout
    except FileNotFoundError as error:
        raise LabError(
            f"{command[0]} is not installed; run: apt-get install --no-install-recommends {' '.join(PACKAGES)}"
        ) from error
    except subprocess.CalledProcessError as error:
        raise LabError(
            f"{' '.join(map(str, command))} ended with status {error.returncode}:\n{error.stdout}"
        ) from error


class Hypervisor:
    """One libvirtd with its namespaces, its directories and its ssh."""

    def __init__(self, name: str) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,11}", name):
            raise LabError(
                f"{name!r} is not a valid name of a hypervisor; it must have 1 to 12 lower-case letters, digits and "
                "'-', and begin with a letter"
            )
        self.name, self.directory, self.namespace = name, DIRECTORY / name, f"memstretch-{name}"

    def daemon(self, name: str) -> int | None:
        """Return the process of virtlogd or libvirtd, or None. The pidfile alone proves nothing: numbers are reused."""
        try:
            pid = int((self.directory / f"{name}.pid").read_text(encoding="ascii"))
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except (OSError, ValueError):
            return None
        return pid if str(self.directory / f"{name}.pid") in arguments else None

    def inside(self, *command: object) -> list[str]:
        """Return the command line that runs a command in the namespaces of this hypervisor."""
        pid = self.daemon("virtlogd")
        if pid is None:
            raise LabError(f"hypervisor {self.name} is not up")
        return ["nsenter", f"--target={pid}", "--net", "--mount", *map(str, command)]

    def _refuse_another_lab(self) -> None:
        """Two labs with hypervisors of one name would share their network, and end each other's VMs.

        Raises:
            LabError: processes that are not of this lab are in the network namespace.
        """
        if self.directory.exists() or not Path(f"/run/netns/{self.namespace}").exists():
            return
        pids = run("ip", "netns", "pids", self.namespace).split()
        if pids:
            raise LabError(
                f"another lab uses the network namespace {self.namespace}; wait for its end, or end its processes: "
                f"{', '.join(pids)}"
            )

    def up(self) -> None:
        if self.daemon("libvirtd"):
            return
        self._refuse_another_lab()
        for name, path in MOUNTS.items():
            Path(path).mkdir(parents=True, exist_ok=True)
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        if not (self.directory / "sshd_config").exists():  # the last of its files
            self._configure()
        if not Path(f"/run/netns/{self.namespace}").exists():
            run("ip", "netns", "add", self.namespace)
            run("nsenter", f"--net=/run/netns/{self.namespace}", "ip", "link", "set", "lo", "up")
        if not self.daemon("virtlogd"):
            directories = [*((self.directory / name, path) for name, path in MOUNTS.items()), GOLDEN]
            mounts = "; ".join(f"mount --bind '{directory}' '{path}'" for directory, path in directories)
            script = f"{mounts}; exec virtlogd --daemon --pid-file '{self.directory / 'virtlogd.pid'}'"
            # Not "ip netns exec": it mounts /sys again, which hides the control groups from libvirt.
            self._start(
                *("nsenter", f"--net=/run/netns/{self.namespace}"),
                *("unshare", "--mount", "--propagation=private", "sh", "-ec", script),
            )
        self._start(*self.inside("libvirtd", "--daemon", "--pid-file", self.directory / "libvirtd.pid"))
        self._wait()

    @staticmethod
    def _start(*command: str) -> None:
        # A daemon keeps inherited descriptors open: a process that reads a pipe from it to the end would wait forever.
        process = subprocess.run(
            command,
            check=False,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if process.returncode:
            raise LabError(f"{' '.join(command)} failed; see the system log")

    def _configure(self) -> None:
        (self.directory / "lib" / "images").mkdir(mode=0o711, exist_ok=True)
        (self.directory / "lib" / "images" / "golden").mkdir(exist_ok=True)
        GOLDEN[0].mkdir(parents=True, exist_ok=True)
        (self.directory / "etc" / "libvirtd.conf").write_text(LIBVIRTD_CONF, encoding="utf-8")
        (self.directory / "etc" / "virtlogd.conf").write_text("", encoding="utf-8")
        # Without the CPU controller: in one group of it all guests together would get the CPU share of one process.
        (self.directory / "etc" / "qemu.conf").write_text(QEMU_CONF, encoding="utf-8")
        (self.directory / "host_key").unlink(missing_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", self.directory / "host_key")
        # Its own home directory, so that tasks do not run the start-up files of root's shell.
        (self.directory / "home").mkdir(exist_ok=True)
        (self.directory / "sshd_config").write_text(
            f"HostKey {self.directory / 'host_key'}\nAuthorizedKeysFile {DIRECTORY / 'key.pub'}\n"
            f"StrictModes no\nUsePAM no\nPidFile none\nSetEnv HOME={self.directory / 'home'}\n"
            "PasswordAuthentication no\nPermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n",
            encoding="utf-8",
        )

    def _wait(self) -> None:
        """Wait until libvirtd answers."""
        deadline = time.monotonic() + READY_S
        command = self.inside("virsh", "--connect", "qemu:///system", "--quiet", "uri")
        while subprocess.run(command, check=False, capture_output=True).returncode:
            if not self.daemon("libvirtd"):
                raise LabError(f"libvirtd of {self.name} has ended; see the system log")
            if time.monotonic() > deadline:
                raise LabError(f"libvirtd of {self.name} has not answered within {READY_S} s")
            time.sleep(0.1)

    def ssh_config(self) -> str:
        return (
            f"Host {self.name}\n  HostName {self.name}\n  User root\n"
            f"  IdentityFile {DIRECTORY / 'key'}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {DIRECTORY / 'known_hosts'}\n  StrictHostKeyChecking yes\n"
            f"  ProxyCommand {sys.executable} {Path(__file__).resolve()} sshd {self.name}\n"
        )

    def known_host(self) -> str:
        return f"{self.name} {' '.join((self.directory / 'host_key.pub').read_text(encoding='utf-8').split()[:2])}\n"

    def down(self) -> None:
        """End its VMs, the dnsmasq of its networks, its daemons and open ssh sessions, and remove its files."""
        if self.daemon("libvirtd"):
            virsh = self.inside("virsh", "--connect", "qemu:///system", "--quiet")
            for list_command, end_command in (("list", "destroy"), ("net-list", "net-destroy")):
                for name in run(*virsh, list_command, "--name").split():
                    run(*virsh, end_command, name)
        pid = self.daemon("virtlogd")
        if pid:
            self._end_all(os.stat(f"/proc/{pid}/ns/mnt").st_ino)
        if Path(f"/run/netns/{self.namespace}").exists():
            run("ip", "netns", "delete", self.namespace)
        if self.directory.exists():
            shutil.rmtree(self.directory)
        # The mount point of its record. It is not empty if this machine has a record of its own. If another hypervisor
        # has mounted its own there, that one removes it: the kernel would take the mount from it.
        record = Path(MOUNTS["record"])
        if record.is_dir() and not any(record.iterdir()) and not _is_mounted(record):
            record.rmdir()

    def _end_all(self, namespace: int) -> None:
        """End every process in a mount namespace, also the ssh sessions that clients would use again."""
        deadline = time.monotonic() + END_S
        signalled: set[int] = set()
        while pids := set(_processes_in(namespace)):
            if time.monotonic() > deadline:
                raise LabError(f"these processes of {self.name} do not end: {', '.join(map(str, sorted(pids)))}")
            for pid in pids - signalled:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            signalled |= pids
            time.sleep(0.05)


def _processes_in(namespace: int) -> t.Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        # Some end in the meantime, and root may not inspect all of them.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if os.stat(process / "ns" / "mnt").st_ino == namespace:
                yield int(process.name)


def _is_mounted(path: Path) -> bool:
    """Decide whether something is mounted there in any mount namespace."""
    for mounts in Path("/proc").glob("[0-9]*/mountinfo"):
        with contextlib.suppress(OSError):  # the process has ended
            if f" {path} " in mounts.read_text(encoding="utf-8", errors="replace"):
                return True
    return False


def _known_group(path: Path) -> bool:
    """Check whether the group of a file has a name on this machine."""
    try:
        path.group()
    except KeyError:
        return False
    return True


def allow_kvm_group() -> None:
    """Give /dev/kvm to the group kvm, as udev does, unless the machine has arranged its access already.

    Without access libvirt, which runs guests as another user, probes QEMU for a minute at every definition of a VM.
    """
    device = Path("/dev/kvm")
    if not device.exists():
        return
    if device.stat().st_mode & 0o777 == 0o600 or not _known_group(device):
        shutil.chown(device, group="kvm")
        device.chmod(0o660)


def hypervisors() -> list[Hypervisor]:
    return [Hypervisor(path.parent.name) for path in sorted(DIRECTORY.glob("*/sshd_config"))]


def up(names: list[str]) -> None:
    if os.geteuid():
        raise LabError("namespaces and libvirtd need root")
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    if not (DIRECTORY / "key").exists():
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", DIRECTORY / "key")
    allow_kvm_group()
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for name in names:
        Hypervisor(name).up()
    (DIRECTORY / "known_hosts").write_text("".join(each.known_host() for each in hypervisors()), encoding="utf-8")
    (DIRECTORY / "ssh_config").write_text("\n".join(each.ssh_config() for each in hypervisors()), encoding="utf-8")
    print(DIRECTORY / "ssh_config")


def down() -> None:
    for each in hypervisors():
        each.down()
    for name in ("key", "key.pub", "known_hosts", "ssh_config"):
        (DIRECTORY / name).unlink(missing_ok=True)
    if DIRECTORY.exists() and not any(DIRECTORY.iterdir()):
        DIRECTORY.rmdir()


def check_pressure(results: Path, names: t.Sequence[str]) -> str:
    """Return the page-ins of each hypervisor that the newest comparison below results has, as a table.

    Raises:
        LabError: there is none, or the memory pressure of a hypervisor is unknown in one of its cells.
    """
    comparisons = sorted(results.glob("*/comparison.json"), key=lambda path: path.stat().st_mtime)
    if not comparisons:
        raise LabError(f"there is no comparison below {results}")
    cells = json.loads(comparisons[-1].read_text(encoding="utf-8"))["cells"]
    lines = [f"{'cell':<20} {'profile':<12} {'hypervisor':<12} {'page-ins/s':>10} {'available MB':>12}"]
    for cell in cells:
        title = f"influence {cell['influence']:g}, {cell['read_mix']:g} %"
        for name in names:
            found = cell.get("pressure", {}).get(name, {})
            page_ins, available = found.get("page_ins"), found.get("available_mb")
            if page_ins is None or available is None:
                raise LabError(
                    f"{comparisons[-1]}: the memory pressure of {name} under {cell['name']} is unknown ({title})"
                )
            lines.append(f"{title:<20} {cell['name']:<12} {name:<12} {page_ins:>10,.0f} {available:>12,.0f}")
    if not cells:
        raise LabError(f"{comparisons[-1]} has no cells")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("packages", help="print the Debian packages that this tool needs")
    up_command = commands.add_parser("up", help="start hypervisors, and print the path of their ssh_config")
    up_command.add_argument("names", nargs="+")
    commands.add_parser("down", help="stop all hypervisors, and remove their files")
    pressure = commands.add_parser("pressure", help="check that the newest comparison has the hypervisors' pressure")
    pressure.add_argument("results", type=Path)
    pressure.add_argument("names", nargs="+")
    for name, text in (
        ("exec", "run a command in the namespaces of a hypervisor"),
        ("sshd", "serve one ssh connection on standard input and output"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("name")
        if name == "exec":
            command.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        match options.command:
            case "packages":
                print(" ".join(PACKAGES))
            case "up":
                up(options.names)
            case "down":
                down()
            case "pressure":
                print(check_pressure(options.results, options.names))
            case "exec":
                words = Hypervisor(options.name).inside(*options.words)
                os.execvp(words[0], words)
            case "sshd":
                hypervisor = Hypervisor(options.name)
                words = hypervisor.inside("/usr/sbin/sshd", "-i", "-e", "-f", hypervisor.directory / "sshd_config")
                with open(hypervisor.directory / "sshd.log", "a", encoding="utf-8") as log:
                    os.dup2(log.fileno(), 2)
                os.execvp(words[0], words)
    except LabError as error:
        sys.exit(f"lab.py: {error}")


if __name__ == "__main__":
    main()
