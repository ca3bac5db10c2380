# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the state of a host as sorted lines of text for diff: everything that a profile could change.

Only what changes by itself is left out, by name: see VOLATILE.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import stat
import subprocess

# Counters, random numbers, and values that the kernel calculates at each boot from the memory that is free then.
VOLATILE = re.compile(
    "|".join(
        (
            r"/proc/sys/fs/(dentry-state|inode-nr|inode-state|file-nr|file-max|aio-nr|binfmt_misc/.*|quota/.*)",
            r"/proc/sys/fs/epoll/max_user_watches",
            r"/proc/sys/fs/(inotify|fanotify)/max_.*",
            r"/proc/sys/kernel/(random/(boot_id|uuid|entropy_avail)|ns_last_pid|pty/nr|threads-max|core_modes)",
            r"/proc/sys/(user|net)/.*",  # no profile sets one, and many are counters
            r"/proc/sys/vm/(stat_refresh|user_reserve_kbytes|admin_reserve_kbytes)",
            r"/sys/kernel/mm/(ksm/(pages_|full_scans|stable_|zero_|general_profit|ksm_zero|pages_skipped).*)",
            r"/sys/kernel/mm/(damon/(?!admin/kdamonds/\d+/state$).*|swap/.*stats.*)",
            r"/sys/kernel/mm/hugepages/[^/]*/(free|resv|surplus)_hugepages",
            r"/sys/kernel/mm/transparent_hugepage/(khugepaged/(pages_collapsed|full_scans)|hugepages-[^/]*/stats/.*)",
            r"/sys/block/[^/]*/queue/(iosched/async_depth|wbt_lat_usec)",
            r"/sys/module/(zswap|nvme|nvme_core|zram|ksm)/(refcnt|coresize|initsize|taint|uevent|holders|notes).*",
            r"/sys/module/(zswap|nvme|nvme_core|zram|ksm)/(sections|drivers|srcversion|version).*",
            r"/etc/(mtab|machine-id|resolv\.conf|\.pwd\.lock|ld\.so\.cache)",
            r"/var/lib/systemd/.*",
            r"/boot/grub/grubenv",
            r"/root/\.(ansible|cache)/.*",
            r"/tmp/.*",
        )
    )
)
VALUES = [
    "/proc/sys",
    "/sys/kernel/mm",
    "/sys/module/zswap/parameters",
    "/sys/module/nvme/parameters",
    "/sys/module/nvme_core/parameters",
]
FILES = ["/boot", "/etc", "/root", "/usr/local", "/var/lib", "/var/spool/cron"]
UNITS = re.compile(
    r"^(user|session|systemd-|ssh@|modprobe@|run-|sys-|dev-|init\.scope|cut|e2scrub|logrotate|dpkg|man-db|fstrim|apt)"
)
EDGE = 1024 * 1024


def volatile(path):
    """Decide whether a path changes by itself."""
    return VOLATILE.fullmatch(path) is not None


def value(path):
    """Return the content of a kernel file on one line, or the error of reading it; None if it cannot be opened."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return " ".join(os.read(descriptor, 65536).decode(errors="replace").split())
    except OSError as error:
        return f"({error.strerror})"
    finally:
        os.close(descriptor)


def walk(root):
    """Yield each path below a directory, and whether it is a directory."""
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if not volatile(os.path.join(directory, name) + "/")]
        yield from ((os.path.join(directory, name), name in names) for name in [*names, *files])


def kernel_values():
    """Yield the values of the kernel's files in /proc and /sys."""
    paths = [path for root in VALUES for path, is_directory in walk(root) if not is_directory]
    paths += [
        path
        for path in glob.glob("/sys/block/*/queue/**", recursive=True)
        if os.path.isfile(path) and not re.match(r"/sys/block/(loop|ram)", path)
    ]
    paths += glob.glob("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor") + glob.glob(
        "/sys/devices/system/node/node*/hugepages/*/nr_hugepages"
    )
    for path in paths:
        if not volatile(path) and not os.path.islink(path):
            text = value(path)
            if text is not None:
                yield f"value {path} = {text}"


def files():
    """Yield each file with its mode, owner and a digest of its content."""
    for root in FILES:
        for path, _is_directory in walk(root):
            if volatile(path):
                continue
            state = os.lstat(path)
            what = f"file {path} {stat.filemode(state.st_mode)} {state.st_uid}:{state.st_gid}"
            if stat.S_ISLNK(state.st_mode):
                yield f"{what} -> {os.readlink(path)}"
            elif stat.S_ISREG(state.st_mode):
                with open(path, "rb") as file:
                    yield f"{what} {state.st_size} {hashlib.sha256(file.read()).hexdigest()[:16]}"
            else:
                yield what


def disks():
    """Yield each disk with a digest of both its ends, where labels and partition tables are."""
    for path in sorted(glob.glob("/sys/block/*")):
        name = os.path.basename(path)
        if name.startswith(("loop", "ram", "sr")):
            continue
        yield f"disk {name}"
        if name.startswith("nvme"):
            with open(f"/dev/{name}", "rb") as device:
                head = device.read(EDGE)
                device.seek(-EDGE, os.SEEK_END)
                yield f"disk {name} ends {hashlib.sha256(head + device.read()).hexdigest()}"
    # Not by-diskseq, the order in which the kernel found the disks: it changes at each boot.
    for link in sorted(
        path for path in glob.glob("/dev/disk/by-*/*") if os.path.islink(path) and "/by-diskseq/" not in path
    ):
        yield f"link {link} -> {os.readlink(link)}"


def services():
    """Yield the state of each systemd unit. The links below /etc/systemd show which are enabled or masked."""
    for line in output(
        "systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager", "--type=service,swap,slice"
    ).splitlines():
        words = line.split()
        if not UNITS.match(words[0]) and words[1] != "not-found":
            yield f"unit {words[0]} {words[2]}"


def output(*command):
    """Return the standard output of a command."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def others():
    """Yield swap areas, the kernel command line, the packages, and our files in /run."""
    # The size and priority of a swap area, but not how much of it is in use.
    with open("/proc/swaps", encoding="utf-8") as file:
        for line in file.read().splitlines()[1:]:
            name, kind, size, _used, priority = line.split()
            yield f"swap {name} {kind} {size} {priority}"
    with open("/proc/cmdline", encoding="utf-8") as file:
        yield f"cmdline {file.read().strip()}"
    yield f"packages {hashlib.sha256(output('dpkg-query', '--show').encode()).hexdigest()}"
    for path in sorted(glob.glob("/run/memstretch*")):
        yield f"run {path}"


def drives():
    """Return a lasting name for each NVMe controller: the kernel numbers them in the order in which it finds them."""
    found = {}
    for path in glob.glob("/sys/class/nvme/nvme*/serial"):
        with open(path, encoding="ascii") as file:
            found[path.split("/")[4]] = f"nvme-{file.read().strip()}-"
    return found


def main():
    # Wait until the boot has ended. The exit status is 1 if a unit has failed, which the list of units shows too.
    subprocess.run(["systemctl", "is-system-running", "--wait"], check=False, capture_output=True)
    lines = [*kernel_values(), *files(), *disks(), *services(), *others()]
    names = drives()
    print("\n".join(sorted(re.sub(r"\bnvme\d+(?=n\d)", lambda match: names[match[0]], line) for line in lines)))


if __name__ == "__main__":
    main()
