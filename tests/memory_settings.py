# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of memory of a test machine, and its swap: what a demo must leave as it was."""

from __future__ import annotations

# A script of the shell.
READ = (
    "for each in /proc/sys/vm/* /sys/kernel/mm/transparent_hugepage/* /sys/kernel/mm/ksm/run; do "
    'echo "$each $(cat "$each" 2>/dev/null | tr "\\n" " ")"; done; cut -f 1 /proc/swaps'
)


def settings(printed: str) -> list[str]:
    """Return the settings, from what the script has printed."""
    return [line for line in printed.splitlines() if "stat_refresh" not in line]
