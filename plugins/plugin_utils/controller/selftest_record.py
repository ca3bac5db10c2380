# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils import selftest
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import Task
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import message
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Write what a check of a host found to a directory on the controller."""
    finding = options["found"]
    if options["result"] is not None:
        finding = {
            "result": options["result"],
            "reason": " ".join(message(selftest.reason(options["failure"]) or options["reason"]).split()),
            "advice": options["advice"],
            "found": options["found"],
            "seconds": round(options["seconds"], 1),
        }
    path = os.path.abspath(os.path.expanduser(options["directory"]))
    os.makedirs(path, mode=0o700, exist_ok=True)
    selftest.record(RunDirectory.at(path), options["host"], options["name"], finding)
    return {"changed": False}
