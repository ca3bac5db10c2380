# SPDX-License-Identifier: GPL-3.0-or-later
"""What a profile may change on this machine, to compare before and after."""

from __future__ import annotations

import glob
import os
import pathlib
import re

from ansible_collections.memstretch.density.plugins.module_utils.headroom import damon

IDLE_LIMITS = "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us"
RECORDS = pathlib.Path("/var/lib/memstretch")
KDAMONDS = pathlib.Path(damon.ADMIN)
# The loop devices of a test are not a setting of the machine.
LOOP_DEVICES = "/sys/block/loop"


def value(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").split()
    except OSError:  # written only, or without a value just now
        return None


# If somebody else has set up DAMON before the tests, its state is theirs to change at any time. An ordinary user cannot
# read it.
THEIRS = value(KDAMONDS / "nr_kdamonds") not in (None, ["0"])
COUNTERS = re.compile(
    r"/(pages_|full_scans|stable_node|ksm_zero|general_profit|free_hugepages|resv_hugepages|stats/"
    rf"|damon/{'' if THEIRS else '(?!.*/kdamonds/[0-9]+/state$)'}|stat_refresh|compact_memory)"
)


def snapshot():
    """All that a profile could touch here."""
    places = (
        "/proc/sys/vm/*",
        "/proc/sys/kernel/numa*",
        "/sys/kernel/mm/**/*",
        "/sys/module/zswap/parameters/*",
        IDLE_LIMITS,
        "/sys/block/*/queue/*",
        "/sys/block/zram*/disksize",
        "/sys/block/zram*/comp_algorithm",
    )
    state = {
        path: value(path)
        for place in places
        for path in glob.glob(place, recursive=True)
        if os.path.isfile(path) and not COUNTERS.search(path) and not path.startswith(LOOP_DEVICES)
    }
    state["swap"] = [
        line.split()[0] for line in pathlib.Path("/proc/swaps").read_text(encoding="utf-8").splitlines()[1:]
    ]
    for directory in (
        "/etc/sysctl.d",
        "/etc/tmpfiles.d",
        "/etc/udev/rules.d",
        "/etc/systemd/system",
        "/var/tmp",
        "/sys/fs/cgroup/memory",
    ):
        names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
        state[directory] = [name for name in names if not name.startswith("test-")]  # of other tests
    state["records"] = RECORDS.exists()
    return state


def differences(before, after):
    return {
        key: (before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    }
