# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, size_in_bytes


def ksm_thres_coef(dram: t.Any, memory: t.Any) -> int:
    """Return 100 - (DRAM / memory) * (100 - 20), the brief's threshold of ksmtuned, from two sizes."""
    try:
        of_dram, of_memory = size_in_bytes("dram", str(dram)), size_in_bytes("memory", str(memory))
    except SettingError as error:
        raise AnsibleFilterError(str(error)) from error
    if not 0 < of_dram <= of_memory:
        raise AnsibleFilterError(f"dram: {dram} is not allowed; it must be above 0 and at most memory ({memory})")
    return round(100 - of_dram / of_memory * (100 - 20))


class FilterModule:
    """Filters for page merging."""

    def filters(self) -> dict[str, t.Callable]:
        return {"ksm_thres_coef": ksm_thres_coef}
