# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Modules that change a host and keep on it what it was before."""

    DOCUMENTATION = r"""
options:
  record_directory:
    description: Where the originals are kept on the host.
    type: path
    default: /var/lib/memstretch
notes:
  - Needs root.
"""
