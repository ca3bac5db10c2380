# SPDX-License-Identifier: GPL-3.0-or-later
"""The description of the machine, for pages of figures."""

from __future__ import annotations

import os
import pathlib
import platform
import re

BUSY = 0.7  # load average; it still includes some work from before the start


def describe(load, idle=True):
    """Return the lines about the machine.

    Args:
        load: the load average at the start.
        idle: whether to tell what idle CPUs do.
    """
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    busy = " (busy with other work: absolute figures are not reliable)" if load > BUSY else ""
    idle = "; idle CPUs do not sleep" if idle and _cpus_stay_awake() else ""
    return (
        f"- CPU: {model.group(1) if model else platform.machine()}, {len(os.sched_getaffinity(0))} usable CPUs{idle}\n"
        f"- kernel: {platform.release()}\n"
        f"- load average at the start: {load:.2f}{busy}\n\n"
    )


def _cpus_stay_awake() -> bool:
    """Return whether the kernel is told that no CPU may need any time to wake up."""
    limits = pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*/power/pm_qos_resume_latency_us")
    return {path.read_text(encoding="ascii") for path in limits} == {"n/a\n"}
