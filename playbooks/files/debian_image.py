# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build a disk with a Debian system from packages, by mmdebstrap, without loop devices.

As a command it builds the golden image of a VM fleet. A clone of that image gets its address by DHCP, and at each boot
it reads its name from the firmware and its keys from the seed disk. The throwaway machines of the tests use it as a
module. Needs root to set the owners of files.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

# Installed on the machine that builds the image.
PACKAGES_HERE = ["qemu-system-x86", "qemu-utils", "mmdebstrap", "e2fsprogs", "fdisk"]
# Installed in the image.
PACKAGES_THERE = [
    "apt",
    "dbus",
    "e2fsprogs",
    "init",
    "initramfs-tools",
    "iproute2",
    "kmod",
    "openssh-server",
    "procps",
    "python3",
    "systemd",
    "udev",
]
# The modules that find the disk. The default, all modules, takes three times as long to unpack.
INITRD_MODULES = ["ext4", "virtio_blk", "virtio_pci"]
KERNEL_ARGUMENTS = "console=ttyS0 net.ifnames=0 mitigations=off"
# Start of the root partition in an image with a boot loader, after the usual space for the boot loader.
PARTITION_OFFSET = 1024 * 1024
SECTOR = 512
BOOT_CODE = 440  # bytes of the first sector; the partition table follows
MENU_TIMEOUT_S = 900
GRUB = "usr/lib/grub/i386-pc"
# Runs once when an image with a boot loader is built: only the system itself, on its own disk, can write its menu.
# The first boot starts this unit and what it depends on, but no network and no logins, which take a minute.
FIRST_BOOT_UNIT = """[Unit]
Description=Write the boot menu of a new image, and power off

[Service]
Type=oneshot
ExecStart=/bin/sh -ec 'update-grub; rm /etc/systemd/system/vm-first-boot.service; echo MENU-WRITTEN'
ExecStopPost=/bin/systemctl --no-block poweroff
StandardOutput=journal+console
StandardError=journal+console
"""
# Units that run at or after each boot and take minutes on a slow machine.
UNITS_OFF = [
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "logrotate.timer",
    "man-db.timer",
    "systemd-networkd-wait-online.service",
]

# The common arguments of all machines.
QEMU = ["qemu-system-x86_64", "-machine", "q35", "-cpu", "max", "-nodefaults", "-no-user-config", "-display", "none"]
# A golden image also has these packages, and a service that sets name and keys of each clone.
GOLDEN_PACKAGES = ["fdisk", "python3-apt", "redis-server"]
GOLDEN_KERNEL = "linux-image-cloud-amd64"
GOLDEN_NETWORK = "[Match]\nType=ether\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n[DHCPv4]\nClientIdentifier=mac\n"
SEED_UNIT = """[Unit]
Description=Read this machine's name from the firmware and its keys from the seed disk
DefaultDependencies=no
After=systemd-udev-trigger.service systemd-remount-fs.service local-fs.target
Before=ssh.service systemd-networkd.service sysinit.target

[Service]
Type=oneshot
TimeoutStartSec=infinity
StandardError=journal+console
ExecStart=/usr/local/sbin/take-seed

[Install]
WantedBy=sysinit.target
"""
TAKE_SEED = """#!/bin/sh
# The firmware's serial number has the format that cloud-init reads: ds=nocloud;i=IDENTITY;h=NAME
set -eu
name=$(sed -n 's/.*;h=\\([A-Za-z0-9.-]*\\).*/\\1/p' /sys/class/dmi/id/product_serial)
if [ -n "$name" ]; then
  echo "$name" > /etc/hostname
  hostname "$name"
  sed -i "s/^127[.]0[.]1[.]1 .*/127.0.1.1 $name/" /etc/hosts
fi
seed=/dev/disk/by-label/cidata
udevadm settle --timeout=600 --exit-if-exists="$seed"
[ -e "$seed" ] || exit 0
mount -o ro "$seed" /mnt
trap 'umount /mnt' EXIT
install -m 600 /mnt/ssh_host_ed25519_key /etc/ssh/ssh_host_ed25519_key
install -m 644 /mnt/ssh_host_ed25519_key.pub /etc/ssh/ssh_host_ed25519_key.pub
install -d -m 700 /root/.ssh
install -m 600 /mnt/authorized_keys /root/.ssh/authorized_keys
"""
# For an image with cloud-init instead. The data source None lets the first boot, which has no seed, go on without one.
CLOUD_CONFIG = "datasource_list: [NoCloud, None]\nnetwork: {config: disabled}\napt_preserve_sources_list: true\n"


class ImageError(Exception):
    """The image cannot be built; the text is for the user."""


def run(*command: object, text: str = "", timeout: float | None = None) -> str:
    """Run a command and return its output; an error shows the output.

    Args:
        text: what the command reads from its standard input.
    """
    try:
        return subprocess.run(
            [str(word) for word in command],
            check=True,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
        ).stdout
    except FileNotFoundError as error:
        raise ImageError(
            f"{command[0]} is not installed; run: apt-get install --no-install-recommends {' '.join(PACKAGES_HERE)}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ImageError(f"{' '.join(map(str, command))} has not ended within {error.timeout:g} s") from error
    except subprocess.CalledProcessError as error:
        raise ImageError(
            f"{' '.join(map(str, command))} ended with status {error.returncode}:\n{error.stdout}"
        ) from error


def report(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)


def _own_suite() -> str:
    """Return the release of this Debian. Raises ImageError on other systems, whose archives have no Debian."""
    system = platform.freedesktop_os_release()
    if system.get("ID") != "debian":
        raise ImageError(
            f"this machine runs {system['PRETTY_NAME']}, whose apt sources have no Debian; build the image on a "
            "machine that runs Debian, and copy it to this one"
        )
    return system.get("VERSION_CODENAME", "")


def apt_sources(suite: str, directory: Path = Path("/etc/apt"), here: str = "") -> list[str]:
    """Return the Debian sources of this machine as one-line entries for that suite."""
    here = here or _own_suite()
    lines: list[str] = []
    files = [directory / "sources.list", *sorted((directory / "sources.list.d").glob("*"))]
    for file in (file for file in files if file.is_file()):
        text = file.read_text(encoding="utf-8")
        lines += (
            _deb822(text)
            if file.suffix == ".sources"
            else [line.strip() for line in text.splitlines() if re.match(r"\s*deb\s", line)]
        )
    # Entries of other projects have suites with other names.
    ours = [line for line in lines if re.search(rf"\s{re.escape(here)}(-\S+)?\s", line)]
    if not here or not ours:
        raise ImageError(f"no Debian entry for {here or 'this system'} among the apt sources in {directory}")
    return list(
        dict.fromkeys(re.sub(rf"(\s){re.escape(here)}((-\S+)?\s)", rf"\g<1>{suite}\g<2>", line) for line in ours)
    )


def _deb822(text: str) -> list[str]:
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*(?:\n[ \t]+.*)*)$", paragraph, re.M))
        if "deb" in fields.get("Types", "").split():
            signed = (
                f"[signed-by={fields['Signed-By'].strip()}] "
                if fields.get("Signed-By", "").strip().startswith("/")
                else ""
            )
            lines += [
                f"deb {signed}{uri} {suite} {fields.get('Components', '').strip()} "
                for uri in fields["URIs"].split()
                for suite in fields["Suites"].split()
            ]
    return lines


class WriteFile(t.Protocol):
    """Writes a file of the image. The path is relative to its root."""

    def __call__(self, path: str, text: str, mode: int = 0o644) -> None: ...


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The contents of a Debian system.

    The packages of C(include) are installed. Those of C(offer) are in a repository on the disk, so that the system can
    install them without a network.
    """

    suite: str = "bookworm"
    kernel: str = "linux-image-amd64"
    include: tuple[str, ...] = ()
    offer: tuple[str, ...] = ()
    disk: str = "4G"
    boot: str = "direct"  # kernel and initrd are given to qemu; or grub

    @property
    def root(self) -> str:
        """Return the device of the root file system."""
        return "/dev/vda1" if self.boot == "grub" else "/dev/vda"

    def build(self, work: Path, configure: t.Callable[[Path, WriteFile], None]) -> None:
        """Write disk.qcow2, vmlinuz and initrd.img to a directory.

        Args:
            work: the directory.
            configure: is called with the root directory of the system and a function that writes a file there.
        """
        if os.geteuid():
            raise ImageError("building an image needs root to set the owners of its files")
        (work / "tree").mkdir(parents=True)
        self._install(work)
        self._configure(work, configure)
        self._pack(work)
        if self.boot == "grub":
            self._write_menu(work)

    def _install(self, work: Path) -> None:
        report(f"Installing Debian {self.suite} from packages")
        hooks = work / "hooks"
        hooks.mkdir()
        (hooks / "essential").write_text(
            '#!/bin/sh -eu\nmkdir -p "$1/etc/initramfs-tools/conf.d"\n'
            'echo MODULES=list > "$1/etc/initramfs-tools/conf.d/vm"\n'
            f"printf '%s\\n' {' '.join(INITRD_MODULES)} > \"$1/etc/initramfs-tools/modules\"\n",
            encoding="utf-8",
        )
        (hooks / "customize").write_text(
            '#!/bin/sh -eu\nmkdir -p "$1/srv/apt"\n'
            + (
                'chroot "$1" apt-get clean\n'
                f'chroot "$1" apt-get -qq -y --no-install-recommends --download-only install {" ".join(self.offer)}\n'
                'mv "$1"/var/cache/apt/archives/*.deb "$1/srv/apt/"\n'
                if self.offer
                else ""
            ),
            encoding="utf-8",
        )
        for hook in hooks.iterdir():
            hook.chmod(0o755)
        packages = [*PACKAGES_THERE, self.kernel, *(["grub-pc"] if self.boot == "grub" else []), *self.include]
        # In a mount namespace of its own: what it mounts in the tree is gone when it ends, even if it was killed.
        run(
            "unshare",
            "--mount",
            "mmdebstrap",
            "--variant=minbase",
            f"--include={','.join(packages)}",
            '--aptopt=Acquire::Languages "none"',
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/man/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            f"--essential-hook={hooks}/essential",
            f"--customize-hook={hooks}/customize",
            self.suite,
            work / "tree",
            "-",
            text="\n".join(apt_sources(self.suite)) + "\n",
        )
        shutil.rmtree(hooks)

    def _configure(self, work: Path, configure: t.Callable[[Path, WriteFile], None]) -> None:
        tree = work / "tree"

        def write(path: str, text: str, mode: int = 0o644) -> None:
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text, encoding="utf-8")
            (tree / path).chmod(mode)

        write("etc/hostname", "vm\n")
        write("etc/hosts", "127.0.0.1 localhost\n127.0.1.1 vm\n::1 localhost\n")
        write("etc/fstab", f"{self.root} / ext4 defaults,noatime 0 0\n")
        write("etc/machine-id", "")
        # Only the repository on the disk: guests have no access to another one.
        for sources in [tree / "etc/apt/sources.list", *(tree / "etc/apt/sources.list.d").iterdir()]:
            sources.unlink(missing_ok=True)
        write("etc/apt/sources.list", "deb [trusted=yes] file:/srv/apt ./\n")
        packages = "\n".join(map(self._describe, sorted((tree / "srv/apt").glob("*.deb"))))
        write("srv/apt/Packages", packages)
        write(
            "srv/apt/Release",
            f"SHA256:\n {hashlib.sha256(packages.encode()).hexdigest()} {len(packages.encode())} Packages\n",
        )
        run("chroot", tree, "systemctl", "--quiet", "enable", "systemd-networkd.service", "ssh.service")
        run("chroot", tree, "systemctl", "--quiet", "mask", *UNITS_OFF)
        if self.boot == "grub":
            self._configure_boot_loader(tree, write)
        configure(tree, write)

    @staticmethod
    def _configure_boot_loader(tree: Path, write: WriteFile) -> None:
        """Do what grub-install does to the file system, and write a menu for the first boot."""
        write(
            "etc/default/grub",
            f'''# The machine has a serial console only.
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="{KERNEL_ARGUMENTS}"
GRUB_TERMINAL=serial
''',
        )
        (tree / "boot/grub/i386-pc").mkdir(parents=True, exist_ok=True)
        for file in sorted((tree / GRUB).iterdir()):
            if file.suffix in (".mod", ".lst"):
                shutil.copyfile(file, tree / "boot/grub/i386-pc" / file.name)
        kernel, initrd = (next((tree / "boot").glob(f"{name}-*")).name for name in ("vmlinuz", "initrd.img"))
        write(
            "boot/grub/grub.cfg",
            f"linux /boot/{kernel} root=/dev/vda1 ro {KERNEL_ARGUMENTS} systemd.unit=vm-first-boot.service\n"
            f"initrd /boot/{initrd}\nboot\n",
        )
        write("etc/systemd/system/vm-first-boot.service", FIRST_BOOT_UNIT)
        run(
            "chroot",
            tree,
            "grub-mkimage",
            "--format=i386-pc",
            "--output=/boot/grub/i386-pc/core.img",
            "--prefix=(hd0,msdos1)/boot/grub",
            "biosdisk",
            "part_msdos",
            "ext2",
        )

    @staticmethod
    def _describe(deb: Path) -> str:
        """Return the entry of a package in the repository's index."""
        data = deb.read_bytes()
        return (
            run("dpkg-deb", "--field", deb).rstrip("\n") + f"\nFilename: ./{deb.name}\nSize: {len(data)}\n"
            f"SHA256: {hashlib.sha256(data).hexdigest()}\n"
        )

    def _pack(self, work: Path) -> None:
        report("Writing the system to a disk")
        tree, raw = work / "tree", work / "disk.raw"
        for name in ("vmlinuz", "initrd.img"):
            shutil.copyfile(next((tree / "boot").glob(f"{name}-*")), work / name)
        run("truncate", f"--size={self.disk}", raw)
        offset = PARTITION_OFFSET if self.boot == "grub" else 0
        if self.boot == "grub":
            self._write_boot_loader(tree, raw)
        blocks = (raw.stat().st_size - offset) // 4096
        run("mkfs.ext4", "-q", "-F", "-L", "root", "-E", f"offset={offset}", "-d", tree, raw, blocks, "-b", 4096)
        run("qemu-img", "convert", "-O", "qcow2", raw, work / "disk.qcow2")
        raw.unlink()
        shutil.rmtree(tree)

    @staticmethod
    def _write_boot_loader(tree: Path, raw: Path) -> None:
        """Write GRUB to the first sectors. grub-install would need a block device with partitions for this."""
        partitions = f"label: dos\nstart={PARTITION_OFFSET // SECTOR}, type=83, bootable\n"
        run("sfdisk", "--quiet", raw, text=partitions)
        core = (tree / "boot/grub/i386-pc/core.img").read_bytes()
        if len(core) > PARTITION_OFFSET - SECTOR:
            raise ImageError(f"GRUB's core of {len(core)} bytes does not fit before the first partition")
        with open(raw, "r+b") as file:
            file.write((tree / GRUB / "boot.img").read_bytes()[:BOOT_CODE])
            file.seek(SECTOR)
            file.write(core)

    def _write_menu(self, work: Path) -> None:
        """Boot the image once, so that it runs update-grub."""
        report("Booting the image once, so that it writes its boot menu")
        console = work / "first-boot.log"
        run(
            *QEMU,
            *("-name", "first-boot", "-accel", "tcg,thread=multi", "-smp", 2, "-m", 512),
            *("-serial", f"file:{console}", "-no-reboot"),
            *root_disk(work / "disk.qcow2"),
            timeout=MENU_TIMEOUT_S,
        )
        text = console.read_text(encoding="utf-8", errors="replace")
        if "MENU-WRITTEN" not in text:
            raise ImageError(
                "the image has not written its boot menu; its console ends with:\n" + "\n".join(text.splitlines()[-30:])
            )


def root_disk(path: Path) -> list[str]:
    """Return the arguments of qemu for the disk of a throwaway machine."""
    return ["-drive", f"if=none,id=root,file={path},format=qcow2,cache=unsafe", "-device", "virtio-blk-pci,drive=root"]


def configure_golden_image(tree: Path, write: WriteFile, cloud_init: bool = False) -> None:
    """Make each clone of the image read its name and its keys when it boots.

    A short shell script does it, or cloud-init, which takes longer but can do more.
    """
    write("etc/systemd/network/10-vm.network", GOLDEN_NETWORK)
    # Under emulation on a busy machine, a service may take minutes to start.
    write("etc/systemd/system.conf.d/patience.conf", "[Manager]\nDefaultTimeoutStartSec=900s\n")
    for key in (tree / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    if cloud_init:
        write("etc/cloud/cloud.cfg.d/90-vm.cfg", CLOUD_CONFIG)
    else:
        write("etc/systemd/system/take-seed.service", SEED_UNIT)
        write("usr/local/sbin/take-seed", TAKE_SEED, 0o755)
        run("chroot", tree, "systemctl", "--quiet", "enable", "take-seed.service")
    # The role redis configures its own instances; the package's instance would only use memory.
    run("chroot", tree, "systemctl", "--quiet", "disable", "redis-server.service")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="path of the image; an existing file is kept")
    parser.add_argument("--suite", default=Recipe.suite, help="Debian release (default: %(default)s)")
    parser.add_argument("--kernel", default=GOLDEN_KERNEL, help="package of the kernel (default: %(default)s)")
    parser.add_argument(
        "--include", action="append", default=[], metavar="PACKAGE", help="additional package; may be repeated"
    )
    parser.add_argument("--cloud-init", action="store_true", help="use cloud-init to set name and keys of each clone")
    parser.add_argument("--disk", default=Recipe.disk, help="size of the disk, sparse (default: %(default)s)")
    options = parser.parse_args()
    if options.output.exists():
        return
    packages = {*GOLDEN_PACKAGES, *options.include, *(["cloud-init"] if options.cloud_init else [])}
    recipe = Recipe(options.suite, options.kernel, tuple(sorted(packages)), (), options.disk, "grub")
    try:
        with tempfile.TemporaryDirectory(prefix=".image-", dir=options.output.parent) as work:
            recipe.build(Path(work), functools.partial(configure_golden_image, cloud_init=options.cloud_init))
            (Path(work) / "disk.qcow2").chmod(0o644)
            (Path(work) / "disk.qcow2").rename(options.output)
    except (ImageError, OSError) as error:
        sys.exit(f"debian_image.py: {error}")


if __name__ == "__main__":
    main()
