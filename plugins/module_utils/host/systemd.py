# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether systemd manages this host."""

from __future__ import annotations

import os


def booted() -> bool:
    """Check whether systemd is the init system of this host, by the test that sd_booted(3) documents."""
    return os.path.isdir("/run/systemd/system")
