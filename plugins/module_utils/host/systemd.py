# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether systemd runs this host."""

from __future__ import annotations

import os


def booted() -> bool:
    """Return whether systemd runs this host; the documented test, sd_booted(3)."""
    return os.path.isdir("/run/systemd/system")
