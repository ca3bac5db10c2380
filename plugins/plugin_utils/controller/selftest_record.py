# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils import selftest
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import Task
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import message
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Write what a check of a host found to a directory on the controller."""
    path = os.path.abspath(os.path.expanduser(options["directory"]))
    os.makedirs(path, mode=0o700, exist_ok=True)
    directory, host, name = RunDirectory.at(path), options["host"], options["name"]
    if options["result"] is None:
        finding = options["found"]
    elif options["result"] == "begun":
        finding = {"begun": time.time()}
    else:
        finding = _result(options, selftest.finding(directory, host, name))
    selftest.record(directory, host, name, finding)
    return {"changed": False}


def _result(options: t.Mapping[str, t.Any], earlier: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the result of a check, from what is recorded of it so far."""
    now = time.time()
    begun = earlier.get("begun", now)
    kept = earlier.get("found", {}) if options["result"] == selftest.FAILED else {}
    return {
        "begun": begun,
        "result": options["result"],
        "reason": " ".join(message(selftest.reason(options["failure"]) or options["reason"]).split()),
        "advice": options["advice"],
        "found": {**kept, **options["found"]},
        "seconds": round(now - begun, 1),
    }
