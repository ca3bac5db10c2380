# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter for what the module solotest_schedule has collected."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import schedule_answer


class FilterModule:
    """The filter unpacked."""

    def filters(self) -> dict[str, t.Callable]:
        return {"unpacked": schedule_answer.unpack}
