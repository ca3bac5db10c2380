# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.client_result import ClientResult
from ansible_collections.memstretch.density.plugins.plugin_utils.run import clocks, observer


class ActionModule(ClientResult):
    """Fetch the result of a host's observer.

    An observer that failed is no failure of the host: the client's own result follows, and the verdict gives
    the reason why the observer does not count.
    """

    def finish(
        self, options: t.Mapping[str, t.Any], accepted: dict[str, t.Any], clock: clocks.Reading | None
    ) -> dict[str, t.Any]:
        return {"changed": False, "observed": observer.excerpt(accepted)}
