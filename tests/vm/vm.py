# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Throwaway Debian machines for tests: built from packages, run by qemu without KVM, reached by ssh on 127.0.0.1.

An image is made once for each recipe and kept in .cache/vm of the checkout. A machine is a disk on top of an
image, so whatever a test does to it is gone with it. See README.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "playbooks" / "files"))
import debian_image
from debian_image import QEMU, Recipe, root_disk, run, say
from debian_image import ImageError as VmError

CACHE = Path(os.environ.get("VM_CACHE") or Path(__file__).resolve().parents[2] / ".cache" / "vm")
# Raise it when what follows or debian_image.py changes what a build makes.
RECIPE_VERSION = 3
PACKAGES_HERE = [*debian_image.PACKAGES_HERE, "openssh-client"]
SWITCH_OFF_S = 60
ADDRESS, GATEWAY = "10.0.2.15/24", "10.0.2.2"  # what qemu's user networking gives to its first guest


@contextmanager
def only_one(path):
    """One process at a time; others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- the image -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Image(Recipe):
    """A Debian system on a disk, with its kernel beside it or a boot loader before it, and its keys. Equal recipes are the same image."""

    @property
    def directory(self):
        recipe = json.dumps(
            [
                RECIPE_VERSION,
                debian_image.PACKAGES_THERE,
                debian_image.INITRD_MODULES,
                debian_image.KERNEL_ARGUMENTS,
                debian_image.UNITS_OFF,
                debian_image.FIRST_BOOT_UNIT,
                dataclasses.asdict(self),
            ],
            sort_keys=True,
        )
        return CACHE / "images" / f"{self.suite}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"

    def make(self):
        """Build it unless it is there; a built one can be used by anybody who may read .cache/vm."""
        with only_one(CACHE / "images" / ".lock"):
            if not self.directory.exists():
                work = self.directory.with_suffix(".new")
                if work.exists():  # of a build that was cut off
                    shutil.rmtree(work)
                work.mkdir(parents=True)
                try:
                    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "throwaway", "-f", work / "key")
                    self.build(work, lambda tree, write: self._give_keys(work, tree, write))
                    (work / "recipe.json").write_text(
                        json.dumps(dataclasses.asdict(self), indent=1) + "\n", encoding="utf-8"
                    )
                    work.rename(self.directory)
                except BaseException:
                    shutil.rmtree(work, ignore_errors=True)
                    raise
        return self

    @staticmethod
    def _give_keys(work, tree, write):
        (tree / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
        write("root/.ssh/authorized_keys", (work / "key.pub").read_text(encoding="utf-8"), 0o600)
        write(
            "etc/systemd/network/10-vm.network",
            f"[Match]\nType=ether\n[Network]\nAddress={ADDRESS}\nGateway={GATEWAY}\n",
        )
        (work / "hostkey").write_text(
            (tree / "etc/ssh/ssh_host_ed25519_key.pub").read_text(encoding="utf-8").rsplit(" ", 1)[0], encoding="utf-8"
        )


# --- the machine -----------------------------------------------------------------------------------------------


class Machine:
    """One running system. Its name is its directory."""

    def __init__(self, name):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
            raise VmError(f"{name!r} is not a name for a machine; it takes 1 to 64 letters, digits, '_', '.' and '-'")
        self.name = name
        self.directory = CACHE / "machines" / name
        self.console = self.directory / "console.log"
        self.facts_file = self.directory / "machine.json"
        self._options_file = self.directory / "options.json"

    @property
    def facts(self):
        try:
            return json.loads(self.facts_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise VmError(f"there is no machine {self.name}") from None

    @property
    def pid(self):
        """Its process, or None. The pidfile alone proves nothing: numbers are used again."""
        try:
            pid = int((self.directory / "pid").read_text(encoding="utf-8"))
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return pid if str(self.directory / "pid").encode() in arguments else None

    def start(
        self, image, memory=512, cpus=2, drives=(), append="", qemu=(), accel="tcg,thread=multi", timeout=900, nodes=()
    ):
        """Boot it and wait until it answers by ssh. One that runs is left as it is."""
        if append and image.boot == "grub":
            raise VmError(
                f"--append {append!r} is not allowed with --boot grub: the machine's own boot loader has the kernel command line"
            )
        with only_one(CACHE / "machines" / f".{self.name}.lock"):
            if self.pid:
                return self
            image.make()
            self.directory.mkdir(parents=True, exist_ok=True)
            self._options_file.write_text(
                json.dumps(
                    {
                        "image": dataclasses.asdict(image),
                        "memory": memory,
                        "cpus": cpus,
                        "append": append,
                        "qemu": list(qemu),
                        "accel": accel,
                        "drives": [dataclasses.asdict(drive) for drive in drives],
                        "nodes": [dataclasses.asdict(node) for node in nodes],
                    }
                )
                + "\n",
                encoding="utf-8",
            )
            self._make_disks(image, drives)
            started = time.monotonic()
            self._boot(image, memory, cpus, drives, append, [*numa_arguments(nodes, cpus), *qemu], accel)
            self.wait(timeout)
            say(f"{self.name} is up after {time.monotonic() - started:.0f} s")
        return self

    def restart(self, drives=None, timeout=900):
        """Switch it off in good order and start it again, at the same port; with other drives if they are given."""
        if self.pid:
            subprocess.run(
                self.ssh_command("systemctl", "poweroff"), stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
        deadline = time.monotonic() + SWITCH_OFF_S
        while self.pid and time.monotonic() < deadline:
            time.sleep(0.2)
        self.stop()
        options = json.loads(self._options_file.read_text(encoding="utf-8"))
        before = [Drive(**drive) for drive in options.pop("drives")]
        image = options.pop("image")
        return self.start(
            Image(**{key: tuple(value) if isinstance(value, list) else value for key, value in image.items()}),
            timeout=timeout,
            drives=before if drives is None else drives,
            nodes=[Node(**node) for node in options.pop("nodes")],
            **options,
        )

    def _make_disks(self, image, drives):
        disk = self.directory / "disk.qcow2"
        if not disk.exists():
            run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image.directory / "disk.qcow2", disk)
        for drive in drives:
            if not drive.path(self.directory).exists():
                run("qemu-img", "create", "-q", "-f", "raw", drive.path(self.directory), drive.size)

    def _boot(self, image, memory, cpus, drives, append, qemu, accel):
        port = free_port(self.facts["port"] if self.facts_file.exists() else 0)
        key = self.directory / "key"
        shutil.copyfile(image.directory / "key", key)
        key.chmod(0o600)
        host_key = (image.directory / "hostkey").read_text(encoding="utf-8")
        (self.directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}\n", encoding="utf-8")
        (self.directory / "pid").unlink(missing_ok=True)
        direct = [
            "-kernel",
            image.directory / "vmlinuz",
            "-initrd",
            image.directory / "initrd.img",
            "-append",
            f"root={image.root} rw quiet {debian_image.KERNEL_ARGUMENTS} {append}".strip(),
        ]
        command = [
            *QEMU,
            "-name",
            self.name,
            "-accel",
            accel,
            "-smp",
            cpus,
            "-m",
            memory,
            "-serial",
            f"file:{self.console}",
            *(direct if image.boot == "direct" else []),
            *root_disk(self.directory / "disk.qcow2"),
            "-netdev",
            f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22",
            "-device",
            "virtio-net-pci,netdev=net",
            "-device",
            "virtio-rng-pci",
            *(word for drive in drives for word in drive.arguments(self.directory)),
            *qemu,
            "-pidfile",
            self.directory / "pid",
            "-daemonize",
        ]
        run(*command)
        facts = {
            "name": self.name,
            "host": "127.0.0.1",
            "port": port,
            "user": "root",
            "identity_file": str(key),
            "known_hosts": str(self.directory / "known_hosts"),
            "console": str(self.console),
            "pid": self.pid,
            "suite": image.suite,
        }
        self.facts_file.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")

    def boot_id(self):
        """Which boot it is in; empty if it does not answer."""
        return subprocess.run(
            self.ssh_command("cat", "/proc/sys/kernel/random/boot_id"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
        ).stdout.strip()

    def reboot(self, timeout=900):
        """Reboot it as its administrator would, and wait for it. Returns the new boot's identity."""
        before = self.boot_id()
        if not before:
            raise VmError(f"{self.name} does not answer by ssh, so that it cannot be asked to reboot")
        subprocess.run(
            self.ssh_command("systemctl", "reboot"), stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        return self.wait(timeout, before)

    def wait(self, timeout=900, before=""):
        """Wait until it answers by ssh, in another boot than C(before). Returns the boot's identity."""
        deadline = time.monotonic() + timeout
        while True:
            boot = self.boot_id()
            if boot and boot != before:
                return boot
            if not self.pid:
                raise VmError(f"{self.name} has ended while it booted; its console ends with:\n{self._console_tail()}")
            if time.monotonic() > deadline:
                raise VmError(
                    f"{self.name} has not answered by ssh within {timeout} s; its console ends with:\n{self._console_tail()}"
                )
            time.sleep(0.5)

    def ssh_command(self, *words):
        facts = self.facts
        return [
            "ssh",
            "-F",
            "none",
            "-i",
            facts["identity_file"],
            "-p",
            str(facts["port"]),
            "-o",
            "BatchMode=yes",
            "-o",
            "ConnectTimeout=20",
            "-o",
            "ServerAliveInterval=5",
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "LogLevel=ERROR",
            "-o",
            f"UserKnownHostsFile={facts['known_hosts']}",
            "-o",
            "StrictHostKeyChecking=yes",
            f"{facts['user']}@{facts['host']}",
            *words,
        ]

    def stop(self):
        """Switch it off, at once: its disk is not worth a clean end. Its files stay."""
        pid = self.pid
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 10
            if pid and self.pid == pid:
                os.kill(pid, number)
            while pid and self.pid == pid and time.monotonic() < deadline:
                time.sleep(0.05)
        if pid and self.pid == pid:
            raise VmError(f"{self.name}, process {pid}, does not end")

    def remove(self):
        self.stop()
        if self.directory.exists():
            shutil.rmtree(self.directory)
        (self.directory.parent / f".{self.name}.lock").unlink(missing_ok=True)

    def _console_tail(self):
        try:
            return "\n".join(self.console.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
        except FileNotFoundError:
            return "(nothing)"


@dataclasses.dataclass(frozen=True)
class Drive:
    """An empty disk of a machine: an NVMe controller with one namespace, or a virtio disk."""

    kind: str
    serial: str
    size: str

    @classmethod
    def parse(cls, text):
        """From KIND:SERIAL:SIZE, for example nvme:FAST0:1G."""
        match = re.fullmatch(r"(nvme|virtio):([A-Za-z0-9_-]{1,20}):(\d+[KMGT]?)", text)
        if not match:
            raise VmError(
                f"--drive {text!r} is not allowed; it takes KIND:SERIAL:SIZE with KIND nvme or virtio, a SERIAL of 1 to 20 letters, "
                "digits, '_' and '-', and a SIZE such as 512M"
            )
        return cls(*match.groups())

    def path(self, directory):
        return directory / f"{self.kind}-{self.serial}.raw"

    def arguments(self, directory):
        device = {"nvme": "nvme", "virtio": "virtio-blk-pci"}[self.kind]
        return [
            "-drive",
            f"if=none,id={self.kind}-{self.serial},file={self.path(directory)},format=raw,cache=unsafe,discard=unmap",
            "-device",
            f"{device},serial={self.serial},drive={self.kind}-{self.serial}",
        ]


@dataclasses.dataclass(frozen=True)
class Node:
    """A NUMA node of a machine. One without processors is slower memory, and its firmware says so."""

    size: int  # MiB
    cpus: str = ""

    @classmethod
    def parse(cls, text):
        """From SIZE[:CPUS], for example 512M:0-1, or 256M for a node with memory only."""
        match = re.fullmatch(r"(\d+)([MG])(?::(\d+(?:-\d+)?))?", text)
        if not match:
            raise VmError(
                f"--numa {text!r} is not allowed; it takes SIZE or SIZE:CPUS with a SIZE such as 512M, and CPUS such as 0 or 0-1"
            )
        return cls(int(match[1]) * (1024 if match[2] == "G" else 1), match[3] or "")


def numa_arguments(nodes, cpus):
    """The words for qemu. What the kernel makes of a node without processors -- a lower tier or not -- hangs on the HMAT table."""
    if not nodes:
        return []
    near = [number for number, node in enumerate(nodes) if node.cpus]
    if not near:
        raise VmError(f"--numa: at least one node needs processors, as in 512M:0-{cpus - 1}")
    words = ["-machine", "hmat=on"]
    for number, node in enumerate(nodes):
        initiator = number if node.cpus else near[0]
        words += [
            "-object",
            f"memory-backend-ram,id=node{number},size={node.size}M",
            "-numa",
            f"node,nodeid={number},memdev=node{number},initiator={initiator}"
            + (f",cpus={node.cpus}" if node.cpus else ""),
        ]
    for initiator in near:
        for number, node in enumerate(nodes):
            latency, bandwidth = (10, "10G") if number == initiator else (20, "5G") if node.cpus else (60, "1G")
            where = f"hmat-lb,initiator={initiator},target={number},hierarchy=memory"
            words += [
                "-numa",
                f"{where},data-type=access-latency,latency={latency}",
                "-numa",
                f"{where},data-type=access-bandwidth,bandwidth={bandwidth}",
            ]
    return words


def free_port(wanted=0):
    """A port that nobody listens on: the wanted one if that is free."""
    with socket.socket() as probe:
        # Connections that a machine had before it was restarted may linger.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def machines():
    return [Machine(path.name) for path in sorted((CACHE / "machines").glob("*")) if path.is_dir()]


# --- the command line ------------------------------------------------------------------------------------------


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, text, recipe=False, machine=True):
        sub = commands.add_parser(name, help=text, description=text)
        if machine:
            sub.add_argument("name", help="name of the machine")
        if recipe:
            sub.add_argument("--suite", default=Image.suite, help="Debian release (default: %(default)s)")
            sub.add_argument("--kernel", default=Image.kernel, help="package of the kernel (default: %(default)s)")
            sub.add_argument(
                "--include",
                action="append",
                default=[],
                metavar="PACKAGE",
                help="package to install in the image; may be repeated",
            )
            sub.add_argument(
                "--offer",
                action="append",
                default=[],
                metavar="PACKAGE",
                help="package that the machine can install with apt, with all it needs; may be repeated",
            )
            sub.add_argument(
                "--boot",
                choices=["direct", "grub"],
                default=Image.boot,
                help="give the kernel to the machine directly, or have a boot loader on its disk (default: %(default)s)",
            )
            sub.add_argument("--disk", default=Image.disk, help="size of the root disk, sparse (default: %(default)s)")
        return sub

    command("packages", "say which Debian packages this tool needs here", machine=False)
    command("image", "build an image unless it is there, and say where it is", recipe=True, machine=False)
    start = command("start", "start a machine, wait for ssh, and say how to reach it, as JSON", recipe=True)
    start.add_argument("--memory", type=int, default=512, metavar="MIB", help="(default: %(default)s)")
    start.add_argument("--cpus", type=int, default=2, help="(default: %(default)s)")
    start.add_argument(
        "--drive",
        action="append",
        default=[],
        type=Drive.parse,
        metavar="KIND:SERIAL:SIZE",
        help="empty disk, for example nvme:FAST0:1G; may be repeated",
    )
    start.add_argument(
        "--numa",
        action="append",
        default=[],
        type=Node.parse,
        metavar="SIZE[:CPUS]",
        help="NUMA node, for example 512M:0-1, or 256M for one with memory only; may be repeated, and replaces --memory",
    )
    start.add_argument("--append", default="", metavar="ARGUMENTS", help="more for the kernel command line")
    start.add_argument(
        "--qemu",
        action="append",
        default=[],
        metavar="WORD",
        help="one more word for qemu's command line; may be repeated",
    )
    start.add_argument(
        "--accel", default="tcg,thread=multi", help="how qemu runs the guest (default: software, %(default)s)"
    )
    start.add_argument(
        "--timeout", type=int, default=900, metavar="SECONDS", help="for the boot (default: %(default)s)"
    )
    restart = command("restart", "have a machine switch itself off, and start it as before")
    restart.add_argument(
        "--drive",
        action="append",
        type=Drive.parse,
        metavar="KIND:SERIAL:SIZE",
        help="with these drives instead; may be repeated",
    )
    command("show", "say how to reach a machine, as JSON")
    wait = command("wait", "wait until a machine answers by ssh, and say its boot's identity")
    wait.add_argument("--after", default="", metavar="BOOT", help="wait for another boot than this one")
    command("reboot", "have a machine reboot, wait for it, and say its new boot's identity")
    ssh = command("ssh", "run a command in a machine, or a shell")
    ssh.add_argument("words", nargs=argparse.REMAINDER)
    command("stop", "switch a machine off; its disks stay")
    command("remove", "switch a machine off and delete it")
    command("list", "list the machines", machine=False)
    return parser.parse_args(arguments)


def main():
    try:
        options = parse_arguments(sys.argv[1:])
        machine = Machine(options.name) if hasattr(options, "name") else None
        image = (
            Image(
                options.suite,
                options.kernel,
                tuple(sorted(options.include)),
                tuple(sorted(options.offer)),
                options.disk,
                options.boot,
            )
            if hasattr(options, "suite")
            else None
        )
        match options.command:
            case "packages":
                print(" ".join(PACKAGES_HERE))
            case "image":
                print(image.make().directory)
            case "start":
                memory = sum(node.size for node in options.numa) or options.memory
                machine.start(
                    image,
                    memory,
                    options.cpus,
                    options.drive,
                    options.append,
                    options.qemu,
                    options.accel,
                    options.timeout,
                    options.numa,
                )
                print(json.dumps(machine.facts, indent=1))
            case "restart":
                machine.restart(options.drive)
                print(json.dumps(machine.facts, indent=1))
            case "show":
                print(json.dumps(machine.facts | {"running": machine.pid is not None}, indent=1))
            case "wait":
                print(machine.wait(before=options.after))
            case "reboot":
                print(machine.reboot())
            case "ssh":
                os.execvp("ssh", machine.ssh_command(*options.words))
            case "stop":
                machine.stop()
            case "remove":
                machine.remove()
            case "list":
                print("\n".join(f"{machine.name} {'running' if machine.pid else 'off'}" for machine in machines()))
    except VmError as error:
        sys.exit(f"vm.py: {error}")


if __name__ == "__main__":
    main()
