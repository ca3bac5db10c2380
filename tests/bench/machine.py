# SPDX-License-Identifier: GPL-3.0-or-later
"""Where benches write their figures, and the description of the machine next to them."""

from __future__ import annotations

import os
import pathlib
import platform
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".ansible" / "collections"))

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.memory import stays_awake

PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "bench"
SHORT = PAGES / "short.md"
CLIENT = PAGES / "client.md"
HEADROOM = PAGES / "headroom.md"
CLIENT_SECTIONS = {"client": "All parts", "client_fill": "Fill"}
BUSY = 0.7  # load average; it still includes some work from before the start


def cpu_model() -> str:
    """Return the name of this machine's CPUs. That of an emulated one says so."""
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    return model.group(1) if model else platform.machine()


def describe(load, idle=True):
    """Return the lines about the machine.

    Args:
        load: the load average at the start.
        idle: whether to name what idle CPUs do.
    """
    busy = " (busy with other work: absolute figures are not reliable)" if load > BUSY else ""
    idle = "; idle CPUs do not sleep" if idle and stays_awake(HostFiles()) else ""
    return (
        f"- CPU: {cpu_model()}, {len(os.sched_getaffinity(0))} usable CPUs{idle}\n"
        f"- kernel: {platform.release()}\n"
        f"- load average at the start: {load:.2f}{busy}\n\n"
    )


def write_section(bench: str, heading: str, text: str, page: pathlib.Path = SHORT) -> None:
    """Write the section of a bench in a page; the other sections stay as they are.

    Args:
        bench: its name. The comments around its section have it.
        heading: of the section.
        text: below the heading.
        page: that has the section.
    """
    begin, end = f"<!-- {bench} -->\n", f"<!-- end of {bench} -->\n"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    dummy, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} has no section between {begin.strip()} and {end.strip()}")
    page.write_text(f"{before}{begin}## {heading}\n\n{text.strip()}\n{end}{after}", encoding="utf-8")
