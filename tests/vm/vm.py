# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Throwaway Debian machines for tests: built from packages, run by qemu without KVM, reached by ssh on 127.0.0.1.

An image is built once for each recipe and cached in .cache/vm of the checkout. The disk of a machine is an overlay on
an image, so removing the machine discards all changes. See README.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import typing as t
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for a test that loads this file by its path
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "playbooks" / "files"))
import debian_image
from debian_image import QEMU, report, root_disk, run
from debian_image import ImageError as VmError
from vm_image import CACHE, Image, locked

PACKAGES_HERE = [*debian_image.PACKAGES_HERE, "openssh-client"]
SHUTDOWN_S = 60
BOOT_TIMEOUT_S = 900
SOFTWARE = "tcg,thread=multi"
# For long runs: with more CPUs, qemu sometimes runs old code where the kernel has just changed its own, and the kernel
# panics.
CPUS_OF_LONG_RUNS = 1


# --- the machine -----------------------------------------------------------------------------------------------


class Machine:
    """One machine, running or not. Its files are in the directory of its name."""

    def __init__(self, name: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
            raise VmError(
                f"{name!r} is not a valid name of a machine; it must have 1 to 64 letters, digits, '_', '.' and '-', "
                "and begin with a letter or a digit"
            )
        self.name = name
        self.directory = CACHE / "machines" / name
        self.console = self.directory / "console.log"
        self.facts_file = self.directory / "machine.json"
        self._options_file = self.directory / "options.json"

    @property
    def facts(self) -> dict[str, t.Any]:
        try:
            return json.loads(self.facts_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise VmError(f"there is no machine {self.name}") from None

    @property
    def pid(self) -> int | None:
        """Return the process of the machine, or None. The pidfile alone proves nothing: numbers are reused."""
        try:
            pid = int((self.directory / "pid").read_text(encoding="utf-8"))
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return pid if str(self.directory / "pid").encode() in arguments else None

    def start(
        self,
        image: Image,
        memory: int = 512,
        cpus: int = 2,
        drives: t.Sequence[Drive] = (),
        append: str = "",
        qemu: t.Sequence[str] = (),
        accel: str = SOFTWARE,
        timeout: float = BOOT_TIMEOUT_S,
        nodes: t.Sequence[NumaNode] = (),
    ) -> Machine:
        """Boot the machine and wait until it answers by ssh. A running machine is left alone."""
        if append and image.boot == "grub":
            raise VmError(
                f"--append {append!r} is not allowed with --boot grub: the kernel command line is in the machine's own "
                "boot loader"
            )
        with locked(CACHE / "machines" / f".{self.name}.lock"):
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
            report(f"{self.name} is up after {time.monotonic() - started:.0f} s")
        return self

    def restart(self, drives: t.Sequence[Drive] | None = None, timeout: float = BOOT_TIMEOUT_S) -> Machine:
        """Shut the machine down and start it again at the same port.

        Args:
            drives: replace its drives; None keeps them.
        """
        if self.pid:
            subprocess.run(
                self.ssh_command("systemctl", "poweroff"), stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
        deadline = time.monotonic() + SHUTDOWN_S
        while self.pid and time.monotonic() < deadline:
            time.sleep(0.2)
        self.stop()
        options = json.loads(self._options_file.read_text(encoding="utf-8"))
        before = [Drive(**drive) for drive in options.pop("drives")]
        image: dict[str, t.Any] = options.pop("image")
        for name in ("include", "offer"):
            image[name] = tuple(image[name])
        return self.start(
            Image(**image),
            timeout=timeout,
            drives=before if drives is None else drives,
            nodes=[NumaNode(**node) for node in options.pop("nodes")],
            **options,
        )

    def _make_disks(self, image: Image, drives: t.Sequence[Drive]) -> None:
        disk = self.directory / "disk.qcow2"
        if not disk.exists():
            run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image.directory / "disk.qcow2", disk)
        for drive in drives:
            if not drive.path(self.directory).exists():
                run("qemu-img", "create", "-q", "-f", "raw", drive.path(self.directory), drive.size)

    def _boot(
        self,
        image: Image,
        memory: int,
        cpus: int,
        drives: t.Sequence[Drive],
        append: str,
        qemu: t.Sequence[str],
        accel: str,
    ) -> None:
        port = free_port(self.facts["port"] if self.facts_file.exists() else 0)
        key = self.directory / "key"
        shutil.copyfile(image.directory / "key", key)
        key.chmod(0o600)
        host_key = (image.directory / "hostkey").read_text(encoding="utf-8")
        (self.directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}\n", encoding="utf-8")
        (self.directory / "pid").unlink(missing_ok=True)
        arguments = f"root={image.root} rw quiet {debian_image.KERNEL_ARGUMENTS} {append}".strip()
        kernel = [
            "-kernel",
            image.directory / "vmlinuz",
            "-initrd",
            image.directory / "initrd.img",
            "-append",
            arguments,
        ]
        run(
            *QEMU,
            *("-name", self.name, "-accel", accel, "-smp", cpus, "-m", memory, "-serial", f"file:{self.console}"),
            *(kernel if image.boot == "direct" else []),
            *root_disk(self.directory / "disk.qcow2"),
            *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"),
            *("-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci"),
            *(word for drive in drives for word in drive.arguments(self.directory)),
            *qemu,
            *("-pidfile", self.directory / "pid", "-daemonize"),
        )
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

    def boot_id(self) -> str:
        """Return the kernel's ID of the current boot; empty if the machine does not answer."""
        return subprocess.run(
            self.ssh_command("cat", "/proc/sys/kernel/random/boot_id"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
        ).stdout.strip()

    def reboot(self, timeout: float = BOOT_TIMEOUT_S) -> str:
        """Reboot the machine as its administrator would, wait for it, and return the ID of the new boot."""
        before = self.boot_id()
        if not before:
            raise VmError(f"cannot reboot {self.name}: it does not answer by ssh")
        subprocess.run(
            self.ssh_command("systemctl", "reboot"), stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        return self.wait(timeout, before)

    def wait(self, timeout: float = BOOT_TIMEOUT_S, before: str = "") -> str:
        """Wait until the machine answers by ssh in a boot other than C(before), and return the ID of the boot."""
        deadline = time.monotonic() + timeout
        while True:
            boot = self.boot_id()
            if boot and boot != before:
                return boot
            if not self.pid:
                raise VmError(f"{self.name} ended during its boot; its console ends with:\n{self._console_tail()}")
            if time.monotonic() > deadline:
                raise VmError(
                    f"{self.name} did not answer by ssh within {timeout} s; its console ends with:\n"
                    f"{self._console_tail()}"
                )
            time.sleep(0.5)

    def ssh_command(self, *words: str) -> list[str]:
        """Return the command line that runs a command in the machine by ssh."""
        facts = self.facts
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": 20,
            "ServerAliveInterval": 5,
            "IdentitiesOnly": "yes",
            "LogLevel": "ERROR",
            "UserKnownHostsFile": facts["known_hosts"],
            "StrictHostKeyChecking": "yes",
        }
        return [
            *("ssh", "-F", "none", "-i", facts["identity_file"], "-p", str(facts["port"])),
            *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
            f"{facts['user']}@{facts['host']}",
            *words,
        ]

    def stop(self) -> None:
        """Switch the machine off without a shutdown. Its files stay."""
        pid = self.pid
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 10
            if pid and self.pid == pid:
                os.kill(pid, signal_number)
            while pid and self.pid == pid and time.monotonic() < deadline:
                time.sleep(0.05)
        if pid and self.pid == pid:
            raise VmError(f"{self.name}, process {pid}, does not end")

    def remove(self) -> None:
        self.stop()
        if self.directory.exists():
            shutil.rmtree(self.directory)
        (self.directory.parent / f".{self.name}.lock").unlink(missing_ok=True)

    def _console_tail(self) -> str:
        try:
            return "\n".join(self.console.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
        except FileNotFoundError:
            return "(nothing)"


@dataclasses.dataclass(frozen=True)
class Drive:
    """An empty disk: an NVMe controller with one namespace, or a virtio disk."""

    kind: str
    serial: str
    size: str

    @classmethod
    def parse(cls, text: str) -> Drive:
        """Parse KIND:SERIAL:SIZE, for example nvme:FAST0:1G."""
        match = re.fullmatch(r"(nvme|virtio):([A-Za-z0-9_-]{1,20}):(\d+[KMGT]?)", text)
        if not match:
            raise VmError(
                f"--drive {text!r} is not allowed; it must be KIND:SERIAL:SIZE with KIND nvme or virtio, a SERIAL of 1 "
                "to 20 letters, digits, '_' and '-', and a SIZE such as 512M"
            )
        return cls(*match.groups())

    def path(self, directory: Path) -> Path:
        return directory / f"{self.kind}-{self.serial}.raw"

    def arguments(self, directory: Path) -> list[str]:
        """Return the arguments of qemu."""
        device = {"nvme": "nvme", "virtio": "virtio-blk-pci"}[self.kind]
        return [
            "-drive",
            f"if=none,id={self.kind}-{self.serial},file={self.path(directory)},format=raw,cache=unsafe,discard=unmap",
            "-device",
            f"{device},serial={self.serial},drive={self.kind}-{self.serial}",
        ]


@dataclasses.dataclass(frozen=True)
class NumaNode:
    """A NUMA node of a machine. The firmware describes a node without CPUs as slower memory."""

    size: int  # MiB
    cpus: str = ""

    @classmethod
    def parse(cls, text: str) -> NumaNode:
        """Parse SIZE[:CPUS], for example 512M:0-1, or 256M for a node with memory only."""
        match = re.fullmatch(r"(\d+)([MG])(?::(\d+(?:-\d+)?))?", text)
        if not match:
            raise VmError(
                f"--numa {text!r} is not allowed; it must be SIZE or SIZE:CPUS with a SIZE such as 512M, and CPUS such "
                "as 0 or 0-1"
            )
        return cls(int(match[1]) * (1024 if match[2] == "G" else 1), match[3] or "")


def numa_arguments(nodes: t.Sequence[NumaNode], cpus: int) -> list[str]:
    """Return the arguments of qemu for NUMA nodes.

    They include an HMAT table, from which the kernel decides whether a node without CPUs is a lower tier of memory.
    """
    if not nodes:
        return []
    near = [number for number, node in enumerate(nodes) if node.cpus]
    if not near:
        raise VmError(f"--numa: at least one node needs CPUs, as in 512M:0-{cpus - 1}")
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


def free_port(preferred: int = 0) -> int:
    """Return a free port, the preferred one if possible."""
    with socket.socket() as listener:
        # Connections from before a restart of the machine may still be in TIME_WAIT.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", preferred))
        except OSError:
            listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def machines() -> list[Machine]:
    return [Machine(path.name) for path in sorted((CACHE / "machines").glob("*")) if path.is_dir()]


# --- the command line ------------------------------------------------------------------------------------------


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str, function: t.Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        parser = commands.add_parser(name, help=text, description=text)
        parser.set_defaults(function=function)
        return parser

    def machine_command(
        name: str, text: str, function: t.Callable[[argparse.Namespace], None]
    ) -> argparse.ArgumentParser:
        parser = command(name, text, function)
        parser.add_argument("name", help="name of the machine")
        return parser

    command("packages", "print the Debian packages that this tool needs", packages_command)
    add_recipe_options(command("image", "build an image unless it exists, and print its directory", image_command))
    start = machine_command("start", "start a machine, wait for ssh, and print how to reach it as JSON", start_command)
    add_recipe_options(start)
    add_machine_options(start)
    restart = machine_command("restart", "shut a machine down, and start it as before", restart_command)
    restart.add_argument(
        "--drive",
        action="append",
        type=Drive.parse,
        metavar="KIND:SERIAL:SIZE",
        help="replace its drives with these; may be repeated",
    )
    machine_command("show", "print how to reach a machine as JSON", show_command)
    wait = machine_command("wait", "wait until a machine answers by ssh, and print the ID of its boot", wait_command)
    wait.add_argument("--after", default="", metavar="BOOT", help="wait for a boot other than this one")
    machine_command("reboot", "reboot a machine, wait for it, and print the ID of its new boot", reboot_command)
    ssh = machine_command("ssh", "run a command in a machine, or a shell", ssh_command)
    ssh.add_argument("words", nargs=argparse.REMAINDER)
    machine_command("stop", "switch a machine off; its disks stay", stop_command)
    machine_command("remove", "switch a machine off and delete it", remove_command)
    command("list", "list the machines", list_command)
    return parser.parse_args(arguments)


def add_recipe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--suite", default=Image.suite, help="Debian release (default: %(default)s)")
    parser.add_argument("--kernel", default=Image.kernel, help="package of the kernel (default: %(default)s)")
    parser.add_argument(
        "--include",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="package to install in the image; may be repeated",
    )
    parser.add_argument(
        "--offer",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="package that the machine can install with apt, with its dependencies; may be repeated",
    )
    parser.add_argument(
        "--boot",
        choices=["direct", "grub"],
        default=Image.boot,
        help="boot the kernel directly, or from a boot loader on the disk (default: %(default)s)",
    )
    parser.add_argument("--disk", default=Image.disk, help="size of the root disk, sparse (default: %(default)s)")


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--memory", type=int, default=512, metavar="MIB", help="(default: %(default)s)")
    parser.add_argument("--cpus", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument(
        "--drive",
        action="append",
        default=[],
        type=Drive.parse,
        metavar="KIND:SERIAL:SIZE",
        help="empty disk, for example nvme:FAST0:1G; may be repeated",
    )
    parser.add_argument(
        "--numa",
        action="append",
        default=[],
        type=NumaNode.parse,
        metavar="SIZE[:CPUS]",
        help="NUMA node, for example 512M:0-1, or 256M for one with memory only; may be repeated, replaces --memory",
    )
    parser.add_argument("--append", default="", metavar="ARGUMENTS", help="additional kernel arguments")
    parser.add_argument(
        "--qemu", action="append", default=[], metavar="WORD", help="additional argument of qemu; may be repeated"
    )
    parser.add_argument(
        "--accel", default=SOFTWARE, help="accelerator of qemu (default: software emulation, %(default)s)"
    )
    parser.add_argument(
        "--timeout", type=int, default=BOOT_TIMEOUT_S, metavar="SECONDS", help="for the boot (default: %(default)s)"
    )


def image_of(options: argparse.Namespace) -> Image:
    include, offer = tuple(sorted(options.include)), tuple(sorted(options.offer))
    return Image(options.suite, options.kernel, include, offer, options.disk, options.boot)


def packages_command(_options: argparse.Namespace) -> None:
    print(" ".join(PACKAGES_HERE))


def image_command(options: argparse.Namespace) -> None:
    print(image_of(options).make().directory)


def start_command(options: argparse.Namespace) -> None:
    machine = Machine(options.name).start(
        image_of(options),
        memory=sum(node.size for node in options.numa) or options.memory,
        cpus=options.cpus,
        drives=options.drive,
        append=options.append,
        qemu=options.qemu,
        accel=options.accel,
        timeout=options.timeout,
        nodes=options.numa,
    )
    print(json.dumps(machine.facts, indent=1))


def restart_command(options: argparse.Namespace) -> None:
    print(json.dumps(Machine(options.name).restart(options.drive).facts, indent=1))


def show_command(options: argparse.Namespace) -> None:
    machine = Machine(options.name)
    print(json.dumps(machine.facts | {"running": machine.pid is not None}, indent=1))


def wait_command(options: argparse.Namespace) -> None:
    print(Machine(options.name).wait(before=options.after))


def reboot_command(options: argparse.Namespace) -> None:
    print(Machine(options.name).reboot())


def ssh_command(options: argparse.Namespace) -> None:
    os.execvp("ssh", Machine(options.name).ssh_command(*options.words))


def stop_command(options: argparse.Namespace) -> None:
    Machine(options.name).stop()


def remove_command(options: argparse.Namespace) -> None:
    Machine(options.name).remove()


def list_command(_options: argparse.Namespace) -> None:
    print("\n".join(f"{machine.name} {'running' if machine.pid else 'off'}" for machine in machines()))


def main() -> None:
    try:
        options = parse_arguments(sys.argv[1:])
        options.function(options)
    except VmError as error:
        sys.exit(f"vm.py: {error}")


if __name__ == "__main__":
    main()
