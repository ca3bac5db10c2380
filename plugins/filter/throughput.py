# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters C(throughput_steps) and C(throughput_document)."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils import throughput


def throughput_steps(settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the steps, and the largest number of bytes that Redis holds."""
    try:
        steps = throughput.make_steps(settings)
    except SettingError as error:
        raise AnsibleFilterError(str(error)) from error
    return {"steps": steps, "bytes": throughput.largest(steps)}


def throughput_document(
    results: t.Sequence[t.Mapping[str, t.Any]],
    steps: t.Sequence[t.Mapping[str, t.Any]],
    profile: str,
    host: str,
    settings: t.Mapping[str, t.Any],
) -> dict[str, t.Any]:
    """Return the result of one profile."""
    return throughput.document(profile, host, steps, results, settings)


class FilterModule:
    """Filters of the role throughput_benchmark."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"throughput_steps": throughput_steps, "throughput_document": throughput_document}
