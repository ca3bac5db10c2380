# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The option for the site check before a study."""

    DOCUMENTATION = r"""
options:
  site:
    description:
      - RV(memstretch.density.site_check#module:site_check). The document keeps it in C(site_checks), one for each
        session, and a site that was too noisy becomes a label of the result. Empty if the site was not checked.
    type: dict
    default: {}
"""
