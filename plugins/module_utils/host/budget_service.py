# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd service that reserves huge pages for a DRAM budget at each boot.

It computes their number from the memory that the host has at that boot. A fixed number, as in a file in sysctl.d, would
take all memory of a host that has lost a DIMM, and the host would not boot.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import (
    remove_file,
    text_or_target,
    write_file,
    write_link,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import MARK

NAME = "memstretch-dram-budget"
SCRIPT_FILE = f"/usr/local/sbin/{NAME}"
UNIT_FILE = f"/etc/systemd/system/{NAME}.service"
LINK = f"/etc/systemd/system/sysinit.target.wants/{NAME}.service"
FILES = (SCRIPT_FILE, UNIT_FILE, LINK)

UNIT = f"""\
{MARK}
[Unit]
Description=Reserve the memory above the DRAM budget as huge pages
DefaultDependencies=no
Conflicts=shutdown.target
# Other files in sysctl.d may set the number of huge pages, too.
After=systemd-sysctl.service
Before=sysinit.target shutdown.target
RequiresMountsFor={SCRIPT_FILE}
# For a host that does not boot with the budget: add this word in the boot menu.
ConditionKernelCommandLine=!memstretch.no_budget

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh {SCRIPT_FILE}

[Install]
WantedBy=sysinit.target
"""


def script(size: int, original_pages: int) -> str:
    """Return the shell script that reserves the huge pages.

    Args:
        size: the budget in bytes.
        original_pages: the huge pages that the host has without the budget.
    """
    return f"""\
#!/bin/sh
{MARK}
# Reserves the memory above the DRAM budget as huge pages. Tests give other files than the kernel's.
set -eu
budget_kib={size // 1024}
original_pages={original_pages}
meminfo=${{1:-/proc/meminfo}}
target=${{2:-/proc/sys/vm/nr_hugepages}}

total_kib=0
page_kib=0
while read -r name value _unit; do
    case $name in
    MemTotal:) total_kib=$value ;;
    Hugepagesize:) page_kib=$value ;;
    esac
done <"$meminfo"

if [ "$page_kib" -eq 0 ]; then
    echo "The DRAM budget is not in force: this kernel has no huge pages."
    exit 0
fi
# A host that has less memory than before keeps the whole budget, and boots.
if [ "$total_kib" -le "$budget_kib" ]; then
    echo "No huge pages are reserved: the host has $((total_kib / 1024)) MiB of memory," \\
        "and the DRAM budget is $((budget_kib / 1024)) MiB."
    exit 0
fi
pages=$((original_pages + (total_kib - budget_kib) / page_kib))
echo "$pages" >"$target"
# Not "read": it reads byte by byte, and a file of sysctl returns only its first byte then.
reserved=$(cat "$target")
echo "$reserved of $pages huge pages are reserved, so that a DRAM budget of $((budget_kib / 1024)) MiB is left."
"""


def read_files() -> dict[str, str | None]:
    """Return the content of each file, the target of the link, and None for what does not exist."""
    return {path: text_or_target(path) for path in FILES}


def wanted_files(size: int, original_pages: int) -> dict[str, str | None]:
    """Return the files that make a budget persistent."""
    return {**dict.fromkeys(FILES), SCRIPT_FILE: script(size, original_pages), UNIT_FILE: UNIT, LINK: UNIT_FILE}


def write_files(wanted: t.Mapping[str, str | None]) -> bool:
    """Write, link or remove the files; return whether any of them has changed."""
    changed = False
    # The link comes last, and is removed first.
    for path in FILES if wanted[LINK] else reversed(FILES):
        text = wanted[path]
        if text_or_target(path) == text:
            continue
        changed = True
        if text is None:
            remove_file(path)
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if path == LINK:
            write_link(path, text)
        else:
            write_file(path, text)
    directory = os.path.dirname(LINK)
    if wanted[LINK] is None and os.path.isdir(directory) and not os.listdir(directory):
        os.rmdir(directory)
    return changed
