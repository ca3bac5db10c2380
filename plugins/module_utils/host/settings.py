# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a profile: their knobs in the kernel, how to read, write and restore these, and how to persist them.

Nearly every setting is a knob, one file in /proc/sys or /sys with one value. The sections of a profile differ in how
their settings survive a reboot:

================ ==================================== =========================
section          knob                                 persistent by
================ ==================================== =========================
sysctl           /proc/sys, the name's dots as /      /etc/sysctl.d
sysfs            the path itself, * allowed           /etc/tmpfiles.d
cpu_governor     scaling_governor of every processor  /etc/tmpfiles.d
block_queue      /sys/block/DISK/queue of each disk   /etc/udev/rules.d
services_stopped none: a systemd service              being disabled
================ ==================================== =========================
"""

from __future__ import annotations

import dataclasses
import errno
import glob
import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, size_in_bytes

GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
# If several files have one setting, the last name counts in sysctl.d and udev/rules.d, and the first in tmpfiles.d.
SYSCTL_FILE = "/etc/sysctl.d/zz-memstretch.conf"
TMPFILES_FILE = "/etc/tmpfiles.d/00-memstretch.conf"
UDEV_FILE = "/etc/udev/rules.d/99-zz-memstretch.rules"
FILES = (SYSCTL_FILE, TMPFILES_FILE, UDEV_FILE)
MARK = "# Written by the Ansible collection memstretch.density; its role host_tuning removes it again."

# In a value, {percent:430M} stands for 430 MiB as a percentage of the host's memory.
_PERCENT = re.compile(r"^\{percent:(?P<size>[^{}]+)\}$")

# The knob of a pair that was written last is in force, and the other one reads as 0. The kernel refuses to set 0.
PAIRS = {
    "/proc/sys/vm/dirty_bytes": "/proc/sys/vm/dirty_ratio",
    "/proc/sys/vm/dirty_ratio": "/proc/sys/vm/dirty_bytes",
    "/proc/sys/vm/dirty_background_bytes": "/proc/sys/vm/dirty_background_ratio",
    "/proc/sys/vm/dirty_background_ratio": "/proc/sys/vm/dirty_background_bytes",
}
# Written before the other queue knobs, since a new scheduler resets some of them.
_EARLY_QUEUE_KNOBS = ("scheduler",)


class SettingsError(Exception):
    """A setting cannot be read or set; the message names the setting and the reason."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """One setting of a profile: section, name and values, of which the first that the kernel accepts is set."""

    section: str
    name: str
    values: tuple[str, ...]
    reason: str = ""
    since: str = ""
    disk: str = ""  # the stable path of a disk, in section block_queue

    @property
    def label(self) -> str:
        """Return the name to show: for a disk queue, with the name of the disk."""
        return f"{os.path.basename(self.disk)} {self.name}" if self.disk else self.name

    @property
    def pattern(self) -> str:
        """Return the path of the knobs. For a disk queue it is below the disk's stable path: see C(knob_path)."""
        if self.section == "sysctl":
            return "/proc/sys/" + sysctl_path(self.name)
        if self.section == "block_queue":
            return f"{self.disk}/queue/{self.name}"
        return GOVERNORS if self.section == "cpu_governor" else self.name

    def knobs(self) -> list[str]:
        """Return the setting's knobs on this host; an empty list if the kernel lacks them."""
        if self.section in ("sysctl", "block_queue"):
            return [self.pattern] if os.path.exists(knob_path(self.pattern)) else []
        return sorted(glob.glob(self.pattern))

    def is_absent(self) -> bool:
        """Check whether this kernel lacks the setting.

        It does not if nothing that the pattern is for exists now, such as threads of DAMON.
        """
        above, star, rest = self.pattern.partition("*")
        directories = f"{above}{star}{rest.partition('/')[0]}/"
        has_none = star and os.path.isdir(os.path.dirname(above)) and not glob.glob(directories)
        return not self.knobs() and not has_none


def knob_path(knob: str) -> str:
    """Return the file of a knob.

    A disk's kernel name can change at a boot, so the knobs of its queue are recorded as /dev/disk/.../queue/NAME.
    """
    if not knob.startswith("/dev/"):
        return knob
    disk, _queue, name = knob.rpartition("/queue/")
    return f"/sys/block/{os.path.basename(os.path.realpath(disk))}/queue/{name}"


def sysctl_path(name: str) -> str:
    """Return a sysctl's path below /proc/sys. As in sysctl(8), dots and slashes are swapped if a dot comes first."""
    first = re.search("[./]", name)
    return name if first and first.group() == "/" else name.translate(str.maketrans("./", "/."))


def settings_of(section: str, entries: t.Mapping[str, t.Any], disks: t.Sequence[str] = ()) -> list[Setting]:
    """Return the settings of a section in the order in which they must be written.

    Args:
        section: name of the section.
        entries: by name, a value, a list of values of which the first that the kernel accepts is set, or a dictionary
            with C(value) and optionally the texts C(reason) and C(since). Candidates are for searches, not for hosts.
        disks: stable paths of the disks that section block_queue is for.
    """
    settings = []
    for name, entry in entries.items():
        data = entry if isinstance(entry, dict) else {"value": entry}
        values = data["value"] if isinstance(data["value"], list) else [data["value"]]
        texts = tuple(canonical(in_percent(str(value))) for value in values)
        settings += [
            Setting(section, name, texts, data.get("reason", ""), data.get("since", ""), disk)
            for disk in (disks if section == "block_queue" else [""])
        ]
    return sorted(
        settings, key=lambda setting: setting.section == "block_queue" and setting.name not in _EARLY_QUEUE_KNOBS
    )


def in_percent(value: str, memory: int | None = None) -> str:
    """Return the value, but {percent:SIZE} as the share of a host's memory in whole percent, from 1 to 100.

    The kernel has limits in percent of all memory, such as that of zswap's pool. A profile is the same for all hosts.

    Args:
        value: of a setting.
        memory: bytes; by default that of this host.

    Raises:
        SettingError: the size cannot be read.
    """
    found = _PERCENT.match(value)
    if not found:
        return value
    memory = meminfo(HostFiles())["MemTotal"] if memory is None else memory
    size = size_in_bytes("{percent:SIZE}", found["size"])
    return str(min(100, max(1, round(100 * size / memory))))


def canonical(text: str) -> str:
    """Return the canonical text of a knob's value: equal values have equal texts, however the kernel shows them.

    "always [madvise] never" is madvise; Y, N, true and false are 1 and 0; 0x0007 is 7.
    """
    bracketed = re.search(r"\[([^\]]*)\]", text)
    value = " ".join((bracketed.group(1) if bracketed else text).split())
    if re.match(r"^0x[0-9a-fA-F]+$", value):
        return str(int(value, 16))
    return {"y": "1", "n": "0", "true": "1", "false": "0"}.get(value.lower(), value)


def read_knob(knob: str) -> str | None:
    """Return the canonical value of a knob; None if it does not exist, for example because its disk was removed."""
    try:
        with open(knob_path(knob), encoding="utf-8") as file:
            return canonical(file.read())
    except OSError as error:
        # Some knobs fail with EINVAL while their feature is off.
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.EINVAL):
            return None
        raise SettingsError(f"{knob} cannot be read: {error.strerror}") from error


def write_knob(knob: str, value: str) -> None:
    """Write a knob with one write(2), as the kernel requires. Raises SettingsError with the kernel's reason."""
    try:
        descriptor = os.open(knob_path(knob), os.O_WRONLY | os.O_TRUNC)  # as echo does
        try:
            os.write(descriptor, value.encode() + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SettingsError(f"the kernel refuses {value!r} for {knob}: {error.strerror}") from error


def restore_knob(knob: str, originals: t.Mapping[str, str]) -> None:
    """Write the original value back. If the other knob of a pair was the one in force, write that one."""
    partner = PAIRS.get(knob)
    if partner and originals[knob] == "0" and originals.get(partner, "0") != "0":
        knob = partner
    write_knob(knob, originals[knob])


# --- validation ---------------------------------------------------------------------------------------------------

_NAMES = {
    "sysctl": (r"[a-z]+([./][A-Za-z0-9_-]+)+", "the name of a sysctl, such as vm.swappiness"),
    "sysfs": (r"/sys(/[A-Za-z0-9_.,:*-]+)+", "a path below /sys"),
    "block_queue": (r"[a-z][a-z0-9_]*", "a file in a disk's queue directory, such as nr_requests"),
    "services_stopped": (r"[A-Za-z0-9@_.-]+", "the name of a unit without .service, or with .socket, .timer or .path"),
}
_ENTRY_KEYS = ("value", "reason", "since", "candidates")


def mistakes(sections: t.Mapping[str, t.Any], keys: t.Sequence[str] = _ENTRY_KEYS) -> list[str]:
    """Return the mistakes in a profile's sections, each with the section, the name and what is allowed."""
    found = []
    for section, (pattern, what) in _NAMES.items():
        entries = sections.get(section) or {}
        if not isinstance(entries, dict):
            found.append(f"{section} is {entries!r}; it must be a dictionary of values by name")
            continue
        for name, entry in entries.items():
            if not re.match(f"^{pattern}$", str(name)) or ".." in str(name):
                found.append(f"{section} has {name!r}; each name must be {what}")
            found += [
                f"{section}, {name}: {text}" for text in _entry_mistakes(entry, section != "services_stopped", keys)
            ]
    governor = sections.get("cpu_governor")
    return found + ([f"cpu_governor: {text}" for text in _entry_mistakes(governor, True, keys)] if governor else [])


def _entry_mistakes(entry: t.Any, has_value: bool, keys: t.Sequence[str]) -> list[str]:
    data = entry if isinstance(entry, dict) else {"value": entry}
    found = key_mistakes(data, keys)
    if has_value:
        given = data.get("value")
        values = given if isinstance(given, list) else [given]
        if not are_values(values):
            found.append(
                f"the value is {data.get('value')!r}; it must be a number, a string of one line, true, false, or a "
                "list of these"
            )
        found += [text for value in values for text in _percent_mistakes(str(value))]
    return found + (candidate_mistakes(data["candidates"], has_value) if "candidates" in data else [])


def key_mistakes(data: t.Mapping[str, t.Any], keys: t.Sequence[str]) -> list[str]:
    """Return the mistakes in the keys of an entry: unknown ones, and values that are not texts."""
    found = [f"{key!r} is not a known key; allowed are {', '.join(keys)}" for key in data if key not in keys]
    return found + [
        f"{key} is {data[key]!r}; it must be a string"
        for key in keys
        if key not in ("value", "candidates") and not isinstance(data.get(key, ""), str)
    ]


def _percent_mistakes(value: str) -> list[str]:
    """Describe what is wrong with a value that is to be a share of the host's memory."""
    if not value.startswith("{percent:"):
        return []
    found = _PERCENT.match(value)
    try:
        if found:
            size_in_bytes("{percent:SIZE}", found["size"])
            return []
    except SettingError:
        pass
    return [f"the value is {value!r}; it must be {{percent:SIZE}} with bytes, or a number with K, M, G or T"]


def candidate_mistakes(candidates: t.Any, allowed: bool = True) -> list[str]:
    """Return the mistakes in the candidates of a setting: the values that a search for the best one may try.

    Args:
        candidates: from a profile.
        allowed: whether this setting can have some.
    """
    if not allowed:
        return ["it cannot have candidates"]
    if isinstance(candidates, list) and are_values(candidates):
        return []
    return [f"candidates is {candidates!r}; it must be a list of numbers, strings of one line, true or false"]


def are_values(values: t.Any) -> bool:
    """Check whether a list has values, and each can be written to a knob."""
    return bool(values) and all(
        isinstance(value, (bool, int, str)) and not re.search(r"[\n\x00]|^\s*$", str(value)) for value in values
    )


# --- persistence --------------------------------------------------------------------------------------------------


def persistent_files(settings: t.Iterable[Setting], chosen: t.Callable[[Setting], str]) -> dict[str, str]:
    """Return, by path, the content of the files that make the settings persistent.

    Args:
        settings: the settings.
        chosen: returns the value of a setting that the kernel accepted.
    """
    lines: dict[str, list[str]] = {path: [] for path in FILES}
    for setting in settings:
        value = chosen(setting)
        if setting.section == "sysctl":
            lines[SYSCTL_FILE].append(f"{sysctl_path(setting.name)} = {value}")
        elif setting.section == "block_queue":
            link = re.sub("^/dev/", "", setting.disk)
            lines[UDEV_FILE].append(
                f'ACTION=="add|change", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", SYMLINK=="{link}", '
                f'ATTR{{queue/{setting.name}}}="{value}"'
            )
        else:
            lines[TMPFILES_FILE].append(f"w {setting.pattern} - - - - {value.replace('%', '%%')}")
    return {path: "\n".join([MARK, *content]) + "\n" for path, content in lines.items() if content}


def other_writers(setting: Setting, files: HostFiles) -> list[str]:
    """Return the other files, scripts and services that set this knob, as FILE:LINE or "TuneD (FILE:LINE)"."""
    name = re.escape(setting.name)
    if setting.section == "sysctl":
        either = "[./]".join(map(re.escape, re.split("[./]", setting.name)))
        found = _matching(files, _SYSCTL_PLACES, rf"^\s*-?\s*{either}\s*=", SYSCTL_FILE)
    elif setting.section == "block_queue":
        found = _matching(files, _UDEV_PLACES, rf"^\s*[^#\s].*ATTR\{{queue/{name}\}}\s*=[^=]", UDEV_FILE)
    else:
        found = _matching(files, _TMPFILES_PLACES, rf"^\s*w\S*\s+{re.escape(setting.pattern)}\s", TMPFILES_FILE)
    return found + _script_lines(setting, files) + _tuned_lines(setting, files)


_SYSCTL_PLACES = (
    "/etc/sysctl.conf",
    "/etc/sysctl.d/*.conf",
    "/run/sysctl.d/*.conf",
    "/usr/local/lib/sysctl.d/*.conf",
    "/usr/lib/sysctl.d/*.conf",
)
_UDEV_PLACES = (
    "/etc/udev/rules.d/*.rules",
    "/run/udev/rules.d/*.rules",
    "/usr/local/lib/udev/rules.d/*.rules",
    "/usr/lib/udev/rules.d/*.rules",
)
_TMPFILES_PLACES = (
    "/etc/tmpfiles.d/*.conf",
    "/run/tmpfiles.d/*.conf",
    "/usr/local/lib/tmpfiles.d/*.conf",
    "/usr/lib/tmpfiles.d/*.conf",
)
# The package sysfsutils, and what administrators and roles for databases start at boot.
_SYSFS_PLACES = ("/etc/sysfs.conf", "/etc/sysfs.d/*.conf")
_SCRIPT_PLACES = ("/etc/rc.local", "/etc/init.d/*", "/etc/systemd/system/*.service")
# Settings that have another name in TuneD's profiles.
_TUNED_NAMES = {
    "scheduler": "elevator",
    "read_ahead_kb": "readahead",
    "cpu_governor": "governor",
    "/sys/kernel/mm/transparent_hugepage/enabled": "transparent_hugepages?",
    "/sys/kernel/mm/transparent_hugepage/defrag": "transparent_hugepage.defrag",
    "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us": "pm_qos_resume_latency_us",
}


def _script_lines(setting: Setting, files: HostFiles) -> list[str]:
    """Return the lines of sysfsutils, and of services and scripts of the boot, that set the knob."""
    if setting.section == "block_queue":
        return []
    knob = re.escape(setting.pattern).replace(r"\*", r"[^/\s]*")
    found = _matching(files, _SYSFS_PLACES, rf"^\s*{knob.replace('/sys/', '', 1)}\s*=", "")
    return found + _matching(files, _SCRIPT_PLACES, rf"^[^#]*(>|\btee\b)[^|;&]*{knob}(?![\w/])", "")


def _matching(files: HostFiles, places: t.Iterable[str], pattern: str, own: str) -> list[str]:
    """Return FILE:LINE of the lines that match the pattern, except those of our own file."""
    found = []
    for place in places:
        for path in sorted(glob.glob(files.path(place))):
            name = "/" + os.path.relpath(path, files.root)
            # A link such as /etc/sysctl.d/99-sysctl.conf would name its target twice.
            if name == own or (os.path.islink(path) and os.path.realpath(path) != path and os.path.exists(path)):
                continue
            lines = (files.text(name) or "").splitlines()
            found += [f"{name}:{number}" for number, line in enumerate(lines, 1) if re.search(pattern, line)]
    return found


def _tuned_lines(setting: Setting, files: HostFiles) -> list[str]:
    """Return the lines of TuneD's active profile, and of the profiles that it includes, that set the knob."""
    active = (files.text("/etc/tuned/active_profile") or "").split()
    name = _TUNED_NAMES.get(setting.name) or re.escape(setting.name)
    seen: set[str] = set()
    found = []
    while active:
        profile = active.pop()
        if profile in seen or not re.match(r"^[\w.-]+$", profile):
            continue
        seen.add(profile)
        for directory in ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"):
            path = f"{directory}/{profile}/tuned.conf"
            if not files.exists(path):
                continue
            lines = (files.text(path) or "").splitlines()
            included = [match[1] for match in (re.match(r"\s*include\s*=(.*)", line) for line in lines) if match]
            # A dash means that the profile may be missing.
            active += [word.lstrip("-") for text in included for word in re.split(r"[\s,;]+", text.strip())]
            found += [
                f"TuneD ({path}:{number})"
                for number, line in enumerate(lines, 1)
                if re.search(rf"^\s*{name}\s*=", line)
            ]
            break  # as for TuneD, the first directory that has the profile counts
    return found
