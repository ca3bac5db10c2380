# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    Task,
    own_directory,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import accepted, answer, publish
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom.options import RANGES
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError

# The prefix of the variables of the playbook headroom.yml, for messages.
PREFIX = "headroom_"


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Forecast the headroom of hosts from what was seen there. It touches no host."""
    now = time.time()
    name = options["run_id"] or time.strftime("headroom-%Y%m%dT%H%M%SZ", time.gmtime(now))
    directory = own_directory("run_id", options["results_dir"], name)
    wishes = _wishes(options)
    if options["state"] == "checked":
        return {"changed": False}
    if not options["looks"]:
        raise SettingError("looks: must not be empty; a forecast needs what headroom_info saw")
    try:
        looks = {host: accepted.look(look.get("headroom")) for host, look in options["looks"].items()}
    except MeasurementError as error:
        raise SettingError(f"looks: {error}") from error
    document = answer.document(looks, wishes, {"id": name, "made_at": round(now)})
    changed = False
    if options["state"] == "first":
        lines = [host["sentence"] for host in document["hosts"].values()]
    else:
        lines = publish.lines(document)
        if not task.check_mode:
            changed = publish.write(directory, document, lines)
            lines.append(f"Results: {directory.path}")
    for line in lines:
        Display().display(line)
    return {"changed": changed, "headroom": document}


def _wishes(options: t.Mapping[str, t.Any]) -> answer.Wishes:
    """Return the options of the forecast.

    Raises:
        SettingError: one of them cannot be used; the text names it.
    """

    def checked(name: str) -> float:
        return number(PREFIX + name, options[name], RANGES[name])

    def optional(name: str) -> float | None:
        return None if options[name] == "" else checked(name)

    return answer.Wishes(
        like=options["like"],
        compression=optional("compression"),
        page_in_us=optional("page_in_us"),
        waiting=checked("waiting"),
        reserve=checked("reserve"),
    )
