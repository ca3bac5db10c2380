# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from ansible_collections.memstretch.density.plugins.plugin_utils.client_result import ClientResult, answer_of
from ansible_collections.memstretch.density.plugins.plugin_utils.run import clocks, fleet_sum, measurement

_NOTHING = {"mode": None}


class ActionModule(ClientResult):
    """Fetch the result of a host's client, and keep what its observer saw with it."""

    ARGUMENTS = {
        **ClientResult.ARGUMENTS,
        "job": {**ClientResult.ARGUMENTS["job"], "required": False},
        "answers": {"type": "dict"},
        "observed": {"type": "dict"},
    }
    REQUIRED_ONE_OF = (("job", "answers"),)

    def job(self, options: t.Mapping[str, t.Any], host: str) -> dict[str, t.Any]:
        if options["answers"] is None:
            return super().job(options, host)
        answer = answer_of(options["answers"], host)
        if "job" not in answer:
            raise AnsibleActionFail(answer["msg"])
        job: dict[str, t.Any] = answer["job"]
        return job

    def finish(
        self, options: t.Mapping[str, t.Any], accepted: dict[str, t.Any], clock: clocks.Reading | None
    ) -> dict[str, t.Any]:
        if accepted.get("failed") and measurement.is_complete(accepted.get("solotest") or _NOTHING):
            # The verdict counts the requests that failed; the host takes part in the next phases.
            accepted = {"changed": accepted["changed"], "solotest": accepted["solotest"], "warnings": [accepted["msg"]]}
        if accepted.get("solotest") and clock:
            accepted["solotest"]["collected"] = clock._asdict()
        if accepted.get("solotest") and options["observed"]:
            accepted["solotest"]["observed"] = options["observed"]
        if (accepted.get("solotest") or {}).get("latency"):
            accepted["packed"] = fleet_sum.pack(accepted["solotest"]["latency"])
        return accepted
