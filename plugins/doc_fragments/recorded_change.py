# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The option of modules that write or read the record of a host's original settings."""

    DOCUMENTATION = r"""
options:
  record_directory:
    description: Directory on the host for the record of the original settings.
    type: path
    default: /var/lib/memstretch
attributes:
  action_group:
    description: C(group/memstretch.density.records) in C(module_defaults) is for all modules with this option.
    support: full
    membership:
      - memstretch.density.records
notes:
  - Needs root.
"""
